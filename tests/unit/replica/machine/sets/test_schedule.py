"""What is due next, among entries that may have become stale."""

from __future__ import annotations

import random

import pytest

from replica.machine.sets import schedule as schedules
from replica.machine.sets.schedule import Schedule


def test_gives_what_is_live_and_due_while_stale_entries_are_swept_out():
    chance = random.Random(5)
    live: dict[int, int] = {}
    schedule = Schedule(lambda due: live.get(due.ident) == due.when_ms)
    now_ms, most = 0, 0
    for ident in range(60_000):
        live[ident] = now_ms + chance.randrange(1, 1_000_000)
        schedule.push(live[ident], 3, ident)
        if len(live) > 4_000:
            for gone in chance.sample(sorted(live), 1_000):
                del live[gone]
        most = max(most, len(schedule))
        if ident % 6_000 == 0:
            now_ms += 10_000
            due = {entry.ident for entry in schedule.due(now_ms)}
            assert due == {key for key, when_ms in live.items() if when_ms <= now_ms}
            for key in due:
                del live[key]
            assert schedule.next_ms() == min(live.values(), default=None)
    assert most < 3 * 4_000
    while live:
        when_ms = schedule.next_ms()
        assert when_ms == min(live.values())
        live = {key: end for key, end in live.items() if end > when_ms}
    assert schedule.next_ms() is None


def test_an_early_look_sees_what_is_due_and_costs_no_look_at_what_is_live():
    def unasked(_due):
        raise AssertionError

    schedule = Schedule(unasked)
    assert not schedule.may_be_due(10**15)
    schedule.push(500, 1, 7)
    schedule.push(100, 2, 2**64 - 1)
    assert [schedule.may_be_due(now_ms) for now_ms in (0, 99, 100, 101)] == [False, False, True, True]


@pytest.mark.parametrize("sweep_above", [2, 3, 20])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_swept_out_what_is_due_is_what_is_live(
    monkeypatch: pytest.MonkeyPatch, sweep_above: int, seed: int
) -> None:
    """Against a list; the heap stays a heap, and holds about as many stale entries as live ones."""
    monkeypatch.setattr(schedules, "_SWEEP_ABOVE", sweep_above)
    chance = random.Random(seed)
    live: set[tuple[int, int, int]] = set()
    schedule = Schedule(lambda due: tuple(due) in live)
    for ident in range(300):
        entry = chance.randrange(100), chance.randrange(3), ident
        live.add(entry)
        schedule.push(*entry)
        live -= set(chance.sample(sorted(live), len(live) // 2 if chance.random() < 0.2 else 0))
        assert len(schedule) <= 2 * max(len(live), sweep_above, 75) + 2
        now_ms = chance.randrange(100)
        assert sorted(schedule.due(now_ms)) == sorted(each for each in live if each[0] <= now_ms)
        assert schedule.may_be_due(now_ms) or not any(each[0] <= now_ms for each in live)
        if chance.random() < 0.1:
            assert schedule.next_ms() == min((each[0] for each in live), default=None)
    again = Schedule(lambda due: tuple(due) in live)
    assert (len(again), again.next_ms(), list(again.due(1 << 62))) == (0, None, [])
    again.load(live)
    while live:
        assert again.next_ms() == schedule.next_ms() == min(live)[0]
        live -= {min(live)}
    assert (again.next_ms(), schedule.next_ms(), len(schedule)) == (None, None, 0)


def test_an_entry_that_comes_again_is_entered_once_until_it_has_gone() -> None:
    live = {(5, 1, 7)}
    schedule = Schedule(lambda due: tuple(due) in live)
    for _ in range(3):
        schedule.push(5, 1, 7, again=True)
    assert (len(schedule), [tuple(due) for due in schedule.due(5)]) == (1, [(5, 1, 7)])
    live.clear()
    assert schedule.next_ms() is None
    live.add((5, 1, 7))
    schedule.push(5, 1, 7, again=True)
    assert schedule.next_ms() == 5


def test_an_entry_that_was_swept_out_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_SWEEP_ABOVE", 2)
    live = {(5, 1, 7)}
    schedule = Schedule(lambda due: tuple(due) in live)
    schedule.push(5, 1, 7, again=True)
    live.clear()
    for ident in range(8, 20):
        schedule.push(9, 1, ident)
    assert len(schedule) <= 3
    live.add((5, 1, 7))
    schedule.push(5, 1, 7, again=True)
    assert schedule.next_ms() == 5
