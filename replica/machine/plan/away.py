"""What is known of members of a macro queue that are queues of other managers, when a batch is dealt (M3): a value, and
who is asked after all others because of it. Whoever applies the record needs none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from replica.machine.plan.in_turn import DealingTurns, MemberRoom


@dataclass(frozen=True, slots=True)
class FarView:
    """By the numbers of the transmission queues that lead to them."""

    away: Collection[int] = ()
    """Nobody reaches them now: they are dealt what no other member takes."""
    lengths: Mapping[int, int] = field(default_factory=dict)
    """Messages there when somebody looked last."""

    def after_others(self, ids: Iterable[int]) -> Sequence[int]:
        """In their order, those that are away behind the others."""
        return sorted(ids, key=lambda each: each in self.away)


NOTHING_KNOWN = FarView()


class Preferring:
    """Whose turn it is, among some members; among others where none of those takes a message."""

    def __init__(self, first: DealingTurns, then: DealingTurns) -> None:
        self._first, self._then = first, then

    def next_for(self, size: int) -> MemberRoom | None:
        """See `in_turn.DealingTurns`."""
        return self._first.next_for(size) or self._then.next_for(size)

    def refuses(self, size: int) -> MemberRoom | None:
        """See `in_turn.DealingTurns`."""
        return self._first.refuses(size) or self._then.refuses(size)
