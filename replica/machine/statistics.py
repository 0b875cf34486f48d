"""Sums up what a domain's queues hold and what ever happened in them, when somebody asks; keeps and changes nothing.

May be asked from another thread: what changes meanwhile is counted before or after, and nothing is read twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter

from replica.machine.state.queue import QueueState, Totals
from replica.machine.state.state import State


@dataclass(slots=True)
class Sums:
    """Of one domain, or of several one after another."""

    member: str  # whose instances are open or not
    totals: Totals = field(default_factory=Totals)
    queues: int = 0
    types: Counter[int] = field(default_factory=Counter)  # queues by QueueType
    open: int = 0
    aliases: int = 0
    length: int = 0
    ready: int = 0
    blocked: int = 0
    delayed: int = 0
    dying: int = 0
    bytes: int = 0
    coming: int = 0  # of the length: promised by publications that are under way

    @property
    def leased(self) -> int:
        return self.length - self.ready - self.blocked - self.delayed - self.dying - self.coming

    def add(self, state: State) -> None:
        """Costs a microsecond for an idle queue."""
        queues = list(state.queues.values())  # in one step, see above
        self.totals.add(state.gone, *(queue.totals for queue in queues))
        self.queues += len(queues)
        self.coming += sum(rows for rows, _ in list(state.stages.coming.values()))
        self.types.update(queue.config.queue_type for queue in queues)
        for queue in queues:
            self.open += self.member in queue.open_members
            self.aliases += len(queue.aliases)
            if queue.length:
                self._add_messages(queue)

    def _add_messages(self, queue: QueueState) -> None:
        self.length += queue.length
        self.ready += queue.ready_count
        self.blocked += queue.blocked_count
        self.delayed += queue.delayed.size
        self.dying += queue.dying.size
        self.bytes += queue.bytes


def first_queues(state: State, count: int) -> list[QueueState]:
    """By name, to read only. Walks over the queues."""
    return nsmallest(count, list(state.queues.values()), key=attrgetter("name"))
