"""Receiving and settling: who holds what, and what a repetition gets."""

from __future__ import annotations

import pytest

from replica.machine import AliasCall, Limits, Machine
from replica.machine.plan.names import plan_alias
from replica.machine.plan.settle import settled_key
from replica.machine.plan.time import next_due_ms
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tests.unit.replica.machine.driver import (
    ACK,
    EXTEND,
    MEMBERS,
    REJECT,
    RELEASE,
    Driver,
    batch_of,
    indexes_of,
    ranges_of,
)

LOST = common_pb2.REASON_LEASE_LOST


def test_a_leased_message_is_nobody_elses(driver):
    driver.send(5)
    assert driver.lease(2)[1] == [1, 2]
    assert driver.lease(9)[1] == [3, 4, 5]
    assert driver.lease() == (0, [])
    assert driver.browse() == [1, 2, 3, 4, 5]
    info = driver.info()
    assert (info.length, info.ready, info.leased) == (5, 0, 5)


def test_a_lease_id_is_epoch_and_log_index_of_its_record(driver):
    driver.epoch = 5
    driver.send(1)
    assert driver.lease(1)[0] == 5 << 40 | driver.log_index


def test_byte_credit_is_kept_but_for_one_message(driver):
    driver.enqueue(batch_of([100] * 4))
    assert driver.lease(9, max_bytes=250)[1] == [1, 2]
    assert driver.lease(9, max_bytes=1)[1] == [3]
    assert driver.lease(9, max_bytes=100)[1] == [4]


def test_neighbours_of_one_priority_are_one_range(driver):
    for _ in range(5):
        driver.send(2)
    header = driver.plan_lease(10)
    assert header is not None
    assert [(part.first, part.count) for part in header.lease.ranges] == [(1, 10)]
    slices = driver.master.segments_of(1, header.lease.ranges)
    assert [(part.log_index, part.first_index, part.count) for part in slices] == [
        (2, 1, 2),
        (3, 3, 2),
        (4, 5, 2),
        (5, 7, 2),
        (6, 9, 2),
    ]


@pytest.mark.requirement("R053")
def test_immediate_messages_are_gone_at_delivery(driver):
    driver.send(3)
    header = driver.plan_lease(2, immediate=True)
    assert header is not None
    assert driver.master.segments_of(1, header.lease.ranges)[0].count == 2  # looked up before it is applied
    assert driver.order(header).lease_id == 0
    assert driver.browse() == [3]
    assert driver.info().acked_total == 2


def test_ack_removes_and_its_repetition_is_ok(driver):
    driver.send(4)
    lease_id, _ = driver.lease()
    assert driver.outcome(ACK, lease_id, (1, 2)).settled == 2
    again = driver.outcome(ACK, lease_id, (1, 3))
    assert (again.settled, again.HasField("error")) == (3, False)
    before = driver.log_index
    assert driver.outcome(ACK, lease_id, (1, 3)).settled == 3
    assert driver.log_index == before  # nothing changed, so there is no record
    assert (driver.info().acked_total, driver.info().length) == (3, 1)


@pytest.mark.parametrize("outcome", [RELEASE, REJECT, EXTEND])
def test_anything_else_about_a_message_that_was_acked_is_lease_lost(driver, outcome):
    driver.send(2)
    lease_id, _ = driver.lease()
    driver.outcome(ACK, lease_id, (1, 1))
    result = driver.outcome(outcome, lease_id, (1, 2))
    assert (result.settled, result.error.reason, indexes_of(result.refused)) == (1, LOST, [1])


def test_another_leases_message_is_lease_lost(driver):
    driver.send(2)
    first, _ = driver.lease(1)
    second, _ = driver.lease(1)
    result = driver.outcome(ACK, second, (1, 2))
    assert (result.settled, indexes_of(result.refused)) == (1, [1])
    assert driver.outcome(ACK, first, (1, 1)).settled == 1


def test_a_settle_under_an_unknown_lease_counts_while_nobody_else_holds_the_message(driver):
    driver.send(3)
    driver.lease(1)
    result = driver.outcome(ACK, 4242, (1, 2))
    assert (result.settled, indexes_of(result.refused)) == (1, [1])
    assert driver.browse() == [1, 3]
    assert driver.outcome(RELEASE, 4242, (3, 3)).settled == 1  # it is where a release would put it
    assert driver.outcome(EXTEND, 4242, (3, 3)).error.reason == LOST


