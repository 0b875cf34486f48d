"""What a copy of a queue with sides says of the numbers that its sides are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.machine.state.queue import QueueState


def first_held(queue: QueueState) -> int:
    """Number of the first message that a side may still be given."""
    if queue.selection is not None:
        return queue.selection.first
    return min((level.first for level in queue.ready if level.size), default=queue.next_index)
