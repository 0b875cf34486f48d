"""Every kept schedule, for ever: it shows nothing on the product as it is, and its violation where it plants a bug.

A schedule is kept with `python -m chaos.sim shrink ... --out tests/sim/regress/NAME.json --note "what it was"`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.sim.tools.product import run
from chaos.sim.tools.replay import kept_command, load, problems

KEPT = sorted((Path(__file__).parent / "regress").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_was_kept_stays_mended(path: Path) -> None:
    kept = load(path)
    assert kept.note, "say what it was"
    assert kept.expected, "say which invariant it broke"
    assert problems(kept, run) == [], kept_command(path)


def test_there_are_some() -> None:
    assert KEPT


def test_every_kept_schedule_is_told_of_and_every_one_told_of_is_kept() -> None:
    """One was lost, with its mending, when branches were brought together: nothing failed, its test had gone too."""
    told = (Path(__file__).parents[2] / "docs" / "decisions" / "0011-found-by-machines.md").read_text()
    assert set(re.findall(r"`([a-z-]+\.json)`", told)) == {path.name for path in KEPT}