def test_release_returns_to_the_old_place_and_takes_the_delivery_back(driver):
    driver.enqueue(batch_of([1] * 3, priorities=[4, 9, 4]))
    lease_id, order = driver.lease()
    assert order == [2, 1, 3]
    driver.outcome(RELEASE, lease_id, (1, 2))
    header = driver.plan_lease()
    assert header is not None
    assert indexes_of(header.lease.ranges) == [2, 1]
    assert [part.delivery_counts for part in driver.master.segments_of(1, header.lease.ranges)] == [None, None]


def test_reject_removes_and_is_counted_apart():
    driver = Driver()
    driver.create(dead_letter_queue="")
    driver.send(1)
    lease_id, _ = driver.lease()
    assert driver.outcome(REJECT, lease_id, (1, 1)).settled == 1
    assert driver.outcome(REJECT, lease_id, (1, 1)).settled == 1  # a repetition
    assert driver.outcome(ACK, lease_id, (1, 1)).error.reason == LOST
    assert (driver.info().length, driver.info().acked_total) == (0, 0)
    assert driver.master.queue(1).totals.rejected == 1


def test_extend_moves_the_end_of_the_whole_lease(driver):
    driver.send(2)
    lease_id, _ = driver.lease(duration_ms=100)
    driver.outcome(EXTEND, lease_id, (1, 1), extension_ms=5_000)
    driver.now_ms += 5_000  # which may have begun a millisecond ago, or just now
    assert driver.expire() == 0
    driver.now_ms += 1
    assert next_due_ms(driver.master.state) == driver.now_ms
    assert driver.expire() == 1


def test_settlements_of_one_call_see_each_other(driver):
    driver.send(3)
    lease_id, _ = driver.lease()

    def settlement(outcome, first, last):
        return queue_service_pb2.Settlement(lease_id=lease_id, outcome=outcome, ranges=ranges_of((first, last)))

    results = driver.settle(
        settlement(ACK, 1, 1),
        settlement(ACK, 1, 2),
        settlement(RELEASE, 1, 3),
        settlement(ACK, 3, 3),
        settlement(EXTEND, 3, 3),
    )
    assert [(result.settled, indexes_of(result.refused)) for result in results] == [
        (1, []),
        (2, []),
        (1, [1, 2]),
        (1, []),
        (0, [3]),
    ]
    assert driver.info().length == 0


@pytest.mark.parametrize(
    "settlement",
    [
        queue_service_pb2.Settlement(lease_id=1, ranges=ranges_of((1, 1))),
        queue_service_pb2.Settlement(lease_id=1, outcome=9, ranges=ranges_of((1, 1))),
        queue_service_pb2.Settlement(lease_id=0, outcome=ACK, ranges=ranges_of((1, 1))),
        queue_service_pb2.Settlement(lease_id=1, outcome=ACK),
        queue_service_pb2.Settlement(lease_id=1, outcome=ACK, ranges=ranges_of((0, 1))),
        queue_service_pb2.Settlement(lease_id=1, outcome=ACK, ranges=[common_pb2.IndexRange(first=1)]),
        queue_service_pb2.Settlement(
            lease_id=1, outcome=ACK, ranges=[common_pb2.IndexRange(first=2, count=(1 << 64) - 1)]
        ),
    ],
)
def test_a_malformed_settlement_is_refused_alone(driver, settlement):
    driver.send(2)
    lease_id, _ = driver.lease(1)
    good = queue_service_pb2.Settlement(lease_id=lease_id, outcome=ACK, ranges=ranges_of((1, 1)))
    results = driver.settle(settlement, good)
    assert results[0].error.reason == common_pb2.REASON_BAD_REQUEST
    assert results[1].settled == 1


def test_only_the_last_leases_are_remembered():
    driver = Driver(Limits(settled_leases_kept=2))
    driver.create()
    driver.send(3)
    leases = [driver.lease(1)[0] for _ in range(3)]
    for index, lease_id in enumerate(leases, 1):
        driver.outcome(ACK, lease_id, (index, index))
    known = [driver.outcome(ACK, lease_id, (index, index)).settled for index, lease_id in enumerate(leases, 1)]
    assert known == [0, 1, 1]


