"""Macro queues in the state: how they change, which member a batch enters, and what a repetition finds (M1-M6, M12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from replica.machine import EnqueueCall, Fresh, Limits, MacroCall, Refused, Repeated, SettleCall, columns_of
from replica.machine.features import macros
from replica.machine.features.macros import (
    ADD,
    CREATE,
    DELETE,
    REMOVE,
    page_of_macros,
    plan_macro,
    shown_macro,
)
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.fan_in import asked_in_order
from replica.machine.plan.settle_macro import plan_settle_macro
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import ACK, Driver, batch_of, ranges_of

PRODUCER, CONSUMER = pb.RELATIONSHIP_PRODUCER, pb.RELATIONSHIP_CONSUMER
TURNS, SHORTEST = pb.MACRO_POLICY_ROUND_ROBIN, pb.MACRO_POLICY_SHORTEST_QUEUE
ID = bytes(range(16))


def change(driver: Driver, action: record_pb2.MacroAction, name: str = "m", **fields: Any) -> record_pb2.MacroOp:
    call = MacroCall(action, name, fields.pop("request_id", b""), fields.pop("request_hash", 0), **fields)
    header = driver.plan(lambda: plan_macro(driver.master.state, driver.now_ms, call))
    driver.order(header)
    op: record_pb2.MacroOp = header.macro
    return op


def made(policy: pb.MacroPolicy = TURNS, *members: str, relationship: pb.Relationship = PRODUCER) -> Driver:
    driver = Driver()
    change(driver, CREATE, relationship=relationship, policy=policy)
    for name in members or ("q1", "q2", "q3"):
        driver.create(name)
        change(driver, ADD, queue=name)
    return driver


def plan_sent(driver: Driver, count: int = 1, *, lines: tuple[int, ...] = (), **fields: Any) -> Any:
    batch = batch_of([10] * count, queue="m")
    first = fields.pop("first_sequence", driver.master.last_sequence("m", b"p") + 1)
    identity = (b"", 0) if "request_id" in fields else (b"p", first)
    call = EnqueueCall("m", *identity, columns_of(batch), "a", fields.pop("request_id", b""), **fields)
    macro = driver.master.state.macros.by_name["m"]
    return driver.plan(lambda: plan_deal(driver.master.state, driver.now_ms, macro, call, lines))


def sent(driver: Driver, count: int = 1, **fields: Any) -> str:
    """The member that a batch enters."""
    plan = plan_sent(driver, count, **fields)
    assert isinstance(plan, Fresh)
    driver.order(plan.header)
    return str(plan.header.enqueue.queue)


def members(driver: Driver) -> list[tuple[str, int]]:
    return [(each.queue, each.priority) for each in shown_macro(driver.master.state, "m").members]


@contextmanager
def refused(reason: common_pb2.Reason, text: str) -> Iterator[None]:
    with pytest.raises(Refused, match=text) as caught:
        yield
    assert caught.value.reason == reason


def test_a_macro_queue_shares_the_name_space_of_the_queues() -> None:
    """M1."""
    driver = made()
    with refused(common_pb2.REASON_QUEUE_EXISTS, "m is a macro queue"):
        driver.create("m")
    with refused(common_pb2.REASON_QUEUE_EXISTS, "q1 exists"):
        change(driver, CREATE, "q1")
    with refused(common_pb2.REASON_QUEUE_EXISTS, "m is a macro queue"):
        change(driver, CREATE)
    with refused(common_pb2.REASON_BAD_REQUEST, "m is a macro queue"):
        driver.send(1, queue="m")
    number = driver.create("later")
    assert number > driver.master.state.macros.by_name["m"].queue_id, "numbers are never used twice"


@pytest.mark.requirement("R074")
def test_what_does_not_fit_is_refused_by_the_members_name() -> None:
    """R074."""
    driver = made(pb.MACRO_POLICY_UNSPECIFIED, "q1", relationship=CONSUMER)
    change(driver, CREATE, "other")
    driver.create("twins", replication=admin_pb2.REPLICATION_PRODUCER)
    driver.create("sole", single_active=True)
    driver.create("SYSTEM.DEAD")
    driver.create("asks", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    for queue, reason, text in (
        ("gone", common_pb2.REASON_QUEUE_NOT_FOUND, "no queue 'gone'"),
        ("other", common_pb2.REASON_CONFIG_ERROR, "other is a macro queue itself"),
        ("m", common_pb2.REASON_CONFIG_ERROR, "m is a macro queue itself"),
        ("q1", common_pb2.REASON_CONFIG_ERROR, "q1 is a member of macro queue m already"),
        ("//far/q1", common_pb2.REASON_QUEUE_NOT_FOUND, "no proxy of this domain leads to //far/q1"),
        ("twins", common_pb2.REASON_CONFIG_MISMATCH, "twins cannot be a member.*PRODUCER replication"),
        ("SYSTEM.DEAD", common_pb2.REASON_CONFIG_MISMATCH, "SYSTEM.DEAD cannot be a member.*manager's own"),
        ("sole", common_pb2.REASON_CONFIG_MISMATCH, "sole cannot be a member.*single_active"),
        ("asks", common_pb2.REASON_CONFIG_MISMATCH, "asks cannot be a member.*TWO_WAY"),
    ):
        with pytest.raises(Refused, match=text) as caught:
            change(driver, ADD, queue=queue)
        assert (caught.value.reason, caught.value.metadata) == (reason, {"queue": "m", "member": queue})
    with refused(common_pb2.REASON_CONFIG_ERROR, "member priority is 0 to 9"):
        change(driver, ADD, queue="q1", priority=10)
    with refused(common_pb2.REASON_CONFIG_ERROR, "policy of a CONSUMER is one of"):
        change(driver, CREATE, "n", policy=SHORTEST)
    assert members(driver) == [("q1", 0)]


def test_a_member_changes_into_nothing_that_could_not_be_added() -> None:
    """R074: while it is configured its type can be changed still."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, "q1", relationship=CONSUMER)
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, "q2", configuring=True)
    change(driver, ADD, queue="q2")
    asks = admin_pb2.QueueConfig(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    for config in (asks, admin_pb2.QueueConfig(single_active=True)):
        with pytest.raises(Refused, match="q2 could not be a member of macro queue m any more") as caught:
            driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q2", config=config)
        assert (caught.value.reason, caught.value.metadata) == (
            common_pb2.REASON_CONFIG_MISMATCH,
            {"queue": "m", "member": "q2"},
        )
    change(driver, REMOVE, queue="q2")
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q2", config=asks)


def test_there_are_limits() -> None:
    driver = Driver(Limits(macros_max=1, macro_members_max=1))
    change(driver, CREATE)
    with refused(common_pb2.REASON_QUOTA_EXCEEDED, "there are 1 macro queues"):
        change(driver, CREATE, "n")
    for name in ("q1", "q2"):
        driver.create(name)
    change(driver, ADD, queue="q1")
    with refused(common_pb2.REASON_QUOTA_EXCEEDED, "has 1 members"):
        change(driver, ADD, queue="q2")


def test_versions_keep_stale_administrators_away() -> None:
    driver = made(TURNS, "q1")
    with refused(common_pb2.REASON_VERSION_MISMATCH, "has version 2, not 1"):
        change(driver, REMOVE, queue="q1", expected_version=1)
    change(driver, REMOVE, queue="q1", expected_version=2)
    with refused(common_pb2.REASON_QUEUE_NOT_FOUND, "no member 'q1'"):
        change(driver, REMOVE, queue="q1")
    change(driver, DELETE, expected_version=3)
    with refused(common_pb2.REASON_QUEUE_NOT_FOUND, "no macro queue 'm'"):
        change(driver, DELETE)


@pytest.mark.requirement("R090")
def test_a_queue_that_is_deleted_is_no_member_any_more() -> None:
    """M12, by the same record; the turn goes on behind it."""
    driver = made(TURNS)
    assert [sent(driver) for _ in range(2)] == ["q1", "q2"]
    driver.queue(record_pb2.QUEUE_ACTION_DELETE, "q2")
    assert members(driver) == [("q1", 0), ("q3", 0)]
    assert shown_macro(driver.master.state, "m").version == 5
    assert [sent(driver) for _ in range(3)] == ["q3", "q1", "q3"]


def test_turns_go_round_and_pass_over_who_cannot() -> None:
    """R086; the position is state, so it is the same whoever is master next (M3)."""
    driver = made(TURNS)
    assert [sent(driver) for _ in range(4)] == ["q1", "q2", "q3", "q1"]
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q2", config=admin_pb2.QueueConfig(enqueue_enabled=False))
    assert [sent(driver) for _ in range(3)] == ["q3", "q1", "q3"]
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=admin_pb2.QueueConfig(max_length=1))
    assert sent(driver) == "q3"
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "q3")
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "q1")
    with refused(common_pb2.REASON_ENQUEUE_DISABLED, "no member of macro queue m is open at a"):
        plan_sent(driver)
    restored = driver.restored()
    assert restored.digest() == driver.master.digest()
    assert restored.state.macros.by_name["m"].last == driver.master.state.macros.by_name["m"].last


