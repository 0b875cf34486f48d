"""The step of a unit of work that is open over several calls: one unit from its beginning to its end.

Where something strikes, any call of it may say that the unit is over with nothing done, and what strikes decides
whether it is; its commit is never in doubt. Nothing else than the commit is asked of it then: whether a rollback was
the one that counted, its client cannot know.
"""

from __future__ import annotations

from copy import deepcopy

from tandemq.client.calls import QUEUE_SERVICE, TRANSACTION_SERVICE
from tandemq.v1 import queue_service_pb2 as queue_pb2
from tandemq.v1 import transaction_service_pb2 as pb
from tests.support.listed import model
from tests.support.listed.messages import entries_of, message_of, result_of, row_of, rows_of, target, told_entry
from tests.support.listed.model import SIZE_MAX, Entry, Lease, Placed, Queue, Refusal, Within
from tests.support.listed.run import Asked, Run
from tests.support.listed.steps import Step

CALLS = 8
"""Of one unit, at most."""
ANSWER = b"by a unit"
FAR = Within(1 << 60, 1 << 60)
"""A unit is open for an hour, and no list of steps takes as long."""


def unit(run: Run, step: Step) -> None:
    """It takes from one queue, sends to another, and commits or rolls back."""
    of, to, kind = step.numbers
    struck = run.struck
    if not struck:
        run.clear_the_way(CALLS * run.driver.calm_ms)
        struck = run.struck
    name = target(run, of)
    begin = pb.BeginRequest(queue=name, request_id=run.request_id())
    begin.timeout.FromSeconds(3_600)
    asked = run.ask(step.via, TRANSACTION_SERVICE + "Begin", begin, pb.BeginResponse, f"begin a unit at {name}")
    source = run.model.find(name)
    if source is None:
        run.refused(asked, Refusal("QUEUE_NOT_FOUND"))
        return
    run.answered(asked)
    unit_id = asked.reply.unit_id
    lease = _get(run, step, source, name, unit_id)
    if lease is None:
        return
    sent = _put(run, step, target(run, to), kind, unit_id) if not struck and kind % 5 else None
    answered = struck or kind % 3 > 0
    if answered and not _answer(run, step, source, name, lease, unit_id):
        return
    if (kind % 4 or struck) and (_commit(run, step, source, lease, sent, unit_id, answered=answered) or struck):
        return
    _roll_back(run, step, source, lease, unit_id)


def _is_over(run: Run, asked: Asked) -> bool:
    """Its master is gone, which only what strikes can do."""
    return run.struck and asked.refused == "TXN_ABORTED"


def _get(run: Run, step: Step, source: Queue, name: str, unit_id: bytes) -> Lease | None:
    """None: nothing can be had there, or the unit is over."""
    count = 1 + step.numbers[2] % 3
    request = queue_pb2.DequeueRequest(
        queue=name, request_id=run.request_id(), max_messages=count, unit_id=unit_id
    )  # fmt: skip
    call = QUEUE_SERVICE + "Dequeue", request, queue_pb2.DequeueResponse
    asked = run.ask(step.via, *call, f"lock {count} of {name}")
    if _is_over(run, asked):
        return None
    try:
        source.check_may_receive(immediate=False)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return None
    run.answered(asked)
    indexes = source.deliverable(count)
    run.equal("what is locked", rows_of(asked.reply), [row_of(source, index, further=1) for index in indexes])
    run.touched.add(source.name)
    lease = Lease(asked.reply.lease_id, FAR, 0)
    for index in indexes:
        source.messages[index].lease = lease
    return lease


def _put(run: Run, step: Step, name: str, kind: int, unit_id: bytes) -> tuple[Queue, list[Entry]] | None:
    """None: it was refused at once, and the unit goes on without."""
    to = run.model.find(name)
    entries = entries_of(run, to, step.numbers[0], kind)
    request = queue_pb2.EnqueueRequest(
        queue=name, request_id=run.request_id(), messages=map(message_of, entries), unit_id=unit_id
    )  # fmt: skip
    call = QUEUE_SERVICE + "Enqueue", request, queue_pb2.EnqueueResponse
    asked = run.ask(step.via, *call, f"in the unit, to {name}: {', '.join(told_entry(each) for each in entries)}")
    try:
        to = run.model.named(name)
        to.check_may_send()
        if any(entry.size > SIZE_MAX for entry in entries):
            raise Refusal("MESSAGE_TOO_LARGE")
    except Refusal as refusal:
        run.refused(asked, refusal)
        return None
    run.answered(asked)
    return to, entries


