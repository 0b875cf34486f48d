"""How far the peer is behind, from samples: what is counted, for how long, and with how much memory."""

from __future__ import annotations

from replica.operations.lag import SAMPLES_MAX, Behind, Lag


def test_nothing_is_owed_at_first_and_after_everything_was_confirmed() -> None:
    lag = Lag()
    assert lag.behind(0, 0, 0) == Behind()
    lag.sample(10, 1_000, 10, 100)
    assert lag.behind(10, 1_000, 200) == Behind()


def test_operations_bytes_and_the_age_of_the_oldest() -> None:
    lag = Lag()
    lag.sample(10, 1_000, 10, 100)
    lag.sample(12, 1_300, 10, 200)
    lag.sample(15, 1_900, 10, 300)
    assert lag.behind(15, 1_900, 350) == Behind(5, 900, 150)
    assert lag.behind(16, 2_000, 350) == Behind(6, 1_000, 150)
    lag.sample(16, 2_000, 13, 400)  # 13: the first two of it are confirmed
    assert lag.behind(16, 2_000, 450) == Behind(3, 700, 150)
    lag.sample(16, 2_000, 16, 500)
    assert lag.behind(16, 2_000, 550) == Behind()


def test_a_peer_that_says_nothing_keeps_what_it_said_last() -> None:
    lag = Lag()
    lag.sample(10, 1_000, 10, 100)
    lag.sample(12, 1_200, 0, 200)
    assert lag.peer_index == 10
    assert lag.behind(12, 1_200, 300) == Behind(2, 200, 100)


def test_a_log_that_was_cut_owes_only_what_is_left() -> None:
    lag = Lag()
    lag.sample(10, 1_000, 10, 100)
    lag.sample(20, 2_000, 10, 200)
    lag.sample(12, 2_100, 10, 300)
    assert lag.behind(12, 2_100, 400).operations == 2


def test_a_peer_that_is_away_for_long_costs_no_memory_and_keeps_its_age() -> None:
    lag = Lag()
    lag.sample(1, 100, 1, 0)
    for number in range(2, 100_000):
        lag.sample(number, number * 100, 0, number)
    assert len(lag._open) <= SAMPLES_MAX + 1
    assert lag.behind(99_999, 9_999_900, 100_000) == Behind(99_998, 9_999_800, 99_998)
