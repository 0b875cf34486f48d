"""Messages that die: rejected, or delivered too often. What the machine keeps of them, and how they leave."""

from __future__ import annotations

import pytest

from replica.machine import Limits, Machine, MacroCall, MoveCall, ProxyCall, RemoveCall, columns_of
from replica.machine.features.macros import CREATE as MACRO_CREATE
from replica.machine.features.macros import plan_macro
from replica.machine.features.proxies import CREATE as PROXY_CREATE
from replica.machine.features.proxies import plan_proxy
from replica.machine.plan.dead_letters import HOPS_MAX, dead_letter_config
from replica.machine.plan.move import dying_of, plan_move, plan_remove
from replica.machine.plan.names import AliasCall, plan_alias
from replica.machine.plan.time import plan_volatile_lost
from replica.machine.state.config import milliseconds, resolve
from replica.machine.state.state import REASONS_MAX
from replica.machine.views import left_of
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_DEAD_LETTERED, FINAL_STATE_PURGED
from tests.unit.replica.machine.driver import ACK, MEMBERS, REJECT, RELEASE, Driver, batch_of, indexes_of, ranges_of

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
PURGE, DELETE = record_pb2.QUEUE_ACTION_PURGE, record_pb2.QUEUE_ACTION_DELETE
LEASE_MS = 1_000


def made(max_deliveries: int = 2, **attributes) -> Driver:
    driver = Driver()
    driver.create(max_deliveries=max_deliveries, lease_duration={"seconds": 1}, **attributes)
    return driver


def counts(driver: Driver) -> tuple[int, int, int, int]:
    info = driver.info()
    return info.length, info.ready, info.leased, info.dying


def fail(driver: Driver, count: int = 10) -> list[int]:
    """A delivery that nobody settles."""
    _, indexes = driver.lease(count)
    driver.now_ms += LEASE_MS + 1
    driver.expire()
    return indexes


def dying(driver: Driver, limit: int = 100):
    queue_id = driver.master.queue_id("q")
    assert queue_id is not None
    return dying_of(driver.master.state, queue_id, 0, limit)


def reject(driver: Driver, lease_id: int, index: int, reason: str = "") -> queue_service_pb2.SettleResult:
    settlement = queue_service_pb2.Settlement(
        lease_id=lease_id, ranges=ranges_of((index, index)), outcome=REJECT, reason=reason
    )
    return driver.settle(settlement)[0]


def move(driver: Driver, *indexes: int, to: str = "q.dead", final=FINAL_STATE_DEAD_LETTERED, **more) -> None:
    queue_id = driver.master.queue_id("q")
    assert queue_id is not None
    batch = batch_of([10] * len(indexes), queue=to)
    call = MoveCall(queue_id, to, indexes, columns_of(batch), final, **more)
    driver.order(driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call)))


def test_the_last_delivery_that_fails_is_the_last_one():
    driver = made(max_deliveries=3)
    driver.send(2)
    assert fail(driver) == [1, 2]
    assert fail(driver) == [1, 2]
    assert counts(driver) == (2, 2, 0, 0)
    assert fail(driver, 1) == [1]
    assert counts(driver) == (2, 1, 0, 1)
    assert driver.lease()[1] == [2]
    assert dying(driver).rows == [(1, 2, 0)]


def test_a_release_does_not_count():
    driver = made(max_deliveries=1)
    driver.send(1)
    for _ in range(5):
        lease_id, _ = driver.lease()
        driver.outcome(RELEASE, lease_id, (1, 1))
    assert counts(driver) == (1, 1, 0, 0)
    fail(driver)
    assert counts(driver) == (1, 0, 0, 1)


def test_without_a_limit_or_a_place_to_go_nothing_dies_of_deliveries():
    for attributes in ({"max_deliveries": 0}, {"max_deliveries": 1, "dead_letter_queue": ""}):
        driver = made(**attributes)
        driver.send(1)
        for _ in range(30):
            assert fail(driver) == [1]
        assert counts(driver) == (1, 1, 0, 0)


