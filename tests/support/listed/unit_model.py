"""What becomes of units of work: all of one is done at once by its commit, or nothing (U2-U17)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from tests.support.listed import model, reaction_model
from tests.support.listed.model import Message, Placed, Queue, Refusal, Settled, Within
from tests.support.listed.pair_model import Pair
from tests.support.listed.unit import Held, Unit


def check_settles(unit: Unit, queue: Queue, said: Settled) -> None:
    """Refused when it could not be done now, with what the unit settles in that queue already (U6)."""
    for each in (*unit.settles.get(queue, ()), said):
        _check_held(unit, queue, each.lease_id, each.indexes)


def _check_held(unit: Unit, queue: Queue, lease_id: int, indexes: list[int]) -> None:
    lease = queue.leases().get(lease_id)
    if lease is not None and lease.unit not in (b"", unit.unit_id):
        raise Refusal("BAD_REQUEST")
    if lease is None or not set(queue.held(lease)).issuperset(indexes):
        raise Refusal("LEASE_LOST")


def commit(pair: Pair, unit: Unit, now: Within) -> list[tuple[Queue, list[Placed]]]:
    """All of it, and what became of what it sends; or Refusal, and nothing has happened (U7)."""
    _commit(*deepcopy((pair, unit)), now)
    return _commit(pair, unit, now)


def _commit(pair: Pair, unit: Unit, now: Within) -> list[tuple[Queue, list[Placed]]]:
    """The same, but that a refusal may come when some of it has happened."""
    there = set(pair.queues.values())
    _check_got(unit, there)
    _check_there(unit, there)
    reactions = [held for held in unit.reactions if held.targets or held.counts.kept or held.reaction.report_to]
    _check_locked(reactions, there)
    for queue, settles in unit.settles.items():
        for said in settles:
            _check_held(unit, queue, said.lease_id, said.indexes)
    for queue, lease_id, index, _ in unit.replies:
        _check_held(unit, queue, lease_id, [index])
    for queue in unit.puts:
        queue.check_may_send()
    _check_reactions(pair, reactions, there)
    busy = {id(each) for queue in there for each in queue.messages.values() if each.lease is not None}
    for queue, settles in unit.settles.items():
        for said in settles:
            refused = queue.settle(said._replace(until=now.plus(said.ms)), unit.unit_id)
            assert not refused, "its lease holds it"
    for queue, lease_id, index, answer in unit.replies:
        queue.reply(lease_id, index, answer, unit.unit_id)
    for queue, lease, _ in unit.got:
        queue.settle(Settled(model.ACK, lease.lease_id, queue.held(lease), now, 0, ""), unit.unit_id)
    gone = _unlock(reactions)
    for queue in there:
        queue.spared = {index for index in queue.messages if id(queue.messages[index]) in busy}
    placed = []
    for queue, entries in unit.puts.items():
        found = queue.enter(entries, now)
        if refused := next((place.refused for place in found if place.refused), ""):
            raise Refusal(refused)
        placed.append((queue, found))
    for held, left in zip(reactions, gone, strict=True):
        _react(pair, held, left, now)
    for queue in there:
        queue.spared = set()
    pair.units = [each for each in pair.units if each.unit_id != unit.unit_id]
    return placed


def _check_locked(reactions: list[Held], there: set[Queue]) -> None:
    for held in reactions:
        if held.targets and (held.queue not in there or held.queue.held(held.lease) != sorted(held.targets)):
            raise Refusal("LEASE_LOST")


def _check_reactions(pair: Pair, reactions: list[Held], there: set[Queue]) -> None:
    for held in reactions:
        if held.queue not in there:
            raise Refusal("QUEUE_NOT_FOUND")
        reaction_model.check(pair, held.queue, held.reaction)


def _unlock(reactions: list[Held]) -> list[dict[int, Message]]:
    """They are where they were, and what is acted on leaves before anything enters."""
    for held in reactions:
        held.queue.give_back(held.lease)
    return [reaction_model.leave(held.queue, held.reaction, held.targets) for held in reactions]


def _react(pair: Pair, held: Held, gone: dict[int, Message], now: Within) -> None:
    reaction_model.check_room(pair, held.queue, held.reaction, len(gone), len(gone))
    reaction_model.enter(pair, held.queue, held.reaction, gone, replace(held.counts), now)
    if held.counts.kept:  # it looks at what was there already too, as things came since it was asked for
        for message in held.queue.messages.values():
            message.unasked = True


def _check_got(unit: Unit, there: set[Queue]) -> None:
    for queue, lease, indexes in unit.got:
        if queue not in there or queue.held(lease) != sorted(indexes):
            raise Refusal("LEASE_LOST")
    for queue, lease, indexes in unit.got:
        named = unit.named(queue)
        if queue.config.kind == model.TWO_WAY and any((lease.lease_id, index) not in named for index in indexes):
            raise Refusal("REPLY_REQUIRED")


def _check_there(unit: Unit, there: set[Queue]) -> None:
    if not there.issuperset(unit.puts):
        raise Refusal("QUEUE_NOT_FOUND")
    if not there.issuperset((*unit.settles, *(queue for queue, *_ in unit.replies))):
        raise Refusal("LEASE_LOST")


def roll_back(pair: Pair, unit: Unit, now: Within) -> int:
    """How many messages went back. Deliveries count (U9); what was only locked was not delivered (V15)."""
    pair.units.remove(unit)
    returned = 0
    for queue, lease in unit.leases:
        if queue in pair.queues.values():
            returned += len(queue.held(lease))
            queue.undo(lease, now)
    return returned


def abort(pair: Pair, unit: Unit) -> None:
    """Its master is gone: nothing of it happened, and no delivery counts (U10)."""
    pair.units.remove(unit)
    for queue, lease in unit.leases:
        queue.give_back(lease)
