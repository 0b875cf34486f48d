"""Holds a drill's account against its probes: a line for each, and what they come to together; pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from chaos.account import Account, quantile
from chaos.drill.plan import Drill

PASS, FAIL, INVALID = "pass", "fail", "invalid"


class Line(NamedTuple):
    """One line of the verdict. Without a limit it is measured and not judged."""

    name: str
    value: float | None  # None: there was nothing to measure
    limit: float | None
    unit: str = ""
    beside: str = ""  # printed with it

    @property
    def held(self) -> bool:
        return self.limit is None or self.value is None or self.value <= self.limit

    @property
    def text(self) -> str:
        """For people."""
        value = "nothing to measure" if self.value is None else f"{self.value:,.0f}{self.unit}"
        limit = "" if self.limit is None else f" (at most {self.limit:,.0f}{self.unit})"
        return f"{value}{limit}{f', {self.beside}' if self.beside else ''}"


def lines(drill: Drill, account: Account, broken: dict[str, list[str]]) -> list[Line]:
    """All lines, the promises first."""
    probes = drill.probes
    return [
        Line("acknowledged and lost", account.lost, probes.lost_max, "", f"{account.acknowledged:,} acknowledged"),
        Line("duplicates", account.duplicates, probes.duplicates_max),
        Line("order breaks", account.order_breaks, probes.order_breaks_max),
        Line("unexpected", account.unexpected, probes.unexpected_max, "", f"{account.unknown:,} of unknown outcome"),
        Line("broken invariants", len(broken), 0, "", ", ".join(broken)),
        Line("time with two masters", account.two_masters_ms, probes.two_masters_ms_max, " ms"),
        Line(
            "time without a master",
            account.no_master_ms,
            probes.no_master_ms_max,
            " ms",
            _not_looked(account.not_looked_ms),
        ),
        _recovery(account, 0.5, probes.recovery_p50_ms_max),
        _recovery(account, 0.99, probes.recovery_p99_ms_max),
        Line("time degraded", account.degraded_ms, probes.degraded_ms_max, " ms", "on one copy, by the register"),
        Line("resync time", max(account.resync_ms, default=None), probes.resync_ms_max, " ms", "the longest"),
    ]


def _recovery(account: Account, share: float, limit: float | None) -> Line:
    rounds = f"of {len(account.recovery_ms)} rounds" if len(account.recovery_ms) > 1 else "of one round"
    looked, whole = quantile(account.recovery_looked_ms, share), quantile(account.recovery_ms, share)
    beside = ", ".join(filter(None, [rounds, _not_looked((whole or 0) - (looked or 0))]))
    return Line(f"recovery p{100 * share:.0f}", looked, limit, " ms", beside)


def unseen(drill: Drill, account: Account) -> list[str]:
    """Why bounds prove nothing: they hold for what was looked at, and may not for what was not."""
    probes = drill.probes
    measured: list[tuple[str, float | None, float, float]] = [
        ("time without a master", probes.no_master_ms_max, account.no_master_ms, account.not_looked_ms)
    ]
    for name, share, limit in (
        ("recovery p50", 0.5, probes.recovery_p50_ms_max),
        ("recovery p99", 0.99, probes.recovery_p99_ms_max),
    ):
        looked, whole = quantile(account.recovery_looked_ms, share) or 0, quantile(account.recovery_ms, share) or 0
        measured.append((name, limit, looked, whole - looked))
    return [
        f"{name}: {_not_looked(not_looked)}, and it may be at most {limit:,.0f} ms"
        for name, limit, looked, not_looked in measured
        if limit is not None and looked <= limit < looked + not_looked
    ]


def _not_looked(length_ms: float) -> str:
    return f"{length_ms:,.0f} ms were not looked at" if length_ms else ""


def verdict(found: list[Line], invalid: list[str]) -> str:
    """A broken promise is one, however little was tried; else a drill that proved nothing is invalid."""
    if not all(line.held for line in found):
        return FAIL
    return INVALID if invalid else PASS


def as_facts(found: list[Line]) -> list[dict[str, Any]]:
    """For programs."""
    return [{**line._asdict(), "held": line.held} for line in found]