def test_the_turn_outlives_a_snapshot() -> None:
    driver = made(TURNS)
    sent(driver)
    driver.master = driver.restored()
    assert [sent(driver) for _ in range(3)] == ["q2", "q3", "q1"]


def test_the_first_that_is_available_by_member_priority() -> None:
    """R083."""
    driver = made(pb.MACRO_POLICY_FIRST_AVAILABLE, "q1")
    driver.create("best", max_length=2)
    change(driver, ADD, queue="best", priority=5)
    assert [sent(driver) for _ in range(3)] == ["best", "best", "q1"]


def test_the_shortest_queue() -> None:
    """R087; ties by the order of adding."""
    driver = made(SHORTEST, "q1", "q2")
    assert [sent(driver, count) for count in (3, 2, 2, 1)] == ["q1", "q2", "q2", "q1"]


def test_a_batch_that_nobody_can_take_whole_enters_as_far_as_there_is_room() -> None:
    driver = made(pb.MACRO_POLICY_FIRST_AVAILABLE, "none")
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "none")
    for name in ("q1", "q2"):
        driver.create(name, max_length=3)
        change(driver, ADD, queue=name)
    plan = plan_sent(driver, 5)
    assert [refusal.ordinal for refusal in plan.header.enqueue.refusals] == [3, 4]
    line = driver.master.queue_id("q1")
    assert line is not None
    assert plan_sent(driver, 1, lines=(line,)).header.enqueue.queue == "q2", "nobody overtakes who waits for room"


