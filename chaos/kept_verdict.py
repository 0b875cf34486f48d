"""Decides what the load of a kept pair proves: held, broken or invalid, and the figures; it never talks to a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from chaos import account, bites, checker, through
from chaos.account import Span
from chaos.history import History, Struck

HELD, BROKEN, INVALID = "held", "broken", "invalid"
ACKED_SHARE_MIN = 0.05  # of what is sent while all is well; with less a run proves nothing


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Broken wins: a broken promise is one, however little was tried."""

    verdict: str
    figures: dict[str, Any]
    broken: dict[str, list[str]]
    invalid: list[str]
    faults: dict[str, tuple[int, int]]  # by kind: had an effect, were made


def judge(
    history: History, struck: Sequence[Struck], spans: Sequence[Span], *, sent_per_s: float, seconds: float
) -> Verdict:
    """Over a load that was the only user of its queue. Others may have used the pair."""
    taken = account.take(history, spans)
    found = checker.broken(history, [check for check in checker.CHECKS if check not in checker.OF_A_QUIET_PAIR])
    if taken.unexpected:
        found["nothing_comes_unasked"] = [f"{taken.unexpected} messages came that nobody had sent"]
    return _verdict(history, struck, taken._asdict(), found, floor=round(ACKED_SHARE_MIN * sent_per_s * seconds))


def judge_carried(
    history: History,
    struck: Sequence[Struck],
    spans: Sequence[Span],
    *,
    sent_per_s: float,
    seconds: float,
    doubled_max: int | None,
) -> Verdict:
    """Over a load that somebody carried from one queue to another; `doubled_max` None: any number may."""
    taken, carried = account.take(history, spans), through.take(history)
    found = checker.broken(history, through.CHECKS)
    if carried.unexpected:
        found["nothing_comes_unasked"] = [f"{carried.unexpected} messages arrived that nobody had sent"]
    if doubled_max is not None and carried.doubled > doubled_max:
        found["carried_once"] = [f"{carried.doubled} messages arrived once more, {doubled_max} may"]
    figures = {**taken._asdict(), **carried._asdict(), "delivered": carried.arrived, "duplicates": carried.doubled}
    del figures["order_breaks"], figures["arrived"], figures["doubled"]  # the first: the carrier's order is its own
    return _verdict(history, struck, figures, found, floor=round(ACKED_SHARE_MIN * sent_per_s * seconds))


def _verdict(
    history: History, struck: Sequence[Struck], figures: dict[str, Any], found: dict[str, list[str]], *, floor: int
) -> Verdict:
    faults = bites.counts(history, struck)
    invalid = [f"no {kind} of {made} had an effect" for kind, (bitten, made) in faults.items() if not bitten]
    if figures["acknowledged"] < max(1, floor):
        invalid.append(f"too little traffic: {figures['acknowledged']} acknowledged, the floor is {max(1, floor)}")
    verdict = BROKEN if found else INVALID if invalid else HELD
    return Verdict(verdict=verdict, figures=figures, broken=found, invalid=invalid, faults=faults)
