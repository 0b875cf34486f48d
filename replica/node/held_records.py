"""Finds the records of a domain that still hold something, in the order of its log; changes nothing.

It costs what is asked for, not what the domain has: a queue is looked at when its next record comes up, or when
something has happened to it since.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.machine import Machine
    from replica.machine.state.changes import Changes


class HeldRecords:
    """One walk along the log of one domain, which never goes back.

    Each queue that holds a record above `at` is in `_next` with a place that is not behind that record, or is one of
    those that `_changes` names.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self._changes: Changes | None = None
        self._next: list[tuple[int, int]] = []
        """A heap of log index and queue."""
        self._known: set[int] = set()
        """The queues in it."""

    def freed(self, machine: Machine) -> list[int] | None:
        """The records up to `at` that have come to hold nothing since this was asked last; some may be named that held
        nothing before. None: it is not known, for the machine is another one.
        """
        changes = self._changes
        if changes is None or machine.state.changes is not changes:
            self._changes = machine.watch(self.at)
            self._next, self._known = [], set()
            return None
        freed, changes.freed = changes.freed, []
        return freed

    def up_to(self, machine: Machine, log_index: int, indexes: Sequence[int]) -> dict[int, int]:
        """Queue by log index, of the records above `at` and up to there that hold something; `at` is there then.
        `indexes`: the records that there are. `freed` was asked before, of the same machine.
        """
        changes = self._changes
        assert changes is not None
        assert changes is machine.state.changes, "somebody else walks along this log"
        for queue_id in changes.queues:
            if queue_id not in self._known:
                self._push(machine, queue_id, self.at)
        changes.queues.clear()
        found = machine.staged_of(indexes)
        while self._next and self._next[0][0] <= log_index:
            _, queue_id = heappop(self._next)
            self._known.discard(queue_id)
            held = machine.next_record(queue_id, self.at)
            while held is not None and held <= log_index:
                found[held] = queue_id
                held = machine.next_record(queue_id, held)
            self._push(machine, queue_id, log_index)
        self.at = changes.seen_to = max(self.at, log_index)
        return found

    def _push(self, machine: Machine, queue_id: int, above: int) -> None:
        held = machine.next_record(queue_id, above)
        if held is not None:
            heappush(self._next, (held, queue_id))
            self._known.add(queue_id)
