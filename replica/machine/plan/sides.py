"""Decides what the sides of a queue with PRODUCER replication are given next, and what all of them have passed (K1, K2,
K6); changes nothing.

A side is a queue of a member's own domain, which stands for the messages of the pair's queue by their indexes. Leases,
settlements and what was released there are records of that domain alone, as of any queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.state.errors import Refused
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import PRIORITY_DEFAULT
from replica.machine.state.state import State
from replica.machine.state.system_names import side_queue
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

READY_MAX = 2_000
"""Messages that wait at a side for its consumer, at most: the rest stays where it is, and costs the side nothing."""
GIVEN_BYTES_MAX = 1 << 20
"""Payload bytes of one record of a side, or one message: sizes are means over it, and a delivery must fit its frame."""


def check_plain(queue: QueueState, columns: Columns) -> None:
    """Raises Refused (BAD_ATTRIBUTE) for messages that ask for another place than the next one, or for an end."""
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


def refuse_where_sides(queue: QueueState, what: str) -> None:
    """Raises Refused (CONFIG_ERROR) where the queue has sides: `what` would be seen by one of them alone."""
    if queue.passed is not None:
        text = f"queue {queue.name} has replication PRODUCER: {what}"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"queue": queue.name})


class Portion(NamedTuple):
    """The next messages for a side."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    payload_bytes: int


def next_given(of: QueueState, side: QueueState) -> Portion | None:
    """What is committed in the pair's queue and not given to the side yet, as much as one record takes; None: nothing,
    or the side has enough.

    Never beyond the commit index that this member knows (K2): a process that has acted on an input which a failover
    then takes back cannot undo that.
    """
    room = READY_MAX - side.ready_count
    first, below = side.next_index, min(of.visible_index + 1, side.next_index + room)
    count = size = 0
    for part in of.segments.parts(first, below) if first < below else ():
        mean = part.payload_bytes // part.live
        for _ in range(part.start, part.end):
            if count and size + mean > GIVEN_BYTES_MAX:
                return Portion(first, count, size)
            count, size = count + 1, size + mean
    return Portion(first, count, size) if count else None


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


def plan_passed(
    state: State, now_ms: int, queue: QueueState, marks: Mapping[str, int]
) -> record_pb2.RecordHeader | None:
    """`marks`: by member, how far its side is for certain. None: nobody is further than the last record says.

    What all sides have passed goes, and nothing else: the slower one holds back the rest, up to max_length (K6).
    """
    known = queue.passed
    assert known is not None, "only a queue with PRODUCER replication has sides"
    moved = {member: min(marks.get(member, 0), queue.visible_index) for member in known}
    moved = {member: index for member, index in sorted(moved.items()) if index > known[member]}
    if not moved:
        return None
    op = record_pb2.PassedOp(queue_id=queue.queue_id)
    for member, index in moved.items():
        op.marks.add(member=member, index=index)
    until = min({**known, **moved}.values())
    first = next((part.start for part in queue.segments.parts(0, until + 1)), 0)
    if first:
        op.gone.CopyFrom(common_pb2.IndexRange(first=first, count=until + 1 - first))
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), passed=op)
