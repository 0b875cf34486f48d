"""Decides what a run came to: what clients were told against what is there, row by row. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, RIGHT = "PASS", "FAIL", "as it must"


@dataclass(frozen=True)
class Held:
    """One place where all messages must be, against what producers were told."""

    place: str
    rows: int
    lost: int
    """Acknowledged, and not there; or there under another index than was told."""
    duplicates: int
    """Rows beyond the first of a message."""
    strangers: int = 0
    """Rows of messages that no producer sent."""


def messages_at(
    place: str,
    acknowledged: Mapping[bytes, int],
    in_doubt: Iterable[bytes],
    found: Sequence[tuple[bytes, int]],
    *,
    indexed: bool = True,
) -> Held:
    """Bodies and indexes that are there; each body was sent once. in_doubt: sent, and never answered.

    indexed: a message is there under the index that its producer was told.
    """
    counted = Counter(body for body, _ in found)
    wanted = set(acknowledged.items()) if indexed else set(acknowledged)
    there = set(found) if indexed else set(counted)
    sent = {*acknowledged, *in_doubt}
    return Held(
        place,
        len(found),
        len(wanted - there),
        len(found) - len(counted),
        sum(count for body, count in counted.items() if body not in sent),
    )


def rows_at(place: str, wanted: Iterable[Hashable], found: Iterable[Hashable]) -> Held:
    """Rows of a copy against those of its original, as often as each is there."""
    original, copy = Counter(wanted), Counter(found)
    beyond = copy - original
    doubled = sum(count for row, count in beyond.items() if row in original)
    return Held(place, copy.total(), (original - copy).total(), doubled, beyond.total() - doubled)


@dataclass
class Run:
    """What happened."""

    rounds: int
    acknowledged: int = 0
    in_doubt: int = 0
    executors_killed: int = 0
    workers_killed: int = 0
    pair_masters_killed: int = 0
    drivers_restarted: int = 0
    held: list[Held] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)
    """By name, what each step beside the rounds came to; empty: as it must."""


def figures(run: Run, seconds: float, versions: Mapping[str, str]) -> dict[str, Any]:
    """What is written, and the verdict: nothing lost, nothing twice, nothing strange, and whoever must die has died."""
    lost, duplicates, strangers = (
        sum(getattr(each, name) for each in run.held) for name in ("lost", "duplicates", "strangers")
    )
    struck = min(run.executors_killed, run.workers_killed, run.pair_masters_killed) > 0
    compared = run.acknowledged > 0 and bool(run.held) and all(each.rows for each in run.held)
    good = struck and compared and not (lost or duplicates or strangers) and not any(run.steps.values())
    return {
        "rounds": run.rounds,
        "rows": sum(each.rows for each in run.held),
        "acknowledged": run.acknowledged,
        "in_doubt": run.in_doubt,
        "lost": lost,
        "duplicates": duplicates,
        "strangers": strangers,
        "executors_killed": run.executors_killed,
        "workers_killed": run.workers_killed,
        "pair_masters_killed": run.pair_masters_killed,
        "drivers_restarted": run.drivers_restarted,
        "places": [vars(each) for each in run.held],
        "steps": {name: told or RIGHT for name, told in run.steps.items()},
        "seconds": round(seconds, 1),
        "versions": dict(versions),
        "verdict": PASS if good else FAIL,
    }
