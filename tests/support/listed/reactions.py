"""The step of a reaction: what was sent is cancelled, changed or moved, now, later, or by the commit of a unit."""

from __future__ import annotations

from tandemq.client.calls import REACTION_SERVICE
from tandemq.v1 import reaction_service_pb2 as pb
from tests.support.listed import model
from tests.support.listed.messages import ASIDE, NAMES, target
from tests.support.listed.model import Lease, Queue, Refusal
from tests.support.listed.pair_model import Pair
from tests.support.listed.reaction import DELETE, MOVE, UPDATE, Counts, Reaction
from tests.support.listed.reaction_model import (
    act,
    check,
    check_room,
    entered_by,
    find,
    is_unsure,
    store_of,
)
from tests.support.listed.run import Asked, Run
from tests.support.listed.steps import NUMBER_MAX, Choices, Step
from tests.support.listed.unit import Held, Unit

KEEP_MS = (0, 0, 12_000)
DELAY_MS = 4_000


def react(run: Run, step: Step) -> None:
    choose = Choices(step.numbers)
    name = target(run, choose.of(NUMBER_MAX))
    queue = run.model.find(name)
    reaction, request = _drawn(run, name, queue, choose)
    call = REACTION_SERVICE + "React", request, pb.ReactResponse
    asked = run.ask(step.via, *call, _told(reaction))
    run.touched.update(run.model.queues)
    try:
        queue, targets, counts = _found(run, name, reaction)
        check_room(run.model, queue, reaction, len(targets))
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    act(run.model, queue, reaction, targets, counts, asked.now)
    run.count("React", counts.outcome)
    _check(run, asked, counts, duplicate=None if run.struck else False)
    run.record(call, asked.text, lambda again: _check(run, again, counts, duplicate=True))


def _found(run: Run, name: str, reaction: Reaction) -> tuple[Queue, list[int], Counts]:
    """Where, what it acts on, and what else it finds. Raises Refusal."""
    queue = run.model.named(name)
    if reaction.keep_ms is not None and queue.config.reactions:
        store_of(run.model, queue, makes=True)
    check(run.model, queue, reaction)
    return queue, *find(queue, reaction)


def _check(run: Run, asked: Asked, counts: Counts, *, duplicate: bool | None) -> None:
    run.answered(asked)
    reply = asked.reply
    outcome = pb.ReactionOutcome.Name(reply.outcome).removeprefix("REACTION_OUTCOME_")
    numbers = reply.applied, reply.locked, reply.inert, reply.dying, reply.refused, reply.unreported, reply.held
    run.equal("what it came to", (outcome, *numbers, reply.kept), counts.row)
    if duplicate is not None:
        run.equal("a repetition", reply.duplicate, duplicate)


def ask_in_unit(run: Run, step: Step, mine: Unit, choose: Choices) -> Asked:
    """What it finds is locked, and acted on by the commit (V15)."""
    name = target(run, choose.of(13))
    reaction, request = _drawn(run, name, run.model.find(name), choose, unit_id=mine.unit_id)
    call = REACTION_SERVICE + "React", request, pb.ReactResponse
    asked = run.ask(step.via, *call, "in the unit: " + _told(reaction))
    if asked.refused == "TXN_ABORTED":
        return asked
    run.touched.update(run.model.queues)
    try:
        queue, targets, counts = _found(run, name, reaction)
        _check_but_room(run.model, queue, reaction, targets)
        enters = entered_by(run.model, queue, reaction, targets, counts)
        mine.check_enters(enters)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return asked
    lease = Lease(0, mine.ends, 0, mine.unit_id, locks=True)
    for index in targets:
        queue.messages[index].lease = lease
    mine.reactions.append(Held(queue, reaction, lease, targets, counts, enters))
    said = Counts(0, counts.locked, counts.inert, counts.dying, 0, counts.kept, len(targets))
    run.count("React", f"in a unit: {said.outcome}")
    _check(run, asked, said, duplicate=None if run.struck else False)
    run.record(
        call, asked.text, lambda again: _check(run, again, said, duplicate=True), lambda: mine in run.model.units
    )
    return asked


def _check_but_room(pair: Pair, queue: Queue, reaction: Reaction, targets: list[int]) -> None:
    """Room is looked for at the commit."""
    try:
        check_room(pair, queue, reaction, len(targets))
    except Refusal as refusal:
        if str(refusal) != "QUEUE_FULL":
            raise


# -- what is asked for -------------------------------------------------------------------------------------------------


