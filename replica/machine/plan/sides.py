"""Decides what the sides of a queue with PRODUCER replication are given next, and what all of them have passed (K1, K2,
K6); changes nothing.

A side is a queue of a member's own domain, which stands for the messages of the pair's queue by their indexes. Leases,
settlements and what was released there are records of that domain alone, as of any queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.state.errors import Refused
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import PRIORITY_DEFAULT, Part
from replica.machine.state.state import State
from replica.machine.state.system_names import side_queue
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

HOUR_MS = 3_600_000
READY_MAX = 20_000
"""Messages that wait at a side for its consumer, at most: the rest stays where it is, and costs the side nothing. It is
given more once half of them are gone, so that a record is of many.
"""
PORTIONS_MAX = 4
"""Records by which a side is given something, one after the other in a turn; what is left comes with the next one."""
SETTLED_TOGETHER = 100
"""Messages of a settlement that may wait for others: its sender has more of them under way than it waits for."""
GIVEN_BYTES_MAX = 1 << 20
"""Payload bytes of one record of a side, or one message: sizes are means over it, and a delivery must fit its frame."""


def check_plain(queue: QueueState, columns: Columns) -> None:
    """Raises Refused (BAD_ATTRIBUTE) for messages that ask for another place than the next one, or for an end, where
    the index is the place.
    """
    if queue.selection is not None:
        return
    asked = {
        "priority": any(priority != PRIORITY_DEFAULT for priority in columns.priorities),
        "ttl": any(columns.ttls_ms),
        "delay": any(columns.delays_ms),
        "deliver_at": any(columns.deliver_at_ms),
    }
    for name, is_asked in asked.items():
        if is_asked:
            text = f"queue {queue.name} has lockstep PLAIN, where message k is the one with index k: leave out {name}"
            raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text, {"attribute": name})


def refuse_where_plain(queue: QueueState, what: str) -> None:
    """Raises Refused (CONFIG_ERROR) where the queue has sides and its indexes are their order: `what` would be seen by
    one of them alone. With lockstep SELECTED what is selected is leased, and everything else may go (K5).
    """
    if queue.selection is None:
        refuse_where_sides(queue, what)


def refuse_where_sides(queue: QueueState, what: str) -> None:
    """Raises Refused (CONFIG_ERROR) where the queue has sides: `what` would be seen by one of them alone."""
    if queue.passed is not None:
        text = f"queue {queue.name} has replication PRODUCER: {what}"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"queue": queue.name})


class SideLimits(NamedTuple):
    """How far behind another side one may be, as the operator of the master has it; see `tandemq.config.Limits`."""

    bytes: int = 4 << 30
    ms: int = 72 * HOUR_MS
    full_ms: int = 60_000


class Portion(NamedTuple):
    """The next messages for a side."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    payload_bytes: int


def next_given(of: QueueState, side: QueueState) -> Portion | None:
    """What is committed in the pair's queue and not given to the side yet, as many whole records of it as one record
    takes, or a part of the first one; None: nothing, or the side has enough.

    Never beyond the commit index that this member knows (K2): a process that has acted on an input which a failover
    then takes back cannot undo that.
    """
    ready = side.ready_count
    first, below = side.next_index, min(of.visible_end + 1, side.next_index + READY_MAX - ready)
    if first >= below or ready * 2 > READY_MAX:
        return None
    if of.selection is None:
        count, size = of.segments.whole(first, below, GIVEN_BYTES_MAX)
        if count:
            return Portion(first, count, size)
    has_more = below <= of.visible_end
    count = size = 0
    for part in _given_parts(of, first, below):
        messages, mean = part.end - part.start, part.payload_bytes // part.live
        fit = messages if not mean else (GIVEN_BYTES_MAX - size) // mean
        if count and (fit < messages or (has_more and first + count + messages == below and _is_cut(part))):
            break  # it goes as a whole, with the next ones: what is cut is copied, message by message
        fit = max(1, min(fit, messages))
        count, size = count + fit, size + fit * mean
        if fit < messages:
            break
    return Portion(first, count, size) if count else None


def _is_cut(part: Part) -> bool:
    """There are more messages of its record behind it."""
    return part.offset + part.end - part.start < part.segment_count


def _given_parts(of: QueueState, first: int, below: int) -> Iterator[Part]:
    """In the order in which sides are given them."""
    if of.selection is None:
        yield from of.segments.parts(first, below)
        return
    for _, start, end in of.selection.runs(first, below):
        yield from of.segments.parts(start, end)


def may_wait(state: State, header: record_pb2.RecordHeader) -> bool:
    """Whether nobody waits for that record of a side to be durable, or for few messages alone: it can be written
    together with what comes after it. What a crash takes back of a side is given again.
    """
    op = header.WhichOneof("op")
    if op == "side":
        return not header.side.begins
    if op == "lease":
        return header.lease.queue_id in state.own_sides
    if op == "settle" and header.settle.queue_id in state.own_sides:
        return sum(part.count for effect in header.settle.effects for part in effect.ranges) >= SETTLED_TOGETHER
    return False