def test_what_is_rejected_dies_with_its_reason():
    driver = made()
    driver.send(4)
    lease_id, _ = driver.lease()
    reject(driver, lease_id, 1, "no such customer")
    reject(driver, lease_id, 2)
    reject(driver, lease_id, 4, "no such customer")
    assert reject(driver, lease_id, 1, "no such customer").settled == 1, "a repetition"
    assert driver.outcome(ACK, lease_id, (1, 1)).error.reason == common_pb2.REASON_LEASE_LOST
    assert driver.outcome(RELEASE, lease_id, (2, 2)).error.reason == common_pb2.REASON_LEASE_LOST
    assert counts(driver) == (4, 0, 1, 3)
    found = dying(driver)
    assert [(start, found.reasons[number - 1]) for start, _, number in found.rows] == [
        (1, "no such customer"),
        (2, ""),
        (4, "no such customer"),
    ]
    slices = driver.master.segments_of(1, ranges_of((1, 4)), delivered=False)
    assert [part.delivery_counts for part in slices] == [[1, 1, 1, 1]], "the delivery that it was rejected in counts"


def test_where_there_is_no_dead_letter_queue_what_is_rejected_is_removed():
    driver = made(dead_letter_queue="")
    driver.send(1)
    lease_id, _ = driver.lease()
    assert reject(driver, lease_id, 1, "no").settled == 1
    assert counts(driver) == (0, 0, 0, 0)


def test_a_reason_has_a_limit_and_so_have_their_number():
    driver = made()
    driver.send(REASONS_MAX + 5)
    lease_id, indexes = driver.lease(REASONS_MAX + 5)
    assert reject(driver, lease_id, 1, "x" * 1_025).error.reason == common_pb2.REASON_BAD_REQUEST
    for index in indexes:
        reject(driver, lease_id, index, f"reason {index}")
    found = dying(driver, 1_000)
    assert len(found.reasons) == REASONS_MAX + 1
    assert found.reasons[-1] == ""
    assert found.rows[-1][2] == REASONS_MAX + 1, "known as rejected, but not why"


def test_a_move_takes_and_gives_in_one_record():
    driver = made()
    driver.create("q.dead", max_deliveries=0, dead_letter_queue="")
    driver.send(3)
    lease_id, _ = driver.lease()
    for index in (1, 3):
        reject(driver, lease_id, index, "no")
    move(driver, 1, 3)
    assert counts(driver) == (1, 0, 1, 0)
    assert driver.info().dead_lettered_total == 2
    assert driver.browse("q.dead") == [1, 2]
    assert not driver.master.state.dying
    assert dying(driver).reasons == []
    driver.outcome(ACK, lease_id, (2, 2))
    assert driver.freed == [3], "the record of the three, once the last one is gone"


def test_a_move_is_refused_when_a_message_is_held_or_gone():
    driver = made()
    driver.create("q.dead")
    driver.send(3)
    driver.lease(1)
    for indexes in ((1,), (1, 2), (9,)):
        refused = driver.refusal(lambda indexes=indexes: move(driver, *indexes))
        assert refused.reason == common_pb2.REASON_MESSAGE_NOT_FOUND
    assert driver.refusal(lambda: move(driver, 2, to="q")).reason == common_pb2.REASON_BAD_REQUEST
    assert driver.refusal(lambda: move(driver, 2, to="r")).reason == common_pb2.REASON_QUEUE_NOT_FOUND


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"max_length": 1}, common_pb2.REASON_QUEUE_FULL),
        ({"max_bytes": 15, "max_message_bytes": 15}, common_pb2.REASON_QUEUE_FULL),
        ({"enqueue_enabled": False}, common_pb2.REASON_ENQUEUE_DISABLED),
    ],
)
def test_a_move_obeys_the_limits_of_where_it_goes(attributes, reason):
    driver = made()
    driver.create("q.dead", **attributes)
    driver.send(2)
    assert driver.refusal(lambda: move(driver, 1, 2)).reason == reason
    assert counts(driver) == (2, 2, 0, 0)


def test_a_message_that_entered_may_be_longer_than_the_other_queue_takes():
    driver = made()
    driver.create("q.dead", max_message_bytes=5)
    driver.send(1)
    move(driver, 1)
    assert driver.browse("q.dead") == [1]


