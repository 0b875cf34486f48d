"""Asks the tests of small bugs: `python -m tools.mutants --area machine --count 60`; exit 1 when too many live,
or one of which `equivalent.toml` says nothing.

Each mutant is one change to one function, put into the memory of a forked child, which runs the tests that come to the
changed statement, and then runs of the simulator. One that lives and breaks nothing is named in `equivalent.toml` with
why. `--part replica/core/macro` draws from a part of the area alone, `--tests` asks other tests than all of the area's,
`--key` asks one mutant again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import random
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.mutants.kinds import Mutant, mutants_of
from tools.mutants.running import (
    ALIVE,
    HUNG,
    KILLED,
    SILENT_S,
    UNREACHED,
    Verdict,
    asked,
    asked_of_seeds,
    pass_without,
    reach_of,
)

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
OUT = ROOT / "build" / "mutants.json"
SEEDS = 40
_RULES = ("tests/property", "tests/scripts", "tests/test_rules.py")


class Area(NamedTuple):
    """Code, the tests that are asked of it, and what of its mutants must be seen."""

    code: tuple[str, ...]
    tests: tuple[str, ...]
    percent: int
    marks: str = "not process and not long"


AREAS = {
    "machine": Area(("replica/machine",), ("tests/unit/replica/machine", *_RULES), 90),
    "core": Area(("replica/core",), ("tests/unit/replica/core", *_RULES), 85),
    # The processes here are commands and registers: what asks them is in the test's own process.
    "failover": Area(
        ("failover",), ("tests/unit/failover", "tests/failover", "tests/contract", *_RULES), 90, marks="not long"
    ),
    "storage": Area(("storage",), ("tests/unit/storage", "tests/contract", "tests/property"), 90),
    # What carries calls, records and rights to the core, and what stands beside it; much of it is asked by processes
    # alone, which no mutant reaches.
    "services": Area(
        ("replica/services", "replica/node", "replica/peer", "replica/tokens", "tandemq/twin"),
        ("tests/unit/replica", "tests/unit/twin"),
        40,
    ),
    "client": Area(("tandemq/client",), ("tests/unit/client", "tests/classic"), 75),
}


class Asking:
    """A plugin that runs mutants in place of tests."""

    def __init__(self, mutants: Sequence[Mutant], seeds: int, until_s: float, silent_s: float = SILENT_S) -> None:
        self.mutants = mutants
        self.seeds = seeds
        self.until_s = until_s
        """By the clock of `time.monotonic`: no further mutant is asked then."""
        self.silent_s = silent_s
        self.verdicts: list[Verdict] = []
        self._sound: dict[tuple[str, ...], bool] = {}
        """Of lists of tests, whether they pass without a mutant."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own."""
        by_id = {item.nodeid: item for item in session.items}
        say(f"{len(self.mutants)} mutants; {len(by_id)} tests run once without any")
        reach = reach_of(session.items, self.mutants)
        for nodeid in reach.failing:
            say(f"fails without a mutant, and is asked nothing: {nodeid}")
        for at, mutant in enumerate(self.mutants):
            if time.monotonic() > self.until_s:
                say(f"the time is over: {len(self.mutants) - at} of the sample are not asked")
                break
            verdict = self._asked(mutant, [by_id[nodeid] for nodeid in reach.tests.get(mutant.key, [])])
            if verdict.outcome in (ALIVE, UNREACHED) and (seen := asked_of_seeds(mutant, self.seeds)):
                verdict = verdict._replace(outcome=KILLED, by=seen)
            self.verdicts.append(verdict)
            place = f"{mutant.path}:{mutant.line}"
            say(f"{at + 1:4} {verdict.outcome:9} {mutant.kind:15} {place}  {mutant.before[:60]}  {verdict.by}")
        return True

    def _asked(self, mutant: Mutant, tests: list[pytest.Item]) -> Verdict:
        """Of tests that pass without it, in the order in which they were asked."""
        while (verdict := asked(mutant, tests, self.silent_s)).outcome in (KILLED, HUNG):
            ids = [item.nodeid for item in tests]
            seen = ids.index(verdict.by)
            order = tuple(ids[: seen + 1])
            if order not in self._sound:
                self._sound[order] = pass_without(tests[: seen + 1], self.silent_s)
            if self._sound[order]:
                break
            say(f"fails without a mutant in this order, and is asked nothing: {verdict.by}")
            del tests[seen]
        return verdict


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def drawn(code: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many of all that there are in these files and folders; the same for the same seed and code."""
    every = every_of(code)
    return random.Random(seed).sample(every, min(count, len(every)))


def every_of(code: Sequence[str]) -> list[Mutant]:
    """All that there are, in the order of the files and of their lines."""
    files = [[part] if part.is_file() else part.rglob("*.py") for part in (ROOT / each for each in code)]
    return [mutant for path in sorted(path for found in files for path in found) for mutant in _every_of_file(path)]


@cache
def _every_of_file(path: Path) -> tuple[Mutant, ...]:
    name = path.relative_to(ROOT)
    if name.stem.endswith(("_pb2", "_pb2_grpc", "_generated")):
        return ()
    module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
    return tuple(mutants_of(module, str(name), path.read_text(encoding="utf-8")))


def equivalents() -> dict[str, str]:
    """Why each of them breaks nothing, by key."""
    found = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {each["key"]: each["why"] for each in found}


class Judged(NamedTuple):
    """What a sample says of its area."""

    counts: dict[str, int]
    """How many of each outcome; those that live and break nothing apart."""
    percent: float
    """Seen, of those that break something as far as anybody knows."""
    open: list[Mutant]
    """They live, and no line says why they break nothing."""
    doubtful: list[str]
    """Keys of those that are said to break nothing, and that a test saw."""

    def exit_code(self, percent_min: int) -> int:
        """0: enough were seen, and each of the others has its line."""
        return 0 if self.percent >= percent_min and not self.open else 1


def judged(verdicts: Sequence[Verdict], known: Mapping[str, str]) -> Judged:
    """By the outcome of each, and the keys of those that break nothing."""
    living = [each.mutant for each in verdicts if each.outcome in (ALIVE, UNREACHED)]
    unjudged = [mutant for mutant in living if mutant.key not in known]
    counts = Counter(
        "equivalent" if each.outcome in (ALIVE, UNREACHED) and each.mutant.key in known else each.outcome
        for each in verdicts
    )
    count = len(verdicts) - counts["equivalent"]
    percent = 100 * (count - len(unjudged)) / count if count else 0.0
    doubtful = [
        each.mutant.key for each in verdicts if each.outcome not in (ALIVE, UNREACHED) and each.mutant.key in known
    ]
    return Judged(dict(counts), percent, unjudged, doubtful)


def chosen(parser: argparse.ArgumentParser, area: Area, options: argparse.Namespace, seed: int) -> list[Mutant]:
    """Those that are to be asked; ends the program, exit code 2, where there are none such."""
    part: Sequence[str] = options.part or area.code
    if strangers := [each for each in part if not each.startswith(area.code) or not (ROOT / each).exists()]:
        parser.error(f"--part: there is no {strangers[0]} in {' '.join(area.code)}")
    if options.key is None:
        return drawn(part, options.count, seed)
    every = {mutant.key: mutant for mutant in every_of(part)}
    if unknown := [key for key in options.key if key not in every]:
        parser.error(f"--key: no change of {' '.join(part)} has the key {unknown[0]}")
    return [every[key] for key in options.key]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: fewer were seen than the area asks for, or one lives of which nothing is said."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--area", choices=AREAS, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None, help="of the sample; by default the day")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of the simulator for one that no test sees")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--part", nargs="+", default=None, help="files and folders of the area; by default all of it")
    parser.add_argument("--tests", nargs="+", default=None, help="files and folders; by default the area's")
    parser.add_argument("--key", nargs="+", default=None, help="these mutants alone, as they were printed")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no further mutant is asked")
    parser.add_argument("--silent", type=float, default=SILENT_S, help="seconds after which a silent child hangs")
    options = parser.parse_args(arguments)
    area = AREAS[options.area]
    seed = dt.datetime.now(tz=dt.UTC).date().toordinal() if options.seed is None else options.seed
    until_s = time.monotonic() + options.seconds
    asking = Asking(chosen(parser, area, options, seed), options.seeds, until_s, options.silent)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-m", area.marks, *(options.tests or area.tests)], [asking])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(code)
    found = judged(asking.verdicts, equivalents())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lives = [{**asdict(each), "key": each.key} for each in found.open]
    said = {"area": options.area, "seed": seed, "counts": found.counts, "percent": found.percent, "lives": lives}
    options.out.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    for mutant in found.open:
        print(f"lives, and no line of {EQUIVALENT.name} says why it breaks nothing: {mutant.key}")
    for key in found.doubtful:
        print(f"is said to break nothing, and was seen: {key}")
    rate = f"{found.percent:.0f} % seen, {area.percent} % asked for"
    print(f"{options.area}, seed {seed}: {found.counts}; {rate}: {options.out}")
    return found.exit_code(area.percent)


if __name__ == "__main__":
    sys.exit(main())