def _answer(run: Run, step: Step, source: Queue, name: str, lease: Lease, unit_id: bytes) -> bool:
    """All requests that it took; False: the unit is over."""
    for index in _held(source, lease) if source.config.kind == model.TWO_WAY else ():
        request = queue_pb2.ReplyRequest(
            queue=name, request_id=run.request_id(), lease_id=lease.lease_id, index=index, unit_id=unit_id
        )  # fmt: skip
        request.message.payload = ANSWER
        asked = run.ask(
            step.via, QUEUE_SERVICE + "Reply", request, queue_pb2.ReplyResponse, f"answer {index} in the unit"
        )
        if _is_over(run, asked):
            _give_back(source, lease)
            return False
        run.answered(asked)
    return True


def _give_back(source: Queue, lease: Lease) -> None:
    for index in _held(source, lease):
        source.messages[index].lease = None


def _held(queue: Queue, lease: Lease) -> list[int]:
    return [index for index, message in queue.messages.items() if message.lease is lease]


def _commit(
    run: Run,
    step: Step,
    source: Queue,
    lease: Lease,
    sent: tuple[Queue, list[Entry]] | None,
    unit_id: bytes,
    *,
    answered: bool,
) -> bool:
    """False: it was refused, and the unit is still open."""
    call = TRANSACTION_SERVICE + "Commit", pb.CommitRequest(unit_id=unit_id), pb.CommitResponse
    asked = run.ask(step.via, *call, "commit")
    if _is_over(run, asked):
        _give_back(source, lease)
        return True
    held = _held(source, lease)
    two_way = source.config.kind == model.TWO_WAY
    if two_way and not answered and held:
        run.refused(asked, Refusal("REPLY_REQUIRED"))
        return False
    full = _refusal(source, lease, sent, asked.now) if sent is not None else ""
    if full:
        run.refused(asked, Refusal(full))
        return False
    run.answered(asked)
    for index in held:
        if two_way:
            source.reply(lease.lease_id, index, ANSWER)
            continue
        source.settled.add((lease.lease_id, model.ACK, index))
        source.totals.acked += 1
        source.end(index, "CONSUMED")
    placed: list[Placed] = []
    if sent is not None:
        to, entries = sent
        placed = to.enter(entries, asked.now)
        run.touched.add(to.name)
        for place, result in zip(placed, _results(asked), strict=True):
            if place.is_new:
                to.handles[place.index] = result.handle
    expected = [result_of(sent[0], place) for place in placed] if sent is not None else []
    _check(run, asked, expected, duplicate=None if run.struck else False)
    run.record(call, "commit", lambda again: _check(run, again, expected, duplicate=True))
    return True


def _refusal(source: Queue, lease: Lease, sent: tuple[Queue, list[Entry]], now: Within) -> str:
    """What is acknowledged has left by then; of what does not fit nothing enters."""
    to, entries = sent
    probe = deepcopy(to)
    if to is source:
        for index in _held(source, lease):
            probe.end(index, "CONSUMED")
    return next((place.refused for place in probe.enter(entries, now) if place.refused), "")


def _results(asked: Asked) -> list[queue_pb2.EnqueueResult]:
    return [result for put in asked.reply.puts for result in put.results]


def _check(run: Run, asked: Asked, expected: list[tuple[int, str, bool, bool]], *, duplicate: bool | None) -> None:
    run.answered(asked)
    found = [(each.index, "", each.duplicate, each.completed) for each in _results(asked)]
    run.equal("the results", found, expected)
    if duplicate is not None:
        run.equal("a repetition", asked.reply.duplicate, duplicate)


def _roll_back(run: Run, step: Step, source: Queue, lease: Lease, unit_id: bytes) -> None:
    call = TRANSACTION_SERVICE + "Rollback", pb.RollbackRequest(unit_id=unit_id), pb.RollbackResponse
    asked = run.ask(step.via, *call, "roll back")
    run.answered(asked)
    run.equal("what went back", asked.reply.returned, len(_held(source, lease)))
    source.undo(lease, asked.now)
