"""A table of weights is what was told last, unless whoever reads may be answered from the past."""

from __future__ import annotations

import pytest

from chaos.sim.judges.weights import Asked, Kind, broken
from chaos.sim.pair.plan import Plan
from chaos.sim.world.world import World


@pytest.mark.parametrize("version", [0, 1], ids=["none", "the one before"])
@pytest.mark.parametrize("may_be_old", [False, True], ids=["of a master", "while two are masters"])
def test_what_was_told_is_taken_back(version: int, may_be_old: bool) -> None:
    world = World(Plan(1, "none"))
    first = Asked(Kind.PUBLISH, 1.0, by="weigher0/0")
    first.ends(1.1, 1, epoch=1)
    second = Asked(Kind.PUBLISH, 1.2, by="weigher0/1", expected=1)
    second.ends(1.3, 2, epoch=2)
    read = Asked(Kind.READ, 1.4, by="weigher0/0", may_be_old=may_be_old)
    read.ends(1.5, version, epoch=1)
    assert len(list(broken(world.pair, [first, second, read]))) == (0 if may_be_old else 1)
