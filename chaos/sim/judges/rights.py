"""Judges what administrators and an impostor were answered about rights in a run; asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair

NAME = "a right counts when it is committed, and nobody speaks for another one"
NEVER = float("inf")


class Kind(Enum):
    """What was asked."""

    GRANT = "grant"
    ASK = "ask"
    CLAIM = "claim"
    """A grant by somebody without rights, who says that he is an administrator."""


@dataclass(slots=True)
class Event:
    """One call, and its answer; of one that nobody answered it is not known whether it was done. No right is ever taken
    away again."""

    kind: Kind
    pattern: str
    asked_s: float
    answered_s: float = NEVER
    allowed: bool = False
    """Of a question; a grant and a claim: it was done."""
    epoch: int = 0
    """Of who answered."""
    may_be_old: bool = False
    """Asked without naming the newest epoch, while a member that was replaced did not know it yet."""

    def ends(self, now_s: float, *, allowed: bool) -> None:
        """The answer."""
        self.answered_s, self.allowed = now_s, allowed


def broken(pair: Pair, events: Sequence[Event]) -> Iterator[str]:
    """What cannot be, whatever went wrong."""
    counted: dict[str, Event] = {}
    """By pattern the first answer that it counts, or that it was granted."""
    for each in sorted(events, key=lambda each: each.answered_s):
        if each.kind is Kind.CLAIM:
            if each.allowed:
                yield f"whoever claimed to be an administrator was obeyed at {each.answered_s:.3f} s"
        elif each.answered_s < NEVER and each.allowed and each.pattern not in counted:
            counted[each.pattern] = each
    for each in events:
        before = counted.get(each.pattern)
        if each.kind is not Kind.ASK or each.answered_s == NEVER or before is None:
            continue
        if each.allowed and before.kind is Kind.ASK and each.epoch > before.epoch:
            pair.run.sometimes("a right asked about after a takeover")
        if not each.allowed and not each.may_be_old and before.answered_s < each.asked_s:
            yield f"{each.pattern} counted at {before.answered_s:.3f} s, and not any more at {each.answered_s:.3f} s"
    yield from _at_the_end(pair, counted)


def _at_the_end(pair: Pair, counted: dict[str, Event]) -> Iterator[str]:
    """What counted once is there when all is healed."""
    for name, member in pair.members.items():
        machine = member.domain.shared.machine if member.domain is not None else None
        if machine is None:
            continue
        there = {key.pattern for key in machine.state.rights.grants}
        for pattern, event in counted.items():
            if pattern not in there:
                yield f"{pattern} counted at {event.answered_s:.3f} s, and {name} does not have it"
