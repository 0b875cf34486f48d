"""Decides which messages a DROP_HEAD queue drops to make room: the lowest priority first, of those the oldest; drops
nothing itself.

Only what is ready, or waits behind another of its group: what is leased, delayed or on its way to the dead-letter queue
stays. As many as it takes, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator

from replica.machine.plan.columns import Columns
from replica.machine.sets.ranges import Run
from replica.machine.state.queue import QueueState


def room_with_drops(queue: QueueState, columns: Columns) -> tuple[int, int]:
    """Messages and bytes for which room can be made, looked for as far as the batch needs it."""
    config = queue.config
    room = config.max_length - queue.length
    room_bytes = config.max_bytes - queue.bytes if config.max_bytes else columns.payload_bytes
    if room < columns.count or room_bytes < columns.payload_bytes:
        for start, end, size in _heads(queue, columns.count - room, columns.payload_bytes - room_bytes):
            room += end - start
            room_bytes += size
    return max(0, room), max(0, room_bytes)


def drops_for(queue: QueueState, count: int, payload_bytes: int) -> list[Run]:
    """What goes so that so much can enter; nothing when there is room."""
    return drops_over(queue, count, payload_bytes) if count else []


def drops_over(queue: QueueState, count: int = 0, payload_bytes: int = 0) -> list[Run]:
    """What goes so that the queue, with so much more in it, is within its limits."""
    config = queue.config
    messages = queue.length + count - config.max_length
    size = queue.bytes + payload_bytes - config.max_bytes if config.max_bytes else 0
    runs: list[Run] = []
    if messages > 0 or size > 0:
        for start, end, _ in _heads(queue, messages, size):
            if runs and runs[-1][1] == start:
                runs[-1] = runs[-1][0], end
            else:
                runs.append((start, end))
    return runs


def _heads(queue: QueueState, messages: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and bytes of what goes first, until there are so many messages and bytes of them, or none are left.

    Bytes are counted as `Segments.take` counts them when the record is applied, share by share.
    """
    left: dict[int, tuple[int, int]] = {}  # log index: live messages and bytes after what was taken already
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
