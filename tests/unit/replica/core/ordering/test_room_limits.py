"""How many may wait for room and what they cost, and what becomes of them where another member becomes the master."""

from __future__ import annotations

from typing import Any

import pytest

import replica.core.ordering.room
from replica.core.state.calls import Consumer
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD
from tests.support.clients import Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_room import FULL, contents, fill, send, take, update, waiters


@pytest.fixture
def pair() -> Pair:
    """A pair whose queue takes two messages."""
    made = Pair()
    made.start()
    create(made, max_length=2)
    return made


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["a", "b"])
def test_waiters_of_a_queue_are_limited(pair: Pair, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.core.ordering.room, "WAITERS_MAX", 2)
    fill(pair)
    sent = [send(pair.members[at], f"p{number}", wait_ms=60_000) for number in range(3)]
    pair.quiesce()
    assert sent[2].refused == Reason.REASON_TOO_MANY_WAITERS
    assert (sent[0].waits, sent[1].waits) == (True, True)


def test_bytes_that_wait_are_limited(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.core.ordering.room, "WAITING_BYTES_MAX", 300)
    fill(pair)
    first = send(pair.a, "p1", wait_ms=60_000, size=200)
    second = send(pair.a, "p2", wait_ms=60_000, size=200)
    pair.quiesce()
    assert first.waits
    assert second.refused == Reason.REASON_TOO_MANY_WAITERS


def test_a_settlement_costs_the_same_however_many_wait(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wakes the head of the line and nobody else: counted, not timed."""
    fill(pair)
    room = pair.a.core.orders.room
    looks, fit_of = 0, replica.core.ordering.room.fit_of

    def counted(queue: Any, columns: Any) -> Any:
        nonlocal looks
        looks += 1
        return fit_of(queue, columns)

    for number in range(1_000):
        send(pair.a, f"p{number}", wait_ms=3_600_000)
    assert len(room) == 1_000
    monkeypatch.setattr(replica.core.ordering.room, "fit_of", counted)
    for _ in range(100):
        take(pair)
        pair.quiesce()
    assert looks <= 300, "the one that enters, and the one behind it after each of the two records"
    assert len(room) == 900
    for _ in range(50):
        pair.tick()
    assert looks <= 300, "time alone wakes nobody"


class Lines(dict[int, Any]):
    """Counts who goes through all of them."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()

    def keys(self) -> Any:
        self.walks += 1
        return super().keys()

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()


@pytest.mark.requirement("R055")
def test_a_settlement_looks_at_its_own_line_and_at_no_other(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does time: nobody is polled, however many queues have waiters."""
    others = [f"full{number}" for number in range(50)]
    fill(pair)
    for name in others:
        create(pair, name, max_length=1)
        send(pair.a, "first", queue=name)
    pair.quiesce()
    for name in ("q", *others):
        send(pair.a, "waits", wait_ms=3_600_000, queue=name)
    room, machine = pair.a.core.orders.room, pair.a.shared.machine
    assert len(room.lines) == 51
    looked: list[int] = []
    fit_of = replica.core.ordering.room.fit_of

    def counted(queue: Any, columns: Any) -> Any:
        looked.append(queue.queue_id)
        return fit_of(queue, columns)

    monkeypatch.setattr(replica.core.ordering.room, "fit_of", counted)
    room.lines = lines = Lines(room.lines)
    take(pair)
    pair.quiesce()
    assert len(lines) == 50, "the one that found room is in"
    assert looked == [machine.queue_id("q")]
    for _ in range(50):
        pair.tick()
    send(pair.a, "last", wait_ms=3_600_000, queue=others[0])
    pair.quiesce()
    assert set(looked) == {machine.queue_id("q"), machine.queue_id(others[0])}, "the second one has just come"
    assert len(looked) == 2
    assert lines.walks == 0


# -- other masters -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R158")
def test_after_a_takeover_waiters_wait_at_the_new_master_and_none_is_executed_twice(pair: Pair) -> None:
    fill(pair)
    first = send(pair.b, "p", wait_ms=60_000)
    second = send(pair.b, "p", wait_ms=60_000, first=2)
    pair.quiesce()
    pair.crash(pair.a)
    pair.b.lost(refused=True)
    pair.settle(3_000)
    assert pair.master is pair.b
    assert waiters(pair) == 2
    take(pair, 2)
    pair.settle(200)
    assert (first.index, second.index) == (3, 4)
    assert contents(pair) == [b"p/1", b"p/2"]


def test_a_handoff_takes_the_waiters_along(pair: Pair) -> None:
    fill(pair)
    at_a = send(pair.a, "at_a", wait_ms=60_000)
    at_b = send(pair.b, "at_b", wait_ms=60_000)
    pair.quiesce()
    pair.a.hand_over()
    pair.settle(2_000)
    assert pair.master is pair.b
    assert (at_a.waits, at_b.waits) == (True, True)
    assert waiters(pair) == 2
    take(pair, 2)
    pair.settle(200)
    assert sorted((at_a.index, at_b.index)) == [3, 4]


def test_what_the_peer_held_leaves_with_the_connection_and_comes_again(pair: Pair) -> None:
    fill(pair)
    at_b = send(pair.b, "at_b", wait_ms=60_000)
    pair.quiesce()
    at_a = send(pair.a, "at_a", wait_ms=60_000)
    pair.disconnect()
    assert waiters(pair) == 1
    pair.connect()
    pair.settle(500)
    assert waiters(pair) == 2
    take(pair)
    pair.settle(200)
    assert (at_a.index, at_b.waits) == (3, True)


def test_the_end_of_a_wait_is_kept_over_a_new_connection(pair: Pair) -> None:
    """A held call has no deadline of its own: without a master its outcome is not known, however long it may wait."""
    fill(pair)
    sent = send(pair.b, "p", wait_ms=500)
    pair.quiesce()
    pair.disconnect()
    for _ in range(40):
        pair.tick()
    pair.quiesce()
    assert sent.waits
    pair.connect()
    pair.settle(500)
    assert sent.refused == FULL


def test_more_than_may_be_held_is_parked_and_sent_in_order(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    import replica.core.ordering.holding

    monkeypatch.setattr(replica.core.ordering.holding, "HELD_BYTES_MAX", 1)
    update(pair, max_length=100)
    sent = [send(pair.b, "p", first=number) for number in (1, 2, 3)]
    assert (len(pair.b.core.holding.held), len(pair.b.core.holding.parked)) == (1, 2)
    pair.settle(300)
    assert [each.index for each in sent] == [1, 2, 3]


def test_a_queue_that_drops_its_head_has_no_waiters(pair: Pair) -> None:
    """What is leased cannot be dropped: who finds no room then is refused, and a queue that begins to drop lets in."""
    fill(pair)
    waits = [send(pair.b, f"p{number}", wait_ms=60_000) for number in range(2)]
    pair.quiesce()
    update(pair, overflow=OVERFLOW_DROP_HEAD)
    assert [each.index for each in waits] == [3, 4]
    assert contents(pair) == [b"p0/1", b"p1/1"]
    taker = Consumer(Waiter(), "q", b"taker", 0, credit_messages=2, credit_bytes=1 << 20, member="a")
    pair.a.attach(taker)
    refused = send(pair.a, "late", wait_ms=60_000)
    pair.settle(100)
    assert refused.refused == FULL
    assert pair.a.shared.machine.digest() == pair.b.shared.machine.digest()
