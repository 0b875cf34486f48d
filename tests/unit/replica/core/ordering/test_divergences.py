"""Differences between two who do the same: all are counted, and operators hear once of each name and mastership."""

from __future__ import annotations

from replica.core.ordering.divergences import NAMES_MAX, Between, Divergences


def test_each_is_counted_and_each_name_is_reported_once_a_mastership() -> None:
    known = Divergences()
    assert known.counts == {Between.OUTPUTS: 0, Between.ANSWERS: 0}, "there from the start: an alert is on its increase"
    assert [known.add(Between.OUTPUTS, "twins") for _ in range(3)] == [True, False, False]
    assert known.add(Between.ANSWERS, "twins"), "a queue of that name is something else"
    assert known.counts == {Between.OUTPUTS: 3, Between.ANSWERS: 1}
    known.on_following()
    assert known.add(Between.OUTPUTS, "twins")
    assert known.counts[Between.OUTPUTS] == 4


def test_names_that_are_kept_are_bounded() -> None:
    known = Divergences()
    for number in range(NAMES_MAX):
        assert known.add(Between.OUTPUTS, str(number))
    assert not known.add(Between.OUTPUTS, "0")
    assert known.add(Between.OUTPUTS, "one more")
    assert known.add(Between.OUTPUTS, "0"), "and is reported anew"