def test_what_waits_is_moved_with_its_times():
    driver = made()
    driver.create("r")
    driver.enqueue(batch_of([10] * 2, delays_ms=[500, 0], ttls_ms=[900, 0]))
    now = driver.now_ms
    move(
        driver, 1, 2, to="r", final=FINAL_STATE_PURGED, deliver_at_ms=[now + 500, 0], expires_at_ms=[now + 900, 0]
    )  # fmt: skip
    assert (driver.info("r").delayed, driver.info("r").ready) == (1, 1)
    assert driver.info().purged_total == 2
    driver.now_ms += 900
    driver.expire()
    assert driver.browse("r") == [2]


def test_volatile_ones_stay_volatile_where_the_queue_lets_them():
    driver = made(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    driver.create("q.dead", persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    driver.enqueue(batch_of([10] * 2, persistence=[1, 2]))
    batch = batch_of([10] * 2, persistence=[1, 2], queue="q.dead")
    call = MoveCall(1, "q.dead", (1, 2), columns_of(batch), FINAL_STATE_DEAD_LETTERED)
    header = plan_move(driver.master.state, driver.now_ms, call)
    assert list(header.enqueue.volatiles) == [1, 0]
    driver.order(header)
    driver.order(plan_volatile_lost(driver.master.state, driver.now_ms, lambda _: False))
    assert driver.browse("q.dead") == [2]


def test_dying_messages_are_seen_purged_lost_and_removed_like_others():
    driver = made(max_deliveries=1, persistence=admin_pb2.PERSISTENCE_VOLATILE)
    driver.send(6)
    fail(driver)
    assert counts(driver) == (6, 0, 0, 6)
    assert driver.browse() == [1, 2, 3, 4, 5, 6]
    driver.order(plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, (2, 3), total=2)))
    assert driver.browse() == [1, 4, 5, 6]
    driver.now_ms += 1
    assert driver.queue(PURGE).queue.removed == 4
    assert counts(driver) == (0, 0, 0, 0)
    driver.send(1)
    fail(driver)
    driver.order(plan_volatile_lost(driver.master.state, driver.now_ms, lambda _: False))
    assert counts(driver) == (0, 0, 0, 0)
    assert not driver.master.state.dying


def test_a_dying_message_outlives_its_time():
    """It is on its way to those who want to know why."""
    driver = made(max_deliveries=1)
    driver.enqueue(batch_of([1], ttls_ms=[1_500]))
    fail(driver)
    driver.now_ms += 10_000
    driver.expire()
    assert counts(driver) == (1, 0, 0, 1)


def test_a_queue_may_be_deleted_with_its_dying_messages():
    driver = made(max_deliveries=1)
    driver.send(2)
    fail(driver)
    assert driver.queue(DELETE).queue.removed == 2
    assert not driver.master.state.dying


def test_they_survive_a_restart():
    driver = made(max_deliveries=2)
    driver.send(4)
    fail(driver, 2)
    lease_id, _ = driver.lease(3)
    reject(driver, lease_id, 3, "no")
    driver.now_ms += LEASE_MS + 1
    driver.expire()
    driver.master = Machine.restore(driver.master.snapshot(), MEMBERS)
    assert driver.master.digest() == driver.replica.digest()
    assert tuple(driver.master.state.dying) == (1,)
    assert dying(driver).rows == [(1, 3, 0), (3, 4, 1)]
    assert dying(driver).reasons == ["no"]
    assert driver.lease()[1] == [4]


def test_only_so_many_are_shown_at_once():
    driver = made(max_deliveries=1)
    driver.send(10)
    fail(driver)
    assert dying(driver, 4).rows == [(1, 5, 0)]
    assert dying_of(driver.master.state, 1, 5, 100).rows == [(5, 11, 0)]


def test_dead_letters_may_not_come_back():
    driver = Driver()
    driver.create("a", dead_letter_queue="b")
    driver.create("b", dead_letter_queue="c")
    for name, target in (("c", "a"), ("c", "b"), ("c", "c")):
        refused = driver.refusal(lambda name=name, target=target: driver.create(name, dead_letter_queue=target))
        assert refused.reason == common_pb2.REASON_CONFIG_ERROR
        assert f"{name} -> {target}" in refused.message
    driver.create("c", dead_letter_queue="")
    config = admin_pb2.QueueConfig(dead_letter_queue="a")
    refused = driver.refusal(lambda: driver.queue(UPDATE, "c", config=config))
    assert refused.reason == common_pb2.REASON_CONFIG_ERROR
    driver.create("x.dead", dead_letter_queue="x")
    refused = driver.refusal(lambda: driver.create("x"))  # its dead letters would go to x.dead, for it names no other
    assert refused.reason == common_pb2.REASON_CONFIG_ERROR


