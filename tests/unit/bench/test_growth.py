"""Growth: what is varied, how cost becomes a ratio, what is refused or not shown, that a drawing is of the figures."""

from __future__ import annotations

from typing import Any

import pytest

from bench.document import Document, Figures
from bench.growth.faults import HANDOFF, KILL, NONE, not_as_told
from bench.growth.figures import cost
from bench.growth.plan import curves, shrunk
from bench.growth.points import Running
from bench.growth.report import COSTS, drawn, flatness, growths, markdown
from bench.growth.report import cost as cost_of
from bench.growth.run import in_turns
from bench.peers.plots import Curve
from bench.peers.plots import curves as plotted

ABOUT = {"commit": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11", "grpcio": "1", "lmdb": "3"}
ACCOUNT = {"sent": 10, "received": 10, "lost": 0, "again": 0, "corrupt": 0, "unknown": 0}
CHECKED = {"settings_wrong": [], "syncs": {"a": 100, "b": 101, "messages": 100}, "copies": 2}


def turn(master: float, replica: float = 1.0, client: float = 1.0, messages: int = 100) -> dict[str, Any]:
    used = {"master": master * messages, "replica": replica * messages, "client": client * messages}
    return {"messages": messages, "seconds": 0.001, "rest_s": 0.1, "used_us": used, "foreign_cores": 0.1}


FIRST = [turn(4.0) for _ in range(5)]
DEEP = [turn(value) for value in (4.0, 4.0, 4.0, 4.0, 9.0)]


def document(*points: tuple[str, list[dict[str, Any]], dict[str, Any]]) -> Document:
    """Of a curve with these labels and turns, and what is known besides."""
    found = Document("growth", ABOUT, "2026-01-01", {"turns": 5, "runs": 3, "share": 1.0})
    for label, turns, more in points:
        point = object.__new__(Running)
        point.curve = curves()[0]
        point.point = next(each for each in point.curve.points if each.label == label)
        point.turns, point.account, point.checked = turns, more.pop("account", ACCOUNT), {**CHECKED, **more}
        point.add_to(found)
    return found


def figures(*points: tuple[str, list[dict[str, Any]], dict[str, Any]]) -> list[Figures]:
    return list(document(*points).figures().values())


# -- what is varied ----------------------------------------------------------------------------------------------------


def test_the_plan_covers_what_is_asked() -> None:
    found = {curve.name: curve for curve in curves(deep=True)}
    assert [point.depth for point in found["depth"].points][::3] == [0, 1_000_000]
    assert found["depth-small"].points[-1].depth == 10_000_000
    assert max(point.size for point in found["depth-small"].points) == 100
    assert [point.queues for point in found["queues"].points] == [1, 100, 10_000]
    assert [point.queues for point in found["queues-visited"].points][::4] == [1, 10_000]
    assert [point.producers for point in found["producers"].points] == [1, 8, 64]
    assert [point.size for point in found["payload"].points] == [100, 1 << 10, 16 << 10, 1 << 20]
    assert {point.through for point in found["through"].points} == {"master", "replica"}
    assert curves()[1].points[-1].depth == 1_000_000


def test_the_points_of_a_curve_differ_in_one_thing() -> None:
    for curve in curves(deep=True):
        if curve.name.startswith("depth"):
            assert len({point.depth + point.before for point in curve.points}) == 1, "depth would be mistaken for age"
        if curve.name != "payload":
            assert len({(point.batch, point.size, point.turn) for point in curve.points}) == 1
        assert all(point.unanswered >= point.batch * point.producers for point in curve.points)


@pytest.mark.parametrize("share", [0.0001, 0.01])
def test_a_small_share_keeps_a_message_in_every_queue(share: float) -> None:
    for curve in curves(deep=True):
        for small, large in zip(shrunk(curve, share).points, curve.points, strict=True):
            assert small.turn >= min(large.turn, small.batch)
            assert small.turn <= large.turn
            assert small.depth >= 10 * small.queues or not small.calls
            assert (small.depth > 0) == (large.depth > 0)


# -- cost --------------------------------------------------------------------------------------------------------------


def test_cost_counts_every_turn_with_its_share() -> None:
    """What happens in one turn of many, as a checkpoint does, is not dropped as an outlier."""
    assert cost(turn(4.0)) == {"master": 4.0, "replica": 1.0, "client": 1.0, "wall": 10.0}
    first, deep = figures(("0", FIRST, {}), ("10,000", DEEP, {}))
    assert (cost_of(deep, "servers").mean, cost_of(deep, "servers").median) == (6.0, 5.0)
    assert cost_of(deep, "cpu").mean == 7.0
    ratio = deep.ratio(first, *COSTS["servers"])
    assert ratio
    assert (ratio.mean, ratio.runs) == (1.2, (1.0, 1.0, 1.0, 1.0, 2.0))
    assert "| 10,000 | 5 | 1 | 1 | 7 | 10 | 1.20 (1.00 to 2.00) | 0.10 |" in markdown(
        document(("0", FIRST, {}), ("10,000", DEEP, {}))
    )


def test_what_grows_is_told() -> None:
    """Against the cheapest smaller point, not the first: what is received at once comes in small pieces, and costs."""
    labels = [point.label for point in curves()[0].points]
    points = figures(
        *((label, [turn(value)] * 5, {}) for label, value in zip(labels, (9.0, 4.0, 5.1, 3.0), strict=True))
    )
    assert growths(points) == [(labels[2], 1.22)]
    assert flatness(points) == f"More than 20% above the cheapest smaller point: {labels[2]} (1.22x)."
    assert flatness(points[:2]) == "No point costs the members more than 20% above a smaller one."


def test_a_point_that_lost_a_message_stands_in_no_figure() -> None:
    robbed = {"account": {**ACCOUNT, "lost": 1, "received": 9}}
    found = document(("0", FIRST, {}), ("10,000", [turn(77.7)] * 5, robbed))
    assert "refused: 1 messages lost" in markdown(found)
    assert "77.7" not in markdown(found) + "".join(drawn(found).values())


def test_one_noisy_turn_of_many_is_not_averaged_away() -> None:
    turns = [{**turn(4.0), "foreign_cores": cores} for cores in (0.0, 0.0, 0.0, 0.9, 0.0)]
    assert "| 1.00 (1.00 to 1.00) | 0.90 | noisy |" in markdown(document(("0", turns, {})))


class Turning:
    """A point whose turns are known before."""

    def __init__(self, *cores: float) -> None:
        self._left = [{**turn(4.0), "value": float(number), "foreign_cores": each} for number, each in enumerate(cores)]
        self.turns: list[dict[str, Any]] = []

    def turn(self) -> dict[str, Any]:
        return self._left.pop(0)


def test_a_round_with_a_noisy_turn_is_taken_anew_by_all_points() -> None:
    """One point alone would have had more traffic than the others."""
    points, pauses = [Turning(0.9, 0.1, 0.1), Turning(0.2, 0.1, 0.1)], list[float]()
    in_turns(points, 5, kept=True, pause=pauses.append)
    assert [[each["value"] for each in one.turns] for one in points] == [[1.0], [1.0]]
    assert len(pauses) == 1
    in_turns(points, 5, kept=True, pause=pauses.append)
    assert [one.turns[0].get("set_aside") for one in points] == [
        [{"value": 0.0, "foreign_cores": 0.9}],
        [{"value": 0.0, "foreign_cores": 0.2}],
    ]
    assert all("set_aside" not in one.turns[1] for one in points)


def test_a_warm_round_is_taken_once_and_counts_nowhere() -> None:
    points = [Turning(0.9, 0.1)]
    in_turns(points, 5, kept=False)
    assert points[0].turns == []
    assert points[0].turn()["value"] == 1.0


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "after", "wrong"),
    [(NONE, "a", False), (NONE, "b", True), (KILL, "b", False), (KILL, "a", True), (HANDOFF, "a", True)],
)
def test_a_run_without_the_fault_of_its_name_is_refused(fault: str, after: str, wrong: bool) -> None:
    assert bool(not_as_told(fault, "a", after)) is wrong


def test_a_curve_is_drawn_to_scale() -> None:
    line = Curve("cost & all", (1.0, 4.0), ((1.0, 1.0), (3.0, 5.0)))
    drawing = plotted("title", "axis", ["few", "many"], [line], band=(0.8, 1.2))
    assert "cost &amp; all" in drawing
    assert drawing.count("<circle") == 2
    # Ticks 0 to 5, 260 high, its bottom at 324: 1 is a fifth of it, 4 four fifths.
    assert 'cy="272.0"' in drawing
    assert 'cy="116.0"' in drawing
    assert 'y1="168.0" x2="870.0" y2="64.0"' in drawing, "the range of the second"
    assert 'height="20.8" fill="#e8f2ea"' in drawing
    decades = plotted(
        "title", "axis", ["a", "b"], [Curve("x", (1.0, 100.0), ((1.0, 1.0), (100.0, 100.0)))], decades=True
    )
    assert ">1,000<" not in decades
    assert 'cy="324.0"' in decades
    assert 'cy="64.0"' in decades
    assert plotted("title", "axis", [], [])
