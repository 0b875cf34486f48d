"""Queues with PRODUCER replication in the machine: what they may have (K3, K4), what a side is given (K1, K2), and when
messages go (K6).
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from replica.machine import BatchCall, MoveCall, RemoveCall, StageCall, columns_of
from replica.machine.features.batches import plan_batch
from replica.machine.plan.move import plan_move, plan_remove
from replica.machine.plan.names import AliasCall, plan_alias
from replica.machine.plan.sides import GIVEN_BYTES_MAX, READY_MAX, next_given, passed_by, plan_given, plan_passed
from replica.machine.plan.sides import plan_side as side_of
from replica.machine.plan.stage import plan_stage
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.node.journal_rows import facts_of
from storage.records import Prefix
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tandemq.v1.journal_service_pb2 import JournalKind
from tests.unit.replica.machine.driver import ACK, RELEASE, Driver, batch_of, indexes_of, ranges_of

PRODUCER = admin_pb2.REPLICATION_PRODUCER
BAD, CONFIG = common_pb2.REASON_BAD_ATTRIBUTE, common_pb2.REASON_CONFIG_ERROR
OF = SideOf(7, b"h" * 16, 1)


@pytest.fixture
def driver() -> Driver:
    """The pair's domain, with a queue that has sides."""
    made = Driver()
    made.create(replication=PRODUCER)
    return made


@pytest.fixture
def own() -> Driver:
    """A member's own domain."""
    return Driver()


def pair_queue(driver: Driver) -> QueueState:
    return driver.master.state.named("q")


def begin(own: Driver, driver: Driver, member: str = "a") -> QueueState:
    own.order(own.plan(lambda: side_of(own.master.state, own.now_ms, OF, pair_queue(driver), member)))
    return own.master.state.named("SYSTEM.SIDE/q")


def give(own: Driver, driver: Driver) -> int:
    """All that it takes now; how many messages that was."""
    given = 0
    while (found := next_given(pair_queue(driver), side := own.master.state.named("SYSTEM.SIDE/q"))) is not None:
        own.order(own.plan(lambda found=found, side=side: plan_given(own.master.state, own.now_ms, side, found)))
        given += found.count
    return given


def mark(driver: Driver, **marks: int) -> record_pb2.RecordHeader | None:
    queue = pair_queue(driver)
    header: record_pb2.RecordHeader | None = driver.plan(
        lambda: plan_passed(driver.master.state, driver.now_ms, queue, marks)
    )
    if header is not None:
        driver.order(header)
    return header


def test_k1_what_one_side_settles_the_pair_and_the_other_side_still_hold(driver: Driver, own: Driver) -> None:
    other = Driver()
    driver.send(3)
    for each, member in ((own, "a"), (other, "b")):
        begin(each, driver, member)
        assert give(each, driver) == 3
    lease_id, indexes = own.lease(name="SYSTEM.SIDE/q")
    assert indexes == [1, 2, 3]
    own.settle(service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((1, 3)), outcome=ACK), name="SYSTEM.SIDE/q")
    assert own.master.state.named("SYSTEM.SIDE/q").length == 0
    assert pair_queue(driver).length == 3
    assert other.lease(name="SYSTEM.SIDE/q")[1] == [1, 2, 3]


def test_k2_a_side_is_given_nothing_beyond_the_commit_index(driver: Driver, own: Driver) -> None:
    begin(own, driver)
    driver.send(2)
    driver.commits = False
    driver.send(3)
    assert give(own, driver) == 2
    assert next_given(driver.replica.state.named("q"), own.master.state.named("SYSTEM.SIDE/q")) is None, "it knows less"
    driver.commit()
    assert give(own, driver) == 3


