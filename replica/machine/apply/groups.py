"""Does what the group_mode asks of messages that enter, mature or are read back; never decides anything.

Of each group one message is ready, delayed or leased; those behind it are `blocked`, or delayed by their producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge

from replica.machine.sets.pages import PagedSet
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.state.gathering import GroupMember, Standings, WholeGroups
from replica.machine.state.groups import Groups
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

_BLOCKED = -1  # where others have the time of a delivery


def keep_lines(queue: QueueState) -> None:
    """Its attributes are new. The mode changes only while it is empty."""
    mode = queue.config.group_mode
    if mode not in (admin_pb2.GROUP_MODE_ORDERED, admin_pb2.GROUP_MODE_COMPLETE):
        if queue.groups is not None:
            queue.groups = None
            queue.ready = [RangeSet(level) for level in queue.ready]
    elif queue.groups is None:
        queue.ready = [PagedSet(level) for level in queue.ready]
        queue.groups = WholeGroups() if mode == admin_pb2.GROUP_MODE_COMPLETE else Groups()
    elif isinstance(queue.groups, WholeGroups) != (mode == admin_pb2.GROUP_MODE_COMPLETE):
        queue.groups = WholeGroups() if mode == admin_pb2.GROUP_MODE_COMPLETE else Groups()


def place_in_groups(
    state: State, queue: QueueState, start: int, end: int, hashes: Sequence[int], times_ms: Sequence[int]
) -> None:
    """New messages. None, one for all, or one time of delivery each; 0: at once."""
    groups = queue.groups
    assert isinstance(groups, Groups), "groups in a queue that has none"
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


def gather(
    state: State,
    queue: QueueState,
    start: int,
    hashes: Sequence[int],
    members: Sequence[GroupMember],
    times_ms: Sequence[int],
    standings: Standings,
) -> None:
    """New messages of a queue with group_mode COMPLETE: each waits until its group is whole and it is the first of it
    (V19). Times: none, one for all, or one each; 0: at once. `standings`: of groups whose members are changed by this.
    """
    groups = queue.groups
    assert isinstance(groups, WholeGroups), "members gather in a queue that has no groups"
    moments = times_ms if len(times_ms) > 1 else [times_ms[0] if times_ms else 0] * len(hashes)
    for index, group, member, when_ms in zip(range(start, start + len(hashes)), hashes, members, moments, strict=True):
        before, first = 0, index
        if group:
            since_ms, begun = standings.get(group, (state.time_ms, False))
            before, first = groups.gather(group, index, member, since_ms, begun=begun)
        if when_ms:
            state.delay(queue, index, index + 1, when_ms)
        elif first == index:
            queue.make_ready(index, index + 1)
        else:
            queue.block(index, index + 1)
        if first != before and first != index:
            queue.unblock(first)  # the group is whole by this one
        if before and first != before and queue.take_ready(before, before + 1):
            queue.block(before, before + 1)  # one that was changed is back in front of it
        if group and len(groups.by_hash[group].members) == 1:
            state.schedule_group(queue, group)


def begin_groups(queue: QueueState, runs: Iterable[Run]) -> None:
    """A consumer is given these messages."""
    groups = queue.groups
    if not isinstance(groups, WholeGroups):
        return
    for start, end in runs:
        for part in queue.segments.parts(start, end):
            for index in range(part.start, part.end) if part.extra.groups else ():
                if group := part.group(index):
                    groups.begin(group, index)


def gather_again(state: State, queue_ids: Iterable[int]) -> None:
    """A record was about these queues: groups that it has taken a member from gather anew, from now on."""
    for queue_id in queue_ids:
        queue = state.queues.get(queue_id)
        if queue is None or not isinstance(queue.groups, WholeGroups) or not queue.groups.reopened:
            continue
        for group in queue.groups.reopened:
            found = queue.groups.by_hash.get(group)
            if found is not None and not found.is_whole:
                found.since_ms = state.time_ms
                state.schedule_group(queue, group)
        queue.groups.reopened.clear()


def line_up(queue: QueueState, start: int, end: int) -> None:
    """Their time has come: the first of their groups are ready, the others wait behind those."""
    groups = queue.groups
    assert groups is not None, "groups in a queue that has none"
    for part in queue.segments.parts(start, end):
        if not part.extra.groups:
            queue.make_ready(part.start, part.end)
            continue
        for index in range(part.start, part.end):
            group = part.group(index)
            if not group or groups.is_first(group, index):
                queue.make_ready(index, index + 1)
            else:
                queue.block(index, index + 1)


def read_lines(queue: QueueState) -> None:
    """From a snapshot, which says where each message is but not who is in which line."""
    groups = queue.groups
    if not isinstance(groups, Groups):  # none, or those that keep their members in rows of their own
        return
    sources = [*queue.ready, *groups.blocked, *(lease.ranges for lease in queue.leases.values())]
    for start, end in merge(*sources, queue.delayed.runs(0, queue.next_index)):
        for part in queue.segments.parts(start, end):
            if part.extra.groups:
                for index in range(part.start, part.end):
                    if group := part.group(index):
                        groups.enter(group, index)