def test_a_long_way_is_no_circle():
    driver = Driver()
    for at in range(HOPS_MAX + 4):
        driver.create(f"q{at}", dead_letter_queue=f"q{at + 1}")
    assert driver.info("q0").config.dead_letter_queue == "q1"


def test_a_removal_reaches_what_no_lease_holds():
    driver = made()
    driver.enqueue(batch_of([1] * 3, delays_ms=[0, 100, 0]))
    driver.lease(1)
    refused = driver.refusal(lambda: plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, (1, 2))))
    assert refused.reason == common_pb2.REASON_MESSAGE_NOT_FOUND
    driver.order(plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, (2, 3))))
    assert driver.browse() == [1]
    driver.now_ms += 200
    driver.expire()
    assert driver.browse() == [1]
    assert indexes_of(left_of(driver.master.queue(1), ranges_of((1, 3)))) == [1]


def test_a_call_in_several_records_has_one_answer():
    driver = made()
    driver.send(2)
    request_id = b"r" * 16
    driver.order(plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, (1,), 1, 0, b"1" * 16, 5)))
    driver.order(plan_remove(driver.master.state, driver.now_ms, RemoveCall(1, (), 7, 3, request_id, 5)))
    answer = driver.master.find_request(request_id, 5)
    assert answer is not None
    assert (answer.kind, answer.removed, answer.left) == ("remove", 7, 3)
    again = Machine.restore(driver.master.snapshot(), MEMBERS).find_request(request_id, 5)
    assert again == answer


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9])
def test_of_many_rows_only_so_many_messages_are_shown(limit):
    driver = made()
    driver.send(7)
    lease_id, _ = driver.lease()
    for first, last in ((1, 2), (4, 5), (7, 7)):
        for index in range(first, last + 1):
            reject(driver, lease_id, index, f"{first}")
    found = dying(driver, limit)
    shown = [index for low, high, _ in found.rows for index in range(low, high)]
    assert shown == [1, 2, 4, 5, 7][:limit]
    assert all(low < high for low, high, _ in found.rows)
    assert [found.reasons[number - 1] for *_, number in found.rows] == ["1", "4", "7"][: len(found.rows)]
    queue_id = driver.master.queue_id("q")
    assert queue_id is not None
    assert dying_of(driver.master.state, queue_id, 5, 9).rows == [(5, 6, 2), (7, 8, 3)]


@pytest.mark.parametrize("persistence", [1, 2, 3])
def test_a_dead_letter_queue_that_the_manager_makes_keeps_what_died_as_it_was(persistence):
    """As persistent as it was, for ever, and nothing dies there again."""
    asked = admin_pb2.QueueConfig(
        persistence=persistence,
        max_length=7,
        max_bytes=9 << 20,
        max_message_bytes=5,
        queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY,
        overflow=admin_pb2.OVERFLOW_DROP_HEAD,
        default_ttl={"seconds": 9},
        empty_idle_expiry={"seconds": 9},
        enqueue_enabled=False,
        dequeue_enabled=False,
        domain="here",
    )
    config = resolve(dead_letter_config(resolve(asked, Limits())), Limits(empty_idle_ms=5))
    persistent, conditional = admin_pb2.PERSISTENCE_PERSISTENT, admin_pb2.PERSISTENCE_CONDITIONAL
    assert config.persistence == (persistent if persistence == persistent else conditional)
    assert (config.max_length, config.max_bytes, config.max_message_bytes, config.domain) == (7, 9 << 20, 5, "here")
    assert (config.queue_type, config.overflow) == (
        admin_pb2.QUEUE_TYPE_ONE_WAY_QUEUED_ACK,
        admin_pb2.OVERFLOW_REJECT,
    )
    assert (config.enqueue_enabled, config.dequeue_enabled) == (True, True)
    assert (milliseconds(config.default_ttl), milliseconds(config.empty_idle_expiry)) == (0, 0)
    assert (config.max_deliveries, config.dead_letter_queue, config.HasField("dead_letter_queue")) == (0, "", True)


