"""Keeps what is damaged on this master's disk out of the way of everything else: it is given to nobody, and stays.

What is read from the disk is looked at before it is leased. Later would be too late: what is removed at its delivery
could not be put back, and what is leased comes again and again until it has failed too often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import deliverable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from replica.machine import Machine, Part, QueueState
    from replica.shared import Shared
    from tandemq.peer.v1.record_pb2 import LeaseOp


class Sound:
    """Everything of a queue but what is in damaged records: a `Narrower` for who has no wish of its own."""

    def __init__(self, damaged: Collection[int]) -> None:
        self._damaged = damaged

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:  # noqa: ARG002  # see Narrower
        return (part for part in deliverable(queue) if part.log_index not in self._damaged)


class Damage:
    """Of one domain at one member. The records that were found are `Shared.damaged`."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.is_whole: Callable[[int], bool] = lambda _log_index: True
        """Whether a record is on disk as it was written: the shell's way to its store, which tells what it finds."""
        self._sound = Sound(shared.damaged)

    def narrower(self) -> Sound | None:
        """For who wants everything; None: no damage is known."""
        return self._sound if self.shared.damaged else None

    def is_met(self, machine: Machine, op: LeaseOp) -> bool:
        """Looks at all that is to be leased, so that the next plan leaves out all of it that is damaged."""
        log = self.shared.log
        in_memory = log.ring[0].log_index if log.ring else log.last_index + 1
        found = False
        for part in op.ranges:
            # Log indexes rise with the indexes: most often the first one tells that all of it is in memory.
            if machine.locate(op.queue_id, part.first)[0] < in_memory:
                for each in machine.segments_of(op.queue_id, (part,)):
                    found |= each.log_index < in_memory and not self.is_whole(each.log_index)
        return found

    def forget(self) -> None:
        """Another member is master. What is there when this one is master again is looked at again."""
        self.shared.damaged.clear()
