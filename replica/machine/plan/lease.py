"""Decides which messages a consumer gets next: highest priority, then lowest index; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from replica.machine.sets.ranges import Run
from replica.machine.state.config import milliseconds
from replica.machine.state.errors import Refused, disabled
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

FOR_EVER = -1
"""Duration of a lease that does not end by time: by a settlement, or with its queue (X4)."""


class Narrower(Protocol):
    """Whatever knows what one consumer wants of a queue; reads bodies, so it is no part of the machine."""

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:
        """Ready and visible messages that it wants, in the order of delivery."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseCall:
    queue_id: int
    max_messages: int
    max_bytes: int  # payload bytes; one message is given whatever its size
    client_id: bytes
    duration_ms: int  # 0: the queue's; or FOR_EVER
    immediate: bool
    request_id: bytes = b""
    request_hash: int = 0
    wanted: Narrower | None = None  # None: everything
    unit: bytes = b""  # not empty: locked by this open unit of work
    until_ms: int = 0  # its deadline, in domain time: where the lease ends


def plan_lease(state: State, now_ms: int, call: LeaseCall) -> record_pb2.RecordHeader | None:
    """None: nothing is deliverable. The bodies of an IMMEDIATE one are looked up before it is applied."""
    queue = state.numbered(call.queue_id)
    if not queue.open_members:
        raise Refused(common_pb2.REASON_INVALID_STATE, f"queue {queue.name} is not open; open it first")
    if not queue.config.dequeue_enabled:
        raise disabled(queue.name, queue.config, receiving=True)
    if call.immediate and queue.config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY:
        raise Refused(common_pb2.REASON_REPLY_REQUIRED, immediate_problem(queue.name))
    assert not (call.unit and call.immediate), "a unit locks what it gets until its commit"
    if call.duration_ms > state.limits.lease_ms_max:
        raise Refused(common_pb2.REASON_BAD_REQUEST, f"a lease may last {state.limits.lease_ms_max // 1000} s at most")
    assert call.request_id not in state.requests, "find_request comes first"
    time_ms = state.at(now_ms)
    messages_max = min(call.max_messages, state.limits.lease_messages_max)
    parts = call.wanted.narrow(queue, state.applied_index) if call.wanted else deliverable(queue)
    runs = choose(parts, time_ms, messages_max, call.max_bytes)
    if not runs:
        return None
    duration_ms = call.duration_ms or milliseconds(queue.config.lease_duration)
    if call.unit:
        duration_ms = max(1, call.until_ms - time_ms)  # it ends: 0 would be for ever
    ends = not call.immediate and duration_ms != FOR_EVER
    op = record_pb2.LeaseOp(
        queue_id=queue.queue_id,
        ranges=[common_pb2.IndexRange(first=start, count=end - start) for start, end in runs],
        client_id=call.client_id,
        expires_at_ms=time_ms + duration_ms if ends else 0,
        duration_ms=duration_ms if ends else 0,
        immediate=call.immediate,
        unit=call.unit,
    )
    if call.immediate and call.request_id and queue.deliveries:
        # Once they are removed nobody knows it, and a repetition is answered as the first call was.
        counts = [queue.deliveries.get(index, 0) + 1 for start, end in runs for index in range(start, end)]
        if max(counts) > 1:
            op.delivery_counts.extend(counts)
    return record_pb2.RecordHeader(
        time_ms=time_ms, request_id=call.request_id, request_hash=call.request_hash, lease=op
    )


def immediate_problem(name: str) -> str:
    return f"queue {name} is TWO_WAY: its requests are delivered under a lease and answered by a reply; use LEASE"


def choose(parts: Iterator[Part], time_ms: int, messages_max: int, bytes_max: int) -> list[Run]:
    """The first ones that have not expired. Sizes are the mean of the segment, as bodies are not looked at."""
    runs: list[Run] = []
    room, room_bytes = messages_max, max(0, bytes_max)
    for part in parts:
        if room <= 0:
            break
        for start, end in unexpired(part, time_ms) if part.timed else ((part.start, part.end),):
            end = min(end, start + room)
            size = part.payload_bytes * (end - start) // part.live
            if size > room_bytes:
                end = start + room_bytes * part.live // part.payload_bytes
                if start == end and not runs:
                    end = start + 1
                room = end - start  # the last ones
            if start == end:
                break
            room -= end - start
            room_bytes -= size
            if runs and runs[-1][1] == start:
                runs[-1] = runs[-1][0], end
            else:
                runs.append((start, end))
            if room <= 0:
                break
    return runs


def deliverable(queue: QueueState) -> Iterator[Part]:
    """Ready and visible messages in the order of delivery."""
    return _ready(queue, queue.visible_index + 1)


class Coming:
    """A Narrower that finds what is ready in the order of delivery, committed or not: a lease of it may be ordered, and
    nothing of it delivered before its own record is committed.
    """

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:
        """Everything that is ready."""
        del applied_index
        return _ready(queue, queue.next_index)


def _ready(queue: QueueState, below: int) -> Iterator[Part]:
    for level in reversed(queue.ready):
        if level.size:
            for start, end in level.runs(0, below):
                yield from queue.segments.parts(start, end)


def unexpired(part: Part, time_ms: int) -> Iterator[Run]:
    """Of a part, without those that have expired: they wait for the EXPIRE record, and nobody gets them meanwhile."""
    if not part.extra.expires_at_ms:
        if not 0 < part.expires_at_ms <= time_ms:
            yield part.start, part.end
        return
    start = part.start
    for index in range(part.start, part.end):
        if 0 < part.expiry(index) <= time_ms:
            if start < index:
                yield start, index
            start = index + 1
    if start < part.end:
        yield start, part.end
