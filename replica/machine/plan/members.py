"""Finds the queues that stand behind the members of a macro queue; changes nothing.

A member is a number of the queues' numbers, never used again, with its member priority, in the order of adding
(`MacroQueue.members`). Whoever wants the queue of one asks here, and meets only those that are of this domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica.machine.state.queue import QueueState
from replica.machine.state.state import State


def queues_of(state: State, members: Iterable[int]) -> Iterator[QueueState]:
    """In the order of these numbers, each when it is asked for; what is no queue of this domain is left out."""
    queues = state.queues
    return (queues[each] for each in members if each in queues)
