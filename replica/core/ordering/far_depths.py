"""Keeps what proxies have seen of queues at other managers, for macro queues that deal to them: whether one is reached,
and how many messages it had. Asks nobody; of the serving master alone, and no part of the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.machine.plan.away import NOTHING_KNOWN, FarView
from replica.machine.plan.members import queues_of
from replica.machine.state.system_names import target_of

if TYPE_CHECKING:
    from replica.machine.state.macros import MacroQueue
    from replica.machine.state.state import State


class FarDepth(NamedTuple):
    """A queue at another manager, as it was seen last."""

    length: int
    why: str = ""
    """It is not reached; empty: it is."""


class FarDepths:
    """Of the macro queues of one domain."""

    def __init__(self) -> None:
        self.seen: dict[str, FarDepth] = {}
        """By full name, where a proxy leads there. For the shell to keep."""
        self._ways: dict[int, tuple[int, tuple[tuple[int, str], ...]]] = {}

    def view(self, state: State, macro: MacroQueue) -> FarView:
        """Of its members, as a batch is dealt by it."""
        if not self.seen:
            return NOTHING_KNOWN
        found = {queue_id: self.seen[name] for queue_id, name in self._of(state, macro) if name in self.seen}
        if not found:
            return NOTHING_KNOWN
        away = frozenset(queue_id for queue_id, each in found.items() if each.why)
        return FarView(away, {queue_id: each.length for queue_id, each in found.items()})

    def _of(self, state: State, macro: MacroQueue) -> tuple[tuple[int, str], ...]:
        """Members that lead to other managers, and where; looked for once a version."""
        version, ways = self._ways.get(macro.queue_id, (0, ()))
        if version != macro.version:
            targets = ((queue.queue_id, target_of(queue.name)) for queue in queues_of(state, macro.members))
            ways = tuple((queue_id, target.full_name) for queue_id, target in targets if target is not None)
            self._ways[macro.queue_id] = macro.version, ways
        return ways

    def forget(self, state: State) -> None:
        """Macro queues that are not there any more."""
        self._ways = {macro_id: each for macro_id, each in self._ways.items() if macro_id in state.macros.by_id}
