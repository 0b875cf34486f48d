"""What is due next, among entries that may have become stale."""

from __future__ import annotations

import random

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