def test_what_finds_every_member_full_is_refused_one_by_one_and_consumes_its_sequences() -> None:
    """As at a queue: what a producer has sent behind it without waiting follows it. The turn stays where it was."""
    driver = made(TURNS, "shut")
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "shut")
    for name in ("q1", "q2"):
        driver.create(name, max_length=1)
        change(driver, ADD, queue=name)
    assert [sent(driver) for _ in range(2)] == ["q1", "q2"]
    for _ in range(2):
        plan = plan_sent(driver, 2)
        assert isinstance(plan, Fresh)
        op = plan.header.enqueue
        reasons = [(each.ordinal, each.reason) for each in op.refusals]
        assert reasons == [(0, common_pb2.REASON_QUEUE_FULL), (1, common_pb2.REASON_QUEUE_FULL)]
        driver.order(plan.header)
    assert driver.master.last_sequence("m", b"p") == 6
    driver.queue(record_pb2.QUEUE_ACTION_PURGE, "q1")
    driver.queue(record_pb2.QUEUE_ACTION_PURGE, "q2")
    assert sent(driver) == "q1"
    lines = tuple(number for name in ("q1", "q2") if (number := driver.master.queue_id(name)))
    waited = plan_sent(driver, 1, lines=lines).header.enqueue
    assert [each.reason for each in waited.refusals] == [common_pb2.REASON_QUEUE_FULL], "there is a line for the room"


def of_ids(driver: Driver, *ids: str) -> record_pb2.EnqueueOp:
    """What messages with these dedup ids came to."""
    batch = batch_of([10] * len(ids), queue="m", dedup_ids=ids)
    call = EnqueueCall("m", b"p", driver.master.last_sequence("m", b"p") + 1, columns_of(batch), "a")
    macro = driver.master.state.macros.by_name["m"]
    plan = driver.plan(lambda: plan_deal(driver.master.state, driver.now_ms, macro, call))
    assert isinstance(plan, Fresh)
    driver.order(plan.header)
    return plan.header.enqueue