def test_unary_receiving_and_settling_are_known_by_their_ids(driver):
    driver.send(2)
    header = driver.plan_lease(1, request_id=b"l" * 16, request_hash=1)
    assert header is not None
    lease_id = driver.order(header).lease_id
    answer = driver.master.find_request(b"l" * 16, 1)
    assert answer is not None
    assert (answer.kind, answer.queue_id, answer.lease_id, indexes_of(answer.ranges)) == ("lease", 1, lease_id, [1])
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, outcome=ACK, ranges=ranges_of((1, 2)))
    results = driver.settle(settlement, request_id=b"s" * 16, request_hash=2)
    answer = driver.master.find_request(b"s" * 16, 2)
    assert answer is not None
    assert list(answer.results) == results


def test_at_takeover_every_lease_restarts_in_full(driver):
    driver.send(1)
    driver.lease(duration_ms=100)
    driver.now_ms += 99
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=record_pb2.RoleOp(owner="b")))
    assert next_due_ms(driver.master.state) == driver.now_ms + 101


def test_a_record_that_does_not_fit_the_state_stops_the_member(driver):
    driver.send(1)
    header = driver.plan_lease(1)
    assert header is not None
    driver.order(header)
    with pytest.raises(AssertionError, match="not ready"):
        driver.master.apply(driver.log_index + 1, 1, header)
    with pytest.raises(AssertionError, match="in order"):
        driver.master.apply(driver.log_index + 2, 1, header)


def test_a_lease_that_no_snapshot_could_name_is_refused(driver):
    """It used to be taken where nobody held the message; then neither checkpoint nor transfer was possible any more."""
    driver.send(2)
    for lease_id in ((1 << 64) - 1, 1 << 63):
        result = driver.outcome(ACK, lease_id, (1, 1))
        assert (result.settled, result.error.reason) == (0, common_pb2.REASON_BAD_REQUEST)
    assert driver.outcome(REJECT, (1 << 63) - 1, (1, 1)).settled == 1
    assert Machine.restore(driver.master.snapshot(), MEMBERS).digest() == driver.master.digest()


def settlement_of(outcome, lease_id, *runs, extension_ms=0):
    made = queue_service_pb2.Settlement(lease_id=lease_id, outcome=outcome, ranges=ranges_of(*runs))
    made.extension.FromMilliseconds(extension_ms)
    return made


@pytest.mark.parametrize("acked", [(1, 1), (1, 3)])
def test_a_message_that_is_extended_and_acked_in_one_call_is_gone(driver, acked):
    """The lease of the others goes on for the new time; one that holds nothing more ends, and waits for nothing."""
    driver.send(3)
    lease_id, _ = driver.lease(duration_ms=100)
    extended, settled = driver.settle(
        settlement_of(EXTEND, lease_id, (1, 3), extension_ms=5_000), settlement_of(ACK, lease_id, acked)
    )
    assert (extended.settled, settled.settled) == (3, acked[1])
    left = list(range(acked[1] + 1, 4))
    assert driver.browse() == left
    assert next_due_ms(driver.master.state) == (driver.now_ms + 5_001 if left else None)
    assert driver.restored().digest() == driver.master.digest()


def test_a_message_that_is_acked_before_it_is_extended_in_one_call_is_not_extended(driver):
    driver.send(3)
    lease_id, _ = driver.lease(duration_ms=100)
    settled, extended = driver.settle(
        settlement_of(ACK, lease_id, (2, 2)), settlement_of(EXTEND, lease_id, (1, 3), extension_ms=5_000)
    )
    assert (settled.settled, extended.settled, indexes_of(extended.refused)) == (1, 2, [2])
    assert extended.error.reason == LOST
    assert next_due_ms(driver.master.state) == driver.now_ms + 5_001
    settled, extended = driver.settle(
        settlement_of(ACK, lease_id, (1, 1), (3, 3)), settlement_of(EXTEND, lease_id, (1, 3), extension_ms=9_000)
    )
    assert (settled.settled, extended.settled, indexes_of(extended.refused)) == (2, 0, [1, 2, 3])
    assert next_due_ms(driver.master.state) is None


