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


class _Ways(NamedTuple):
    """Members of a macro queue that lead to other managers, and where."""

    macro: MacroQueue
    """That it was found of: after a takeover a version may be that of another history, and the object is another."""
    version: int
    ways: tuple[tuple[int, str], ...]


class FarDepths:
    """Of the macro queues of one domain."""

    def __init__(self) -> None:
        self.seen: dict[str, FarDepth] = {}
        """By full name, where a proxy leads there. For the shell to keep."""
        self._ways: dict[int, _Ways] = {}

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
        known = self._ways.get(macro.queue_id)
        if known is None or known.macro is not macro or known.version != macro.version:
            targets = ((queue.queue_id, target_of(queue.name)) for queue in queues_of(state, macro.members))
            ways = tuple((queue_id, target.full_name) for queue_id, target in targets if target is not None)
            known = self._ways[macro.queue_id] = _Ways(macro, macro.version, ways)
        return known.ways

    def forget(self, state: State) -> None:
        """Macro queues that are not there any more."""
        self._ways = {macro_id: each for macro_id, each in self._ways.items() if macro_id in state.macros.by_id}
