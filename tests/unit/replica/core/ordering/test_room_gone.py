"""Places in a line for room whose caller has gone: they leave, are never executed, and hold up nobody."""

from __future__ import annotations

from typing import Any

import pytest

import replica.core.ordering.room
from tests.support.clients import create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_room import FULL, Sent, contents, fill, send, take, waiters

LONG_MS = 60_000


@pytest.fixture
def pair() -> Pair:
    """A pair whose queue takes two messages."""
    made = Pair()
    made.start()
    create(made, max_length=2)
    return made


def go(pair: Pair, sent: Sent, at: str = "a") -> None:
    """Its caller goes, and the member that it had asked is told."""
    sent.waiter.cancelled = True
    member = pair.members[at]
    member.core.withdraw(sent.call, pair.wall_ms)
    member.dispatch(member.core)
    pair.quiesce()


def room(pair: Pair) -> Any:
    return pair.a.core.orders.room


def test_a_head_that_nobody_waits_for_is_passed_over_although_it_would_not_fit(pair: Pair) -> None:
    """Nobody has withdrawn it: its stream has just broken."""
    fill(pair)
    large = send(pair.a, "large", wait_ms=LONG_MS, count=2)
    small = send(pair.a, "small", wait_ms=LONG_MS)
    large.waiter.cancelled = True
    take(pair)
    pair.quiesce()
    assert small.index == 3
    assert large.waiter.answers == []
    assert contents(pair) == [b"first/2", b"small/1"]
    assert (len(room(pair)), room(pair).bytes, room(pair).lines) == (0, 0, {})


def test_a_head_that_goes_lets_the_next_one_in_at_once(pair: Pair) -> None:
    fill(pair, 1)
    large = send(pair.a, "large", wait_ms=LONG_MS, count=2)
    small = send(pair.a, "small", wait_ms=LONG_MS)
    pair.quiesce()
    assert small.waits
    go(pair, large)
    assert small.index == 2


def test_at_the_end_of_its_wait_what_nobody_waits_for_is_not_executed(pair: Pair) -> None:
    """There is room for it by then, and for the one behind it only while it is not there."""
    fill(pair, 1)
    large = send(pair.a, "large", wait_ms=500, count=2)
    small = send(pair.a, "small", wait_ms=LONG_MS)
    pair.quiesce()
    large.waiter.cancelled = True
    pair.settle(700)
    assert small.index == 2
    assert large.waiter.answers == []
    assert contents(pair) == [b"first/1", b"small/1"]


def test_of_two_callers_of_one_place_the_one_that_stays_is_answered(pair: Pair) -> None:
    fill(pair)
    first, again = (send(pair.a, "p", wait_ms=LONG_MS) for _ in range(2))
    behind = send(pair.a, "behind", wait_ms=LONG_MS)
    assert waiters(pair) == 2
    go(pair, first)
    assert waiters(pair) == 2
    take(pair)
    pair.quiesce()
    assert (again.index, behind.waits, first.waiter.answers) == (3, True, [])
    go(pair, behind)
    assert (waiters(pair), room(pair).bytes) == (0, 0)


def test_who_has_gone_without_a_word_hears_nothing_of_what_his_repetition_is_told(pair: Pair) -> None:
    fill(pair)
    first, again = (send(pair.a, "p", wait_ms=LONG_MS) for _ in range(2))
    first.waiter.cancelled = True
    take(pair)
    pair.quiesce()
    assert (again.index, first.waiter.answers) == (3, [])


def test_the_last_batch_of_a_producer_that_goes_may_come_again_in_its_turn(pair: Pair) -> None:
    """What it leaves behind is no gap: the next batch has its number."""
    fill(pair)
    first = send(pair.a, "p", wait_ms=LONG_MS)
    second = send(pair.a, "p", wait_ms=LONG_MS, first=2)
    go(pair, second)
    again = send(pair.a, "p", wait_ms=LONG_MS, first=2, size=20)
    assert (waiters(pair), again.waits) == (2, True)
    take(pair, 2)
    pair.quiesce()
    assert (first.index, again.index) == (3, 4)


def test_behind_a_batch_that_has_gone_a_producer_has_a_gap(pair: Pair) -> None:
    """Its own next batch is told so; whoever stands behind is let in."""
    fill(pair)
    first = send(pair.a, "p", wait_ms=LONG_MS)
    second = send(pair.a, "p", wait_ms=LONG_MS, first=2)
    other = send(pair.a, "other", wait_ms=LONG_MS)
    go(pair, first)
    assert waiters(pair) == 2
    take(pair, 2)
    pair.quiesce()
    assert not second.waits
    assert not hasattr(second.waiter.done, "first_index") or second.waiter.done.first_index == 0
    assert other.index == 3


