"""Every way into a queue keeps what was said of a message, and what the queue says of all its messages.

Ways: a batch of a producer's stream, a unary call, rows that were staged and published, messages that are put back,
moved by an administrator, copies of answers, what a unit of work puts. A batch of two of which one stays outside tells
its attributes apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replica.machine import CopyCall, MoveCall, PublishCall, QueuePut, ReplyCall, StageCall, UnitCall, columns_of
from replica.machine.plan.copies import plan_copies
from replica.machine.plan.move import plan_move
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.reply_copies import owed_of
from replica.machine.plan.stage import plan_publish, plan_stage, plan_staged
from replica.machine.plan.unit import plan_unit
from replica.machine.state.queue import QueueState
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of

MINUTE_MS = 60_000
TWO = [10, 20]  # payload bytes
FULL, TOO_LARGE = common_pb2.REASON_QUEUE_FULL, common_pb2.REASON_MESSAGE_TOO_LARGE
TWO_WAY, REQUESTS = admin_pb2.QUEUE_TYPE_TWO_WAY, "requests"


def ordered(driver: Driver, make: Callable[[], Any]) -> record_pb2.EnqueueOp:
    header = driver.plan(make)
    driver.order(header)
    made: record_pb2.EnqueueOp = header.enqueue
    return made


def stream(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    return driver.enqueue(batch)


def unary(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    return driver.enqueue(batch, request_id=driver.log_index.to_bytes(16, "big"), request_hash=7)


def put_back(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    return driver.enqueue(batch, left_out=())


def published(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    state, columns, stage_id = driver.master.state, columns_of(batch), driver.log_index.to_bytes(16, "big")
    staged = driver.plan(
        lambda: plan_stage(state, driver.now_ms, StageCall(stage_id, 1, batch.queue, columns, 0, 1, member="a"))
    )
    driver.order(staged)
    call = PublishCall("w", "query", driver.log_index, [stage_id], "a")
    driver.order(driver.plan(lambda: plan_publish(state, driver.now_ms, call)).header)
    return ordered(driver, lambda: plan_staged(state, driver.now_ms, columns))


def moved(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    """Out of another queue: as the core asks for it, with what each message has left of its times."""
    if driver.master.queue_id("source") is None:
        driver.create("source")
    state, sizes = driver.master.state, [len(each) for each in batch.messages.payloads]
    first = driver.enqueue(batch_of(sizes, queue="source"), client_id=b"of the source").first_index
    columns = columns_of(batch)
    each = columns.delays_ms or (0,)
    delays = [driver.now_ms + delay if delay else 0 for delay in (each if len(each) > 1 else [*each] * len(sizes))]
    source_id = driver.master.queue_id("source")
    assert source_id is not None
    indexes = list(range(first, first + len(sizes)))
    final = queue_service_pb2.FINAL_STATE_PURGED
    call = MoveCall(source_id, batch.queue, indexes, columns, final, deliver_at_ms=delays)
    return ordered(driver, lambda: plan_move(state, driver.now_ms, call))


def copied(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    """Answers to requests of another queue."""
    owe(driver, batch.queue, len(batch.messages.payloads))
    return ordered(driver, lambda: plan_copies(driver.master.state, driver.now_ms, copies_of(driver, batch)))


def owe(driver: Driver, to: str, count: int) -> None:
    """So many copies of answers that `to` is to get."""
    if driver.master.queue_id(REQUESTS) is None:
        driver.create(REQUESTS, queue_type=TWO_WAY)
    state, queue_id = driver.master.state, driver.master.queue_id(REQUESTS)
    driver.enqueue(batch_of([1] * count, queue=REQUESTS), client_id=b"of the requests")
    lease_id, indexes = driver.lease(count, name=REQUESTS)
    assert queue_id is not None
    for index in indexes:
        call = ReplyCall(REQUESTS, lease_id, index, 1)
        header = driver.plan(lambda call=call: plan_reply(state, driver.now_ms, call))
        header.reply.reply_to = to
        driver.order(header)


def copies_of(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> CopyCall:
    queue_id = driver.master.queue_id(REQUESTS)
    assert queue_id is not None
    completions = driver.master.queue(queue_id).completions
    assert completions is not None
    return CopyCall(queue_id, batch.queue, sorted(completions.owed[batch.queue]), columns_of(batch))


def in_unit(driver: Driver, batch: queue_service_pb2.EnqueueBatch) -> record_pb2.EnqueueOp:
    """All that a unit of work puts into the queue."""
    puts = [QueuePut(batch.queue, columns_of(batch))]
    call = UnitCall((), puts, "a", driver.log_index.to_bytes(16, "big"), 1)
    header = driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call))
    driver.order(header)
    (op,) = header.txn.enqueues
    return op


WAYS: dict[str, Callable[[Driver, queue_service_pb2.EnqueueBatch], record_pb2.EnqueueOp]] = {
    "stream": stream,
    "unary": unary,
    "put back": put_back,
    "published": published,
    "moved": moved,
    "copied": copied,
    "unit": in_unit,
}
CLIENTS = ("stream", "unary")
every_way = pytest.mark.parametrize("way", WAYS)


def made(**attributes: Any) -> Driver:
    driver = Driver()
    driver.create(**attributes)
    return driver


def queue_of(driver: Driver) -> QueueState:
    queue_id = driver.master.queue_id("q")
    assert queue_id is not None
    return driver.master.queue(queue_id)


def ready(driver: Driver) -> dict[int, list[int]]:
    """Ready indexes by priority."""
    levels = enumerate(queue_of(driver).ready)
    return {level: [at for low, high in runs for at in range(low, high)] for level, runs in levels if runs.size}


def timed(driver: Driver) -> list[tuple[int, int, int]]:
    return list(queue_of(driver).timed_runs(0, 100))


@every_way
def test_messages_enter_in_order_and_are_counted(way: str) -> None:
    driver = made()
    for first in (1, 3):
        op = WAYS[way](driver, batch_of(TWO))
        assert (op.first_index, op.count, op.payload_bytes) == (first, 2, 30)
    info = driver.info()
    assert (info.length, info.bytes, info.last_index, info.enqueued_total, info.highest_length) == (4, 60, 4, 4, 4)
    assert driver.browse() == [1, 2, 3, 4]
    assert ready(driver) == {4: [1, 2, 3, 4]}
    assert driver.lease(9)[1] == [1, 2, 3, 4]


@every_way
def test_each_message_has_its_own_priority(way: str) -> None:
    driver = made()
    WAYS[way](driver, batch_of(TWO, priorities=[1, 9]))
    WAYS[way](driver, batch_of(TWO, priorities=[5]))
    assert ready(driver) == {1: [1], 9: [2], 5: [3, 4]}


@every_way
@pytest.mark.parametrize(
    ("mode", "volatile"),
    [
        (admin_pb2.PERSISTENCE_PERSISTENT, []),
        (admin_pb2.PERSISTENCE_VOLATILE, [(1, 3)]),
        (admin_pb2.PERSISTENCE_CONDITIONAL, [(1, 2)]),
    ],
)
def test_persistence_is_the_queues_or_each_messages_own(way: str, mode: Any, volatile: list[tuple[int, int]]) -> None:
    driver = made(persistence=mode)
    op = WAYS[way](driver, batch_of(TWO, persistence=[1, 2]))
    assert list(queue_of(driver).volatile) == volatile
    assert op.downgraded == (mode == admin_pb2.PERSISTENCE_VOLATILE)


@every_way
def test_a_message_without_a_time_to_live_has_the_queues(way: str) -> None:
    driver = made(default_ttl={"seconds": 5})
    WAYS[way](driver, batch_of(TWO, ttls_ms=[MINUTE_MS, 0]))
    WAYS[way](driver, batch_of(TWO))
    now_ms = driver.now_ms
    assert timed(driver) == [(now_ms + MINUTE_MS, 1, 2), (now_ms + 5_000, 2, 3), (now_ms + 5_000, 3, 5)]
    driver.now_ms += 5_000
    driver.expire()
    assert driver.browse() == [1]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "copied"])
def test_each_message_waits_for_its_own_time(way: str) -> None:
    driver = made()
    WAYS[way](driver, batch_of(TWO, delays_ms=[MINUTE_MS, 0]))
    assert list(queue_of(driver).delayed) == [(1, 2, driver.now_ms + MINUTE_MS)]
    assert ready(driver) == {4: [2]}


@pytest.mark.parametrize("way", [way for way in WAYS if way != "copied"])
def test_one_time_for_all_delays_all_of_them_in_their_groups(way: str) -> None:
    driver = made(group_mode=admin_pb2.GROUP_MODE_ORDERED)
    WAYS[way](driver, batch_of([1] * 3, group_ids=["red", "red", ""], delays_ms=[MINUTE_MS]))
    assert list(queue_of(driver).delayed) == [(1, 4, driver.now_ms + MINUTE_MS)]
    driver.now_ms += MINUTE_MS + 1
    driver.expire()
    assert (driver.info().ready, driver.info().blocked) == (2, 1)


@every_way
def test_of_a_group_one_message_at_a_time(way: str) -> None:
    driver = made(group_mode=admin_pb2.GROUP_MODE_ORDERED)
    WAYS[way](driver, batch_of([1] * 4, group_ids=["red", "red", "", "blue"]))
    assert (driver.info().ready, driver.info().blocked) == (3, 1)
    lease_id, indexes = driver.lease()
    assert indexes == [1, 3, 4]
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [2]


@every_way
def test_an_end_is_known_where_senders_may_ask_for_it(way: str) -> None:
    driver = made(queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY_ACK)
    WAYS[way](driver, batch_of(TWO))
    lease_id, _ = driver.lease()
    driver.ack(lease_id, (2, 2))
    assert driver.finals(1, 2) == ["pending", "consumed"]


@pytest.mark.parametrize("way", ["stream", "unary", "put back", "published", "moved", "unit"])
def test_a_request_waits_for_its_answer_and_says_where_that_goes(way: str) -> None:
    driver = made(queue_type=TWO_WAY, reply_timeout={"seconds": 7})
    batch = batch_of(TWO)
    batch.messages.reply_tos.extend(["", "elsewhere"])
    WAYS[way](driver, batch)
    completions = queue_of(driver).completions
    assert completions is not None
    assert list(completions.addressed) == [(2, 3)]
    assert list(completions.deadlines.rows()) == [(1, driver.now_ms + 7_000)]


@pytest.mark.parametrize("way", ["stream", "unary", "published", "moved", "copied", "unit"])
def test_the_answer_to_an_answer_never_comes_back(way: str) -> None:
    driver = made(queue_type=TWO_WAY)
    batch = batch_of(TWO)
    batch.messages.reply_tos.extend(["", "q"])
    assert driver.refusal(lambda: WAYS[way](driver, batch)).reason == common_pb2.REASON_BAD_REQUEST
    assert driver.info().length == 0


@every_way
def test_the_length_is_exact(way: str) -> None:
    driver = made(max_length=3)
    WAYS[way](driver, batch_of([1]))
    WAYS[way](driver, batch_of([1, 1]))
    if way in CLIENTS:
        assert [each.reason for each in WAYS[way](driver, batch_of([1])).refusals] == [FULL]
    else:
        assert driver.refusal(lambda: WAYS[way](driver, batch_of([1]))).reason == FULL
    assert driver.info().length == 3


@every_way
def test_the_bytes_are_exact(way: str) -> None:
    driver = made(max_bytes=30, max_message_bytes=20)
    if way in CLIENTS:
        assert [each.ordinal for each in WAYS[way](driver, batch_of([20, 11])).refusals] == [1]
        assert not WAYS[way](driver, batch_of([10])).refusals
        assert [each.reason for each in WAYS[way](driver, batch_of([1])).refusals] == [FULL]
    else:
        assert driver.refusal(lambda: WAYS[way](driver, batch_of([20, 11]))).reason == FULL
        driver = made(max_bytes=30, max_message_bytes=20)
        WAYS[way](driver, batch_of([20, 10]))
        assert driver.refusal(lambda: WAYS[way](driver, batch_of([1]))).reason == FULL
    assert driver.info().bytes == 30


@every_way
def test_the_largest_message_is_for_producers_and_never_for_what_is_here_already(way: str) -> None:
    driver = made(max_message_bytes=20)
    WAYS[way](driver, batch_of([20]))
    if way in CLIENTS:
        assert [each.reason for each in WAYS[way](driver, batch_of([21])).refusals] == [TOO_LARGE]
    elif way in ("published", "put back", "unit"):
        assert driver.refusal(lambda: WAYS[way](driver, batch_of([21]))).reason == TOO_LARGE
    else:
        WAYS[way](driver, batch_of([21]))
        assert driver.info().bytes == 41


@every_way
def test_a_queue_that_drops_its_head_makes_room_but_for_what_is_put_back(way: str) -> None:
    """Nor for an administrator's move: its next record would drop what the one before it brought."""
    driver = made(max_length=2, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(2)
    if way in ("put back", "moved"):
        assert driver.refusal(lambda: WAYS[way](driver, batch_of([1]))).reason == FULL
        assert driver.browse() == [1, 2]
    else:
        assert [(part.first, part.count) for part in WAYS[way](driver, batch_of([1])).dropped] == [(1, 1)]
        assert driver.browse() == [2, 3]
        assert driver.info().dropped_total == 1


@every_way
@pytest.mark.parametrize("how", ["disabled", "closed"])
def test_a_queue_that_takes_nothing_takes_only_what_is_put_back(way: str, how: str) -> None:
    driver = made(enqueue_enabled=how != "disabled")
    if how == "closed":
        driver.queue(record_pb2.QUEUE_ACTION_CLOSE)
    if way == "put back":
        WAYS[way](driver, batch_of(TWO))
        return
    reason = common_pb2.REASON_ENQUEUE_DISABLED if how == "disabled" else common_pb2.REASON_INVALID_STATE
    assert driver.refusal(lambda: WAYS[way](driver, batch_of(TWO))).reason == reason
    assert driver.info().length == 0


@pytest.mark.parametrize("way", CLIENTS)
@pytest.mark.parametrize("outside", [0, 1])
@pytest.mark.parametrize("why", ["too large", "a double"])
def test_of_two_messages_one_stays_outside_and_the_other_keeps_what_is_its_own(
    way: str, outside: int, why: str
) -> None:
    """Each column says something else of the two; what is kept is of the one that entered."""
    driver = made(
        max_message_bytes=20,
        persistence=admin_pb2.PERSISTENCE_CONDITIONAL,
        group_mode=admin_pb2.GROUP_MODE_ORDERED,
        queue_type=TWO_WAY,
    )
    sizes, dedup_ids = [10, 11], ["one", "two"]
    if why == "too large":
        sizes[outside] = 21
    else:
        driver.enqueue(batch_of([1], dedup_ids=[dedup_ids[outside]], persistence=[2]), client_id=b"somebody else")
    first, inside = queue_of(driver).next_index, 1 - outside
    batch = batch_of(
        sizes,
        priorities=[2, 7],
        persistence=[1, 2],
        ttls_ms=[MINUTE_MS, 2 * MINUTE_MS],
        delays_ms=[10, 20],
        group_ids=["red", "blue"],
        dedup_ids=dedup_ids,
    )
    batch.messages.reply_tos.extend(["", "elsewhere"])
    op = WAYS[way](driver, batch)
    queue = queue_of(driver)
    assert (op.first_index, op.count, op.payload_bytes) == (first, 2, sizes[inside])
    assert [each.ordinal for each in (op.refusals if why == "too large" else op.duplicates)] == [outside]
    assert (queue.length, queue.next_index) == (first, first + 1)
    assert queue.segments.locate(first) == (driver.log_index, inside)
    assert timed(driver) == [(driver.now_ms + (inside + 1) * MINUTE_MS, first, first + 1)]
    assert list(queue.delayed) == [(first, first + 1, driver.now_ms + 10 * (inside + 1))]
    assert (first in queue.volatile) == (inside == 0)
    assert queue.completions is not None
    assert (first in queue.completions.addressed) == (inside == 1)
    assert queue.dedup_ids is not None
    known = {name: index for name, index, _ in queue.dedup_ids.rows()}
    assert known.get(dedup_ids[inside]) == first
    assert known.get(dedup_ids[outside]) == (None if why == "too large" else 1)
    driver.now_ms += 21
    driver.expire()
    assert ready(driver)[(2, 7)[inside]] == [first]
    driver.enqueue(batch_of([1], group_ids=[("red", "blue")[inside]], dedup_ids=["next"]), client_id=b"somebody else")
    assert driver.info().blocked == 1, "behind the one that entered"
    assert driver.restored().digest() == driver.master.digest()


@pytest.mark.parametrize("sizes", [[1, 1], [15]])
def test_a_move_takes_the_room_that_there_is_and_drops_nothing(sizes: list[int]) -> None:
    driver = made(max_length=3, max_bytes=24, max_message_bytes=24, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.enqueue(batch_of([5, 5]))
    assert driver.refusal(lambda: moved(driver, batch_of(sizes))).reason == FULL
    assert (driver.browse(), driver.info("source").length) == ([1, 2], len(sizes))
    assert not moved(driver, batch_of([14])).dropped
    assert driver.browse() == [1, 2, 3]


@pytest.mark.parametrize("sizes", [[1, 1, 1], [24, 1]])
def test_copies_find_room_for_all_of_them_or_none_enters(sizes: list[int]) -> None:
    """What is leased there stays."""
    driver = made(max_length=3, max_bytes=34, max_message_bytes=24, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.enqueue(batch_of([10]))
    driver.lease(1)
    driver.enqueue(batch_of([10]))
    assert driver.refusal(lambda: copied(driver, batch_of(sizes))).reason == FULL
    assert driver.browse() == [1, 2]
    completions = driver.master.queue(2).completions
    assert completions is not None
    assert len(completions.owed["q"]) == len(sizes), "still, for the next try"


@pytest.mark.parametrize("way", ["stream", "unary", "put back", "published", "moved", "unit"])
def test_a_request_that_names_no_queue_for_its_answer(way: str) -> None:
    driver = made(queue_type=TWO_WAY)
    WAYS[way](driver, batch_of(TWO))
    assert (driver.browse(), owed_of(driver.master.state, 1)) == ([1, 2], {})


def test_an_answer_is_never_copied_to_where_its_request_is() -> None:
    """Though a producer cannot name that queue, an alias of it may have come later."""
    driver = made()
    owe(driver, REQUESTS, 1)
    batch = batch_of([1], queue=REQUESTS)
    refused = driver.refusal(
        lambda: driver.plan(lambda: plan_copies(driver.master.state, driver.now_ms, copies_of(driver, batch)))
    )
    assert (refused.reason, driver.info(REQUESTS).length) == (common_pb2.REASON_BAD_REQUEST, 0)
    assert (owed_of(driver.master.state, 1), owed_of(driver.master.state, 99)) == ({}, {}), "untracked, and gone"
