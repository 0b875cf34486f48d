"""Units of work that are open: what they lock, and how it comes back (U5, U6, U9, U10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replica.machine import QueueSettling, Refused, SettleCall, UnitCall, columns_of
from replica.machine.plan.open_unit import check_put, check_settles, plan_end
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.unit import plan_unit
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import ACK, EXTEND, REJECT, RELEASE, Driver, batch_of, ranges_of

UNIT = b"a unit of 16 byt"


def got(driver: Driver, count: int = 10, *, unit: bytes = UNIT, name: str = "q", open_ms: int = 30_000) -> int:
    """The lease of what a unit gets."""
    lease_id, _ = driver.lease(count, name=name, unit=unit, until_ms=driver.now_ms + open_ms)
    return lease_id


def end(driver: Driver, *lease_ids: int) -> record_pb2.TxnOp:
    header = driver.plan(lambda: plan_end(driver.master.state, driver.now_ms, UNIT, lease_ids))
    driver.order(header)
    made: record_pb2.TxnOp = header.txn
    return made


def role(driver: Driver) -> None:
    """Another mastership begins."""
    driver.epoch += 1
    ended = driver.master.unit_leases()
    op = record_pb2.RoleOp(owner="b", unit_leases=ended)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=op))


def deliveries(driver: Driver, name: str = "q") -> dict[int, int]:
    number = driver.master.queue_id(name)
    assert number is not None
    return dict(driver.master.queue(number).deliveries)


def settlement(lease_id: int, *runs: tuple[int, int], outcome: int = ACK) -> Settlement:
    made = Settlement(lease_id=lease_id, ranges=ranges_of(*runs))
    made.outcome = outcome  # type: ignore[assignment]  # enum number
    return made


@pytest.mark.parametrize(
    ("queue", "bad"),
    [
        ({"replication": admin_pb2.REPLICATION_PRODUCER}, {"priorities": [4, 5]}),
        ({"replication": admin_pb2.REPLICATION_PRODUCER}, {"ttls_ms": [9]}),
        ({"replication": admin_pb2.REPLICATION_PRODUCER}, {"delays_ms": [0, 9]}),
        ({"group_mode": admin_pb2.GROUP_MODE_COMPLETE}, {"group_ids": ["g"], "group_sequences": [1, 0]}),
        ({"group_mode": admin_pb2.GROUP_MODE_COMPLETE}, {"group_ids": ["g", ""], "group_sequences": [1]}),
        ({"group_mode": admin_pb2.GROUP_MODE_COMPLETE}, {"lasts_in_group": [True]}),
    ],
)
def test_u4_what_no_commit_could_let_in_is_refused_at_once(driver: Driver, queue: dict, bad: dict) -> None:
    """Else the unit keeps it, and can never be committed."""
    driver.create("at", **queue)
    state = driver.master.state
    asked = columns_of(batch_of([1, 1], **bad))
    with pytest.raises(Refused) as found:
        check_put(state.named("at"), asked, "a")
    assert found.value.reason in (common_pb2.REASON_BAD_ATTRIBUTE, common_pb2.REASON_GROUP_MISMATCH)
    check_put(state.named("q"), asked, "a")
    fits = batch_of([1, 1], group_ids=["g", ""], group_sequences=[1, 0], lasts_in_group=[True, False])
    for each in (batch_of([1, 1]), fits):
        check_put(state.named("at"), columns_of(each), "a")


def test_u5_what_a_unit_got_is_locked_and_counted(driver: Driver) -> None:
    driver.send(3)
    got(driver, 2)
    info = driver.info()
    assert (info.length, info.ready, info.leased, info.locked) == (3, 1, 2, 2)
    assert driver.lease()[1] == [3], "everybody else skips it"
    assert driver.info().locked == 2


def test_u5_it_ends_at_the_deadline_of_the_unit_and_not_of_the_queue(driver: Driver) -> None:
    driver.send(1)
    got(driver, open_ms=3_600_000)
    driver.now_ms += 3_599_999
    assert not driver.expire()
    driver.now_ms += 2
    assert driver.expire() == 1
    assert (driver.info().ready, deliveries(driver)) == (1, {1: 1})


def test_u9_a_rollback_gives_back_the_old_places_and_counts(driver: Driver) -> None:
    driver.enqueue(batch_of([1, 1, 1], priorities=[4, 9, 4]))
    driver.create("r")
    driver.send(1, queue="r")
    first, second = got(driver, 2), got(driver, name="r")
    op = end(driver, first, second)
    assert [each.queue_id for each in op.settles] == [1, 2], "one record for all of its queues"
    assert driver.lease()[1] == [2, 1, 3], "old priority, old place"
    assert (deliveries(driver), deliveries(driver, "r")) == ({1: 1, 2: 1}, {1: 1})
    assert driver.info("r").released_total == 1


def test_u9_what_was_settled_or_lost_meanwhile_is_not_given_back(driver: Driver) -> None:
    driver.send(2)
    lease_id = got(driver)
    end(driver, lease_id)
    assert driver.plan(lambda: plan_end(driver.master.state, driver.now_ms, UNIT, (lease_id,))) is None


def test_u9_a_message_that_always_fails_reaches_its_limit() -> None:
    """Example 2, its first half."""
    driver = Driver()
    driver.create(max_deliveries=3)
    driver.send(1)
    for _ in range(3):
        assert driver.info().ready == 1
        end(driver, got(driver))
    assert (driver.info().ready, driver.info().dying) == (0, 1)


@pytest.mark.parametrize("takeovers", [1, 3])
def test_u10_a_takeover_returns_it_at_once_and_counts_nothing(driver: Driver, takeovers: int) -> None:
    """Example 2, its second half."""
    driver.send(2)
    outside, _ = driver.lease(1)
    for _ in range(takeovers):
        got(driver)
        role(driver)
    assert (driver.info().ready, deliveries(driver)) == (1, {})
    assert driver.lease()[1] == [2]
    driver.ack(outside, (1, 1))  # any other lease goes on


def test_u10_after_a_restart_too(driver: Driver) -> None:
    driver.send(1)
    got(driver)
    restored = driver.restored()
    assert restored.digest() == driver.master.digest()
    op = record_pb2.RoleOp(owner="b", unit_leases=restored.unit_leases())
    header = record_pb2.RecordHeader(time_ms=driver.now_ms, role=op)
    applied = restored.apply(driver.log_index + 1, 2, header)
    assert tuple(applied.queue_ids) == (1,)
    assert restored.queue_info("q", "a").ready == 1


def test_u10_in_a_queue_of_groups_the_next_one_stays_blocked(driver: Driver) -> None:
    driver.create("g", group_mode=admin_pb2.GROUP_MODE_ORDERED)
    driver.enqueue(batch_of([1, 1], group_ids=["x", "x"], queue="g"))
    got(driver, name="g")
    role(driver)
    assert (driver.info("g").ready, driver.info("g").blocked) == (1, 1)
    end(driver, got(driver, name="g"))
    assert (driver.info("g").ready, driver.info("g").blocked) == (1, 1)


@pytest.mark.parametrize("outcome", [ACK, RELEASE, REJECT, EXTEND])
def test_u12_nobody_else_settles_what_a_unit_has_locked(driver: Driver, outcome: int) -> None:
    driver.send(1)
    lease_id = got(driver)
    asked = settlement(lease_id, (1, 1), outcome=outcome)
    for unit in (b"", b"another of 16 by"):
        plan = plan_settle(driver.master.state, driver.now_ms, SettleCall("q", [asked], unit=unit))
        assert plan.header is None
        assert plan.results[0].error.reason == common_pb2.REASON_BAD_REQUEST
    call = UnitCall([QueueSettling("q", [asked])], (), "a", b"r" * 16, 1)
    refused = driver.refusal(lambda: plan_unit(driver.master.state, driver.now_ms, call))
    assert refused.reason == common_pb2.REASON_BAD_REQUEST


def test_a_consumer_that_comes_back_does_not_release_what_its_unit_has(driver: Driver) -> None:
    driver.send(2)
    lease_id, _ = driver.lease(1)
    got(driver)
    assert [each.lease_id for each in driver.master.leases_above(1, b"consumer", 0)] == [lease_id]


def checked(driver: Driver, settlements: Sequence[Settlement]) -> Refused | None:
    queue = driver.master.state.named("q")
    try:
        check_settles(driver.master.state, driver.now_ms, queue, settlements, (), UNIT)
    except Refused as refused:
        return refused
    return None


def test_u6_what_a_unit_settles_is_looked_at_together(driver: Driver) -> None:
    driver.send(4)
    outside, _ = driver.lease(2)
    inside = got(driver)
    kept = [settlement(outside, (1, 1)), settlement(inside, (3, 3), outcome=REJECT)]
    assert checked(driver, kept) is None
    again = checked(driver, [*kept, settlement(outside, (1, 2))])
    assert again is not None
    assert again.reason == common_pb2.REASON_BAD_REQUEST, "a message is settled once"


def test_u8_its_commit_is_remembered_with_the_names_of_its_queues(driver: Driver) -> None:
    """Whoever repeats it does not say again what is in it."""
    driver.send(1)
    lease_id = got(driver)
    call = UnitCall([QueueSettling("q", [settlement(lease_id, (1, 1))])], (), "a", UNIT, 5, unit_id=UNIT)
    header = driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call))
    assert header.txn.unit_id == UNIT
    driver.order(header)
    assert driver.info().length == 0
    for machine in (driver.master, driver.restored()):
        found = machine.find_request(UNIT, 5)
        assert found is not None
        assert (found.kind, found.log_index) == ("txn", driver.log_index)


def test_a_unit_with_nothing_in_it_commits(driver: Driver) -> None:
    call = UnitCall((), (), "a", UNIT, 5, unit_id=UNIT)
    driver.order(driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call)))
    assert driver.master.find_request(UNIT, 5) is not None
