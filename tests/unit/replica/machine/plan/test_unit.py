"""Units of work: settlements and messages of several queues by one record, or nothing of it (U1-U17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from replica.machine import Limits, Machine, QueuePut, QueueSettling, Refused, UnitCall, columns_of
from replica.machine.plan.reply import ReplyCall
from replica.machine.plan.unit import QUEUES_MAX, plan_unit
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, message_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, EXTEND, REJECT, RELEASE, Driver, batch_of, indexes_of, ranges_of

COMPLETE = admin_pb2.GROUP_MODE_COMPLETE


def settling(lease_id: int, *runs: tuple[int, int], outcome: int = ACK, queue: str = "q") -> QueueSettling:
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, ranges=ranges_of(*runs))
    settlement.outcome = outcome  # type: ignore[assignment]  # enum number
    return QueueSettling(queue, [settlement])


def puts(*queues: tuple[str, Sequence[int]], **columns: Sequence[object]) -> list[QueuePut]:
    """Messages of so many bytes for each queue: parts of one batch, as they stand in the body."""
    sizes = [size for _, each in queues for size in each]
    batch = message_pb2.MessageBatch(payloads=[b"x" * size for size in sizes], **columns)  # type: ignore[arg-type]
    whole = columns_of(queue_service_pb2.EnqueueBatch(messages=batch))
    made, start = [], 0
    for name, each in queues:
        made.append(QueuePut(name, whole.part(start, len(each))))
        start += len(each)
    return made


def call(driver: Driver, settles: Sequence[QueueSettling], entering: Sequence[QueuePut]) -> UnitCall:
    """With an id of its own."""
    return UnitCall(settles, entering, "a", driver.log_index.to_bytes(16, "big"), 1)


def unit(driver: Driver, settles: Sequence[QueueSettling] = (), entering: Sequence[QueuePut] = ()) -> record_pb2.TxnOp:
    asked = call(driver, settles, entering)
    header = driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, asked))
    driver.order(header)
    made: record_pb2.TxnOp = header.txn
    return made


def refused(
    driver: Driver,
    settles: Sequence[QueueSettling] = (),
    entering: Sequence[QueuePut] = (),
    full: Sequence[int] = (),
) -> Refused:
    asked = call(driver, settles, entering)
    return driver.refusal(lambda: driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, asked, full)))


@pytest.fixture
def three(driver: Driver) -> Driver:
    """Queues q with a message under a lease, r and s."""
    driver.create("r")
    driver.create("s")
    driver.send(1)
    driver.lease_id, _ = driver.lease()  # type: ignore[attr-defined]
    return driver


def leased(driver: Driver) -> int:
    lease_id: int = driver.lease_id  # type: ignore[attr-defined]
    return lease_id


def test_u2_one_record_takes_from_one_queue_and_gives_to_two(three: Driver) -> None:
    op = unit(three, [settling(leased(three), (1, 1))], puts(("r", [5]), ("s", [6, 7])))
    assert [(each.first_index, each.first_ordinal, each.count) for each in op.enqueues] == [(1, 0, 1), (1, 1, 2)]
    assert (three.info().length, three.info("r").length, three.info("s").length) == (0, 1, 2)
    assert (three.info("r").bytes, three.info("s").bytes) == (5, 13)
    number = three.master.queue_id("s")
    assert number is not None
    assert three.master.locate(number, 2) == (three.log_index, 2), "the third message of the body"


def test_u2_each_message_keeps_what_was_said_of_it(three: Driver) -> None:
    """Columns of the body are cut to each queue's share."""
    op = unit(three, (), puts(("r", [1, 1]), ("s", [1, 1]), priorities=[1, 2, 3, 9], ttls_ms=[0, 0, 5_000, 0]))
    assert [list(each.priorities) for each in op.enqueues] == [[1, 2], [3, 9]]
    assert [list(each.expires_at_ms) for each in op.enqueues] == [[], [three.now_ms + 5_000, 0]]
    assert indexes_of(three.plan_lease(name="s").lease.ranges) == [2, 1], "the higher priority first"  # type: ignore[union-attr]


def test_u14_the_body_stays_until_the_last_of_its_queues_needs_it_no_more(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), ("s", [1, 1])))
    record = three.log_index
    for name, count in (("s", 2), ("r", 1)):
        assert three.master.live(record)
        assert record not in three.freed
        lease_id, _ = three.lease(name=name)
        three.settle(*settling(lease_id, (1, count)).settlements, name=name)
    assert not three.master.live(record)
    assert three.freed.count(record) == 1


