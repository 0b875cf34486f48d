"""Sides of a queue with lockstep SELECTED at a member: who asks, what is selected for it, and what its process is given
(K3).
"""

from __future__ import annotations

import pytest

from replica.machine.plan.react import ReactCall, plan_react
from replica.machine.plan.selecting import SELECTED_MAX, plan_select
from tandemq.peer.v1 import record_pb2
from tandemq.peer.v1.peer_service_pb2 import SideAsk
from tandemq.peer.v1.record_pb2 import ReactionCounts
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.node.side_member import HISTORY, Member

LOW, HIGH = 1, 9


def a_pair() -> Driver:
    """The pair's domain, with a queue whose sides are given what is selected."""
    driver = Driver()
    role = record_pb2.RoleOp(owner="a", history_id=HISTORY)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=role))
    driver.create(
        replication=admin_pb2.REPLICATION_PRODUCER, lockstep=admin_pb2.LOCKSTEP_SELECTED, reactions_enabled=True
    )
    return driver


@pytest.fixture
def driver() -> Driver:
    return a_pair()


def send(driver: Driver, *priorities: int) -> None:
    driver.enqueue(batch_of([10] * len(priorities), priorities))


def select(driver: Driver, until: int) -> None:
    """As the master does when it is asked up to there."""
    header = driver.plan(
        lambda: plan_select(driver.master.state, driver.now_ms, driver.master.state.named("q"), until, None)
    )
    if header is not None:
        driver.order(header)


def asked_by(member: Member) -> int:
    """What its heartbeat asks for; 0: nothing."""
    return next((each.until for each in member.sides.asks.beat(member.pair)), 0)


async def test_k3_the_replicas_side_asks_by_its_heartbeat(driver: Driver) -> None:
    """Up to its credit, again and again the same, and by a heartbeat that leaves at once when it has nothing left."""
    member = Member(driver, "b")
    _, consumer = member.consume()
    member.sides.on_moved()
    assert asked_by(member) == consumer.credit_messages == 100
    member.node.beat_wake.clear()
    member.sides.on_moved()
    assert asked_by(member) == 100
    assert not member.node.beat_wake.is_set(), "the peer has heard of it"


async def test_k3_a_side_whose_credit_is_used_up_hurries_its_next_question(driver: Driver) -> None:
    member = Member(driver, "b")
    process, consumer = member.consume()
    asked_by(member)
    send(driver, *[4] * 100)
    select(driver, 100)
    driver.replica.commit(driver.log_index)
    member.commit()
    assert process.indexes == list(range(1, 101))
    assert asked_by(member) == 100
    member.node.beat_wake.clear()
    consumer.credit_messages += 1
    member.own.consumers.on_credit(consumer)
    member.node.dispatch(member.own)
    assert member.node.beat_wake.is_set()
    assert asked_by(member) == 101


async def test_k3_each_side_is_given_the_kth_of_the_selection_by_its_number(driver: Driver) -> None:
    """Bodies are found by the index that k stands for."""
    member = Member(driver)
    process, _ = member.consume()
    send(driver, LOW, HIGH, 4)
    select(driver, 3)
    member.commit()
    assert process.indexes == [1, 2, 3]
    lease = next(iter(member.side.leases.values()))
    slices = member.own.orders.machine.segments_of(
        member.side.queue_id, member.own.orders.machine.left_of_lease(lease.lease_id)
    )
    found = member.sides.slices(member.sides.key(member.pair, member.queue), slices)
    assert [(part.first_index, part.first_ordinal, part.count) for part in found] == [(1, 1, 2), (3, 0, 1)]


async def test_k3_a_side_stops_behind_what_its_member_knows_to_be_selected(driver: Driver) -> None:
    """Whatever its credit is; a member that knows less gives less (K2)."""
    member = Member(driver, "b")
    process, _ = member.consume()
    send(driver, LOW, 4, HIGH)
    select(driver, 1)
    driver.replica.commit(driver.log_index)
    select(driver, 3)
    member.commit()
    assert process.indexes == [1]
    driver.replica.commit(driver.log_index)
    member.commit()
    assert process.indexes == [1, 2, 3]