def plan_given(state: State, now_ms: int, side: QueueState, given: Portion) -> record_pb2.RecordHeader:
    assert given.first == side.next_index, "a side is given each message once"
    op = record_pb2.SideOp(side_id=side.queue_id, **given._asdict())
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), side=op)


def plan_side(state: State, now_ms: int, of: SideOf, queue: QueueState, member: str) -> record_pb2.RecordHeader:
    """A side begins behind the mark that the pair has of it: at the first message, or, where this member has lost its
    disk, at what it repeats.
    """
    passed = queue.passed
    assert passed is not None, "only a queue with PRODUCER replication has sides"
    config = _config_of(queue)
    op = record_pb2.SideOp(
        domain=of.domain,
        history_id=of.history_id,
        queue_id=of.queue_id,
        side_id=state.next_queue_id,
        begins=True,
        name=side_queue(queue.name),
        config=config,
        member=member,
        first=passed[member] + 1,
        restarted_ms=of.restarted_ms,
    )
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), side=op)


def plan_like(
    state: State, now_ms: int, side: QueueState, queue: QueueState, member: str
) -> record_pb2.RecordHeader | None:
    """One step towards the attributes of the pair's queue, and towards being open where that is; None: it is there."""
    op = record_pb2.QueueOp(queue_id=side.queue_id)
    if (config := _config_of(queue)) != side.config:
        op.action = record_pb2.QUEUE_ACTION_UPDATE
        op.config.CopyFrom(config)
    elif (member in queue.open_members) != (member in side.open_members):
        is_open = member in queue.open_members
        op.action = record_pb2.QUEUE_ACTION_OPEN if is_open else record_pb2.QUEUE_ACTION_CLOSE
        op.member = member
    else:
        return None
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), queue=op)


def _config_of(queue: QueueState) -> admin_pb2.QueueConfig:
    """Attributes of a side of that queue."""
    config = admin_pb2.QueueConfig()
    config.CopyFrom(queue.config)
    config.replication, config.domain = admin_pb2.REPLICATION_NONE, "local"
    config.queue_type = admin_pb2.QUEUE_TYPE_ONE_WAY  # its senders ask the pair's queue
    config.enqueue_enabled = False
    config.ClearField("lockstep")
    if queue.selection is not None:  # what it has selected, and nothing else is given, neither ends nor is dropped (K5)
        config.ClearField("default_ttl")
        config.reactions_enabled, config.overflow = False, admin_pb2.OVERFLOW_REJECT
    config.ClearField("enqueue_enabled_at")
    config.ClearField("dequeue_enabled_at")  # the pair's master says when
    config.ClearField("empty_idle_expiry")
    return config


def passed_by(side: QueueState) -> int:
    """Everything up to that index is settled at the side, as applied here."""
    firsts = [level.first for level in side.ready if level.size]
    firsts += [low for lease in side.leases.values() for low, _ in list(lease.ranges)[:1]]
    firsts += [low for low, _, _ in list(side.delayed)[:1]]
    return min(firsts, default=side.next_index) - 1


def last_rejected(side: QueueState) -> int:
    """One of the messages that its process has rejected lately; 0: none that is remembered."""
    rejected = (side.settled[key] for key in reversed(side.settled_order) if key & 1)
    return next((edges[-1] - 1 for edges in rejected), 0)


def plan_passed(
    state: State, now_ms: int, queue: QueueState, marks: Mapping[str, int]
) -> record_pb2.RecordHeader | None:
    """`marks`: by member, how far its side is for certain. None: nobody is further than the last record says.

    What all sides have passed goes, and nothing else: the slower one holds back the rest, up to max_length (K6).
    """
    known = queue.passed
    assert known is not None, "only a queue with PRODUCER replication has sides"
    moved = {member: min(marks.get(member, 0), queue.visible_end) for member in known}
    moved = {member: index for member, index in sorted(moved.items()) if index > known[member]}
    if not moved:
        return None
    op = record_pb2.PassedOp(queue_id=queue.queue_id)
    for member, index in moved.items():
        op.marks.add(member=member, index=index)
    _put_gone(queue, {**known, **moved}, op)
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), passed=op)


def _put_gone(queue: QueueState, passed: Mapping[str, int], op: record_pb2.PassedOp | record_pb2.QueueOp) -> None:
    """Which messages nobody wants any more, when the sides that hold something back are so far."""
    until, first = min(passed.values(), default=0), _first_held(queue)
    if queue.selection is not None:
        for _, start, end in queue.selection.runs(first, until + 1):
            op.gone_selected.add(first=start, count=end - start)
    elif first <= until:
        op.gone.first, op.gone.count = first, until + 1 - first