def test_u14_a_unit_that_empties_both_queues_of_another_frees_its_body_once(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), ("s", [1])))
    record, (first, _), (second, _) = three.log_index, three.lease(name="r"), three.lease(name="s")
    unit(three, [settling(first, (1, 1), queue="r"), settling(second, (1, 1), queue="s")])
    assert three.freed.count(record) == 1
    assert not three.master.state.shared


def test_u14_the_deletion_of_one_queue_leaves_the_body_to_the_other(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), ("s", [1])))
    record = three.log_index
    three.queue(record_pb2.QUEUE_ACTION_DELETE, "r")
    assert three.master.live(record)
    three.queue(record_pb2.QUEUE_ACTION_PURGE, "s")
    assert three.freed.count(record) == 1


def test_u14_a_full_transfer_sends_the_body_once(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), ("s", [1])))
    held = [log_index for _, log_index in three.master.live_log_indexes()]
    assert held.count(three.log_index) == 1
    assert three.restored().state.shared == {three.log_index: 2}
    assert three.restored().digest() == three.master.digest()


def test_a_unit_for_one_queue_is_no_shared_record(three: Driver) -> None:
    unit(three, [settling(leased(three), (1, 1))], puts(("r", [1])))
    assert not three.master.state.shared


def test_u17_nobody_sees_a_part_before_the_commit(three: Driver) -> None:
    three.commits = False
    unit(three, (), puts(("r", [1]), ("s", [1])))
    assert (three.lease(name="r"), three.lease(name="s")) == ((0, []), (0, []))
    three.commit()
    assert [indexes for _, indexes in (three.lease(name="r"), three.lease(name="s"))] == [[1], [1]]


def test_u7_what_leaves_makes_room_for_what_enters() -> None:
    """Example 3."""
    driver = Driver()
    driver.create(max_length=1)
    driver.send(1)
    lease_id, _ = driver.lease()
    unit(driver, [settling(lease_id, (1, 1))], puts(("q", [1])))
    assert driver.browse() == [2]
    assert driver.info().highest_length == 1, "it has left before the other one enters (U2)"
    assert refused(driver, (), puts(("q", [1]))).reason == common_pb2.REASON_QUEUE_FULL


@pytest.mark.parametrize("entering", [30, 31])
def test_u7_room_in_bytes_is_exact(entering: int) -> None:
    driver = Driver()
    driver.create(max_bytes=40, max_message_bytes=40)
    driver.send(4)  # of ten bytes each
    lease_id, _ = driver.lease(3)
    parts = settling(lease_id, (1, 1), (3, 3)), settling(lease_id, (2, 2))
    settles = [QueueSettling("q", [each for part in parts for each in part.settlements])]
    if entering == 31:
        why = refused(driver, settles, puts(("q", [entering])))
        assert (why.reason, why.metadata) == (common_pb2.REASON_QUEUE_FULL, {"queue": "q", "entry": "0"})
    else:
        unit(driver, settles, puts(("q", [entering])))
        assert driver.info().bytes == 40


@pytest.mark.parametrize(("outcome", "fits"), [(ACK, True), (REJECT, True), (RELEASE, False)])
def test_u7_what_is_released_stays(outcome: int, fits: bool) -> None:
    driver = Driver(Limits(dead_letter=False))
    driver.create(max_length=1)
    driver.send(1)
    lease_id, _ = driver.lease()
    settles = [settling(lease_id, (1, 1), outcome=outcome)]
    if fits:
        unit(driver, settles, puts(("q", [1])))
        assert driver.info().length == 1
    else:
        assert refused(driver, settles, puts(("q", [1]))).reason == common_pb2.REASON_QUEUE_FULL


def test_u7_what_goes_to_the_dead_letters_is_there_until_it_has_gone() -> None:
    driver = Driver()
    driver.create(max_length=1)
    driver.send(1)
    lease_id, _ = driver.lease()
    settles = [settling(lease_id, (1, 1), outcome=REJECT)]
    assert refused(driver, settles, puts(("q", [1]))).reason == common_pb2.REASON_QUEUE_FULL