def test_a_side_is_given_as_much_as_its_consumer_can_soon_have(driver: Driver, own: Driver) -> None:
    begin(own, driver)
    driver.enqueue(batch_of([GIVEN_BYTES_MAX // 2] * 2))
    driver.enqueue(batch_of([1]), client_id=b"another")
    side = own.master.state.named("SYSTEM.SIDE/q")
    first = next_given(pair_queue(driver), side)
    assert first is not None
    assert (first.first, first.count) == (1, 2)
    for _ in range(8):
        driver.send(READY_MAX // 4)
    assert give(own, driver) == READY_MAX // 4 * 3 + 3, "as many whole records of the pair as may wait there"
    own.lease(READY_MAX // 4 + 2, name="SYSTEM.SIDE/q")
    assert give(own, driver) == 0, "it has enough: a record is of many"
    own.lease(1, name="SYSTEM.SIDE/q")
    assert give(own, driver) == READY_MAX // 2


def test_a_side_is_given_whole_records_where_more_than_one_fits(driver: Driver, own: Driver) -> None:
    """What is cut is copied message by message when it is delivered, at both of its ends."""
    begin(own, driver)
    tenth = GIVEN_BYTES_MAX // 10
    for _ in range(2):
        driver.enqueue(batch_of([tenth] * 6))
    driver.enqueue(batch_of([tenth] * 12))
    side = own.master.state.named("SYSTEM.SIDE/q")
    sizes = []
    while (found := next_given(pair_queue(driver), side)) is not None:
        sizes.append(found.count)
        own.order(own.plan(lambda found=found: plan_given(own.master.state, own.now_ms, side, found)))
    assert sizes == [6, 6, 10, 2], "one that is larger than a record of a side comes in parts, the first one alone"


def test_the_number_that_may_wait_at_a_side_cuts_no_record(driver: Driver, own: Driver) -> None:
    """It comes whole with the next ones."""
    begin(own, driver)
    third = READY_MAX // 3
    for _ in range(4):
        driver.send(third)
    assert give(own, driver) == third * 3
    own.lease(third * 3, name="SYSTEM.SIDE/q")
    assert give(own, driver) == third


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"default_ttl": {"seconds": 1}}, BAD),
        ({"retry_delay_min": {"seconds": 1}}, BAD),
        ({"overflow": admin_pb2.OVERFLOW_DROP_HEAD}, BAD),
        ({"reactions_enabled": True}, BAD),
        ({"max_deliveries": 3}, BAD),
        ({"dead_letter_queue": "dead"}, BAD),
        ({"persistence": admin_pb2.PERSISTENCE_VOLATILE}, BAD),
        ({"group_mode": admin_pb2.GROUP_MODE_ORDERED}, CONFIG),
        ({"group_mode": admin_pb2.GROUP_MODE_COMPLETE}, CONFIG),
        ({"default_settle": service_pb2.SETTLE_MODE_IMMEDIATE}, CONFIG),
        ({"max_consumers": 2}, CONFIG),
    ],
)
def test_k3_k4_attributes_that_would_let_the_sides_differ_are_refused(attributes: Any, reason: int) -> None:
    driver = Driver()
    refused = driver.refusal(lambda: driver.create(replication=PRODUCER, **attributes))
    assert (refused.reason, refused.metadata["attribute"]) == (reason, next(iter(attributes)))
    driver.create(replication=PRODUCER)
    config, mask = admin_pb2.QueueConfig(**attributes), list(attributes)
    changed = driver.refusal(lambda: driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config, mask=mask))
    assert changed.reason == reason


def test_lockstep_is_of_queues_with_sides_alone() -> None:
    driver = Driver()
    assert driver.refusal(lambda: driver.create(lockstep=admin_pb2.LOCKSTEP_PLAIN)).reason == BAD


@pytest.mark.parametrize(
    "column", [{"priorities": [5]}, {"ttls_ms": [9]}, {"delays_ms": [9]}, {"deliver_at_ms": [1 << 41]}]
)
def test_k3_messages_that_ask_for_another_place_or_an_end_are_refused(driver: Driver, column: Any) -> None:
    driver.enqueue(batch_of([1], priorities=[4]))
    assert driver.refusal(lambda: driver.enqueue(batch_of([1], **column))).reason == BAD
    columns = columns_of(batch_of([1], **column))
    staged = StageCall(b"s" * 16, 1, "q", columns, 50_000, 1, "a")
    assert driver.refusal(lambda: plan_stage(driver.master.state, driver.now_ms, staged)).reason == BAD


BESIDE = MappingProxyType(
    {
        "purge": lambda driver: driver.queue(record_pb2.QUEUE_ACTION_PURGE),
        "settle": lambda driver: driver.ack(1 << 40, (1, 1)),
        "batch": lambda driver: plan_batch(
            driver.master.state, driver.now_ms, BatchCall("q", "consumer", 1, 1, 1 << 20, 60_000)
        ),
        "remove": lambda driver: plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, [1])),
        "move out": lambda driver: plan_move(driver.master.state, driver.now_ms, moved(1, "other")),
        "move in": lambda driver: plan_move(driver.master.state, driver.now_ms, moved(2, "q")),
        "dead letters of a new one": lambda driver: driver.create("third", dead_letter_queue="q"),
        "dead letters of another one": lambda driver: driver.queue(
            record_pb2.QUEUE_ACTION_UPDATE,
            "other",
            config=admin_pb2.QueueConfig(dead_letter_queue="q"),
            mask=["dead_letter_queue"],
        ),
    }
)


def moved(queue_id: int, to: str) -> MoveCall:
    return MoveCall(queue_id, to, [1], columns_of(batch_of([1])), service_pb2.FINAL_STATE_PURGED)


@pytest.mark.parametrize("what", BESIDE)
def test_k3_nothing_leaves_or_enters_the_queue_past_its_sides(driver: Driver, what: str) -> None:
    driver.create("other")
    driver.send(1)
    driver.send(1, queue="other")
    act: Callable[[Driver], object] = BESIDE[what]
    refused = driver.refusal(lambda: act(driver))
    assert refused.reason == CONFIG
    assert "replication PRODUCER" in refused.message


