"""Does what group_mode ORDERED asks of messages that enter, mature or are read back; never decides anything.

Of each group one message is ready, delayed or leased; those behind it are `blocked`, or delayed by their producers.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge

from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.groups import Groups
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.state import State
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

_BLOCKED = -1  # where others have the time of a delivery


def keep_lines(queue: QueueState) -> None:
    """Its attributes are new. The mode changes only while it is empty."""
    if queue.config.group_mode != admin_pb2.GROUP_MODE_ORDERED:
        if queue.groups is not None:
            queue.groups = None
            queue.ready = [RangeSet(level) for level in queue.ready]
    elif queue.groups is None:
        queue.groups = Groups()
        queue.ready = [PagedSet(level) for level in queue.ready]


def place_in_groups(
    state: State, queue: QueueState, start: int, end: int, hashes: Sequence[int], times_ms: Sequence[int]
) -> None:
    """New messages. None, one for all, or one time of delivery each; 0: at once."""
    groups = queue.groups
    assert groups is not None, "groups in a queue that has none"
    moments = times_ms if len(times_ms) > 1 else [times_ms[0] if times_ms else 0] * (end - start)
    places = []
    for index, group, when_ms in zip(range(start, end), hashes, moments, strict=True):
        first = not group or groups.enter(group, index)
        places.append(when_ms or (0 if first else _BLOCKED))
    low = start
    for index in range(start + 1, end + 1):
        place = places[low - start]
        if index < end and places[index - start] == place:
            continue
        if place == _BLOCKED:
            queue.block(low, index)
        elif place:
            state.delay(queue, low, index, place)
        else:
            queue.make_ready(low, index)
        low = index


def line_up(queue: QueueState, start: int, end: int) -> None:
    """Their time has come: the first of their groups are ready, the others wait behind those."""
    groups = queue.groups
    assert groups is not None, "groups in a queue that has none"
    for part in queue.segments.parts(start, end):
        if not part.extra.groups:
            queue.make_ready(part.start, part.end)
            continue
        for index in range(part.start, part.end):
            group = group_of(part, index)
            if not group or groups.is_first(group, index):
                queue.make_ready(index, index + 1)
            else:
                queue.block(index, index + 1)


def read_lines(queue: QueueState) -> None:
    """From a snapshot, which says where each message is but not who is in which line."""
    groups = queue.groups
    if groups is None:
        return
    sources = [*queue.ready, *groups.blocked, *(lease.ranges for lease in queue.leases.values())]
    for start, end in merge(*sources, queue.delayed.runs(0, queue.next_index)):
        for part in queue.segments.parts(start, end):
            if part.extra.groups:
                for index in range(part.start, part.end):
                    if group := group_of(part, index):
                        groups.enter(group, index)


def group_of(part: Part, index: int) -> int:
    """0: none."""
    return part.extra.groups[part.offset + index - part.start]
