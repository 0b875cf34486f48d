"""The steps of producers and consumers: what is asked, and what the model says to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tandemq.client.calls import QUEUE_SERVICE
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1.common_pb2 import Completion, Error, IndexRange, Reason
from tandemq.v1.message_pb2 import Message
from tests.support.listed import model
from tests.support.listed.model import SIZE, SIZE_MAX, Entry, Lease, Placed, Queue, Refusal, Settled
from tests.support.listed.reaction_model import KEPT
from tests.support.listed.run import Asked, Run
from tests.support.listed.steps import Step

NAMES = ("q0", "q1")
ASIDE = "aside"
"""Where reactions move things to, and report."""
ALIASES = ("n0", "n1")
TTL_MS, DELAY_MS, EXTENSION_MS, RELEASE_MS = 6_500, 5_000, 8_000, 3_000
LEASES_MS = (0, 0, 5_500, 7_500)
OUTCOMES = (model.ACK, model.ACK, model.ACK, model.RELEASE, model.REJECT, model.REJECT, model.EXTEND)
WORDS = {model.ACK: "ACK", model.RELEASE: "RELEASE", model.REJECT: "REJECT", model.EXTEND: "EXTEND"}
MODES = (pb.SETTLE_MODE_UNSPECIFIED, pb.SETTLE_MODE_LEASE, pb.SETTLE_MODE_LEASE, pb.SETTLE_MODE_IMMEDIATE)
BROWSE_MAX = 100
COUNTED = ("applied", "locked", "inert", "dying", "refused", "unreported")
"""In a report of a reaction."""


def target(run: Run, number: int) -> str:
    """Mostly one of the usual queues; else a dead-letter queue, an alias, or one that may not be there."""
    there = run.model.queues
    others = [name for name in there if name not in NAMES and not name.startswith(KEPT)]
    others += [alias for queue in there.values() for alias in sorted(queue.aliases)]
    pool = [*NAMES * 6, *sorted(others), ALIASES[0]]
    return pool[number % len(pool)]


# -- sending -----------------------------------------------------------------------------------------------------------


def entries_of(run: Run, queue: Queue | None, shape: int, kind: int) -> list[Entry]:
    """Equal sizes, but for one that is too large."""
    two_way = queue is not None and queue.config.kind == model.TWO_WAY
    made = []
    for ordinal in range(1 + shape % 4):
        run.serial += 1
        large = kind % 17 == 16 and ordinal == 1
        made.append(
            Entry(
                payload=b"%010d" % run.serial + b"." * (SIZE_MAX if large else 0),
                size=SIZE + (SIZE_MAX if large else 0),
                priority=(kind + 3 * ordinal) % 10 if kind % 3 == 1 else 4,
                ttl_ms=TTL_MS if kind // 3 % 4 == 1 and ordinal % 2 == 0 and not two_way else 0,
                delay_ms=DELAY_MS if kind // 12 % 5 == 1 and ordinal < 2 else 0,
                dedup=f"d{(kind + ordinal) % 5}" if kind // 60 % 3 == 1 else "",
                correlation=f"c{run.serial % 3}" if shape // 4 % 3 else "",
                group=f"g{run.serial % 2}" if shape // 12 % 3 == 0 else "",
                grade=run.serial % 4 if shape // 4 % 4 == 0 else None,
                inert=shape // 36 % 6 == 0 and ordinal == 1,
                reply_to=ASIDE if shape // 8 % 3 == 0 and not two_way else "",
            )
        )
    return made


def message_of(entry: Entry) -> Message:
    message = Message(payload=entry.payload)
    if entry.priority != 4:
        message.priority = entry.priority
    if entry.ttl_ms:
        message.ttl.FromMilliseconds(entry.ttl_ms)
    if entry.delay_ms:
        message.delay.FromMilliseconds(entry.delay_ms)
    message.dedup_id = entry.dedup
    message.correlation_id, message.group_id = entry.correlation, entry.group
    message.inert, message.reply_to = entry.inert, entry.reply_to
    if entry.grade is not None:
        message.properties["grade"].integer = entry.grade
    return message


def send(run: Run, step: Step) -> None:
    to, shape, kind = step.numbers
    name = target(run, to)
    queue = run.model.find(name)
    entries = entries_of(run, queue, shape, kind)
    request = pb.EnqueueRequest(queue=name, request_id=run.request_id(), messages=map(message_of, entries))
    told = ", ".join(told_entry(entry) for entry in entries)
    call = QUEUE_SERVICE + "Enqueue", request, pb.EnqueueResponse
    asked = run.ask(step.via, *call, f"send to {name}: {told}")
    try:
        queue = run.model.named(name)
        queue.check_may_send()
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    run.answered(asked)
    placed = queue.enter(entries, asked.now)
    expected = [result_of(queue, place) for place in placed]
    check_results(run, asked, expected, duplicate=None if run.struck else False)
    note_places(queue, placed, asked.reply.results)
    run.touched.add(queue.name)
    run.record(
        call,
        asked.text,
        lambda again: check_results(run, again, expected, duplicate=True),
        lambda: run.model.find(name) is queue,
    )


def note_places(queue: Queue, placed: list[Placed], results: Iterable[pb.EnqueueResult]) -> None:
    """By what its sender knows what entered."""
    for place, result in zip(placed, results, strict=True):
        if place.is_new:
            queue.handles[place.index] = result.handle
            message = queue.messages[place.index]
            message.own_id, message.ids = result.id, frozenset((result.id,))


def told_entry(entry: Entry) -> str:
    parts = [entry.payload.decode().lstrip("0")[:10]]
    parts += [f"priority {entry.priority}"] if entry.priority != 4 else []
    parts += [f"for {entry.ttl_ms} ms"] if entry.ttl_ms else []
    parts += [f"in {entry.delay_ms} ms"] if entry.delay_ms else []
    parts += [f"known as {entry.dedup}"] if entry.dedup else []
    parts += [each for each in (entry.correlation, entry.group) if each]
    parts += [f"grade {entry.grade}"] if entry.grade is not None else []
    parts += ["inert"] if entry.inert else []
    return " ".join(parts)


def result_of(queue: Queue, place: Placed) -> tuple[int, str, bool, bool]:
    return place.index, place.refused, place.duplicate, bool(place.index) and not queue.tracked


def check_results(
    run: Run, asked: Asked, expected: list[tuple[int, str, bool, bool]], *, duplicate: bool | None
) -> None:
    """`duplicate`: whether the call must say that it came before; None: it may."""
    run.answered(asked)
    found = [
        (
            each.index,
            _reason(each.error) if each.HasField("error") else "",
            each.duplicate,
            each.completed,
        )
        for each in asked.reply.results
    ]
    run.equal("the results", found, expected)
    for each in asked.reply.results:
        if not each.HasField("error"):
            run.equal("the level", Completion.Name(each.completion), "COMPLETION_STORED")
    if duplicate is not None:
        run.equal("a repetition", asked.reply.duplicate, duplicate)


# -- receiving ---------------------------------------------------------------------------------------------------------


def receive(run: Run, step: Step) -> None:
    of, most, kind = step.numbers
    name, count = target(run, of), 1 + most % 5
    lease_ms = LEASES_MS[kind % len(LEASES_MS)]
    mode = MODES[kind // 4 % len(MODES)]
    request = pb.DequeueRequest(
        queue=name, request_id=run.request_id(), max_messages=count, settle_mode=mode, client_id=b"consumer"
    )
    if lease_ms:
        request.lease_duration.FromMilliseconds(lease_ms)
    call = QUEUE_SERVICE + "Dequeue", request, pb.DequeueResponse
    asked = run.ask(step.via, *call, f"receive {count} of {name}, {pb.SettleMode.Name(mode)[12:]} {lease_ms} ms")
    try:
        queue = run.model.named(name)
        queue.check_may_receive(immediate=mode == pb.SETTLE_MODE_IMMEDIATE)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    run.answered(asked)
    immediate = mode == pb.SETTLE_MODE_IMMEDIATE or (mode == 0 and queue.config.immediate)
    expected = queue.deliverable(count)
    deliveries = {index: row_of(queue, index, further=1) for index in expected}
    found = rows_of(asked.reply)
    if immediate and asked.reply.duplicate:
        # Removed before it was handed over: at most once, and a lost answer is one that is lost.
        run.equal("what came again", set(found) - set(deliveries.values()), set())
    else:
        run.equal("what is delivered", found, list(deliveries.values()))
    run.tell(f"      {[row[0] for row in found]} under {asked.reply.lease_id:x}")
    run.touched.add(queue.name)
    if immediate:
        for index in expected:
            queue.end(index, "CONSUMED")
            queue.totals.acked += 1
    elif expected:
        _lease(run, queue, expected, asked, lease_ms)
        run.record(
            call,
            asked.text,
            lambda again: check_again(run, again, queue, expected, asked.reply.lease_id),
            lambda: run.model.find(name) is queue,
        )


def _lease(run: Run, queue: Queue, indexes: list[int], asked: Asked, lease_ms: int) -> None:
    lease_id = asked.reply.lease_id
    known = run.leases.setdefault(queue, [])
    if not lease_id or any(lease_id == other for other, _ in known):
        raise run.differs(f"lease {lease_id} is no new one")
    duration_ms = lease_ms or queue.config.lease_ms
    lease = Lease(lease_id, asked.now.plus(duration_ms), duration_ms)
    for index in indexes:
        queue.messages[index].lease = lease
    known.append((lease_id, indexes))


def check_again(run: Run, asked: Asked, queue: Queue, indexes: list[int], lease_id: int) -> None:
    """The same messages, as far as they are still there to be given."""
    try:
        queue.check_may_receive(immediate=False)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    run.answered(asked)
    left = [index for index in indexes if _is_given(queue, index)]
    run.equal("what comes again", rows_of(asked.reply), [row_of(queue, index, further=1) for index in left])
    run.equal("its lease", asked.reply.lease_id, lease_id)


def _is_given(queue: Queue, index: int) -> bool:
    message = queue.messages.get(index)
    return message is not None and not message.dying and (message.lease is not None or message.delayed is None)


def row_of(queue: Queue, index: int, further: int) -> tuple[Any, ...]:
    """As it is delivered or browsed; `further`: a delivery that has begun."""
    message = queue.messages[index]
    said = message.correlation, message.group, message.grade, message.version, message.report
    return index, message.payload, message.priority, message.deliveries + further, message.origin, said


def rows_of(reply: Any) -> list[tuple[Any, ...]]:
    return [
        (
            each.index,
            each.message.payload,
            each.message.priority if each.message.HasField("priority") else 4,
            each.delivery_count,
            origin_of(each.message),
            _said_of(each.message),
        )
        for each in reply.messages
    ]


def _said_of(message: Message) -> tuple[Any, ...]:
    found = message.properties
    grade = found["grade"].integer if "grade" in found else None
    version = found["tq_version"].integer if "tq_version" in found else 1
    return message.correlation_id, message.group_id, grade, version, _report_of(message)


def _report_of(message: Message) -> tuple[Any, ...] | None:
    found = message.properties
    if "tq_report" not in found:
        return None
    kind, queue = found["tq_report"].text, found["tq_origin_queue"].text
    if kind == "reacted":
        return kind, queue
    return kind, found["tq_outcome"].text, queue, *(found[f"tq_{name}"].integer for name in COUNTED)


def origin_of(message: Message) -> tuple[str, str, str, int] | None:
    found = message.properties
    if "tq_dead_letter_reason" not in found:
        return None
    said = found["tq_reject_reason"].text if "tq_reject_reason" in found else ""
    return (
        found["tq_origin_queue"].text,
        found["tq_dead_letter_reason"].text,
        said,
        found["tq_deliveries"].integer,
    )


# -- settling ----------------------------------------------------------------------------------------------------------


def _held(run: Run, number: int, *, requests: bool = False) -> tuple[Queue, int, list[int]] | None:
    """A lease, more often a late one and one that still holds something; `requests`: of a queue that has such."""
    pool = []
    for queue in run.model.queues.values():
        given = run.leases.get(queue, [])
        if requests and queue.config.kind != model.TWO_WAY:
            continue
        pool += [(queue, *lease) for lease in given[-2:]]
        living = queue.leases()
        pool += [(queue, *lease) for lease in given if lease[0] in living] * 3
    return pool[number % len(pool)] if pool else None


def settle(run: Run, step: Step) -> None:
    of, what, kind = step.numbers
    found = _held(run, of)
    if found is None:
        receive(run, step)
        return
    queue, lease_id, given = found
    parts = (given, given[:1], given[-1:], [*given[1:], max(given) + 1], given)
    indexes = parts[kind % len(parts)]
    outcome = OUTCOMES[what % len(OUTCOMES)]
    word = WORDS[outcome]
    settlement = pb.Settlement(lease_id=lease_id, outcome=f"OUTCOME_{word}", ranges=map(_range, indexes))
    wait_ms = 0
    if outcome == model.RELEASE and kind // 5 % 2:
        wait_ms = RELEASE_MS
        settlement.delay.FromMilliseconds(wait_ms)
    elif outcome == model.EXTEND:
        wait_ms = EXTENSION_MS if kind // 5 % 2 else queue.config.lease_ms
        if kind // 5 % 2:
            settlement.extension.FromMilliseconds(wait_ms)
    elif outcome == model.REJECT:
        settlement.reason = f"no {indexes[0]}" if len(indexes) == 1 else ""
    request = pb.SettleRequest(queue=queue.name, request_id=run.request_id(), settlements=[settlement])
    call = QUEUE_SERVICE + "Settle", request, pb.SettleResponse
    text = f"{word} {indexes} of {queue.name} under {lease_id:x} {wait_ms} ms"
    asked = run.ask(step.via, *call, text)
    run.answered(asked)
    before = {index: message.lease for index, message in queue.messages.items()}
    said = Settled(outcome, lease_id, indexes, asked.now.plus(wait_ms), wait_ms, settlement.reason)
    refused = queue.settle(said)
    expected = (len(indexes) - len(refused), sorted(refused))
    _check_settled(run, asked, expected)
    run.touched.add(queue.name)
    changed = outcome == model.EXTEND or before != {index: each.lease for index, each in queue.messages.items()}
    if changed and expected[0]:
        run.record(call, text, lambda again: _check_settled(run, again, expected))


def _range(index: int) -> IndexRange:
    return IndexRange(first=index, count=1)


def _check_settled(run: Run, asked: Asked, expected: tuple[int, list[int]]) -> None:
    run.answered(asked)
    (result,) = asked.reply.results
    refused = [index for part in result.refused for index in range(part.first, part.first + part.count)]
    run.equal("what is settled, and what is not", (result.settled, sorted(refused)), expected)


def _has_requests(queue: Queue | None) -> bool:
    return queue is not None and queue.config.kind == model.TWO_WAY and bool(queue.ready())


def reply(run: Run, step: Step) -> None:
    of, which, kind = step.numbers
    found = _held(run, of, requests=bool(kind % 9)) or (None if kind % 5 else _held(run, of))
    if kind % 3 == 0 and run.replied is not None and run.replied[0] in run.model.queues.values():
        queue, lease_id, index = run.replied  # once more, as it was or otherwise
        found = queue, lease_id, [index]
    if found is None:
        waiting = [number for number, name in enumerate(NAMES) if _has_requests(run.model.find(name))]
        receive(run, step._replace(numbers=(waiting[of % len(waiting)] if waiting else of, which, kind)))
        return
    queue, lease_id, given = found
    index = given[which % len(given)]
    run.serial += 1
    payload = b"answer %d" % (index if kind % 4 else run.serial)
    request = pb.ReplyRequest(
        queue=queue.name, request_id=run.request_id(), lease_id=lease_id, index=index, message=Message(payload=payload)
    )
    call = QUEUE_SERVICE + "Reply", request, pb.ReplyResponse
    asked = run.ask(step.via, *call, f"reply to {index} of {queue.name} under {lease_id:x}")
    try:
        is_new = queue.reply(lease_id, index, payload)
    except Refusal as refusal:
        run.refused(asked, refusal)
        return
    run.answered(asked)
    if not run.struck:
        run.equal("a repetition", asked.reply.duplicate, not is_new)
    run.touched.add(queue.name)
    run.replied = queue, lease_id, index
    if is_new:
        run.record(call, asked.text, lambda again: run.equal("the refusal", again.refused, ""))


# -- asking ------------------------------------------------------------------------------------------------------------

_LEVELS = {"CONSUMED": "RECEIVED", "REPLIED": "REPLIED"}


def check(run: Run, step: Step) -> None:
    name = target(run, step.numbers[0])
    queue = run.model.find(name)
    handles = dict(queue.handles) if queue is not None else {}
    asked_of = [*handles.values(), b"x" * 16]
    request = pb.CheckCompletionRequest(queue=name, handles=asked_of)
    call = QUEUE_SERVICE + "CheckCompletion", request, pb.CheckCompletionResponse
    asked = run.ask(step.via, *call, f"check {len(handles)} of {name}")
    if queue is None:
        run.refused(asked, Refusal("QUEUE_NOT_FOUND"))
        return
    run.answered(asked)
    found = [_told(status) for status in asked.reply.statuses]
    run.equal("what became of them", found, [*(_end_of(queue, index) for index in handles), "INVALID_HANDLE"])


def _reason(error: Error) -> str:
    return Reason.Name(error.reason).removeprefix("REASON_")


def _told(status: pb.CompletionStatus) -> Any:
    if status.HasField("error"):
        return _reason(status.error)
    final = pb.FinalState.Name(status.final_state)[12:] if status.final_state else ""
    return Completion.Name(status.completion)[11:], final, status.completed, status.reply.payload


def _end_of(queue: Queue, index: int) -> Any:
    if not queue.tracked:
        return "STORED", "", True, b""
    how = queue.ends[index]
    return _LEVELS.get(how, "STORED"), how, bool(how), queue.replies.get(index, (b"", 0))[0]


def browse(run: Run, step: Step) -> None:
    of, first, most = step.numbers
    _browse(run, step.via, target(run, of), first % 4, (0, 2, 50)[most % 3])


def browse_all(run: Run, via: str, name: str) -> None:
    """Every message, where it is and what is known of it."""
    _browse(run, via, name, 0, 0)


def _browse(run: Run, via: str, name: str, start: int, limit: int) -> None:
    request = pb.BrowsePageRequest(queue=name, from_index=start, max_messages=limit)
    call = QUEUE_SERVICE + "BrowsePage", request, pb.BrowsePageResponse
    asked = run.ask(via, *call, f"browse {name} from {start}, {limit}")
    queue = run.model.find(name)
    if queue is None:
        run.refused(asked, Refusal("QUEUE_NOT_FOUND"))
        return
    run.answered(asked)
    run.equal("what is browsed", rows_of(asked.reply), browsed(queue, start, limit))


def browsed(queue: Queue, start: int, limit: int) -> list[tuple[Any, ...]]:
    indexes = [index for index in sorted(queue.messages) if index >= start][: limit or BROWSE_MAX]
    return [row_of(queue, index, further=_is_delivered(queue, index)) for index in indexes]


def _is_delivered(queue: Queue, index: int) -> bool:
    lease = queue.messages[index].lease
    return lease is not None and not lease.locks


def again(run: Run, step: Step) -> None:
    """A call that was answered comes once more: one effect, and the same answer."""
    known = [each for each in run.recorded if each.holds()]
    if not known:
        run.tell("   nothing to repeat")
        return
    call = known[step.numbers[0] % len(known)]
    call.check(run.ask(step.via, call.path, call.request, call.reply, f"again: {call.text}"))
