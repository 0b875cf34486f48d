"""What has happened since somebody looked last who need not look at everything: which queues records were about, and
which records hold nothing any more. It decides nothing, and is no part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replica.machine.state.queue import QueueState


class Applied(NamedTuple):
    queue_ids: tuple[int, ...]  # touched: something may be ready, or have room, that was not before
    freed: list[int]  # log indexes of ENQUEUE records that hold no message any more
    lease_id: int = 0  # of a LEASE that was not immediate


class Changes:
    """Of one machine. Whoever reads it empties it; it never holds more than the machine has queues, and `seen_to`
    records.
    """

    __slots__ = ("freed", "queues", "seen_to")

    def __init__(self, queue_ids: Iterable[int], seen_to: int) -> None:
        self.queues = dict.fromkeys(queue_ids)
        self.freed: list[int] = []
        """Records up to `seen_to`: the reader has found them to hold something, or does not care."""
        self.seen_to = seen_to

    def note(self, applied: Applied) -> None:
        """A record was applied."""
        for queue_id in applied.queue_ids:
            self.queues[queue_id] = None
        if applied.freed:
            self.freed += [log_index for log_index in applied.freed if log_index <= self.seen_to]


def next_record(queue: QueueState, above: int) -> int | None:
    """Log index of the first record above that one whose body a queue still wants."""
    held = queue.segments.next_record(above)
    answer = queue.completions.next_answer(above) if queue.completions is not None else None
    return min((each for each in (held, answer) if each is not None), default=None)
