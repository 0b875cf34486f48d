"""Decides how a reaction in a unit of work locks what it is to act on, and how that is unlocked; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.machine.plan.move import ranges_of
from replica.machine.plan.settle import RELEASE
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class LockCall:
    targets: Sequence[int]  # rising indexes, of ready, delayed and blocked messages
    unit: bytes
    client_id: bytes
    until_ms: int  # the unit's deadline, in domain time


def plan_lock(state: State, now_ms: int, queue: QueueState, call: LockCall) -> record_pb2.RecordHeader:
    """V15: for the unit alone, until its end."""
    time_ms = state.at(now_ms)
    check_waiting(queue, call.targets)
    duration_ms = max(1, call.until_ms - time_ms)  # it ends: 0 would be for ever
    op = record_pb2.LeaseOp(
        queue_id=queue.queue_id,
        ranges=index_ranges(call.targets),
        client_id=call.client_id,
        expires_at_ms=time_ms + duration_ms,
        duration_ms=duration_ms,
        unit=call.unit,
        reaction=True,
    )
    return record_pb2.RecordHeader(time_ms=time_ms, lease=op)


def unlocking(lease: Lease) -> record_pb2.SettleEffect:
    """Of all that it holds."""
    assert lease.locked is not None, "unlocked what a consumer has"
    ranges = [common_pb2.IndexRange(first=start, count=end - start) for start, end in lease.ranges]
    return record_pb2.SettleEffect(lease_id=lease.lease_id, ranges=ranges, outcome=RELEASE, unlock=True)


def check_waiting(queue: QueueState, targets: Sequence[int]) -> None:
    """V4: nobody holds them, and they are not on their way to the dead letters."""
    runs = ranges_of(targets)
    waiting = sum(high - low for start, end in runs for low, high in queue.waiting_in(start, end))
    assert waiting == len(targets), "what is acted on was looked at in the same step"


def index_ranges(indexes: Sequence[int]) -> list[common_pb2.IndexRange]:
    """Of rising indexes."""
    return [common_pb2.IndexRange(first=start, count=end - start) for start, end in ranges_of(indexes)]
