"""Decides from what was seen whether a fault had an effect; a run in which one had none proves nothing about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from chaos.history import History, Struck

NOTICED_S = 1.0  # a look that began while the fault held may end so much later
UNDER_WAY_S = 0.2  # what was under way when a process stopped may still be answered


def _incarnation_rose(history: History, struck: Struck, member: str) -> bool:
    before = [seen.incarnation for seen in history.seen if seen.member == member and seen.at_s < struck.from_s]
    after = [seen.incarnation for seen in history.seen if seen.member == member and seen.asked_s > struck.from_s]
    return bool(before) and bool(after) and max(after) > max(before)


def _is_silent(history: History, struck: Struck, member: str) -> bool:
    """Known before, and no word from it while it was frozen."""
    known = any(seen.member == member and seen.at_s < struck.from_s for seen in history.seen)
    spoke = any(
        seen.member == member and struck.from_s + UNDER_WAY_S < seen.asked_s and seen.at_s < struck.to_s
        for seen in history.seen
    )
    return known and struck.to_s - struck.from_s > UNDER_WAY_S and not spoke


def _during(history: History, struck: Struck, what: str) -> bool:
    return any(
        not getattr(seen, what) and struck.from_s <= seen.at_s <= struck.to_s + NOTICED_S for seen in history.seen
    )


def _is_slow(history: History, struck: Struck) -> bool:
    """What was asked and answered with two copies while it held took as long as the way there and back."""
    took = [
        ack.at_s - ack.asked_s
        for ack in history.acked
        if ack.copies == 2 and struck.from_s <= ack.asked_s and ack.at_s <= struck.to_s
    ]
    return bool(took) and median(took) >= struck.delay_s


def _handed_over(history: History, struck: Struck) -> bool:
    return any(handed.done and struck.from_s <= handed.asked_s <= struck.to_s for handed in history.handed)


def _felt(history: History, struck: Struck) -> bool:
    del history  # the member's own calls were counted
    return struck.felt > 0


Evidence = Callable[[History, Struck], bool]
EVIDENCE: dict[str, Evidence] = {
    "kill": lambda history, struck: all(_incarnation_rose(history, struck, name) for name in struck.members),
    "freeze": lambda history, struck: all(_is_silent(history, struck, name) for name in struck.members),
    "slow": _is_slow,
    "handoffs": _handed_over,
    "no-witness": lambda history, struck: _during(history, struck, "witnessed"),
    **dict.fromkeys(("disk-full", "slow-fsync", "clock-jump"), _felt),
    **dict.fromkeys(
        ("cut", "one-way", "reset", "flap", "isolate"), lambda history, struck: _during(history, struck, "linked")
    ),
}


def bit(history: History, struck: Struck) -> bool:
    """This fault had an effect that was seen."""
    return EVIDENCE[struck.kind](history, struck)


def counts(history: History, faults: Iterable[Struck]) -> dict[str, tuple[int, int]]:
    """By kind: how many had an effect, of how many."""
    found: dict[str, tuple[int, int]] = {}
    for struck in faults:
        bitten, made = found.get(struck.kind, (0, 0))
        found[struck.kind] = (bitten + bit(history, struck), made + 1)
    return found