def _drawn(
    run: Run, name: str, queue: Queue | None, choose: Choices, unit_id: bytes = b""
) -> tuple[Reaction, pb.ReactRequest]:
    run.serial += 1
    by, which, do, scope = choose.of(5), choose.of(3), choose.of(6), choose.of(2)
    report, keep, more = choose.of(4), choose.of(3), choose.of(4)
    reaction = Reaction(name, (DELETE, DELETE, MOVE, MOVE, UPDATE, UPDATE)[do], scope == 0)
    reaction = _aimed(reaction, queue, by, which, more)
    if queue is not None and reaction.first and is_unsure(queue, reaction):
        reaction = reaction._replace(first=False)
    if name == ASIDE or (queue is not None and queue.name == ASIDE):
        reaction = reaction._replace(action=DELETE)  # reports and what is moved are of different sizes
    if not keep:
        reaction = reaction._replace(keep_ms=KEEP_MS[more % len(KEEP_MS)])
    return _filled(run, reaction, queue, report, more, unit_id)


def _aimed(reaction: Reaction, queue: Queue | None, by: int, which: int, more: int) -> Reaction:
    named = [message.own_id for message in queue.messages.values() if message.own_id] if queue is not None else []
    if by == 0 and named:
        return reaction._replace(ids=frozenset((named[which % len(named)], named[more % len(named)])))
    if by == 1:
        return reaction._replace(group=f"g{which % 2}")
    if by == 2:
        return reaction._replace(grade=which)
    if by == 3 and more == 0:
        return reaction._replace(correlation=f"c{which}", grade=which)
    return reaction._replace(correlation=f"c{which}")


def _filled(
    run: Run, reaction: Reaction, queue: Queue | None, report: int, more: int, unit_id: bytes
) -> tuple[Reaction, pb.ReactRequest]:
    asked = pb.Reaction(scope=pb.REACTION_SCOPE_FIRST if reaction.first else pb.REACTION_SCOPE_ALL)
    if reaction.action == MOVE:
        to = ASIDE
        if not unit_id and reaction.keep_ms is None and more > 1:
            there = [run.model.find(each) for each in NAMES]
            plain = [each.name for each in there if each is not None and each.config.kind != model.TWO_WAY]
            to = plain[more % len(plain)] if plain else ASIDE
        reaction = reaction._replace(to=to)
        asked.move.queue = to
    elif reaction.action == UPDATE:
        reaction = _changing(run, reaction, more)
        asked.update.CopyFrom(_update_of(reaction))
    else:
        asked.delete.SetInParent()
    if report == 1:
        reaction = reaction._replace(report_to=ASIDE, call=f"call {run.serial}")
        asked.report_to, asked.correlation_id = ASIDE, reaction.call
    if reaction.action == DELETE and not unit_id and more:
        full = more == 3 and not reaction.report_to
        reaction = reaction._replace(exceptions="FULL" if full else "HEADERS")
        asked.exception_report = f"EXCEPTION_REPORT_{reaction.exceptions}"
    if reaction.keep_ms is not None:
        asked.ttl.FromMilliseconds(reaction.keep_ms)
    _aim(asked, reaction)
    request = pb.ReactRequest(queue=reaction.queue, request_id=run.request_id(), reaction=asked, unit_id=unit_id)
    return reaction._replace(body=asked.SerializeToString(deterministic=True)), request


def _changing(run: Run, reaction: Reaction, more: int) -> Reaction:
    reaction = reaction._replace(new_grade=(run.serial + more) % 4)
    if reaction.first:  # what dies at once is known by what it says
        reaction = reaction._replace(payload=b"%010d" % run.serial)
    if more == 1:
        reaction = reaction._replace(priority=run.serial % 10)
    if more == 2 and reaction.keep_ms is None:
        reaction = reaction._replace(delay_ms=DELAY_MS if run.serial % 2 else 0)
    return reaction


def _update_of(reaction: Reaction) -> pb.ReactionUpdate:
    update = pb.ReactionUpdate(payload=reaction.payload, priority=reaction.priority)
    if reaction.new_grade is not None:
        update.set_properties["grade"].integer = reaction.new_grade
    if reaction.delay_ms is not None:
        update.delay.FromMilliseconds(reaction.delay_ms)
    return update


def _aim(asked: pb.Reaction, reaction: Reaction) -> None:
    wanted = asked.target
    wanted.ids.extend(sorted(reaction.ids or ()))
    if reaction.correlation is not None:
        wanted.correlation_id = reaction.correlation
    if reaction.group is not None:
        wanted.group_id = reaction.group
    if reaction.grade is not None:
        wanted.selector = f"grade = {reaction.grade}"


def _told(reaction: Reaction) -> str:
    said = {name: value for name, value in reaction._asdict().items() if name != "body" and value not in (None, "", 0)}
    return "react: " + ", ".join(f"{name} {value!r}" for name, value in said.items())