def test_a_dedup_id_finds_the_member_that_it_was_dealt_to() -> None:
    """Whoever's turn it is: at another one the message would be there twice."""
    driver = made(SHORTEST)
    assert of_ids(driver, "x", "y").queue == "q1"
    again = of_ids(driver, "y")
    assert (again.queue, [(each.ordinal, each.index) for each in again.duplicates]) == ("q1", [(0, 2)])
    driver.master = driver.restored()
    more = of_ids(driver, "z", "x")
    assert (more.queue, [each.ordinal for each in more.duplicates], more.first_index) == ("q1", [1], 3)
    assert of_ids(driver, "n").queue == "q2"
    with refused(common_pb2.REASON_BAD_REQUEST, "entered different members, dedup id 'n' queue q2 and 'x' queue q1"):
        of_ids(driver, "n", "x")
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=admin_pb2.QueueConfig(enqueue_enabled=False))
    assert of_ids(driver, "x").first_index == 0, "what is there already needs nobody who takes messages"
    with refused(common_pb2.REASON_ENQUEUE_DISABLED, "q1"):
        of_ids(driver, "x", "new")
    driver.now_ms += 700_000
    assert of_ids(driver, "x").queue == "q3", "the window is over"
    assert list(driver.master.state.macros.by_name["m"].dealt.items())[-1][0] == "x"
    change(driver, REMOVE, queue="q3")
    assert of_ids(driver, "x").queue == "q2", "it is no member any more"


def test_no_more_dedup_ids_are_kept_than_the_members_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = made(TURNS, "q1")
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q1", config=admin_pb2.QueueConfig(dedup_max=2))
    for name in "abcd":
        of_ids(driver, name)
    dealt = driver.master.state.macros.by_name["m"].dealt
    assert list(dealt) == ["c", "d"]
    monkeypatch.setattr(macros, "DEALT_MAX", 1)
    of_ids(driver, "e")
    assert list(dealt) == ["e"]


def test_a_repetition_finds_the_first_dealing() -> None:
    """M2: although the members have changed since."""
    driver = made(SHORTEST)
    assert sent(driver, 2) == "q1"
    assert sent(driver, request_id=ID, request_hash=7) == "q2"
    change(driver, REMOVE, queue="q1")
    for machine in (driver.master, driver.restored()):
        driver.master = machine
        for fields in ({"first_sequence": 1}, {"request_id": ID, "request_hash": 7}):
            again = plan_sent(driver, 2 if "first_sequence" in fields else 1, **fields)
            assert isinstance(again, Repeated)
            home = driver.master.home_of(again.run, "m")
            assert home is not None
            assert (home.name, again.run.first_index) == ("q1" if "first_sequence" in fields else "q2", 1)
    with refused(common_pb2.REASON_SEQUENCE_GAP, "do not follow 2"):
        plan_sent(driver, first_sequence=9)
    assert driver.master.last_sequence("q1", b"p") == 0, "sequences are the macro queue's"


@pytest.mark.requirement("R030")
def test_the_opposite_call_is_refused() -> None:
    """M12."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, relationship=CONSUMER)
    with refused(common_pb2.REASON_RELATIONSHIP_MISMATCH, "m is a CONSUMER"):
        plan_sent(driver)


def test_members_are_asked_by_priority_and_then_as_they_were_added() -> None:
    """R078."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, "q1", "q2", relationship=CONSUMER)
    driver.create("top")
    change(driver, ADD, queue="top", priority=9)

    def asked() -> list[str]:
        macro = driver.master.state.macros.by_name["m"]
        found = asked_in_order(driver.master.state, macro, driver.now_ms, immediate=False)
        return [each.queue.name for each in found]

    for name in ("q2", "q1"):
        driver.send(1, queue=name)
    assert asked() == ["q1", "q2"]
    driver.send(1, queue="top")
    assert asked() == ["top", "q1", "q2"]
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "top", config=admin_pb2.QueueConfig(dequeue_enabled=False))
    driver.queue(record_pb2.QUEUE_ACTION_CLOSE, "q1")
    assert asked() == ["q2"]


