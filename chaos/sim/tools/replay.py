"""Says how a run is repeated and keeps schedules that once failed; it decides nothing about what a run shows.

A kept schedule (`tests/sim/regress/<name>.json`) is a whole plan, not only its seed, so that it still means the same
when the profiles draw otherwise. It says which invariant broke and what it was. It must show nothing on the product as
it is; when it names a planted bug, it must show that invariant broken with the bug.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chaos.sim.pair.plan import Outcome, Plan, Runner
from chaos.sim.tools.shrink import shows

KEPT_FOLDER = Path("tests/sim/regress")
COMMAND = "python -m chaos.sim"


@dataclass(frozen=True, slots=True)
class Kept:
    """A schedule that failed once."""

    plan: Plan
    expected: str
    """The invariant that it broke: what a violation says before its first colon."""
    note: str
    """What it was, for somebody who was not there."""

    def to_json(self) -> str:
        """One value a line, so that two of them can be compared by eye."""
        return json.dumps({"note": self.note, "expected": self.expected, "plan": asdict(self.plan)}, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Kept:
        """Reads what `to_json` wrote. Raises ValueError, KeyError or TypeError where it is not a kept schedule."""
        raw = json.loads(text)
        return Kept(Plan.from_json(json.dumps(raw["plan"])), str(raw["expected"]), str(raw["note"]))


def load(path: Path) -> Kept:
    """A kept schedule, or a bare plan as one that expects nothing. Raises ValueError where it is neither."""
    text = path.read_text(encoding="utf-8")
    try:
        if "plan" in json.loads(text):
            return Kept.from_json(text)
        return Kept(Plan.from_json(text), "", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a plan ({type(error).__name__}: {error}); `run --keep FILE` writes one"
        ) from error


def save(kept: Kept, path: Path) -> None:
    """Writes it, with its folder where that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kept.to_json(), encoding="utf-8")


def drawn_command(profile: str, seed: int, bug: str = "") -> str:
    """The command that repeats a run whose plan is drawn from a seed."""
    return f"{COMMAND} run --seed {seed} --profile {shlex.quote(profile)}{f' --bug {shlex.quote(bug)}' if bug else ''}"


def kept_command(path: Path) -> str:
    """The command that repeats a run whose plan is in a file."""
    return f"{COMMAND} run --plan {shlex.quote(str(path))}"


def problems(kept: Kept, run: Runner) -> list[str]:
    """What is wrong with a kept schedule today; empty when it does what it was kept for."""
    found = [f"the product shows: {violation}" for violation in run(replace(kept.plan, bug="")).violations]
    if kept.plan.bug:
        outcome = run(kept.plan)
        if not shows(outcome, kept.expected):
            now = "; ".join(outcome.violations) or "nothing"
            found.append(f"with the planted bug {kept.plan.bug!r} it should show {kept.expected!r}, it shows {now}")
    return found


def story(outcome: Outcome) -> list[str]:
    """What happened, a line each, in order."""
    lines = []
    for event in outcome.trace:
        to = f" -> {event.to}" if event.to else ""
        lines.append(f"{event.at_ms:>10,.1f}  {event.who or '-':<10} {event.what:<9} {event.text}{to}")
    return lines