def test_the_way_of_dead_letters_is_looked_at_as_far_as_they_go():
    """A message ends after so many moves, so a circle that is longer holds none for ever; the look is bounded too."""
    for hops, closes in ((HOPS_MAX - 1, True), (HOPS_MAX, False), (3 * HOPS_MAX, False)):
        driver = Driver()
        for number in range(1, hops):
            driver.create(f"q{number}", dead_letter_queue=f"q{number + 1}")
        driver.create(f"q{hops}", dead_letter_queue="q0")
        if closes:
            refused = driver.refusal(lambda driver=driver: driver.create("q0", dead_letter_queue="q1"))
            assert refused.reason == common_pb2.REASON_CONFIG_ERROR
        else:
            driver.create("q0", dead_letter_queue="q1")


@pytest.mark.parametrize("final", [FINAL_STATE_DEAD_LETTERED, FINAL_STATE_PURGED])
def test_a_move_drops_nothing_that_is_leased_and_enters_whole_or_not_at_all(final):
    driver = made()
    driver.create("full", max_length=2, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(2, queue="full")
    driver.lease(1, name="full")
    driver.send(2)
    if final == FINAL_STATE_DEAD_LETTERED:
        move(driver, 1, to="full", final=final)
        assert driver.browse("full") == [1, 3]
    lease_id, indexes = driver.lease(1, name="full")
    assert lease_id
    assert indexes == [driver.info("full").last_index]
    before = driver.log_index
    assert driver.refusal(lambda: move(driver, 2, to="full", final=final)).reason == common_pb2.REASON_QUEUE_FULL
    assert driver.log_index == before
    assert 2 in driver.browse()


def make(driver: Driver, kind: str, name: str) -> None:
    """Another name of the queue `q`, or what is no queue."""
    state, now_ms = driver.master.state, driver.now_ms
    plans = {
        "alias": lambda: plan_alias(state, now_ms, AliasCall(name, "q", b"", 0)),
        "macro queue": lambda: plan_macro(state, now_ms, MacroCall(MACRO_CREATE, name, b"", 0)),
        "proxy": lambda: plan_proxy(state, now_ms, ProxyCall(PROXY_CREATE, name, b"", 0, target="//west/q")),
    }
    driver.order(driver.plan(plans[kind]))


@pytest.mark.parametrize("kind", ["alias", "macro queue", "proxy"])
@pytest.mark.parametrize(("whose", "name"), [("one", "bin"), ("two", "two.dead")])
def test_no_name_that_dead_letters_go_to_becomes_one_that_takes_none(driver: Driver, kind: str, whose: str, name: str):
    """Else they would wait at their queue for ever. An alias of another queue takes them, and one of q would have them
    come back.
    """
    driver.queue(UPDATE, "q", config=admin_pb2.QueueConfig(dead_letter_queue=whose))
    driver.create("one", dead_letter_queue="bin")
    driver.create("two")
    refused = driver.refusal(lambda: make(driver, kind, name))
    assert (refused.reason, refused.metadata["queue"]) == (common_pb2.REASON_CONFIG_ERROR, whose)
    make(driver, kind, "another")
    driver.queue(UPDATE, "q", config=admin_pb2.QueueConfig(dead_letter_queue=""))
    driver.queue(UPDATE, whose, config=admin_pb2.QueueConfig(dead_letter_queue=""))
    make(driver, kind, name)


@pytest.mark.parametrize("kind", ["macro queue", "proxy"])
def test_dead_letters_go_to_no_macro_queue_and_no_proxy(driver: Driver, kind: str):
    for name in ("all", "late.dead"):
        make(driver, kind, name)
    config = admin_pb2.QueueConfig(dead_letter_queue="all")
    for ask in (
        lambda: driver.create("new", dead_letter_queue="all"),
        lambda: driver.create("late"),
        lambda: driver.queue(UPDATE, "q", config=config),
    ):
        refused = driver.refusal(ask)
        assert refused.reason == common_pb2.REASON_CONFIG_ERROR
        assert f"is a {kind}" in refused.message
    driver.create("late", dead_letter_queue="")
