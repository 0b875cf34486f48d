"""Fourteen configurations of faults on real processes, and the table of what they came to.

Example: python -m chaos.campaign --only kill-master --only one-way-out --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from chaos import history_file
from chaos.account import quantile
from chaos.faults import Fault
from chaos.scenario import BOUND_S, Configuration, Course, Result, Round, run
from chaos.sim.bugs import BUGS
from chaos.timeline import page as timeline
from chaos.toxiproxy import find_server, package_is_there
from tandemq.cli.output import say
from tandemq.errors import TandemqError

SECONDS, SECONDS_MIN = 180.0, 1.0
HELD, BROKEN, USAGE, INVALID = 0, 1, 2, 3
SLOW_S = 0.15  # each way; below what a member suspects
MISSING = "CHAOS SKIPPED: no {what}; `make chaos-deps` obtains it"


def _alternating(first: Fault, *more: Fault) -> tuple[Round, ...]:
    return tuple(Round((fault,)) for fault in (first, *more))


CONFIGURATIONS: tuple[Configuration, ...] = (
    Configuration("kill-master", _alternating(Fault("kill"))),
    Configuration("kill-replica", _alternating(Fault("kill", "replica"))),
    Configuration("kill-both", _alternating(Fault("kill", "both", for_s=0.5))),
    Configuration("freeze-master", _alternating(Fault("freeze", for_s=4.0))),
    Configuration("freeze-replica", _alternating(Fault("freeze", "replica", for_s=4.0))),
    Configuration("cut-peer", _alternating(Fault("cut", for_s=4.0))),
    Configuration("one-way-out", _alternating(Fault("one-way", for_s=4.0))),
    Configuration("one-way-in", _alternating(Fault("one-way", "replica", for_s=4.0))),
    Configuration("reset-peer", _alternating(Fault("reset", for_s=1.0))),
    Configuration("flapping-link", _alternating(Fault("flap", for_s=6.0))),
    Configuration("isolate-master", _alternating(Fault("isolate", for_s=5.0))),
    Configuration(
        "no-witness",
        (Round((Fault("no-witness", "both", for_s=5.0), Fault("kill", "replica", for_s=2.0, after_s=1.0))),),
    ),
    Configuration(
        "slow-and-kill",
        (Round((Fault("slow", for_s=4.0, delay_s=SLOW_S), Fault("kill", for_s=1.0, after_s=2.0))),),
        late=True,
    ),
    Configuration(
        "mixed",
        (
            *_alternating(Fault("handoffs", for_s=3.0), Fault("slow", for_s=3.0, delay_s=SLOW_S), Fault("kill")),
            Round((Fault("cut", for_s=3.0), Fault("kill", for_s=1.5, after_s=0.5))),
            *_alternating(Fault("freeze", "replica", for_s=3.0), Fault("isolate", "replica", for_s=4.0)),
        ),
    ),
)
BY_NAME = {each.name: each for each in CONFIGURATIONS}
PLANTED = ("ack-before-replica", "slow-and-kill")  # a bug, and the configuration that must find it


class Attempt(NamedTuple):
    """One configuration of a campaign: its result, or why there is none."""

    name: str
    result: Result | None
    failures: tuple[str, ...]


async def campaign(
    names: Iterable[str], seconds: float, seed: int, bug: str, out: Path, *, keep: bool, bound_s: float = BOUND_S
) -> list[Attempt]:
    """Runs them one after the other, and reports each as it ends; one that goes wrong ends no other."""
    program = find_server()
    assert program is not None
    attempts = []
    for place, name in enumerate(names):
        attempt = await _attempt(name, program, seconds, seed + place, bug, out / name, keep=keep, bound_s=bound_s)
        attempts.append(attempt)
        _say(" ".join(f"{key}={value}" for key, value in row(attempt).items()), *_findings(attempt))
    return attempts


async def _attempt(
    name: str, program: Path, seconds: float, seed: int, bug: str, out: Path, *, keep: bool, bound_s: float
) -> Attempt:
    result: Result | None = None
    failures: list[str] = []
    course = Course()
    with tempfile.TemporaryDirectory(prefix="tandemq-chaos-") as directory:
        try:
            result = await run(
                BY_NAME[name], Path(directory), program, seconds, seed, bug, course=course, bound_s=bound_s
            )
        except* (RuntimeError, TandemqError, OSError) as group:
            failures = [*reasons(group), f"it stood at: {course.standing}"]
        shutil.rmtree(out, ignore_errors=True)
        if result is None or keep or result.verdict != "held":
            kept = ["history.jsonl"]
            history_file.write_history(out / "history.jsonl", course.history, course.struck)
            if (Path(directory) / "logs").is_dir():
                shutil.copytree(Path(directory) / "logs", out / "logs")
                kept.append("logs")
            failures += [f"what is known of it: {', '.join(str(out / each) for each in kept)}"] if failures else []
        if result is not None:
            write_page(out / "timeline.html", result)
    return Attempt(name, result, tuple(failures))


def write_page(path: Path, result: Result) -> None:
    """The timeline of one configuration, with its line of the table."""
    rows = list(_figures(result).items())[2:]  # its name and the verdict stand above
    figures = [
        timeline.row(key.replace("_", " "), f"{value:,}" if isinstance(value, int) else value) for key, value in rows
    ]
    lead = f"{result.seconds:g} s of faults, seed {result.seed}. Recovery is p50/p99 of the rounds, in milliseconds."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(timeline.page(f"Campaign {result.name}", result.verdict, lead, figures, result), encoding="utf-8")


def reasons(error: BaseException) -> Iterator[str]:
    """What went wrong, out of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from reasons(inner)
    else:
        yield str(error) or type(error).__name__


