"""Says in figures what a campaign showed, for people and for programs; it judges by the tally alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chaos.sim.tools.campaign import Result
from chaos.sim.tools.hunt import Catch
from chaos.sim.tools.replay import drawn_command
from chaos.sim.tools.tally import FLOOR_SEEDS, FLOORS, Failure, Floor

OK, VIOLATION, USAGE, INVALID = 0, 1, 2, 3
"""Exit codes. Invalid: no violation, but not enough was tried to say so."""
SELDOM = 10
"""A point that is met less often is named with its count: another thousand seeds may miss it."""


def exit_code(
    result: Result, points: Collection[str], floors: Sequence[Floor] = FLOORS, points_from: int = FLOOR_SEEDS
) -> int:
    """A violation is worse than too little traffic."""
    if result.tally.failures:
        return VIOLATION
    return INVALID if result.interrupted or result.tally.shortfalls(points, floors, points_from) else OK


def facts(
    result: Result, points: Collection[str], floors: Sequence[Floor] = FLOORS, points_from: int = FLOOR_SEEDS
) -> dict[str, Any]:
    """Everything, by name."""
    tally, cost = result.tally, result.cost
    others = {name: count for name, count in sorted(tally.counters.items()) if not name.startswith("fault.")}
    return {
        "seeds": tally.seeds,
        "stopped_early": result.stopped_early,
        "seeds_per_s_and_core": round(tally.seeds / cost.cpu_s, 1) if cost.cpu_s else 0,
        "steps": tally.steps,
        "steps_per_s_and_core": round(tally.steps / cost.cpu_s) if cost.cpu_s else 0,
        "virtual_s": round(tally.virtual_ms / 1000),
        "wall_s": round(cost.wall_s, 1),
        "cpu_s": round(cost.cpu_s, 1),
        "memory_mib_max": cost.memory_bytes_max >> 20,
        "by_profile": dict(sorted(tally.by_profile.items())),
        "counters": others,
        "faults": tally.faults(),
        "points_named": len(points),
        "points_met": len(points) - len(tally.missed(points)),
        "points_missed": tally.missed(points),
        "points": {point: tally.coverage[point] for point in sorted(points)},
        "pairs_met": sum(1 for name, count in tally.coverage.items() if count and name not in points),
        "trace_hash": tally.trace_hash,
        "shortfalls": [
            *([result.interrupted] if result.interrupted else []),
            *tally.shortfalls(points, floors, points_from),
        ],
        "violations": [failure_facts(failure) for failure in tally.failures],
    }


def failure_facts(failure: Failure) -> dict[str, Any]:
    """One violation, with the command that shows it again."""
    return {
        "run": failure.number,
        "seed": failure.seed,
        "profile": failure.profile,
        "violations": list(failure.violations),
        "again": drawn_command(failure.profile, failure.seed, failure.bug),
    }


def catch_facts(catch: Catch) -> dict[str, Any]:
    """One planted bug."""
    return {
        "bug": catch.quarry.bug,
        "found": catch.failure is not None,
        "seeds": catch.seeds,
        "budget": catch.quarry.budget,
        "shown": catch.failure.violations[0] if catch.failure else "",
        "again": drawn_command(catch.failure.profile, catch.failure.seed, catch.quarry.bug) if catch.failure else "",
    }


def lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of the table, from `facts`."""
    rows = [
        ("seeds", f"{facts['seeds']:,}{' (stopped early)' if facts['stopped_early'] else ''}"),
        ("by profile", _counts(facts["by_profile"])),
        ("seeds/s per core", f"{facts['seeds_per_s_and_core']:,}"),
        ("steps", f"{facts['steps']:,} ({facts['steps_per_s_and_core']:,}/s per core)"),
        ("virtual time", f"{facts['virtual_s']:,} s, in {facts['wall_s']:,} s ({facts['cpu_s']:,} s of processors)"),
        ("memory", f"{facts['memory_mib_max']:,} MiB in one process"),
        ("counters", _counts(facts["counters"])),
        ("faults", _counts(facts["faults"])),
        ("pairs of state and event", f"{facts['pairs_met']:,} met"),
        ("named points", f"{facts['points_met']} of {facts['points_named']} met"),
    ]
    if facts["points_missed"]:
        rows.append(("points missed", ", ".join(facts["points_missed"])))
    if seldom := {point: count for point, count in facts["points"].items() if 0 < count < SELDOM}:
        rows.append(("points met seldom", _counts(seldom)))
    rows += [
        ("hash of all traces", facts["trace_hash"]),
        ("violations", f"{len(facts['violations']):,}"),
        *(("INVALID", shortfall) for shortfall in facts["shortfalls"]),
    ]
    return rows


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "-"
