"""What becomes of a consumer's leases when its stream ends, and of its stream when the mastership does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from failover.marks import Role
from replica.core.state.calls import Consumer, PendingCall
from replica.core.state.outcomes import Moved
from replica.machine import QueueCall
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tandemq.v1.common_pb2 import Reason
from tests.support.clients import Producer, Waiter, create, rows
from tests.support.pair import Pair


@pytest.fixture
def pair() -> Pair:
    """Three messages in the queue."""
    made = Pair().start()
    create(made)
    x = Producer(made, "x")
    for _ in range(3):
        x.send(made.a)
    made.settle(200)
    return made


def consumer(credit: int) -> Consumer:
    return Consumer(Waiter(), "q", b"c", 0, credit_messages=credit, credit_bytes=1 << 20, member="a")


def attach(pair: Pair, made: Consumer, last_lease_id: int | None = None) -> list[tuple[int, list[int]]]:
    """Lease ids and indexes that it is given."""
    pair.a.core.attach(made, pair.wall_ms, last_lease_id)
    pair.a.dispatch(pair.a.core)
    pair.settle(200)
    waiter: Any = made.waiter
    store, shared = pair.a.store, pair.a.shared
    return [
        (done.lease_id, [row.index for row in rows(store, shared, "q", done.lease_id, done.slices)])
        for done in waiter.answers
    ]


def test_what_a_stream_was_given_after_the_last_that_it_knows_comes_again_at_once(pair: Pair) -> None:
    first = consumer(1)
    ((known, _),) = attach(pair, first)
    first.credit_messages += 1
    pair.a.core.consumers.on_credit(first)
    pair.a.dispatch(pair.a.core)
    pair.settle(200)
    lost = first.waiter.answers[-1].lease_id  # type: ignore[attr-defined]  # a Waiter of ours
    assert lost > known
    first.waiter.cancelled = True
    pair.a.core.consumers.detach(first)
    given = attach(pair, consumer(3), known)
    assert sorted(index for _, part in given for index in part) == [2, 3], "what it knows is leased to it still"


def test_a_stream_that_knows_of_nothing_gets_what_is_free(pair: Pair) -> None:
    first = consumer(2)
    attach(pair, first)
    pair.a.core.consumers.detach(first)
    assert [part for _, part in attach(pair, consumer(3))] == [[3]]


def test_with_the_mastership_its_streams_end(pair: Pair) -> None:
    waits = consumer(5)
    attach(pair, waits)
    assert waits.attached
    pair.a.core.start_handoff(pair.wall_ms, "test")
    pair.a.dispatch(pair.a.core)
    pair.settle(2_000)
    assert (pair.a.role, pair.b.role) == (Role.REPLICA, Role.MASTER)
    assert not waits.attached
    assert (pair.a.core.consumers.count, dict(pair.a.core.consumers.turns)) == (0, {})


def test_a_stream_whose_queue_is_deleted_is_sent_away_by_name(pair: Pair) -> None:
    """Nothing ever comes of it, also where nobody makes another one by that name; the stream of another queue stays."""
    create(pair, "other")
    waits, stays = consumer(5), replace(consumer(5), queue="other", waiter=Waiter())
    for each in (waits, stays):
        attach(pair, each)
    deleting = QueueCall(QUEUE_ACTION_DELETE, "q", members=["a", "b"], open_members=["a", "b"])
    pair.a.submit(PendingCall(Waiter(), deleting))
    pair.settle(2_000)
    done: Any = waits.waiter.done  # type: ignore[attr-defined]  # a Waiter of ours
    assert (done.reason, done.message) == (
        Reason.REASON_QUEUE_NOT_FOUND,
        "there is no queue 'q'; create it first",
    )
    assert (waits.attached, stays.attached) == (False, True)


@pytest.mark.parametrize("field", ["epoch", "promised_epoch"])
def test_a_master_that_hears_a_higher_epoch_is_none(pair: Pair, field: str) -> None:
    hello = pair.b.core.hello()
    setattr(hello, field, pair.a.shared.state.epoch + 1)
    pair.a.core.on_hello(hello, pair.now_ms)
    assert (pair.a.role, pair.a.serving) == (Role.PROBE, False)


def test_a_master_that_hears_its_own_epoch_goes_on(pair: Pair) -> None:
    pair.a.core.on_hello(pair.b.core.hello(), pair.now_ms)
    assert (pair.a.role, pair.a.serving) == (Role.MASTER, True)


def test_a_stream_that_is_opened_while_the_mastership_is_handed_over_is_sent_away(pair: Pair) -> None:
    """Whoever waited for nothing would not look for the master that is there in a moment."""
    pair.a.shared.draining = True
    waits = consumer(5)
    pair.a.core.attach(waits, pair.wall_ms)
    pair.a.dispatch(pair.a.core)
    assert isinstance(waits.waiter.done, Moved)  # type: ignore[attr-defined]  # a Waiter of ours
    assert not waits.attached
    pair.a.shared.draining = False