async def test_k3_a_takeover_selects_anew_what_nobody_was_given(driver: Driver) -> None:
    """L is k = 1 for a. The record that selects H as k = 2 dies with its master: the next one selects anew,
    and whatever it takes as k = 2 is that for both.
    """
    send(driver, LOW)
    select(driver, 1)
    driver.replica.commit(driver.log_index)
    a, b = Member(driver), Member(driver, "b")
    at_a, at_b = a.consume()[0], b.consume()[0]
    for member in (a, b):
        member.commit()
    assert at_a.indexes == at_b.indexes == [1]
    driver.commits = False
    send(driver, HIGH)
    for member in (a, b):
        member.sides.on_moved()
    select(driver, 2)
    for member in (a, b):
        member.sides.on_moved()
        member.flush()
    assert at_a.indexes == at_b.indexes == [1], "it is committed nowhere"
    driver.commit()
    driver.replica.commit(driver.log_index)
    select(driver, 2)
    driver.commit()
    driver.replica.commit(driver.log_index)
    for member in (a, b):
        member.commit()
    assert at_a.indexes == at_b.indexes == [1, 2]


async def test_k5_a_reaction_leaves_what_is_selected(driver: Driver) -> None:
    send(driver, 4, 4)
    select(driver, 1)
    state, queue = driver.master.state, driver.master.state.named("q")
    call = ReactCall(queue.queue_id, [1], ReactionCounts(applied=1), b"R" * 16, 1)
    with pytest.raises(AssertionError, match="was looked at"):
        plan_react(state, driver.now_ms, call)
    call = ReactCall(queue.queue_id, [2], ReactionCounts(applied=1), b"R" * 16, 1)
    driver.order(driver.plan(lambda: plan_react(state, driver.now_ms, call)))
    assert queue.length == 1


async def test_what_the_peer_asks_for_ends_with_its_session(driver: Driver) -> None:
    member = Member(driver)
    member.sides.asks.on_beat(member.pair.shared.domain, [SideAsk(queue_id=member.queue.queue_id, until=5)])
    assert member.sides.asks.peer
    member.sides.forget_peer()
    assert not member.sides.asks.peer


async def test_k3_a_question_is_said_anew_to_each_session(driver: Driver) -> None:
    """The new master has heard nothing: the side does not wait for the next heartbeat that is due."""
    member = Member(driver, "b")
    member.consume()
    member.sides.on_moved()
    assert asked_by(member) == 100
    member.node.beat_wake.clear()
    member.sides.forget_peer()
    member.sides.on_moved()
    assert member.node.beat_wake.is_set()


async def test_k3_a_side_that_nobody_uses_any_more_asks_for_nothing(driver: Driver) -> None:
    """What is selected for nobody is overtaken by nothing: each message is a high one that waits."""
    member = Member(driver, "b")
    _, consumer = member.consume()
    member.sides.on_moved()
    assert asked_by(member) == 100
    member.leave(consumer)
    member.sides.on_moved()
    assert asked_by(member) == 0


async def test_k3_what_the_peer_asked_for_ends_with_its_consumer(driver: Driver) -> None:
    """Its next heartbeat asks for that side no more."""
    member = Member(driver)
    member.sides.asks.on_beat(member.pair.shared.domain, [SideAsk(queue_id=member.queue.queue_id, until=5)])
    member.sides.asks.on_beat(member.pair.shared.domain, [])
    assert not member.sides.asks.peer


async def test_k3_what_waits_at_a_side_counts_as_asked_for(driver: Driver) -> None:
    """Its consumer has no room for bytes: more would be selected each time, and none of it could be overtaken."""
    member = Member(driver, "b")
    process, consumer = member.consume()
    asked_by(member)
    consumer.credit_bytes = 0
    send(driver, *[4] * 8)
    select(driver, 8)
    driver.replica.commit(driver.log_index)
    member.commit()
    waiting = 8 - len(process.indexes)
    assert waiting > 0
    member.sides.on_moved()
    assert asked_by(member) == 8 + consumer.credit_messages - waiting


@pytest.mark.parametrize(("credit", "asked"), [(100, 100), (20_000, SELECTED_MAX)])
async def test_a_side_asks_for_what_its_consumer_has_credit_for_up_to_one_record(
    driver: Driver, credit: int, asked: int
) -> None:
    """What is selected is overtaken by nothing: 1,000,000 that a consumer could take would all be before what comes."""
    member = Member(driver, "b")
    _, consumer = member.consume()
    consumer.credit_messages = credit
    member.sides.on_moved()
    assert asked_by(member) == asked
