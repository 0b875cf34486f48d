"""Asks the tests of small bugs: `python -m tools.mutants --area machine --count 60`; exit 1 when too many live,
or one of which `equivalent.toml` says nothing.

Each mutant is one change to one function, put into the memory of a forked child, which runs the tests that enter that
function, and then runs of the simulator. One that lives and breaks nothing is named in `equivalent.toml` with why.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.mutants.kinds import Mutant, mutants_of
from tools.mutants.running import ALIVE, KILLED, UNREACHED, Verdict, asked, asked_of_seeds, reach_of

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
    "client": Area(("tandemq/client",), ("tests/unit/client", "tests/classic"), 75),
}


class Asking:
    """A plugin that runs mutants in place of tests."""

    def __init__(self, mutants: Sequence[Mutant], seeds: int) -> None:
        self.mutants = mutants
        self.seeds = seeds
        self.verdicts: list[Verdict] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own."""
        by_id = {item.nodeid: item for item in session.items}
        say(f"{len(self.mutants)} mutants; {len(by_id)} tests run once without any")
        reach = reach_of(session.items, self.mutants)
        for nodeid in reach.failing:
            say(f"fails without a mutant, and is asked nothing: {nodeid}")
        for at, mutant in enumerate(self.mutants):
            tests = reach.tests.get(f"{mutant.module}:{mutant.function}", [])
            verdict = asked(mutant, [by_id[nodeid] for nodeid in tests])
            if verdict.outcome in (ALIVE, UNREACHED) and (seen := asked_of_seeds(mutant, self.seeds)):
                verdict = verdict._replace(outcome=KILLED, by=seen)
            self.verdicts.append(verdict)
            place = f"{mutant.path}:{mutant.line}"
            say(f"{at + 1:4} {verdict.outcome:9} {mutant.kind:15} {place}  {mutant.before[:60]}  {verdict.by}")
        return True


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def drawn(area: Area, count: int, seed: int) -> list[Mutant]:
    """So many of all that there are in the area; the same for the same seed and code."""
    every: list[Mutant] = []
    for path in sorted(path for folder in area.code for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT)
        if not name.stem.endswith(("_pb2", "_pb2_grpc", "_generated")):
            module = ".".join(name.with_suffix("").parts).removesuffix(".__init__")
            every += mutants_of(module, str(name), path.read_text(encoding="utf-8"))
    return random.Random(seed).sample(every, min(count, len(every)))


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: fewer were seen than the area asks for, or one lives of which nothing is said."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--area", choices=AREAS, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None, help="of the sample; by default the day")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of the simulator for one that no test sees")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    area = AREAS[options.area]
    seed = dt.datetime.now(tz=dt.UTC).date().toordinal() if options.seed is None else options.seed
    asking = Asking(drawn(area, options.count, seed), options.seeds)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-m", area.marks, *area.tests], [asking])
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