def test_a_settlement_by_the_macro_queues_name_finds_the_member() -> None:
    """M6: by its lease, by what was settled, or by the name that it gives; never by the index alone."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, "q1", "q2", relationship=CONSUMER)
    for name in ("q1", "q2"):
        driver.send(1, queue=name)
    leases = {name: driver.lease(name=name)[0] for name in ("q1", "q2")}

    def settled(*settlements: Settlement, **fields: Any) -> list[int]:
        call = SettleCall("m", settlements, **fields)
        headers, results = driver.plan(lambda: plan_settle_macro(driver.master.state, driver.now_ms, call))
        for header in headers:
            driver.order(header)
        return [result.settled for result in results]

    def ack(lease_id: int, queue: str = "") -> Settlement:
        return Settlement(lease_id=lease_id, ranges=ranges_of((1, 1)), outcome=ACK, queue=queue)

    both = ack(leases["q2"]), ack(leases["q1"])
    assert settled(*both, request_id=ID, request_hash=1) == [1, 1]
    found = driver.master.find_request(ID, 1)
    assert found is not None
    assert [result.settled for result in found.results] == [1, 1]
    assert settled(*both) == [1, 1], "as they were settled"
    driver.send(1, queue="q2")
    gone, _ = driver.lease(name="q2")
    driver.now_ms += 3_600_000
    driver.expire()
    late = Settlement(lease_id=gone, ranges=ranges_of((2, 2)), outcome=ACK)
    assert settled(late) == [0]
    late.queue = "q2"
    assert settled(late) == [1]


def test_the_oldest_message_of_a_member_is_one_that_is_given() -> None:
    """R079: one whose time is over is given to nobody, and what stands behind it is younger than the other member's."""
    driver = made(pb.MACRO_POLICY_CHRONOLOGICAL, "q1", "q2", relationship=CONSUMER)
    driver.enqueue(batch_of([1], ttls_ms=[50], queue="q2"))
    driver.enqueue(batch_of([1, 1], ttls_ms=[50, 0], queue="q1"))
    driver.enqueue(batch_of([1], queue="q2"))
    macro = driver.master.state.macros.by_name["m"]

    def asked() -> list[tuple[str, int]]:
        found = asked_in_order(driver.master.state, macro, driver.now_ms, immediate=False)
        return [(each.queue.name, each.most) for each in found]

    assert asked() == [("q2", 1), ("q1", 2)]
    driver.now_ms += 60
    assert asked() == [("q1", 1), ("q2", 1)]


def test_what_is_not_committed_is_no_head() -> None:
    """R080: nobody is given it yet, and what its queue gives in its place is no better than another member's."""
    driver = made(pb.MACRO_POLICY_MESSAGE_PRIORITY, "q1", "q2", relationship=CONSUMER)
    driver.enqueue(batch_of([1], [4], queue="q1"))
    driver.enqueue(batch_of([1], [5], queue="q2"))
    macro = driver.master.state.macros.by_name["m"]

    def first() -> str:
        return next(asked_in_order(driver.master.state, macro, driver.now_ms, immediate=False)).queue.name

    driver.commits = False
    driver.enqueue(batch_of([1], [9], queue="q1"))
    assert first() == "q2"
    driver.commit()
    assert first() == "q1"


@pytest.mark.parametrize("policy", [pb.MACRO_POLICY_FIRST_AVAILABLE, TURNS])
def test_a_member_that_drops_its_oldest_has_room_for_ever(policy: pb.MacroPolicy) -> None:
    driver = made(policy, "other")
    driver.create("drops", max_length=2, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    change(driver, ADD, queue="drops", priority=9)
    driver.enqueue(batch_of([1, 1], queue="drops"))
    if policy == TURNS:
        driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "other", config=admin_pb2.QueueConfig(enqueue_enabled=False))
    assert [sent(driver, 3) for _ in range(2)] == ["drops"] * 2


def test_a_batch_goes_where_its_bytes_have_room() -> None:
    driver = made(pb.MACRO_POLICY_FIRST_AVAILABLE, "large")
    driver.create("small", max_bytes=25, max_message_bytes=25)
    change(driver, ADD, queue="small", priority=9)
    assert [sent(driver, count) for count in (2, 1, 3)] == ["small", "large", "large"]


def test_a_dedup_id_of_a_member_for_whose_room_others_wait_enters_no_other_one_and_is_refused() -> None:
    driver = made(SHORTEST)
    assert of_ids(driver, "x").queue == "q1"
    line = driver.master.queue_id("q1") or 0
    batch = batch_of([1, 1], queue="m", dedup_ids=["x", "new"])
    macro = driver.master.state.macros.by_name["m"]
    first = driver.master.last_sequence("m", b"p") + 1
    call = EnqueueCall("m", b"p", first, columns_of(batch), "a")
    plan = driver.plan(lambda: plan_deal(driver.master.state, driver.now_ms, macro, call, (line,)))
    op = plan.header.enqueue
    assert (op.queue, [each.ordinal for each in op.duplicates]) == ("q1", [0])
    assert [(each.ordinal, each.reason) for each in op.refusals] == [(1, common_pb2.REASON_QUEUE_FULL)]