def test_of_two_extensions_the_last_one_counts_and_without_a_time_it_is_the_queues(driver):
    driver.send(1)
    lease_id, _ = driver.lease(duration_ms=100)
    for first_ms, second_ms in ((9_000, 5_000), (1_000, 0)):
        driver.settle(
            settlement_of(EXTEND, lease_id, (1, 1), extension_ms=first_ms),
            settlement_of(EXTEND, lease_id, (1, 1), extension_ms=second_ms),
        )
        assert next_due_ms(driver.master.state) == driver.now_ms + (second_ms or 30_000) + 1
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms + 7, role=record_pb2.RoleOp(owner="b")))
    assert next_due_ms(driver.master.state) == driver.now_ms + 7 + 30_001, "in full, as it was extended last"


@pytest.mark.parametrize("ahead", [0, 2, 3])
def test_a_record_that_comes_twice_or_beyond_a_gap_changes_nothing(driver, ahead):
    """As of a resync that sends again what is here, or leaves one out."""
    driver.send(2)
    header = driver.plan_enqueue(batch_of([1])).header
    before = driver.replica.digest()
    with pytest.raises(AssertionError, match="in order"):
        driver.replica.apply(driver.log_index + ahead, driver.epoch, header)
    assert driver.replica.digest() == before
    driver.order(header)
    with pytest.raises(AssertionError, match="in order"):
        driver.replica.apply(driver.log_index, driver.epoch, header)
    assert driver.replica.digest() == driver.master.digest()


def test_the_first_record_may_be_of_any_time_and_is_the_first():
    role = record_pb2.RecordHeader(role=record_pb2.RoleOp(owner="a"))
    for log_index in (0, 2):
        with pytest.raises(AssertionError, match="in order"):
            Machine(7, MEMBERS).apply(log_index, 1, role)
    machine = Machine(7, MEMBERS)
    machine.apply(1, 1, role)
    assert (machine.applied_index, machine.state.time_ms) == (1, 0)


def test_a_record_of_an_earlier_time_changes_nothing(driver):
    driver.send(1)
    header = driver.plan_enqueue(batch_of([1])).header
    header.time_ms -= 1
    before = driver.replica.digest()
    with pytest.raises(AssertionError, match="never falls"):
        driver.replica.apply(driver.log_index + 1, driver.epoch, header)
    assert driver.replica.digest() == before


@pytest.mark.parametrize(("max_bytes", "given"), [(99, [1]), (100, [1, 2]), (101, [1, 2]), (106, [1, 2, 3]), (0, [1])])
def test_what_has_no_bytes_needs_no_credit(driver, max_bytes, given):
    """Nor is a message kept back that just fits."""
    for size in (100, 0, 6):
        driver.enqueue(batch_of([size]))
    assert driver.lease(9, max_bytes=max_bytes)[1] == given


def test_the_keys_of_settlements_have_not_changed():
    """A snapshot keeps them: another version must know them again."""
    assert [settled_key(5, outcome) for outcome in (ACK, REJECT)] == [10, 11]


def test_who_watches_hears_of_each_record_since_and_nobody_else_pays(driver):
    driver.send(2)
    driver.create("other")
    assert driver.master.state.changes is None
    changes = driver.master.watch(2)
    assert (list(changes.queues), changes.freed, changes.seen_to) == ([1, 2], [], 2)
    changes.queues.clear()
    lease_id, _ = driver.lease()
    assert list(changes.queues) == [1]
    driver.send(1)
    driver.outcome(ACK, lease_id, (1, 2))
    driver.ack(driver.lease()[0], (3, 3))
    assert changes.freed == [2], "of the records that were looked at"
    assert driver.master.watch(9) is not changes
    driver.send(1, queue="other")
    assert list(changes.queues) == [1]


def test_a_settlement_that_names_another_queue_changes_nothing(driver: Driver) -> None:
    """A consumer of a macro queue names the member; a call about another queue is a mistake, and no message of it."""
    driver.order(plan_alias(driver.master.state, driver.now_ms, AliasCall("other", "q", b"", 0)))
    driver.send(1)
    lease_id, _ = driver.lease()
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of((1, 1)), outcome=ACK, queue="r")
    (result,) = driver.settle(settlement)
    assert (result.settled, result.error.reason) == (0, common_pb2.REASON_BAD_REQUEST)
    assert "it names queue r, and the call is about queue q" in result.error.message
    settlement.queue = "other"
    assert driver.settle(settlement)[0].settled == 1
