"""The arithmetic of growth: cost per message over turns, its ratio to a curve's first point, what is refused. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.figures import PERCENTILES, refusals, remarks, shares, spread

ROLES = ("master", "replica", "client")
FLAT_WITHIN = 0.2
TIMES = (*PERCENTILES, "late_p50_ms", "late_p99_ms", "value")
SAID = re.compile(r" \(|: ")  # the figure of one run follows

Turn = Mapping[str, Any]
Result = Mapping[str, Any]


def cost(turns: Sequence[Turn]) -> dict[str, float]:
    """Microseconds of processor time by role, of all roles, and of time, for a message: of all turns together, so that
    what happens in one turn of many counts with its share."""
    messages = sum(turn["messages"] for turn in turns)
    by_role = {role: sum(turn["used_us"][role] for turn in turns) / messages for role in ROLES}
    wall = sum(turn["seconds"] for turn in turns) * 1e6 / messages
    return {**by_role, "cpu": sum(by_role.values()), "servers": by_role["master"] + by_role["replica"], "wall": wall}


def point_result(turns: Sequence[Turn], first: Sequence[Turn]) -> dict[str, Any]:
    """Of a point and the turns of its curve's first one: cost over all turns, its spread, and both as ratios, turn by
    turn."""
    costs, firsts = [cost([turn]) for turn in turns], [cost([turn]) for turn in first]
    total, total_first = cost(turns), cost(first)
    names = ("cpu", "servers", "wall", *ROLES)
    return {
        "us": {
            name: {"mean": round(total[name], 3), **spread([round(each[name], 3) for each in costs])} for name in names
        },
        "ratio": {
            name: {
                "mean": round(total[name] / total_first[name], 3),
                **spread([round(a[name] / b[name], 3) for a, b in zip(costs, firsts, strict=True)]),
            }
            for name in names
        },
    }


def load_share(turns: Sequence[Turn]) -> float:
    """Of a core that the load used, over all turns."""
    return round(sum(turn["used_us"]["client"] for turn in turns) / 1e6 / sum(turn["seconds"] for turn in turns), 3)


def set_aside(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many attempts were noisy and measured again, and what is kept of them."""
    attempts = [attempt for each in measured for attempt in each.get("set_aside", ())]
    return {"set_aside": len(attempts), **({"set_aside_of": attempts} if attempts else {})}


def foreign_cores(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> float:
    """Of the machine, beyond everything of the benchmark's."""
    used = {role: time - before.get(role, 0.0) for role, time in after.items()}
    return float(shares(used, seconds, 1, ())["foreign_cores"])


def strangers(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of the machine, by others, in each run or turn, and the most: one noisy one of several is not averaged away."""
    each = [one["foreign_cores"] for one in measured]
    return {"foreign_cores": max(each), "foreign_cores_of": each}


def most_foreign(line: Result) -> float | None:
    """Of the machine, by others, in the worst run or turn; None where it was not measured. Older documents say 0.0 of
    an open loop over a kill, of which they have no processor time at all, and of a point the mean over turns."""
    if each := line.get("foreign_cores_of"):
        return float(max(*each, line["foreign_cores"]))
    if line["kind"] != "point" and not line["cpu_us"]:
        return None
    return line.get("foreign_cores")


def judged(line: dict[str, Any]) -> dict[str, Any]:
    """With why it must not be shown, and what must be said beside it."""
    return {**line, "refused": refusals(line), "remarks": remarks(line)}


def of_runs(
    line: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], first: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One line of several runs of an open loop, and of the runs it is compared with, run by run; a refused run is in no
    figure, and is told."""
    good = [run for run in runs if not run["refused"]]
    pairs = [(run, one) for run, one in zip(runs, first, strict=True) if not run["refused"] and not one["refused"]]
    reasons = sorted({why for run in runs for why in run["refused"]})
    said = {SAID.split(what)[0] for run in good for what in run["remarks"]}
    if good and reasons:
        said.add(f"{len(runs) - len(good)} of {len(runs)} runs refused: {', '.join(reasons)}")
    ratio = {
        name: spread([round(run[name] / one[name], 3) for run, one in pairs if one[name]])
        for name in PERCENTILES
        if pairs
    }
    return {
        **line,
        "settings": {"rate": runs[0]["rate"], "size": runs[0]["size"]},
        "times": {name: spread([run[name] for run in good]) for name in TIMES} if good else {},
        "ratio": ratio,
        "cpu_us": {role: spread([run["cpu_us"][role] for run in good]) for role in good[0]["cpu_us"]} if good else {},
        **strangers(runs),
        **set_aside(runs),
        "load_share": {role: max(run["load_share"][role] for run in runs) for role in runs[0]["load_share"]},
        "account": {what: sum(run["account"][what] for run in runs) for what in runs[0]["account"]},
        "syncs": runs[0].get("syncs"),
        "refused": [] if good else reasons,
        "runs_refused": [run["refused"] for run in runs if run["refused"]],
        "remarks": sorted(said),
    }


def growths(points: Sequence[Result]) -> list[tuple[str, float]]:
    """Points of a curve that is to be flat which cost the members more than they may: by how much, each against the
    cheapest smaller one. An empty queue is not the cheapest: who receives at once receives in small pieces, and against
    it alone growth from ten thousand to ten million could hide.
    """
    found, cheapest = [], math.inf
    for point in points:
        value = point["us"]["servers"]["mean"]
        if value > (1 + FLAT_WITHIN) * cheapest:
            found.append((point["label"], round(value / cheapest, 3)))
        cheapest = min(cheapest, value)
    return found