def test_k3_no_queue_with_sides_gets_the_name_to_which_dead_letters_go(driver: Driver) -> None:
    """Else they would wait at their queue for ever. By the name that was given, the one that is so by itself, and an
    alias; and by a change of the other queue.
    """
    driver.create("one", dead_letter_queue="bin")
    driver.create("two")
    made = [driver.refusal(lambda name=name: driver.create(name, replication=PRODUCER)) for name in ("bin", "two.dead")]
    call = AliasCall("bin", "q", b"", 1)
    made.append(driver.refusal(lambda: plan_alias(driver.master.state, driver.now_ms, call)))
    assert [(each.reason, each.metadata["queue"]) for each in made] == [
        (CONFIG, "one"),
        (CONFIG, "two"),
        (CONFIG, "one"),
    ]
    driver.create("bin")
    driver.create("three", dead_letter_queue="")
    config = admin_pb2.QueueConfig(dead_letter_queue="q")
    for ask in (
        lambda: driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "three", config=config),
        lambda: driver.create("four", dead_letter_queue="q"),
    ):
        assert driver.refusal(ask).reason == CONFIG


def test_k4_what_a_side_releases_comes_again_first_and_at_once(driver: Driver, own: Driver) -> None:
    begin(own, driver)
    driver.send(4)
    give(own, driver)
    lease_id, _ = own.lease(3, name="SYSTEM.SIDE/q")

    def release(delay_ms: int) -> service_pb2.SettleResult:
        settlement = service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((2, 2)), outcome=RELEASE)
        if delay_ms:
            settlement.delay.FromMilliseconds(delay_ms)
        return own.settle(settlement, name="SYSTEM.SIDE/q")[0]

    assert release(1_000).error.reason == common_pb2.REASON_BAD_REQUEST
    assert release(0).settled == 1
    assert own.lease(name="SYSTEM.SIDE/q")[1] == [2, 4]


def test_k6_messages_go_once_both_sides_have_passed_them(driver: Driver) -> None:
    driver.send(5)
    assert mark(driver, a=0, b=0) is None
    assert mark(driver, a=4, b=0) is not None
    assert pair_queue(driver).length == 5, "b holds them back"
    header = mark(driver, a=4, b=2)
    assert header is not None
    assert (pair_queue(driver).length, pair_queue(driver).passed) == (3, {"a": 4, "b": 2})
    assert mark(driver, a=3, b=1) is None, "a side never goes back"
    (fact,) = facts_of(Prefix(*[0] * len(Prefix._fields)), header)
    assert (fact.kind, fact.first, fact.messages) == (JournalKind.JOURNAL_KIND_ACKED, 1, 2)
    header = mark(driver, a=9, b=9)
    assert header is not None
    assert (header.passed.gone.first, header.passed.gone.count) == (3, 3), "the journal says it of each once"
    assert pair_queue(driver).passed == {"a": 5, "b": 5}, "no side has passed what is not there"
    assert pair_queue(driver).length == 0
    assert driver.freed == [2], "and with the last of it the record"


def test_k6_a_full_queue_waits_for_the_slower_side() -> None:
    driver = Driver()
    driver.create(replication=PRODUCER, max_length=2)
    driver.send(2)
    mark(driver, a=2, b=0)
    assert driver.send(1).refusals
    mark(driver, a=2, b=1)
    assert not driver.send(1).refusals


def test_a_side_whose_instance_is_destroyed_holds_nothing_back(driver: Driver) -> None:
    driver.send(2)
    mark(driver, a=1, b=0)
    driver.queue(record_pb2.QUEUE_ACTION_DESTROY, member="b")
    mark(driver, a=2)
    assert pair_queue(driver).length == 0


def test_k6_a_side_that_begins_anew_does_so_behind_its_mark(driver: Driver, own: Driver) -> None:
    """Its member has lost its disk: it repeats what it had settled since."""
    driver.send(5)
    mark(driver, a=2, b=5)
    side = begin(own, driver)
    assert passed_by(side) == 2
    give(own, driver)
    lease_id, indexes = own.lease(2, name="SYSTEM.SIDE/q")
    assert indexes == [3, 4]
    own.settle(service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((4, 4)), outcome=ACK), name="SYSTEM.SIDE/q")
    assert passed_by(own.master.state.named("SYSTEM.SIDE/q")) == 2, "3 is not settled"
    again = begin(own, driver)
    assert (again.length, again.next_index) == (0, 3)
    assert own.freed


def test_a_delivery_that_is_asked_of_the_pairs_queue_itself_finds_no_lease(driver: Driver) -> None:
    driver.send(1)
    assert indexes_of(driver.master.browse(1, 1, 10)) == [1]