def _first_held(queue: QueueState) -> int:
    """The first message of a queue with sides that one of them may still be given; the next one when there is none."""
    if queue.selection is not None:
        return queue.selection.first
    return min((level.first for level in queue.ready if level.size), default=queue.next_index)


def late_sides(queue: QueueState, time_ms: int, limits: SideLimits, *, no_room: bool) -> dict[str, str]:
    """By member, which limit its side is beyond, while another one is ahead of it (K6). `time_ms`: of the domain.
    `no_room`: the master's store takes no more messages.

    Where it only stands in the way of senders it has `full_ms` without moving at all: one that is slow makes them
    wait, as any full queue does.
    """
    passed = queue.passed or {}
    late: dict[str, str] = {}
    for member, since_ms in queue.behind.items():
        held, stood_ms = max(passed.values()) - passed[member], time_ms - since_ms
        size = queue.bytes * held // max(1, queue.length)
        if size > limits.bytes:
            late[member] = f"it held back {size} bytes, more than {limits.bytes} (limits.side_bytes)"
        elif stood_ms > limits.ms:
            late[member] = f"it settled nothing for {limits.ms // HOUR_MS} hours (limits.side_hours)"
        elif stood_ms >= limits.full_ms and (no_room or _is_full(queue)):
            room = "the store" if no_room else "the queue"
            seconds = limits.full_ms // 1_000
            late[member] = f"{room} was full and it settled nothing for {seconds} s (limits.side_full_seconds)"
    return late


def _is_full(queue: QueueState) -> bool:
    """A message of the queue's mean size has no room."""
    config, mean = queue.config, queue.bytes // max(1, queue.length)
    return queue.length >= config.max_length or bool(config.max_bytes and queue.bytes + mean > config.max_bytes)


def plan_lost(state: State, now_ms: int, queue: QueueState, late: Mapping[str, str]) -> record_pb2.RecordHeader:
    """These sides lose their place: what the others have passed goes, and they themselves hold back nothing."""
    passed = queue.passed or {}
    op = record_pb2.PassedOp(queue_id=queue.queue_id)
    for member, because in sorted(late.items()):
        op.lost.add(member=member, because=because)
    _put_gone(queue, {member: index for member, index in passed.items() if member not in late}, op)
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), passed=op)


def put_destroyed(queue: QueueState, op: record_pb2.QueueOp) -> None:
    """An instance goes with its side: what it alone has held back goes too."""
    passed = queue.passed or {}
    if op.member in passed:
        _put_gone(queue, {member: index for member, index in passed.items() if member != op.member}, op)


def put_restarted(queue: QueueState, op: record_pb2.QueueOp, after: int | None) -> None:
    """A side begins anew that has lost its place. Refused: INVALID_STATE, OUT_OF_RANGE.

    Behind `after`, or with the first message that is still there, which is where the other side stood last.
    """
    if op.member not in queue.lost:
        text = f"the side of queue {queue.name} at {op.member or 'no member'} has not lost its place"
        raise Refused(common_pb2.REASON_INVALID_STATE, text, {"queue": queue.name, "member": op.member})
    last, kept = queue.given_end - 1, _first_held(queue)
    op.side_after = kept - 1 if after is None else after
    if not kept - 1 <= op.side_after <= last:
        text = f"queue {queue.name} holds messages {kept} to {last}: its side can begin after {kept - 1} to {last}"
        facts = {"queue": queue.name, "first_index": str(kept), "last_index": str(last)}
        raise Refused(common_pb2.REASON_OUT_OF_RANGE, text, facts)


def side_over(queue: QueueState, member: str) -> Refused:
    """Said to a process that is served at a side which has lost its place and begun anew since."""
    text = (
        f"the side of queue {queue.name} at {member} had lost its place, and has begun anew since: give its process "
        "the state of its twin, and open a new stream"
    )
    return Refused(common_pb2.REASON_SIDE_LOST, text, {"queue": queue.name, "member": member})


def side_lost(queue: QueueState, member: str) -> Refused:
    """Said to the process of that side until somebody has it begin anew knowingly."""
    loss = queue.lost[member]
    text = (
        f"the side of queue {queue.name} at {member} has lost its place: it had settled up to {loss.after}, and what "
        f"lies behind that up to {loss.until} was given up because {loss.because}. Have it begin anew (tandemq queue "
        f"restart-side {queue.name} --member {member}), and give its process the state of its twin"
    )
    facts = {
        "queue": queue.name,
        "member": member,
        "lost_after": str(loss.after),
        "lost_until": str(loss.until),
        "because": loss.because,
    }
    return Refused(common_pb2.REASON_SIDE_LOST, text, facts)