@pytest.mark.parametrize(
    ("priority", "members_max", "reason"),
    [
        (10, 9, common_pb2.REASON_CONFIG_ERROR),
        (-1, 9, common_pb2.REASON_CONFIG_ERROR),
        (9, 1, common_pb2.REASON_QUOTA_EXCEEDED),
    ],
)
def test_a_member_whose_queue_is_still_to_be_made_is_refused_before_it_is(
    priority: int, members_max: int, reason: common_pb2.Reason
) -> None:
    driver = made(TURNS, "q1")
    driver.master.state.limits = replace(driver.limits, macro_members_max=members_max)
    call = MacroCall(ADD, "m", b"", 0, queue="later", priority=priority)
    with pytest.raises(Refused) as caught:
        macros.check_before_made(driver.master.state, call, admin_pb2.QueueConfig())
    assert (caught.value.reason, caught.value.metadata["member"]) == (reason, "later")


def test_a_settlement_whose_lease_has_ended_is_looked_for_at_each_member() -> None:
    """At the first queue of all as at any other."""
    driver = Driver()
    assert driver.create("q1") == 1
    driver.create("q2")
    change(driver, CREATE, relationship=CONSUMER, policy=pb.MACRO_POLICY_PRIORITIZED)
    for name in ("q1", "q2"):
        change(driver, ADD, queue=name)
    driver.send(1, queue="q2")
    lease_id, _ = driver.lease(name="q2")
    call = SettleCall("m", [Settlement(lease_id=lease_id, ranges=ranges_of((1, 1)), outcome=ACK)])
    for _ in range(2):
        headers, (result,) = plan_settle_macro(driver.master.state, driver.now_ms, call)
        for header in headers:
            driver.order(header)
        assert result.settled == 1
    driver.send(1, queue="q1")
    held, _ = driver.lease(name="q1")
    elsewhere = Settlement(lease_id=held, ranges=ranges_of((1, 1)), outcome=ACK, queue="nobody")
    headers, (result,) = plan_settle_macro(driver.master.state, driver.now_ms, SettleCall("m", [elsewhere]))
    assert (headers, result.settled) == ([], 0), "a name that nobody has is no name of the first queue"


def test_a_settlement_by_the_macro_queues_name_touches_no_other_queue() -> None:
    """Whoever may receive from it need not have any right on the others: neither by their lease nor by their name."""
    driver = made(pb.MACRO_POLICY_PRIORITIZED, "q1", relationship=CONSUMER)
    driver.create("other")
    driver.send(2, queue="other")
    lease_id, _ = driver.lease(name="other")
    for named in ("", "other"):
        held = Settlement(lease_id=lease_id, ranges=ranges_of((1, 2)), outcome=ACK, queue=named)
        headers, (result,) = plan_settle_macro(driver.master.state, driver.now_ms, SettleCall("m", [held]))
        assert headers == []
        assert (result.settled, result.error.reason) == (0, common_pb2.REASON_LEASE_LOST)


def test_they_are_listed_page_by_page() -> None:
    driver = Driver()
    for name in ("c", "a", "b"):
        change(driver, CREATE, name)
    pages: list[list[str]] = []
    after = ""
    while True:
        page, after = page_of_macros(driver.master.state, after, 2)
        pages.append([each.name for each in page])
        if not after:
            break
    assert pages == [["a", "b"], ["c"]]
    assert page_of_macros(driver.master.state, "c", 2) == ([], "")


def test_a_page_has_so_many_members_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macros, "PAGE_MEMBERS_MAX", 2)
    driver = made(TURNS)
    change(driver, CREATE, "n")
    change(driver, CREATE, "o")
    assert [[each.name for each in page_of_macros(driver.master.state, after, 9)[0]] for after in ("", "m")] == [
        ["m"],
        ["n", "o"],
    ]


def test_a_repeated_change_finds_its_first_answer() -> None:
    driver = Driver()
    change(driver, CREATE, request_id=ID, request_hash=3)
    found = driver.restored().find_request(ID, 3)
    assert found is not None
    assert found.kind == "macro"


def test_without_macro_queues_a_snapshot_reads_as_before() -> None:
    driver = made()
    change(driver, DELETE)
    assert driver.restored().digest() == driver.master.digest()
    assert not driver.master.state.macros.by_id
    assert not driver.master.state.macros.of_member
    assert not driver.master.state.macros.homes
