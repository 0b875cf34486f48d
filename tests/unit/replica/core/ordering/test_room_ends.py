"""When a wait for room ends, to the millisecond, and who counts as one that waits."""

from __future__ import annotations

import random

import google_crc32c
import pytest

import replica.core.ordering.room
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import Failed
from replica.machine import EnqueueCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CLOSE
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_room import FULL, Sent, act, fill, send, take, waiters

LONG_MS = 60_000


@pytest.fixture
def pair() -> Pair:
    """A pair whose queue takes two messages."""
    made = Pair()
    made.start()
    create(made, max_length=2)
    return made


def unary(pair: Pair, request_id: bytes, until_ms: int = 0) -> Sent:
    """One message by one call, which has no sequence."""
    batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[request_id]))
    body, waiter = batch.SerializeToString(), Waiter()
    call = EnqueueCall(
        "q", b"", 0, columns_of(batch), "a", request_id=request_id, request_hash=google_crc32c.value(body)
    )
    pending = PendingEnqueue(waiter, call, body, full_until_ms=until_ms)
    pair.a.submit(pending)
    return Sent(waiter, pending)


def test_a_wait_ends_at_its_millisecond(pair: Pair) -> None:
    fill(pair)
    sent = send(pair.a, "p", wait_ms=100)
    pair.tick(99)
    pair.quiesce()
    assert sent.waits
    pair.tick(1)
    pair.quiesce()
    assert sent.refused == FULL


def test_a_wait_that_is_over_as_it_comes_is_none(pair: Pair) -> None:
    fill(pair)
    sent = unary(pair, b"r", until_ms=pair.wall_ms)
    pair.quiesce()
    assert sent.refused == FULL


def test_a_repetition_with_a_longer_wait_prolongs_it_and_a_shorter_one_does_not(pair: Pair) -> None:
    fill(pair)
    sent = [send(pair.a, "p", wait_ms=wait_ms) for wait_ms in (100, 300, 200)]
    pair.tick(299)
    pair.quiesce()
    assert [each.waits for each in sent] == [True] * 3
    pair.tick(1)
    pair.quiesce()
    assert [each.refused for each in sent] == [FULL] * 3


@pytest.mark.parametrize("seed", range(5))
def test_every_wait_ends_in_its_turn_however_often_it_was_prolonged(
    pair: Pair, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica.core.ordering.room, "STALE_MAX", 0)
    drawn = random.Random(seed)
    fill(pair)
    ends: dict[str, int] = {}
    sent: dict[str, Sent] = {}
    for number in range(60):
        name = f"p{number % 12}"
        wait_ms = drawn.randint(10, 200)
        made = send(pair.a, name, wait_ms=wait_ms)
        ends[name] = max(ends.get(name, 0), pair.now_ms + wait_ms)
        sent.setdefault(name, made)
    while any(each.waits for each in sent.values()):
        pair.tick(drawn.randint(1, 9))
        pair.quiesce()
        for name, each in sent.items():
            assert each.waits is (ends[name] > pair.now_ms), (seed, name)
    assert (waiters(pair), pair.a.core.orders.room.bytes) == (0, 0)


def test_calls_without_a_sequence_wait_each_for_itself(pair: Pair) -> None:
    fill(pair)
    until_ms = pair.wall_ms + LONG_MS
    first, second = unary(pair, b"r1", until_ms), unary(pair, b"r2", until_ms)
    no_wait = unary(pair, b"r3")
    pair.quiesce()
    assert (waiters(pair), no_wait.refused) == (2, FULL)
    take(pair)
    pair.quiesce()
    assert (first.index, second.waits) == (3, True)
    take(pair)
    pair.quiesce()
    assert second.index == 4
    assert pair.a.core.orders.room.lines == {}


def test_without_a_line_what_finds_some_room_enters_in_part(pair: Pair) -> None:
    fill(pair, 1)
    sent = send(pair.a, "p", count=3)
    pair.quiesce()
    assert sent.waiter.done.refusals == [(1, FULL), (2, FULL)]
    assert sent.waiter.done.first_index == 2


def test_who_may_not_send_does_not_wait_behind_his_own_batch(pair: Pair) -> None:
    fill(pair)
    waits = send(pair.b, "p", wait_ms=LONG_MS)
    pair.quiesce()
    act(pair, QUEUE_ACTION_CLOSE, member="a")
    following = send(pair.a, "p", first=2)
    pair.quiesce()
    assert (waits.waits, following.refused) == (True, Reason.REASON_INVALID_STATE)


def test_waiters_are_counted_by_queue(pair: Pair) -> None:
    fill(pair)
    create(pair, "other", max_length=1)
    for name in ("p1", "p2"):
        send(pair.a, name, wait_ms=LONG_MS)
    room = pair.a.core.orders.room
    assert [room.waiters(queue_id) for queue_id in (1, 2, 99)] == [2, 0, 0]


def test_a_limit_is_reached_and_not_passed_and_says_when_to_come_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pair)
    first = send(pair.a, "p1", wait_ms=LONG_MS)
    size = pair.a.core.orders.room.bytes
    monkeypatch.setattr(replica.core.ordering.room, "WAITING_BYTES_MAX", 2 * size)
    second, third = (send(pair.a, name, wait_ms=LONG_MS) for name in ("p2", "p3"))
    monkeypatch.setattr(replica.core.ordering.room, "WAITING_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(replica.core.ordering.room, "WAITERS_MAX", 2)
    fourth = send(pair.a, "p4", wait_ms=LONG_MS)
    pair.quiesce()
    assert (first.waits, second.waits, pair.a.core.orders.room.bytes) == (True, True, 2 * size)
    for each in (third, fourth):
        (said,) = each.waiter.answers
        assert isinstance(said, Failed)
        assert (said.reason, said.retry_after_ms) == (Reason.REASON_TOO_MANY_WAITERS, 1_000)
