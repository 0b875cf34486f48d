"""The steps of units of work: some are open over several steps, each call of one is made in a step.

Where something strikes, any call of a unit may say that it is over with nothing done, and what strikes decides whether
it is; its commit is never in doubt. Nothing else than the commit ends it then: whether a rollback was the one that
counted, its client cannot know.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from google.protobuf.message import Message as Proto

from tandemq.client.calls import QUEUE_SERVICE, TRANSACTION_SERVICE
from tandemq.v1 import queue_service_pb2 as queue_pb2
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange
from tests.support.listed import model
from tests.support.listed.messages import (
    WORDS,
    check_again,
    entries_of,
    message_of,
    note_places,
    result_of,
    row_of,
    rows_of,
    target,
    told_entry,
)
from tests.support.listed.model import FAR, SIZE_MAX, Lease, Placed, Queue, Refusal, Settled, Within
from tests.support.listed.reactions import ask_in_unit
from tests.support.listed.run import Asked, Run
from tests.support.listed.steps import NUMBER_MAX, Choices, Step
from tests.support.listed.unit import Unit
from tests.support.listed.unit_model import abort, check_settles, commit, roll_back

OPEN_MAX = 2
CALLS = 8
"""Of one unit, in one step, at most."""
HOUR_MS = 3_600_000
TIMEOUTS_MS = (HOUR_MS, HOUR_MS, 9_000)
NOBODY = Within(0, 0)


def unit(run: Run, step: Step) -> None:
    """Some calls of one that is open, or is begun now; then it stays open, or ends."""
    choose = Choices(step.numbers)
    there = run.model.units
    if step.fault is None and choose.of(8) == 7 and run.over:
        _too_late(run, step, run.over[choose.of(len(run.over))])
        return
    if there and (len(there) == OPEN_MAX or choose.of(3)):
        mine: Unit | None = there[choose.of(len(there))]
    else:
        mine = _begin(run, step, choose)
    calls = 1 + choose.of(3) if mine is not None else 0
    for _ in range(calls):
        if mine is not None and (_ended_by_time(run, mine) or not _call(run, step, mine, choose)):
            return
    if mine is None or _ended_by_time(run, mine):
        return
    ending = choose.of(5)
    if run.struck or ending > 1:
        _commit(run, step, mine)
    elif ending:
        _roll_back(run, step, mine)


def _ended_by_time(run: Run, mine: Unit) -> bool:
    """Nothing may end by itself during its next call; the unit itself may end now."""
    if not run.struck:
        run.clear_the_way(run.driver.calm_ms)
    return mine not in run.model.units


def _call(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    """False: the unit is over."""
    calls = (_get, _get, _put, _put, _settle, _reply, _react, _react)
    return calls[choose.of(len(calls))](run, step, mine, choose)


def _begin(run: Run, step: Step, choose: Choices) -> Unit | None:
    if step.fault is not None and run.model.units:
        run.be_sure(step.fault)  # what the others have locked is given to this one if their master is gone
    name = target(run, choose.of(NUMBER_MAX))
    timeout_ms = TIMEOUTS_MS[0] if run.struck else TIMEOUTS_MS[choose.of(len(TIMEOUTS_MS))]
    request = pb.BeginRequest(queue=name, request_id=run.request_id())
    request.timeout.FromMilliseconds(timeout_ms)
    asked = run.ask(step.via, TRANSACTION_SERVICE + "Begin", request, pb.BeginResponse, f"begin a unit at {name}")
    if run.model.find(name) is None:
        run.refused(asked, Refusal("QUEUE_NOT_FOUND"))
        return None
    run.answered(asked)
    mine = Unit(asked.reply.unit_id, FAR if timeout_ms == HOUR_MS else asked.now.plus(timeout_ms))
    run.model.units.append(mine)
    return mine


def _is_over(run: Run, asked: Asked, mine: Unit) -> bool:
    """Its master is gone, which only what strikes can do, or what has struck: a handoff may come late."""
    if asked.refused != "TXN_ABORTED":
        return False
    if run.struck:
        abort(run.model, mine)
    else:
        run.struck = True
        run.calm()  # says that the units of this epoch are open, so it is no way out for one that was lost
    run.over.append(mine)
    run.count("unit", "gone with its master")
    return mine not in run.model.units


# -- its calls ---------------------------------------------------------------------------------------------------------


def _get(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    count, name = 1 + choose.of(3), target(run, choose.of(NUMBER_MAX))
    request = queue_pb2.DequeueRequest(
        queue=name, request_id=run.request_id(), max_messages=count, unit_id=mine.unit_id
    )  # fmt: skip
    call = QUEUE_SERVICE + "Dequeue", request, queue_pb2.DequeueResponse
    asked = run.ask(step.via, *call, f"lock {count} of {name}")
    if _is_over(run, asked, mine):
        return False
    try:
        queue = run.model.named(name)
        queue.check_may_receive(immediate=False)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return True
    run.answered(asked)
    indexes = queue.deliverable(count)
    run.equal("what is locked", rows_of(asked.reply), [row_of(queue, index, further=1) for index in indexes])
    run.touched.add(queue.name)
    if indexes:
        lease = Lease(asked.reply.lease_id, mine.ends, 0, mine.unit_id)
        for index in indexes:
            queue.messages[index].lease = lease
        mine.got.append((queue, lease, indexes))
        run.leases.setdefault(queue, []).append((lease.lease_id, indexes))
        run.record(
            call,
            asked.text,
            lambda again: check_again(run, again, queue, indexes, lease.lease_id),
            lambda: mine in run.model.units and run.model.find(name) is queue,
        )
    return True


def _put(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    name = target(run, choose.of(NUMBER_MAX))
    to = run.model.find(name)
    entries = entries_of(run, to, choose.of(NUMBER_MAX), choose.of(NUMBER_MAX))
    request = queue_pb2.EnqueueRequest(
        queue=name, request_id=run.request_id(), messages=map(message_of, entries), unit_id=mine.unit_id
    )  # fmt: skip
    call = QUEUE_SERVICE + "Enqueue", request, queue_pb2.EnqueueResponse
    asked = run.ask(step.via, *call, f"in the unit, to {name}: {', '.join(map(told_entry, entries))}")
    if _is_over(run, asked, mine):
        return False
    try:
        to = run.model.named(name)
        to.check_may_send()
        if any(entry.size > SIZE_MAX for entry in entries):
            raise Refusal("MESSAGE_TOO_LARGE")
        mine.check_enters({to}, puts=True)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return True
    run.answered(asked)
    mine.puts.setdefault(to, []).extend(entries)
    run.record(call, asked.text, run.answered, lambda: mine in run.model.units)
    return True


def _settle(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    """Something that it got, or that a lease outside of it has or had (U6)."""
    free = mine.free()
    given = [(queue, *lease) for queue in run.model.queues.values() for lease in run.leases.get(queue, ())[-3:]]
    if free and choose.of(3):
        queue, lease, left = free[choose.of(len(free))]
        lease_id, indexes = lease.lease_id, left[: 1 + choose.of(2)]
    elif given:
        queue, lease_id, left = given[choose.of(len(given))]
        indexes = [index for index in left if (lease_id, index) not in mine.named(queue)]
    else:
        return True
    held = queue.leases().get(lease_id)
    others = held is not None and held.unit not in (b"", mine.unit_id)
    if others or not indexes or queue not in run.model.queues.values():
        return True
    said = _said(queue, lease_id, indexes, choose)
    settlement = settlement_of(said)
    request = queue_pb2.SettleRequest(
        queue=queue.name, request_id=run.request_id(), settlements=[settlement], unit_id=mine.unit_id
    )  # fmt: skip
    text = f"in the unit: {WORDS[said.outcome]} {indexes} of {queue.name} under {lease_id:x}"
    asked = run.ask(step.via, QUEUE_SERVICE + "Settle", request, queue_pb2.SettleResponse, text)
    if _is_over(run, asked, mine):
        return False
    try:
        check_settles(mine, queue, said)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return True
    run.answered(asked)
    mine.settles.setdefault(queue, []).append(said)
    return True


def _said(queue: Queue, lease_id: int, indexes: list[int], choose: Choices) -> Settled:
    outcomes = (model.RELEASE, model.REJECT) if queue.config.kind == model.TWO_WAY else tuple(WORDS)[:3]
    outcome = outcomes[choose.of(len(outcomes))]
    wait_ms = 3_000 if outcome == model.RELEASE and choose.of(2) else 0
    why = f"not {indexes[0]}" if outcome == model.REJECT and len(indexes) == 1 else ""
    return Settled(outcome, lease_id, indexes, NOBODY, wait_ms, why)


def settlement_of(said: Settled) -> queue_pb2.Settlement:
    settlement = queue_pb2.Settlement(
        lease_id=said.lease_id, outcome=f"OUTCOME_{WORDS[said.outcome]}", reason=said.why
    )  # fmt: skip
    settlement.ranges.extend(IndexRange(first=index, count=1) for index in said.indexes)
    if said.ms:
        settlement.delay.FromMilliseconds(said.ms)
    return settlement


def _reply(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    """All requests that it got, and said nothing of."""
    for queue, lease, left in mine.free():
        for index in left if queue.config.kind == model.TWO_WAY and choose.of(4) < 3 else ():
            if queue not in run.model.queues.values():
                continue
            run.serial += 1
            answer = b"by a unit %d" % run.serial
            request = queue_pb2.ReplyRequest(
                queue=queue.name, request_id=run.request_id(), lease_id=lease.lease_id, index=index
            )  # fmt: skip
            request.unit_id, request.message.payload = mine.unit_id, answer
            text = f"answer {index} of {queue.name} in the unit"
            asked = run.ask(step.via, QUEUE_SERVICE + "Reply", request, queue_pb2.ReplyResponse, text)
            if _is_over(run, asked, mine):
                return False
            if index not in queue.held(lease):  # its time was over
                run.refused(asked, Refusal("LEASE_LOST"))
                continue
            run.answered(asked)
            mine.replies.append((queue, lease.lease_id, index, answer))
    return True


def _react(run: Run, step: Step, mine: Unit, choose: Choices) -> bool:
    return not _is_over(run, ask_in_unit(run, step, mine, choose), mine)


# -- its end -----------------------------------------------------------------------------------------------------------


def _commit(run: Run, step: Step, mine: Unit) -> None:
    call = TRANSACTION_SERVICE + "Commit", pb.CommitRequest(unit_id=mine.unit_id), pb.CommitResponse
    asked = run.ask(step.via, *call, "commit")
    if _is_over(run, asked, mine):
        return
    run.touched.update(run.model.queues)
    try:
        placed = commit(run.model, mine, asked.now)
    except Refusal as refusal:
        run.refused(asked, refusal)
        if str(refusal) == "LEASE_LOST":
            roll_back(run.model, mine, asked.now)
            run.over.append(mine)
        return
    _entered(run, call, asked, placed)


def _entered(
    run: Run,
    call: tuple[str, Proto, type[Proto]],
    asked: Asked,
    placed: list[tuple[Queue, list[Placed]]],
    names: Mapping[Queue, str] = MappingProxyType({}),
) -> None:
    """What it sent has its places, and its repetition is answered as it was. `names`: of the queues as they were asked
    for; empty: their own.
    """
    run.answered(asked)
    expected = [
        (names[queue] if names else queue.name, [result_of(queue, place) for place in found]) for queue, found in placed
    ]
    _check(run, asked, expected, duplicate=None if run.struck else False)
    for (queue, found), put in zip(placed, asked.reply.puts, strict=True):
        note_places(queue, found, put.results)
    run.record(
        call,
        asked.text,
        lambda again: _check(run, again, expected, duplicate=True),
        lambda: all(queue in run.model.queues.values() for queue, _ in placed),
    )


def _check(
    run: Run, asked: Asked, expected: list[tuple[str, list[tuple[int, str, bool, bool]]]], *, duplicate: bool | None
) -> None:
    run.answered(asked)
    found = [
        (put.queue, [(each.index, "", each.duplicate, each.completed) for each in put.results])
        for put in asked.reply.puts
    ]
    run.equal("the results", found, expected)
    if duplicate is not None:
        run.equal("a repetition", asked.reply.duplicate, duplicate)


def _roll_back(run: Run, step: Step, mine: Unit) -> None:
    call = TRANSACTION_SERVICE + "Rollback", pb.RollbackRequest(unit_id=mine.unit_id), pb.RollbackResponse
    asked = run.ask(step.via, *call, "roll back")
    run.answered(asked)
    run.touched.update(run.model.queues)
    run.equal("what went back", asked.reply.returned, roll_back(run.model, mine, asked.now))
    run.over.append(mine)


def _too_late(run: Run, step: Step, gone: Unit) -> None:
    """Nothing of it happened, and never will (U11)."""
    request = pb.CommitRequest(unit_id=gone.unit_id)
    asked = run.ask(step.via, TRANSACTION_SERVICE + "Commit", request, pb.CommitResponse, "commit what is over")
    run.refused(asked, Refusal("TXN_ABORTED"))
    back = pb.RollbackRequest(unit_id=gone.unit_id)
    asked = run.ask(step.via, TRANSACTION_SERVICE + "Rollback", back, pb.RollbackResponse, "roll back what is over")
    run.answered(asked)
    run.equal("what went back", asked.reply.returned, 0)


# -- units that are one call -------------------------------------------------------------------------------------------


def transact(run: Run, step: Step) -> None:
    """What leases hold is settled, and more is sent, at once."""
    choose = Choices(step.numbers)
    request = pb.TransactRequest(request_id=run.request_id())
    mine, names = Unit(b"", NOBODY), dict[Queue, str]()
    given = [(queue, *lease) for queue in run.model.queues.values() for lease in run.leases.get(queue, ())[-3:]]
    living = [each for each in given if each[1] in each[0].leases()]
    if given and choose.of(4):
        pool = living if living and choose.of(4) else given
        queue, lease_id, indexes = pool[choose.of(len(pool))]
        said = _said(queue, lease_id, indexes[: 1 + choose.of(2)], choose)
        mine.settles[queue] = [said]
        request.settles.add(queue=queue.name, settlements=[settlement_of(said)])
    for _ in range(1 + choose.of(2)):
        name = target(run, choose.of(30))
        to = run.model.find(name)
        if to is None or to in mine.puts:
            continue
        entries = entries_of(run, to, choose.of(20), choose.of(NUMBER_MAX))
        mine.puts[to], names[to] = entries, name
        request.puts.add(queue=name, messages=map(message_of, entries))
    if not mine.settles and not mine.puts:
        return
    call = TRANSACTION_SERVICE + "Transact", request, pb.TransactResponse
    settled = [f"{WORDS[said.outcome]} {said.indexes} of {queue.name}" for queue, (said,) in mine.settles.items()]
    sent = [f"to {queue.name}: {', '.join(map(told_entry, each))}" for queue, each in mine.puts.items()]
    asked = run.ask(step.via, *call, "at once: " + "; ".join(settled + sent))
    run.touched.update(run.model.queues)
    try:
        placed = commit(run.model, mine, asked.now)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    _entered(run, call, asked, placed, names)