def test_u16_a_queue_that_drops_drops_no_more_than_it_must() -> None:
    driver = Driver()
    driver.create(max_length=3, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(3)
    lease_id, _ = driver.lease(1)
    op = unit(driver, [settling(lease_id, (1, 1))], puts(("q", [1, 1])))
    assert indexes_of(op.enqueues[0].dropped) == [2], "one of the two has the place of what was settled"
    assert driver.browse() == [3, 4, 5]


def test_u16_bytes_of_a_record_that_is_settled_and_dropped_are_counted_once() -> None:
    driver = Driver()
    driver.create(max_bytes=30, max_message_bytes=30, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(3)
    lease_id, _ = driver.lease(1)
    op = unit(driver, [settling(lease_id, (1, 1))], puts(("q", [20])))
    assert indexes_of(op.enqueues[0].dropped) == [2]
    assert driver.info().bytes == 30


def test_u7_a_unit_waits_for_no_room_and_passes_nobody_who_does(three: Driver) -> None:
    """Example 4."""
    number = three.master.queue_id("r")
    assert number is not None
    why = refused(three, (), puts(("s", [1]), ("r", [1])), full=(number,))
    assert (why.reason, why.metadata["queue"]) == (common_pb2.REASON_QUEUE_FULL, "r")


@pytest.mark.parametrize(
    ("config", "columns", "reason", "text"),
    [
        ({"max_message_bytes": 4}, {}, common_pb2.REASON_MESSAGE_TOO_LARGE, "is larger than its max_message_bytes (4)"),
        ({"max_length": 1}, {}, common_pb2.REASON_QUEUE_FULL, "finds it full"),
        ({"group_mode": COMPLETE}, {"group_ids": ["g"]}, common_pb2.REASON_GROUP_MISMATCH, "does not fit its group"),
        (
            {"group_mode": COMPLETE},
            {"group_ids": ["g", "h"], "group_sequences": [1, 1]},
            common_pb2.REASON_QUOTA_EXCEEDED,
            "begins a group, and as many gather there as may",
        ),
    ],
)
def test_u7_a_refusal_says_what_the_queue_does_not_take(
    config: Any, columns: Any, reason: common_pb2.Reason, text: str
) -> None:
    driver = Driver(Limits(groups_max=1))
    driver.create(**config)
    why = refused(driver, (), puts(("q", [4, 5]), **columns))
    place = 0 if reason == common_pb2.REASON_GROUP_MISMATCH else 1
    assert (why.reason, why.metadata) == (reason, {"queue": "q", "entry": str(place)})
    assert f"message {place} for queue q {text}" in why.message
    assert driver.info().length == 0


def test_u7_any_refusal_refuses_all(three: Driver) -> None:
    three.create("t", max_message_bytes=4)
    settles = [settling(leased(three), (1, 1))]
    why = refused(three, settles, puts(("r", [1]), ("t", [4, 5])))
    assert (why.reason, why.metadata) == (common_pb2.REASON_MESSAGE_TOO_LARGE, {"queue": "t", "entry": "1"})
    assert refused(three, settles, puts(("r", [1]), ("nowhere", [1]))).reason == common_pb2.REASON_QUEUE_NOT_FOUND
    three.queue(record_pb2.QUEUE_ACTION_CLOSE, "s", member="a")
    assert refused(three, settles, puts(("r", [1]), ("s", [1]))).reason == common_pb2.REASON_INVALID_STATE
    assert (three.info().length, three.info("r").length) == (1, 0)


def test_u16_a_request_has_one_answer_of_a_unit(driver: Driver) -> None:
    driver.create("t", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    driver.enqueue(batch_of([1], queue="t"))
    lease_id, _ = driver.lease(name="t")
    answer = ReplyCall("t", lease_id, 1, 1)
    once = replace(call(driver, (), ()), replies=(answer,))
    twice = replace(once, replies=(answer, answer))
    assert len(plan_unit(driver.master.state, driver.now_ms, once).txn.replies) == 1
    why = driver.refusal(lambda: driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, twice)))
    assert why.reason == common_pb2.REASON_ALREADY_REPLIED


def test_u6_what_the_lease_does_not_hold_is_not_settled_in_a_unit(three: Driver) -> None:
    lease_id = leased(three)
    assert refused(three, [settling(lease_id, (1, 2))]).reason == common_pb2.REASON_LEASE_LOST
    three.outcome(RELEASE, lease_id, (1, 1))
    why = refused(three, [settling(lease_id, (1, 1))], puts(("r", [1])))
    assert why.reason == common_pb2.REASON_LEASE_LOST, "by itself it could be settled: nobody holds it"
    again, _ = three.lease()
    assert refused(three, [settling(lease_id, (1, 1))]).reason == common_pb2.REASON_LEASE_LOST, "another one holds it"
    three.ack(again, (1, 1))
    assert refused(three, [settling(again, (1, 1))]).reason == common_pb2.REASON_LEASE_LOST, "it was settled before"


def test_u6_twice_in_one_unit_is_once_too_often(driver: Driver) -> None:
    """Taking the messages anew, as one does for a lease that is lost, would not help."""
    driver.send(3)
    lease_id, _ = driver.lease(3)
    once = settling(lease_id, (2, 2)).settlements
    for twice in (
        [*once, *once],
        [*once, *settling(lease_id, (1, 2), outcome=REJECT).settlements],
        settling(lease_id, (2, 2), (1, 2)).settlements,
    ):
        why = refused(driver, [QueueSettling("q", twice)])
        assert (why.reason, why.metadata) == (common_pb2.REASON_BAD_REQUEST, {"queue": "q"})
        assert why.message.startswith("message 2 of queue q is settled twice")
    unit(driver, [settling(lease_id, (3, 3), (1, 2))])  # in whatever order
    assert driver.info().length == 0


def test_u6_what_was_taken_again_is_not_named_under_its_first_lease(three: Driver) -> None:
    first = leased(three)
    three.outcome(RELEASE, first, (1, 1))
    again, _ = three.lease()
    both = [*settling(first, (1, 1)).settlements, *settling(again, (1, 1)).settlements]
    assert refused(three, [QueueSettling("q", both)]).reason == common_pb2.REASON_LEASE_LOST


def test_a_unit_ends_deliveries_and_does_not_prolong_them(three: Driver) -> None:
    why = refused(three, [settling(leased(three), (1, 1), outcome=EXTEND)])
    assert (why.reason, why.metadata) == (common_pb2.REASON_BAD_REQUEST, {"queue": "q", "entry": "0"})


def test_a_request_is_answered_and_not_acknowledged_in_a_unit_either(driver: Driver) -> None:
    driver.create("w", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    driver.send(1, queue="w")
    lease_id, _ = driver.lease(name="w")
    why = refused(driver, [settling(lease_id, (1, 1), queue="w")])
    assert why.reason == common_pb2.REASON_REPLY_REQUIRED


def test_each_queue_stands_once_by_whatever_name(three: Driver) -> None:
    three.master.state.ids["other"] = three.replica.state.ids["other"] = three.master.state.ids["r"]
    assert refused(three, (), puts(("r", [1]), ("r", [1]))).reason == common_pb2.REASON_BAD_REQUEST
    assert refused(three, (), puts(("r", [1]), ("other", [1]))).reason == common_pb2.REASON_BAD_REQUEST


def test_empty_parts_are_refused(three: Driver) -> None:
    for settles, entering in (((), ()), ([QueueSettling("q", [])], ()), ((), puts(("r", [])))):
        assert refused(three, settles, entering).reason == common_pb2.REASON_BAD_REQUEST


@pytest.mark.parametrize("what", ["messages", "ranges", "queues"])
def test_u3_what_one_record_does_not_hold_is_refused_before_anything_is_looked_at(what: str) -> None:
    driver = Driver(Limits(batch_messages_max=3, settlement_ranges_max=2))
    driver.create()
    entering, settles = puts(("q", [1, 1, 1])), [settling(1, (1, 1), (3, 3))]
    if what == "messages":
        entering = puts(("q", [1, 1]), ("r", [1, 1]))
    elif what == "ranges":
        settles = [settling(1, (1, 1), (3, 3)), settling(2, (1, 1), queue="r")]
    else:
        entering = puts(("q", [1]))
        assert QUEUES_MAX == 100, "a number of the contract"
        settles = [QueueSettling(f"q{at}", []) for at in range(QUEUES_MAX)]
    why = refused(driver, settles, entering)
    assert why.reason == common_pb2.REASON_TXN_TOO_LARGE
    assert what in why.message


def test_u16_a_dedup_id_that_is_known_is_left_out_and_the_unit_goes_on(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), dedup_ids=["x"]))
    entering = puts(("s", [1]), ("r", [2, 3]), dedup_ids=["x", "x", "y"])
    op = unit(three, (), entering)
    assert [(each.ordinal, each.index) for each in op.enqueues[1].duplicates] == [(0, 1)]
    number = three.master.queue_id("r")
    assert number is not None
    assert three.master.locate(number, 2) == (three.log_index, 2)
    assert (three.info("r").length, three.info("s").length) == (2, 1)


def test_u16_a_unit_of_doubles_alone_holds_nothing(three: Driver) -> None:
    unit(three, (), puts(("r", [1]), dedup_ids=["x"]))
    unit(three, (), puts(("r", [1]), dedup_ids=["x"]))
    assert three.log_index in three.freed
    assert not three.master.live(three.log_index)


def test_u8_the_first_answer_is_remembered(three: Driver) -> None:
    request_id = three.log_index.to_bytes(16, "big")
    unit(three, [settling(leased(three), (1, 1))], puts(("r", [1]), ("s", [1, 1])))
    for machine in (three.master, three.replica, three.restored()):
        assert isinstance(machine, Machine)
        found = machine.find_request(request_id, 1)
        assert found is not None
        assert (found.kind, found.log_index) == ("txn", three.log_index)
        assert [(each.first_index, each.count, each.first_ordinal) for each in found.entered] == [(1, 1, 0), (1, 2, 1)]
    with pytest.raises(Refused, match="different request"):
        three.master.find_request(request_id, 2)
