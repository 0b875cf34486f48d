"""Decides which messages a DROP_HEAD queue drops to make room: the lowest priority first, of those the oldest; drops
nothing itself.

Only what is ready, or waits behind another of its group: what is leased, delayed or on its way to the dead-letter queue
stays. As many as it takes, and no more. What leaves the queue by the same record makes room first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from replica.machine.plan.columns import Columns
from replica.machine.sets.ranges import Run
from replica.machine.state.queue import QueueState


class Departing(NamedTuple):
    """Messages that leave a queue by the record that others enter it by, before they do."""

    messages: int = 0
    payload_bytes: int = 0
    left: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """By log index of their records: live messages and bytes after that."""


NOTHING_LEAVES = Departing()


def leaving_of(queue: QueueState, runs: Iterable[Run]) -> Departing:
    """Of messages that the queue holds. Bytes are those that `Segments.take` will count for these runs, in order."""
    left: dict[int, tuple[int, int]] = {}
    messages = payload_bytes = 0
    for start, end in runs:
        for part in queue.segments.parts(start, end):
            live, held = left.get(part.log_index, (part.live, part.payload_bytes))
            count = part.end - part.start
            taken = held if count == live else held * count // live
            left[part.log_index] = live - count, held - taken
            messages += count
            payload_bytes += taken
    return Departing(messages, payload_bytes, left)


def room_with_drops(queue: QueueState, columns: Columns, leaving: Departing = NOTHING_LEAVES) -> tuple[int, int]:
    """Messages and bytes for which room can be made, looked for as far as the batch needs it."""
    config = queue.config
    room = config.max_length - queue.length + leaving.messages
    room_bytes = config.max_bytes - queue.bytes + leaving.payload_bytes if config.max_bytes else columns.payload_bytes
    if room < columns.count or room_bytes < columns.payload_bytes:
        for start, end, size in _heads(queue, columns.count - room, columns.payload_bytes - room_bytes, leaving):
            room += end - start
            room_bytes += size
    return max(0, room), max(0, room_bytes)


def drops_for(queue: QueueState, count: int, payload_bytes: int, leaving: Departing = NOTHING_LEAVES) -> list[Run]:
    """What goes so that so much can enter; nothing when there is room."""
    return drops_over(queue, count, payload_bytes, leaving) if count else []


def drops_over(
    queue: QueueState, count: int = 0, payload_bytes: int = 0, leaving: Departing = NOTHING_LEAVES
) -> list[Run]:
    """What goes so that the queue, with so much more in it, is within its limits."""
    config = queue.config
    messages = queue.length - leaving.messages + count - config.max_length
    size = queue.bytes - leaving.payload_bytes + payload_bytes - config.max_bytes if config.max_bytes else 0
    runs: list[Run] = []
    if messages > 0 or size > 0:
        for start, end, _ in _heads(queue, messages, size, leaving):
            if runs and runs[-1][1] == start:
                runs[-1] = runs[-1][0], end
            else:
                runs.append((start, end))
    return runs


def _heads(queue: QueueState, messages: int, size: int, leaving: Departing) -> Iterator[tuple[int, int, int]]:
    """Start, end and bytes of what goes first, until there are so many messages and bytes of them, or none are left.

    Bytes are counted as `Segments.take` counts them when the record is applied, share by share.
    """
    left = dict(leaving.left)  # log index: live messages and bytes after what was taken already
    for run_start, run_end in queue.droppable():
        for part in queue.segments.parts(run_start, run_end):
            if messages <= 0 and size <= 0:
                return
            live, held = left.get(part.log_index, (part.live, part.payload_bytes))
            count = min(part.end - part.start, max(messages, _count_of(size, live, held), 1))
            taken = held if count == live else held * count // live
            left[part.log_index] = live - count, held - taken
            messages -= count
            size -= taken
            yield part.start, part.start + count, taken


def _count_of(size: int, live: int, held: int) -> int:
    """The fewest messages of a segment that hold so many bytes; all of them when they do not."""
    if size <= 0:
        return 0
    return -(-size * live // held) if held >= size else live
