"""What is drawn where: roles, faults that overlap, and operations that cannot be told apart."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaos.history import FAIL, OK, UNKNOWN, Message, Operation, Seen, Struck
from chaos.timeline import lanes
from chaos.timeline.axis import NARROW, WIDE, Axis, Layout, round_up


def seen(at_s: float, role: str, epoch: int) -> Seen:
    return Seen(at_s - 0.01, at_s, "a", "disk", 1, role, "IN_SYNC", epoch, 4, "d", "s", 0)


def operation(asked_s: float, took_s: float, outcome: str = OK, detail: str = "") -> Operation:
    return Operation("producer 0", "enqueue", asked_s, asked_s + took_s, outcome, (Message(0, 0),), detail)


def test_a_role_lasts_until_the_next_and_ends_with_silence() -> None:
    said = [seen(0.1, "MASTER", 1), seen(0.4, "MASTER", 1), seen(0.7, "REPLICA", 2), seen(2.0, "REPLICA", 2)]
    assert list(lanes.stretches(said, 2.2)) == [
        ("MASTER", 1, 0.1, 0.7),
        ("REPLICA", 2, 0.7, 0.7),
        ("GONE", 2, 0.7, 2.0),
        ("REPLICA", 2, 2.0, 2.2),
    ]
    assert list(lanes.stretches([seen(0.1, "PROBE", 0)], 3.0))[-1] == ("GONE", 0, 0.1, 3.0)
    assert list(lanes.stretches([], 3.0)) == []


def test_faults_that_overlap_have_lanes_of_their_own() -> None:
    struck = [
        Struck("kill", ("a",), 1.0, 2.0),
        Struck("slow", ("a", "b"), 0.5, 4.0),
        Struck("kill", ("b",), 1.5, 2.5),
        Struck("kill", ("a",), 3.0),
    ]
    found = [
        (lane.name, [(bar.title, bar.from_s, bar.to_s) for bar in lane.bars]) for lane in lanes.faults(struck, 9.0)
    ]
    assert found == [
        ("slow", [("slow a/b", 0.5, 4.0)]),
        ("kill", [("kill a", 1.0, 2.0), ("kill a", 3.0, 9.0)]),  # the last one was never healed
        ("kill", [("kill b", 1.5, 2.5)]),
    ]


def test_operations_that_cannot_be_told_apart_are_one_bar() -> None:
    axis = Axis(WIDE, 100.0)  # a place is about a tenth of a second
    done = [operation(1.0, 0.01), operation(1.05, 0.02), operation(5.0, 0.01), operation(1.0, 0.7)]
    done += [operation(2.0, 0.5, UNKNOWN, "TIMED_OUT"), operation(8.0, 0.01, FAIL, "NO_MASTER")]
    [lane] = lanes.clients(done, axis)
    assert [(bar.kind, bar.from_s, bar.to_s, bar.title) for bar in lane.bars] == [
        ("ok", 1.0, pytest.approx(1.07), "2 enqueue: ok, the longest took 20 ms"),
        ("ok", 5.0, pytest.approx(5.01), "1 enqueue: ok, the longest took 10 ms"),
        ("waited", 1.0, pytest.approx(1.7), "1 enqueue: waited, the longest took 700 ms"),
        ("unknown", 2.0, pytest.approx(2.5), "1 enqueue: unknown, the longest took 500 ms (TIMED_OUT)"),
        ("fail", 8.0, pytest.approx(8.01), "1 enqueue: fail, the longest took 10 ms (NO_MASTER)"),
    ]


@pytest.mark.parametrize("layout", [WIDE, NARROW])
@pytest.mark.parametrize("end_s", [0.0, 0.3, 7.0, 180.0, 3600.0])
def test_numbers_below_the_picture_have_room(layout: Layout, end_s: float) -> None:
    axis = Axis(layout, end_s)
    places = [axis.x(at_s) for at_s in axis.ticks()]
    assert places[0] == axis.layout.left
    assert places[-1] <= axis.layout.right
    assert all(after - before > 40 for before, after in pairwise(places))
    assert axis.bucket_s() * axis.second >= 2


def test_a_scale_ends_at_a_round_number() -> None:
    assert [round_up(value) for value in (0.0, 1.0, 1.1, 4.9, 100.0, 501.0)] == [1, 1, 2, 5, 100, 1000]
