"""Ranks the members of macro queues by how soon they have settled what they gave lately, and counts each choice by its
reason (M8, R091). Figures of the master alone: records say what was chosen, and the next master begins with none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from replica.core.ordering.far_depths import FarDepths
from replica.machine.plan.members import queues_of
from tandemq.v1 import macro_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replica.machine.state.macros import MacroQueue
    from replica.machine.state.queue import Totals
    from replica.machine.state.state import State

HALF_LIFE_MS = 30_000
PROBE_MS = 10_000
LEAST = 0.05
"""Of a settlement: what is left of older ones says nothing any more. A single one counts for two minutes."""


class ChoiceReason(StrEnum):
    """Why a member was chosen for a batch."""

    POLICY = "POLICY"
    """The policy says so, and looks at no figures."""
    NO_FIGURE = "NO_FIGURE"
    """Nothing is known of it, and it was not asked for ten seconds."""
    PROBE = "PROBE"
    """It was not chosen for ten seconds, and may be faster by now."""
    FASTEST = "FASTEST"
    FEWEST = "FEWEST"
    """Another one is as fast, and holds more that is not settled."""
    WEIGHTS = "WEIGHTS"
    """A table of weights is in force, and no figures are looked at (M9)."""


@dataclass(slots=True)
class _Figure:
    """What one member has settled lately: each settlement counts half after half a minute."""

    processed: int
    process_ms: int
    at_ms: int
    count: float = 0.0
    total_ms: float = 0.0
    chosen_ms: int | None = None

    def look(self, totals: Totals, now_ms: int) -> None:
        left = 0.5 ** (max(0, now_ms - self.at_ms) / HALF_LIFE_MS)
        self.count = self.count * left + totals.processed - self.processed
        self.total_ms = self.total_ms * left + totals.process_ms - self.process_ms
        self.processed, self.process_ms, self.at_ms = totals.processed, totals.process_ms, now_ms

    @property
    def mean_ms(self) -> int | None:
        return round(self.total_ms / self.count) if self.count >= LEAST else None


class Steering:
    """The macro queues of one domain, at its master."""

    def __init__(self) -> None:
        self.by_policy: Counter[tuple[str, str]] = Counter()
        """Choices by policy and reason, since this member started."""
        self.far = FarDepths()
        self._choices: dict[int, Counter[str]] = {}
        self._figures: dict[int, dict[int, _Figure]] = {}
        self._why: Mapping[int, ChoiceReason] = {}

    def ranked(self, state: State, macro: MacroQueue, now_ms: int) -> Sequence[int]:
        """The members, the one to be chosen first before the others; empty where the policy looks at no figures."""
        self._why = {}
        if macro.policy != pb.MACRO_POLICY_FASTEST_RESPONSE:
            return ()
        known, figures = self._figures.get(macro.queue_id, {}), dict[int, _Figure]()
        rows: list[tuple[tuple[int, float, int], int]] = []
        why: dict[int, ChoiceReason] = {}
        for queue in queues_of(state, macro.by_priority()):
            queue_id = queue.queue_id
            figure = known.get(queue_id) or _Figure(queue.totals.processed, queue.totals.process_ms, now_ms)
            figure.look(queue.totals, now_ms)
            figures[queue_id], mean_ms = figure, figure.mean_ms
            waited = figure.chosen_ms is None or now_ms - figure.chosen_ms >= PROBE_MS
            why[queue_id] = (
                ChoiceReason.FASTEST
                if not waited
                else ChoiceReason.NO_FIGURE
                if mean_ms is None
                else ChoiceReason.PROBE
            )
            rank = 2 if not waited else 0 if mean_ms is None else 1
            rows.append(((rank, float("inf") if mean_ms is None else mean_ms, queue.length), queue_id))
        rows.sort(key=lambda row: row[0])
        speeds = Counter(key[:2] for key, _ in rows)
        why.update({queue_id: ChoiceReason.FEWEST for key, queue_id in rows if key[0] == 2 and speeds[key[:2]] > 1})
        self._figures[macro.queue_id], self._why = figures, why
        return [queue_id for _, queue_id in rows]

    def chose(self, macro: MacroQueue, queue_id: int, now_ms: int, *, weighed: bool = False) -> None:
        """A batch enters it, or several members: 0. `weighed`: by a table of weights."""
        why = ChoiceReason.WEIGHTS if weighed else self._why.get(queue_id, ChoiceReason.POLICY)
        figure = self._figures.get(macro.queue_id, {}).get(queue_id)
        if figure is not None:
            figure.chosen_ms = now_ms
        self._choices.setdefault(macro.queue_id, Counter())[why] += 1
        self.by_policy[pb.MacroPolicy.Name(macro.policy).removeprefix("MACRO_POLICY_"), why] += 1

    def choices(self, macro_id: int) -> tuple[tuple[str, int], ...]:
        """Reasons and how often, by reason."""
        return tuple(sorted(self._choices.get(macro_id, Counter()).items()))

    def mean_ms(self, macro_id: int, queue_id: int) -> int | None:
        """Of a member, as it was seen at the last choice."""
        figure = self._figures.get(macro_id, {}).get(queue_id)
        return None if figure is None else figure.mean_ms

    def forget(self, state: State) -> None:
        """Macro queues that are not there any more."""
        self.far.forget(state)
        there = state.macros.by_id
        self._choices = {macro_id: each for macro_id, each in self._choices.items() if macro_id in there}
        self._figures = {macro_id: each for macro_id, each in self._figures.items() if macro_id in there}
