"""What a run meets is counted: pairs of role and message, and the points that every campaign must meet."""

from __future__ import annotations

import pytest

from chaos.sim.draw.profiles import PROFILES
from chaos.sim.judges.coverage import MEANINGS, POINTS, Coverage, Got
from chaos.sim.judges.homes import HOMES
from chaos.sim.judges.rows import NAMED, known
from chaos.sim.pair.members import Pair
from chaos.sim.pair.plan import Plan
from chaos.sim.pair.run import Run
from chaos.sim.tools.product import run
from failover import promotion
from replica.core.handoff import handoff as driving
from replica.core.mastership import claims
from tests.sim.stories import REAL


@pytest.mark.parametrize(
    ("kind", "text", "points"),
    [
        (
            "ROLE",
            "b is MASTER now: the peer is lost and this member holds everything that was acknowledged",
            ["takeover"],
        ),
        ("AUTHORITY", "register: claim of epoch 3 by a, in sync {a}: refused (it has changed)", ["claim refused"]),
        ("AUTHORITY", "register: claim of epoch 3 by a, in sync {a}: done", []),
        ("LINK", "b is MASTER now: the peer is lost and this member holds everything", []),
        ("OPERATOR", "anything", []),
    ],
)
def test_an_event_meets_the_points_of_its_kind(kind: str, text: str, points: list[str]) -> None:
    pair = Pair(Run(Plan(1, "none"), ()), {})
    Coverage(pair).on_event(kind, text)
    assert list(pair.run.outcome.coverage) == points


@pytest.mark.slow
def test_a_run_meets_pairs_and_points() -> None:
    coverage = run(REAL).coverage
    assert {"full transfer", "takeover", "restart as master", "delta transfer"} & coverage.keys()
    assert coverage["MASTER < Data op_ack"] > 3
    assert coverage["REPLICA < Data op"] > 3
    assert "call at a replica" not in coverage or coverage["call at a replica"] == coverage["REPLICA < Produce open"]


def test_every_point_says_what_it_means_and_none_is_named_like_a_pair() -> None:
    pairs = {point.pair for point in POINTS.values() if isinstance(point, Got)}
    assert not pairs & POINTS.keys()
    assert all(MEANINGS.values())
    assert MEANINGS.keys() == POINTS.keys() | NAMED.keys()
    assert not POINTS.keys() & NAMED.keys()


def test_the_rows_of_every_table_are_named_once() -> None:
    names = known()
    assert len(names) == len(set(names))
    assert "handoff DRAINING: DRAINED" in names
    assert "claim COMMITTING: REFUSED" in names
    assert any(name.endswith("YOUNG_CLAIM") for name in names)


@pytest.mark.slow
def test_a_run_tells_which_rows_it_took_and_leaves_the_product_as_it_was() -> None:
    places = ((vars(claims), "follow"), (vars(driving), "lookup"), (vars(promotion), "row_of"))
    before = [module[name] for module, name in places]
    coverage = run(REAL).coverage
    assert coverage["claim CLAIMING: DONE"] >= 1
    assert sum(count for name, count in coverage.items() if name.startswith("sync IDLE > ")) >= 1
    assert any(name.startswith("promotion ") for name in coverage)
    assert [module[name] for module, name in places] == before


def test_what_a_profile_alone_must_meet_is_named_and_of_a_profile() -> None:
    assert HOMES.keys() <= PROFILES.keys()
    assert {point for points in HOMES.values() for point in points} <= MEANINGS.keys()
