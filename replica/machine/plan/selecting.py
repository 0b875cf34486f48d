"""Decides which messages the sides of a queue with lockstep SELECTED are given next, once for all of them (K3); changes
nothing.

The order is that of any delivery, highest priority first, then lowest index, at the moment when a side asks. What is
selected is overtaken by nothing that comes later, so nothing is selected before a side has credit for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from replica.machine.plan.lease import Narrower, choose, deliverable
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2

SELECTED_MAX = 10_000
"""Messages of one record, and with it what a message of the highest priority may wait behind: never more than a side's
consumer has credit for.
"""
RANGES_MAX = 2_000
"""Of one record, and parts of the queue that are looked at for it: where no neighbours have the same priority, or every
other one has expired, that bounds a turn of each member and the record (below 20 bytes a range).
The next record goes on.
"""
TIMED_MAX = 2 * SELECTED_MAX
"""Messages with times to live of their own that are looked at for one record, to within one batch. Where all of them
have expired nothing is selected until EXPIRE records have ended some: the next tick orders one, of up to 10,000.
"""
PART_COST = 4
"""Of a part in which messages may have expired, in messages: to find it, and to look at the time that all share."""
_EVERY_BYTE = 1 << 62


def plan_select(
    state: State, now_ms: int, queue: QueueState, until: int, wanted: Narrower | None
) -> record_pb2.RecordHeader | None:
    """`until`: number up to which a side asks. `wanted`: what may be given to consumers now; None: everything that is
    ready. None: there is nothing, or it is selected already, or what comes first has expired and is still there.
    """
    selection = queue.selection
    if selection is None or not queue.open_members or not queue.config.dequeue_enabled:
        return None
    most = min(until + 1 - selection.following, SELECTED_MAX)
    if most <= 0:
        return None
    time_ms = state.at(now_ms)
    parts = wanted.narrow(queue, state.applied_index) if wanted is not None else deliverable(queue)
    looked = _looked_at(parts)
    for first in looked:
        some = chain((first,), islice(looked, RANGES_MAX - 1))
        runs = choose(some, time_ms, most, _EVERY_BYTE)[:RANGES_MAX]
        if runs:  # else all of these have expired
            ranges = [common_pb2.IndexRange(first=start, count=end - start) for start, end in runs]
            op = record_pb2.SelectOp(queue_id=queue.queue_id, first=selection.following, ranges=ranges)
            return record_pb2.RecordHeader(time_ms=time_ms, select=op)
    return None


def _looked_at(parts: Iterator[Part]) -> Iterator[Part]:
    """In one turn."""
    timed = 0
    for part in parts:
        yield part
        if part.timed:
            timed += PART_COST + (part.end - part.start if part.extra.expires_at_ms else 0)
            if timed >= TIMED_MAX:
                return
