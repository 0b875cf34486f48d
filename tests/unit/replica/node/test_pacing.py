"""Looking has half of the time, in turns that end."""

from __future__ import annotations

import pytest

from replica.node.pacing import REST_S_MAX, TURN_S, Pace


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_turn_is_over_after_its_time_and_the_rest_is_as_long(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.begin()
    clock.now_s += TURN_S / 2
    assert not pace.is_over()
    clock.now_s += TURN_S
    assert pace.is_over()
    pace.end()
    assert pace.rest_s() == pytest.approx(1.5 * TURN_S)
    assert not pace.begin()
    clock.now_s += TURN_S
    assert pace.begin()
    assert not pace.is_over()


def test_short_looks_far_apart_never_wait(clock: Clock) -> None:
    pace = Pace(clock)
    for _ in range(1_000):
        assert pace.begin()
        clock.now_s += TURN_S / 10
        assert not pace.is_over()
        pace.end()
        clock.now_s += TURN_S / 10
    assert pace.rest_s() == 0


def test_looks_in_a_row_share_the_time(clock: Clock) -> None:
    pace, looked_s, began_s = Pace(clock), 0.0, clock.now_s
    for _ in range(1_000):
        if pace.begin():
            clock.now_s += TURN_S / 3
            looked_s += TURN_S / 3
            pace.end()
        clock.now_s += TURN_S / 10
    assert looked_s / (clock.now_s - began_s) == pytest.approx(0.5, abs=0.01)


def test_a_process_that_was_frozen_in_a_turn_looks_again_soon(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.begin()
    clock.now_s += 60
    pace.end()
    assert pace.rest_s() == REST_S_MAX