def test_who_does_not_wait_here_leaves_nothing(pair: Pair) -> None:
    fill(pair)
    waits = send(pair.a, "p", wait_ms=LONG_MS)
    refused = send(pair.a, "q")
    pair.quiesce()
    stranger = send(pair.b, "stranger", wait_ms=LONG_MS)  # not sent yet
    assert refused.refused == FULL
    for sent in (refused, stranger):
        assert not room(pair).leave(sent.call)
    assert room(pair).leave_held("q", (b"p", 1)) is None, "it is no call of the peer"
    assert room(pair).leave_held("q", (b"nobody", 1)) is None
    assert room(pair).leave_held("nowhere", (b"p", 1)) is None
    assert (waits.waits, waiters(pair)) == (True, 1)


def test_with_the_connection_the_peers_calls_leave_and_come_again_behind_the_others(pair: Pair) -> None:
    fill(pair)
    theirs = send(pair.b, "theirs", wait_ms=LONG_MS)
    pair.quiesce()
    ours = send(pair.a, "ours", wait_ms=LONG_MS)
    both = send(pair.b, "both", wait_ms=LONG_MS), send(pair.a, "both", wait_ms=LONG_MS)
    pair.quiesce()
    assert waiters(pair) == 3
    pair.disconnect()
    assert waiters(pair) == 2, "ours, and the caller here of what both wait for"
    pair.connect()
    pair.settle(500)
    assert waiters(pair) == 3
    take(pair, 2)
    pair.settle(200)
    assert (ours.index, both[1].index, both[0].index, theirs.waits) == (3, 4, 4, True)


def test_ends_of_waits_that_were_prolonged_are_not_kept_for_ever(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.core.ordering.room, "STALE_MAX", 10)
    fill(pair)
    for more in range(100):
        send(pair.a, "p", wait_ms=LONG_MS + more)
    assert len(room(pair)._ends) <= 12
    pair.settle(200)
    (place,) = room(pair).lines[1].places.values()
    assert [call.full_until_ms - pair.wall_ms for call in place.calls] == [
        LONG_MS - 200 + more for more in range(36, 100)
    ], "so many repetitions wait in one place: the oldest have left"


def test_a_place_goes_with_the_last_of_its_callers(pair: Pair) -> None:
    fill(pair)
    sent = [send(pair.a, "p", wait_ms=LONG_MS) for _ in range(3)]
    for each in sent:
        assert waiters(pair) == 1
        go(pair, each)
    assert (waiters(pair), room(pair).lines) == (0, {})


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_place_at_the_master_goes_with_the_last_caller_at_the_replica(pair: Pair, order: tuple[int, ...]) -> None:
    """The replica holds one call of a batch, with its repetitions: whoever of them goes last, the master is told, and
    hears of none of them again.
    """
    fill(pair)
    sent = [send(pair.b, "p", wait_ms=wait_ms) for wait_ms in (500, 5_000, 50)]
    pair.quiesce()
    behind = send(pair.a, "behind", wait_ms=LONG_MS)
    for position in order:
        assert waiters(pair) == 2
        go(pair, sent[position], at="b")
    assert waiters(pair) == 1
    take(pair)
    pair.settle(6_000)
    assert behind.index == 3
    assert contents(pair) == [b"first/2", b"behind/1"]
    assert [each.waiter.answers for each in sent if not each.waiter.cancelled] == []
    assert len(pair.b.core.holding) == 0


def test_what_a_producer_sends_next_waits_behind_its_last_batch_when_an_earlier_one_has_gone(pair: Pair) -> None:
    fill(pair)
    sent = [send(pair.a, "p", wait_ms=LONG_MS, first=number) for number in (1, 2, 3)]
    go(pair, sent[1])
    following = send(pair.a, "p", first=4)
    assert (following.waits, waiters(pair)) == (True, 3)


def test_a_line_that_is_empty_by_the_time_its_queue_has_changed_is_no_trouble(pair: Pair) -> None:
    fill(pair)
    waits = send(pair.a, "p", wait_ms=LONG_MS)
    room(pair).woken[1] = True
    waits.waiter.cancelled = True
    assert room(pair).leave(waits.call)
    pair.a.dispatch(pair.a.core)
    assert room(pair).woken == {}


def test_a_caller_that_goes_after_its_answer_is_no_news_for_the_master(pair: Pair) -> None:
    sent = send(pair.b, "p", wait_ms=LONG_MS)
    pair.settle(200)
    assert sent.index == 1
    sent.waiter.cancelled = True
    pair.b.core.withdraw(sent.call, pair.wall_ms)
    assert list(pair.b.core.shared.outbox.take()) == []