def _say(*lines: str, to: TextIO | None = None) -> None:
    for line in lines:
        say(line, file=to)


def _findings(attempt: Attempt) -> list[str]:
    found = [f"  failed: {line}" for line in attempt.failures]
    if attempt.result is not None:
        found += [f"  {name}: {line}" for name, lines in attempt.result.broken.items() for line in lines]
        found += [f"  invalid: {line}" for line in attempt.result.invalid]
    return found


def row(attempt: Attempt) -> dict[str, Any]:
    """A line of the table. STUCK: the pair did not start, stood still, or did not come together again."""
    if attempt.result is None:
        return {"configuration": attempt.name, "verdict": "STUCK"}
    return _figures(attempt.result)


def _figures(result: Result) -> dict[str, Any]:
    figures = result.account
    recovery = [quantile(figures.recovery_ms, share) for share in (0.5, 0.99)]
    return {
        "configuration": result.name,
        "verdict": result.verdict,
        "operations": figures.operations,
        "acknowledged": figures.acknowledged,
        "unknown": figures.unknown,
        "faults": ", ".join(f"{kind} {bitten}/{made}" for kind, (bitten, made) in result.faults.items()),
        "lost": figures.lost,
        "duplicates": figures.duplicates,
        "order_breaks": figures.order_breaks,
        "unexpected": figures.unexpected,
        "two_masters_ms": figures.two_masters_ms,
        "recovery_ms": "/".join("-" if value is None else f"{value:.0f}" for value in recovery),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """For a page of Markdown; the recovery is p50/p99 of the rounds."""
    columns = max(rows, key=len, default={})
    lines = [list(columns), ["---"] * len(columns), *([str(each.get(name, "")) for name in columns] for each in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('_', ' ') for cell in line)} |" for line in lines) + "\n"


def total(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Sums over all configurations."""
    results = [attempt.result for attempt in attempts if attempt.result is not None]
    summed = ("operations", "acknowledged", "unknown", "lost", "duplicates", "order_breaks", "unexpected")
    return {
        "configurations": len(attempts),
        "held": sum(result.verdict == "held" for result in results),
        **{name: sum(getattr(result.account, name) for result in results) for name in summed},
        "faults": sum(bitten for result in results for bitten, _ in result.faults.values()),
    }


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not SECONDS_MIN <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds of at least {SECONDS_MIN:g}")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS,
        help=f"how long each configuration is hurt, {SECONDS_MIN:g} at least",
    )
    parser.add_argument(
        "--bound",
        type=_seconds,
        default=BOUND_S,
        metavar="SECONDS",
        help="how much longer one may take, then it is STUCK",
    )
    parser.add_argument("--only", action="append", choices=list(BY_NAME), help="this configuration; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--bug", default="", choices=["", *BUGS], metavar="NAME", help="run the members with this bug of chaos.sim.bugs"
    )
    parser.add_argument("--keep", action="store_true", help="keep histories and logs also of runs that held")
    parser.add_argument("--out", type=Path, default=Path("build/chaos/campaign"))
    chosen = parser.parse_args(arguments)
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: nothing can be written to {chosen.out}: {error.strerror}")
    for what, there in (("toxiproxy-server", find_server()), ("toxiproxy-python", package_is_there())):
        if not there:
            _say(MISSING.format(what=what), to=sys.stderr)
            return USAGE
    names = chosen.only or list(BY_NAME)
    keep, bound_s = chosen.keep, chosen.bound
    attempts = asyncio.run(
        campaign(names, chosen.seconds, chosen.seed, chosen.bug, chosen.out, keep=keep, bound_s=bound_s)
    )
    rows = [row(attempt) for attempt in attempts]
    text = table(rows)
    (chosen.out / "campaign.md").write_text(text, encoding="utf-8")
    facts = {"seconds": chosen.seconds, "seed": chosen.seed, "bug": chosen.bug, "rows": rows, "total": total(attempts)}
    (chosen.out / "campaign.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    _say("", text, json.dumps(total(attempts)))
    if any(attempt.result is None or attempt.result.broken for attempt in attempts):
        return BROKEN
    return INVALID if any(attempt.result.invalid for attempt in attempts if attempt.result) else HELD


if __name__ == "__main__":
    sys.exit(main())
