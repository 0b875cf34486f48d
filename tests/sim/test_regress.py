"""Every kept schedule, for ever: it shows nothing on the product as it is, and its violation where it plants a bug.

A schedule is kept with `python -m chaos.sim shrink ... --out tests/sim/regress/NAME.json --note "what it was"`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.sim.kernel import run
from chaos.sim.replay import kept_command, load, problems

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
