"""Keeps what is damaged on this master's disk out of the way of everything else: it is given to nobody, and stays.

What is read from the disk is looked at before it is leased. Later would be too late: what is removed at its delivery
could not be put back, and what is leased comes again and again until it has failed too often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import deliverable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replica.core.state.shared import Shared
    from replica.machine import Machine, Part, QueueState
    from tandemq.peer.v1.record_pb2 import LeaseOp


class Sound:
    """Everything of a queue but what is in damaged records: a `Narrower` for who has no wish of its own. It looks at
    each record as it is chosen, so one plan goes round all damage, however much there is.
    """

    def __init__(self, is_sound: Callable[[int], bool]) -> None:
        self._is_sound = is_sound

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:  # noqa: ARG002  # see Narrower
        looked: dict[int, bool] = {}  # one record may have many parts, and of several priorities
        for part in deliverable(queue):
            whole = looked.get(part.log_index)
            if whole is None:
                whole = looked[part.log_index] = self._is_sound(part.log_index)
            if whole:
                yield part


class Damage:
    """Of one domain at one member. The records that were found are `Shared.damaged`."""

    def __init__(self, shared: Shared, is_whole: Callable[[int], bool]) -> None:
        self.shared = shared
        self.is_whole = is_whole
        """Whether a record is on disk as it was written; reports what it finds."""
        self.sound = Sound(self._is_sound)

    def _is_sound(self, log_index: int) -> bool:
        ring = self.shared.log.ring
        in_memory = bool(ring) and log_index >= ring[0].log_index
        return log_index not in self.shared.damaged and (in_memory or self.is_whole(log_index))

    def narrower(self) -> Sound | None:
        """For who wants everything; None: no damage is known."""
        return self.sound if self.shared.damaged else None

    def is_met(self, machine: Machine, op: LeaseOp) -> bool:
        """Whether a plan that `narrower` did not narrow holds damage: looks at each record of it once."""
        log = self.shared.log
        in_memory = log.ring[0].log_index if log.ring else log.last_index + 1
        looked: set[int] = set()
        for part in op.ranges:
            # Log indexes rise with the indexes: most often the first one tells that all of it is in memory.
            if machine.locate(op.queue_id, part.first)[0] < in_memory:
                for each in machine.segments_of(op.queue_id, (part,)):
                    if each.log_index in looked:
                        continue
                    looked.add(each.log_index)
                    if not self._is_sound(each.log_index):
                        return True
        return False

    def forget(self) -> None:
        """Another member is master, or this one is again: what is there now is looked at anew."""
        self.shared.forget_damage()
