"""Whether lines of `run.py` may be shown to readers: is every figure there once, and does each say of itself what
follows from it? As `bench/peers/fit.py`, of another kind of document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.growth.faults import LABELS
from bench.growth.figures import most_foreign
from bench.growth.plan import OPEN_RATES, curves
from bench.machine import is_commit
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.figures import NOISY_CORES, load_was_the_limit, refusals, remarks, spread, syncs_short

TURNS_MIN, RUNS_MIN = 5, 3
MEAN_WITHIN = 0.002
"""Of a mean, that is lost to rounding it and what it is made of."""

Line = Mapping[str, Any]


def unfit(lines: Sequence[Line]) -> list[str]:
    """Why lines must not be shown to readers; empty when they may."""
    found = [f"{line['curve']} failed: {line['why'].splitlines()[0]}" for line in lines if line["kind"] == "failed"]
    measured = [line for line in lines if line["kind"] != "failed"]
    if len({line["commit"] for line in lines}) != 1 or not is_commit(lines[0]["commit"]):
        found.append("it was measured on changes that are in no commit")
    if any(line["share"] != 1 for line in lines):
        found.append("it was measured with fewer messages, to see that it runs")
    if short := [line for line in measured if runs_of(line) < (TURNS_MIN if line["kind"] == "point" else RUNS_MIN)]:
        found.append(f"{len(short)} figures of fewer than {TURNS_MIN} turns or {RUNS_MIN} runs show no spread")
    there = Counter(name_of(line) for line in measured)
    if missing := [name for name in planned() if name not in there]:
        found.append(f"without {', '.join(missing)}")
    if twice := [name for name, count in there.items() if count > 1]:
        found.append(f"more than one figure of {', '.join(twice)}")
    if silent := [(name_of(line), why) for line in measured for why in not_refused(line)]:
        found.append("not refused, although " + "; ".join(f"{why}: {name}" for name, why in silent))
    found += [f"{why}: {name_of(line)}" for line in measured for why in figures_apart(line, first_of(line, measured))]
    others = {name_of(line): most_foreign(line) for line in measured if shown(line)}
    if unknown := [name for name, cores in others.items() if cores is None]:
        found.append(f"what others used was not measured of {', '.join(unknown)}")
    if mean := [line for line in measured if line["kind"] == "point" and "foreign_cores_of" not in line]:
        found.append(f"{len(mean)} points tell what others used in the mean over their turns, not in the worst")
    if noisy := [name for name, cores in others.items() if cores is not None and cores > NOISY_CORES]:
        found.append(f"{len(noisy)} of {len(measured)} figures while others used the machine: {', '.join(noisy)}")
    return found


def planned() -> Iterator[str]:
    """The names of all figures; ten million messages may be beside them."""
    for curve in curves():
        yield from (f"{curve.name} {point.label}" for point in curve.points)
    yield from (f"open {rate:,.0f}/s" for rate in OPEN_RATES)
    yield from (f"fault {label}" for label in LABELS.values())


def not_refused(line: Line) -> Iterator[str]:
    """Why a line that stands in figures must not, by what it says itself. An open loop's account is that of all runs:
    where one was refused, it may say why."""
    if line["refused"]:
        return
    judged = {**line, "syncs_short": short_of(line)}
    if line["kind"] == "point":
        yield from refusals(judged)
        return
    if not line["runs_refused"]:
        yield from refusals(judged)
    share = 0.0 if line["runs_refused"] else line["load_share"]["producer"]
    names = [f"{kind}p{part}_ms" for kind in ("", "late_") for part in ("50", "99")]
    for figures in zip(*(line["times"][name]["runs"] for name in names), strict=True):
        yield from load_was_the_limit({"load_share": {"producer": share}, **dict(zip(names, figures, strict=True))})


def short_of(line: Line) -> str:
    """What its syncs lack, computed again."""
    if not (syncs := line.get("syncs")):
        return "nobody counted syncs"
    return syncs_short(
        {name: count for name, count in syncs.items() if name != "messages"}, syncs["messages"], Tandemq.copies
    )


def figures_apart(line: Line, first: Line) -> Iterator[str]:
    """Figures of one line that cannot all be true."""
    if line["refused"] or not shown(line):
        return
    groups = (line["us"], line["ratio"]) if line["kind"] == "point" else (line["times"], line["ratio"])
    figures = [figure for group in groups for figure in group.values()]
    if any(figure[name] != value for figure in figures for name, value in spread(figure["runs"]).items()):
        yield "median and range are not those of the runs"
    if line["kind"] == "point":
        yield from means_apart(line, first)
        yield from (f"without the remark {what!r}" for what in remarks(line) if what not in line["remarks"])
    account = line["account"]
    if account and account["sent"] != account["received"] - account["unknown"] + account["lost"]:
        yield "the account does not add up"
    if "foreign_cores_of" in line and len(line["foreign_cores_of"]) != runs_of(line):
        yield "what others used is not that of each run"


def means_apart(line: Line, first: Line) -> Iterator[str]:
    """A turn sends as many messages as the next, so that the mean of all is the mean of their costs."""
    for name, figure in line["us"].items():
        mean = sum(figure["runs"]) / len(figure["runs"])
        if abs(figure["mean"] - mean) > MEAN_WITHIN * mean:
            yield f"the mean of {name} is not that of the turns"
        ratio, theirs = line["ratio"][name]["mean"], first["us"][name]["mean"]
        if abs(ratio * theirs - figure["mean"]) > MEAN_WITHIN * figure["mean"]:
            yield f"the ratio of {name} is not that of the means"


def first_of(line: Line, measured: Sequence[Line]) -> Line:
    """Of its curve, which its ratios are to."""
    return next(one for one in measured if one.get("curve") == line.get("curve"))


def shown(line: Line) -> bool:
    """Whether there is a figure: of open loops that were all refused there is none."""
    return line["kind"] == "point" or bool(line["times"])


def name_of(line: Line) -> str:
    return f"{line['curve'] if line['kind'] == 'point' else line['kind']} {line['label']}"


def runs_of(line: Line) -> int:
    if line["kind"] == "point":
        return len(line["us"]["cpu"]["runs"])
    return len(line["times"]["p50_ms"]["runs"]) + len(line["runs_refused"]) if line["times"] else RUNS_MIN
