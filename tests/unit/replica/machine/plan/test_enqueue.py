"""Sending: order, dense indexes, exact limits, persistence, identity."""

from __future__ import annotations

import pytest

from replica.machine import Limits, Repeated, columns_of
from replica.machine.state import dedup
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, Driver, batch_of

TOO_LARGE, FULL = common_pb2.REASON_MESSAGE_TOO_LARGE, common_pb2.REASON_QUEUE_FULL
UPDATE = record_pb2.QUEUE_ACTION_UPDATE


def refused_of(op):
    return [(refusal.ordinal, refusal.reason) for refusal in op.refusals]


@pytest.mark.requirement("R120")
def test_r120_indexes_are_dense_from_1_for_each_queue():
    driver = Driver()
    driver.create("q")
    driver.create("other")
    assert [driver.send(3).first_index, driver.send(2).first_index] == [1, 4]
    assert driver.send(1, queue="other").first_index == 1
    assert driver.browse() == [1, 2, 3, 4, 5]


@pytest.mark.requirement("R149")
def test_r149_priority_first_then_order():
    driver = Driver()
    driver.create()
    driver.send(2)
    driver.enqueue(batch_of([1] * 4, priorities=[9, 0, 9, 5]))
    driver.send(1)
    assert driver.lease()[1] == [3, 5, 6, 1, 2, 7, 4]


def test_a_refused_entry_leaves_no_hole_and_consumes_its_sequence():
    driver = Driver()
    driver.create(max_message_bytes=10)
    op = driver.enqueue(batch_of([1, 11, 2, 12, 3], priorities=[1, 2, 3, 4, 5]))
    assert (op.first_index, op.payload_bytes) == (1, 6)
    assert refused_of(op) == [(1, TOO_LARGE), (3, TOO_LARGE)]
    assert driver.info().last_index == 3
    assert driver.master.last_sequence("q", b"producer") == 5
    assert driver.lease()[1] == [3, 2, 1]
    assert [driver.master.locate(1, index) for index in (1, 2, 3)] == [(2, 0), (2, 2), (2, 4)]
    op = driver.enqueue(batch_of([11, 12]))
    assert (op.first_index, len(op.refusals)) == (0, 2)
    assert driver.freed == [4]  # holds nothing


@pytest.mark.requirement("R157", "R160", "R032")
def test_r157_the_length_limit_is_exact_and_counts_leased_messages_r160():
    driver = Driver()
    driver.create(max_length=3)
    assert refused_of(driver.send(5)) == [(3, FULL), (4, FULL)]
    lease_id, _ = driver.lease(1)
    assert refused_of(driver.send(1)) == [(0, FULL)]
    driver.outcome(ACK, lease_id, (1, 1))
    assert refused_of(driver.send(2)) == [(1, FULL)]
    assert driver.info().length == driver.info().highest_length == 3


@pytest.mark.requirement("R159")
def test_r159_a_limit_below_the_length_evicts_nothing():
    driver = Driver()
    driver.create()
    driver.send(4)
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(max_length=2), mask=["max_length"])
    assert driver.info().length == 4
    assert refused_of(driver.send(1)) == [(0, FULL)]


def test_the_byte_limit_is_exact_and_nothing_overtakes_what_found_the_queue_full():
    driver = Driver()
    driver.create(max_bytes=100, max_message_bytes=100)
    assert refused_of(driver.enqueue(batch_of([60, 40]))) == []
    assert refused_of(driver.enqueue(batch_of([0, 1]))) == [(1, FULL)]
    driver.queue(record_pb2.QUEUE_ACTION_PURGE)
    assert refused_of(driver.enqueue(batch_of([60, 41, 1, 101]))) == [(1, FULL), (2, FULL), (3, TOO_LARGE)]


@pytest.mark.requirement("R161")
def test_r161_a_message_of_exactly_the_limit_enters():
    driver = Driver()
    driver.create(max_message_bytes=5)
    assert refused_of(driver.enqueue(batch_of([5]))) == []
    assert refused_of(driver.enqueue(batch_of([6]))) == [(0, TOO_LARGE)]


@pytest.mark.requirement("R150", "R151", "R152")
@pytest.mark.parametrize(
    ("mode", "persistence", "volatile", "downgraded"),
    [
        (admin_pb2.PERSISTENCE_PERSISTENT, [0, 1, 2], [], False),  # R150: also those marked volatile
        (admin_pb2.PERSISTENCE_VOLATILE, [0, 1, 1], [1, 2, 3], False),
        (admin_pb2.PERSISTENCE_VOLATILE, [0, 1, 2], [1, 2, 3], True),  # R151: accepted, with a warning
        (admin_pb2.PERSISTENCE_CONDITIONAL, [0, 1, 2], [1, 2], False),  # R152: only what is marked persistent
        (admin_pb2.PERSISTENCE_CONDITIONAL, [2], [], False),
        (admin_pb2.PERSISTENCE_CONDITIONAL, [], [1, 2, 3], False),
    ],
)
def test_r150_r151_r152_persistence_follows_the_queues_mode(mode, persistence, volatile, downgraded):
    driver = Driver()
    queue_id = driver.create(persistence=mode)
    assert driver.enqueue(batch_of([1, 1, 1], persistence=persistence)).downgraded == downgraded
    found = [index for start, end in driver.master.queue(queue_id).volatile for index in range(start, end)]
    assert found == volatile


def test_nothing_is_deliverable_or_browsable_before_its_record_is_committed():
    driver = Driver()
    queue_id = driver.create()
    driver.commits = False
    driver.send(2)
    first = driver.log_index
    driver.send(2)
    assert (driver.lease(), driver.browse(), driver.master.has_ready(queue_id)) == ((0, []), [], False)
    assert driver.outcome(ACK, 77, (1, 4)).settled == 0
    assert driver.master.commit(first) == [queue_id]
    assert driver.browse() == driver.lease()[1] == [1, 2]
    assert driver.master.commit(first) == []
    assert driver.commit() == [queue_id]
    assert driver.lease()[1] == [3, 4]


@pytest.mark.requirement("R163")
def test_r163_sending_and_receiving_are_disabled_separately():
    driver = Driver()
    driver.create()
    driver.send(1)
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(enqueue_enabled=False), mask=["enqueue_enabled"])
    refused = driver.refusal(lambda: driver.send(1))
    assert refused.reason == common_pb2.REASON_ENQUEUE_DISABLED
    assert driver.master.has_ready(1)
    config = admin_pb2.QueueConfig(enqueue_enabled=True, dequeue_enabled=False)
    driver.queue(UPDATE, config=config, mask=["enqueue_enabled", "dequeue_enabled"])
    driver.send(1)
    assert driver.refusal(driver.lease).reason == common_pb2.REASON_DEQUEUE_DISABLED
    assert not driver.master.has_ready(1)


def test_a_repetition_gets_the_first_answer_although_the_queue_refuses_by_now():
    driver = Driver()
    driver.create(max_message_bytes=10)
    batch = batch_of([1, 11, 2])
    op = driver.enqueue(batch)
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(enqueue_enabled=False), mask=["enqueue_enabled"])
    plan = driver.plan_enqueue(batch, first_sequence=1, member="somewhere else")
    assert isinstance(plan, Repeated)
    assert plan.run == (1, 3, op.first_index, 2, 1, ((1, TOO_LARGE),), False, (), 0, ())


def test_a_repetition_is_answered_as_its_record_was_in_any_epoch():
    driver = Driver()
    driver.create(max_message_bytes=10)
    driver.send(2)
    driver.epoch = 3
    driver.enqueue(batch_of([11, 11]))
    driver.send(2)
    refused = ((0, TOO_LARGE), (1, TOO_LARGE))
    expected = [
        (1, 2, 1, 2, 1, (), False, (), 0, ()),
        (3, 2, 0, 3, 3, refused, False, (), 0, ()),
        (5, 2, 3, 4, 3, (), False, (), 0, ()),
    ]
    assert [driver.plan_enqueue(batch_of([1] * 2), first_sequence=run[0]).run for run in expected] == expected


@pytest.mark.parametrize("rows_a_chunk", [2, 1_024])
@pytest.mark.parametrize(
    ("first_sequence", "count"),
    [
        (1, 2),  # a part of a batch, from its beginning
        (2, 1),  # within
        (2, 2),  # to its end
        (3, 2),  # over a boundary
        (1, 5),  # whole batches, but not as one
        (6, 1),  # to the end of all
        (5, 4),  # straddles what was executed and what is new
        (6, 2),  # the same, from within
        (1, 9),
    ],
)
def test_other_batches_over_used_sequences_are_refused_and_never_answered_for_the_old_ones(
    monkeypatch: pytest.MonkeyPatch, rows_a_chunk, first_sequence, count
):
    """They may be another producer's: answered as repetitions, they would be acknowledged and stored nowhere."""
    monkeypatch.setattr(dedup, "CHUNK_ROWS", rows_a_chunk)
    driver = Driver()
    driver.create()
    for at, size in enumerate((3, 1, 2)):
        driver.enqueue(batch_of([1] * size), request_hash=at + 1)
    for request_hash in (0, 1, 77):
        refused = driver.refusal(
            lambda request_hash=request_hash: driver.plan_enqueue(
                batch_of([1] * count), first_sequence=first_sequence, request_hash=request_hash
            )
        )
        assert refused.reason == common_pb2.REASON_REQUEST_MISMATCH
        assert refused.metadata == {"last_sequence": "6"}
        assert f"sequences {first_sequence} to {first_sequence + count - 1}" in refused.message
        assert "a new client id" in refused.message
    plans = [driver.plan_enqueue(batch_of([1] * n), first_sequence=at) for at, n in ((1, 3), (4, 1), (5, 2))]
    assert [plan.run.log_index for plan in plans] == [2, 3, 4]


def test_the_same_cut_with_other_content_is_refused_too():
    driver = Driver()
    driver.create()
    driver.enqueue(batch_of([1, 1]), request_hash=5)
    assert isinstance(driver.plan_enqueue(batch_of([1, 1]), first_sequence=1, request_hash=5), Repeated)
    refused = driver.refusal(lambda: driver.plan_enqueue(batch_of([2, 2]), first_sequence=1, request_hash=6))
    assert (refused.reason, refused.metadata) == (common_pb2.REASON_REQUEST_MISMATCH, {"last_sequence": "2"})


@pytest.mark.parametrize(
    ("first_sequence", "count", "reason"),
    [
        (6, 1, common_pb2.REASON_SEQUENCE_GAP),
        (7, 3, common_pb2.REASON_SEQUENCE_GAP),
        (0, 1, common_pb2.REASON_BAD_REQUEST),
    ],
)
def test_sequences_are_dense(first_sequence, count, reason):
    driver = Driver()
    driver.create()
    driver.send(4)
    refused = driver.refusal(lambda: driver.plan_enqueue(batch_of([1] * count), first_sequence=first_sequence))
    assert refused.reason == reason
    if reason == common_pb2.REASON_SEQUENCE_GAP:
        assert refused.metadata == {"last_sequence": "4"}


def test_an_unknown_producer_begins_at_1():
    driver = Driver()
    driver.create()
    refused = driver.refusal(lambda: driver.plan_enqueue(batch_of([1]), first_sequence=9))
    assert refused.reason == common_pb2.REASON_DEDUP_EXPIRED


def test_what_is_older_than_both_windows_is_forgotten_and_refused():
    driver = Driver(Limits(dedup_sequences=100, dedup_window_ms=1_000))
    driver.create()
    for _ in range(1_130):  # a chunk of rows and a little
        driver.send(1)
    assert isinstance(driver.plan_enqueue(batch_of([1]), first_sequence=1), Repeated)  # younger than the window
    driver.now_ms += 1_001
    driver.send(1)
    refused = driver.refusal(lambda: driver.plan_enqueue(batch_of([1]), first_sequence=1))
    assert refused.reason == common_pb2.REASON_DEDUP_EXPIRED
    assert isinstance(driver.plan_enqueue(batch_of([1]), first_sequence=1_032), Repeated)


def test_idle_producers_go_only_when_there_are_too_many_and_their_time_is_over():
    driver = Driver(Limits(dedup_producers_max=2, dedup_window_ms=1_000))
    driver.create()
    for client_id in (b"1", b"2", b"3"):
        driver.enqueue(batch_of([1]), client_id=client_id)
    assert driver.master.last_sequence("q", b"1") == 1
    driver.now_ms += 1_001
    driver.enqueue(batch_of([1]), client_id=b"2")
    assert [driver.master.last_sequence("q", client) for client in (b"1", b"2", b"3")] == [0, 2, 1]


def test_a_unary_request_is_known_by_its_id():
    driver = Driver()
    driver.create()
    batch, request_id = batch_of([1, 1]), b"r" * 16
    driver.enqueue(batch, request_id=request_id, request_hash=7)
    plan = driver.plan_enqueue(batch, request_id=request_id, request_hash=7)
    assert plan.run == (0, 2, 1, 2, 1, (), False, (), 0, ())
    answer = driver.master.find_request(request_id, 7)
    assert answer is not None
    assert (answer.kind, answer.first_index, answer.count, answer.log_index) == ("enqueue", 1, 2, 2)
    refused = driver.refusal(lambda: driver.plan_enqueue(batch, request_id=request_id, request_hash=8))
    assert refused.reason == common_pb2.REASON_REQUEST_MISMATCH


def test_unary_requests_are_forgotten_by_count_and_age():
    driver = Driver(Limits(requests_kept=3, dedup_window_ms=10_000))
    driver.create()
    for at in range(5):
        driver.enqueue(batch_of([1]), request_id=bytes([at]) * 16)
        driver.now_ms += 1_000
    assert driver.master.find_request(bytes(16), 0)  # more than 3, but young
    driver.now_ms += 20_000
    driver.enqueue(batch_of([1]), request_id=b"x" * 16)
    known = [driver.master.find_request(bytes([at]) * 16, 0) is not None for at in range(5)]
    assert known == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (batch_of([1, 1, 1], priorities=[1, 2]), common_pb2.REASON_BAD_REQUEST),
        (batch_of([1], priorities=[10]), common_pb2.REASON_BAD_ATTRIBUTE),
        (batch_of([1], persistence=[3]), common_pb2.REASON_BAD_ATTRIBUTE),
        (batch_of([]), common_pb2.REASON_BAD_REQUEST),
    ],
)
def test_a_malformed_batch_is_refused_as_a_whole(batch, reason):
    driver = Driver()
    driver.create()
    assert driver.refusal(lambda: driver.enqueue(batch)).reason == reason


def test_columns_know_the_sizes():
    columns = columns_of(batch_of([3, 0, 7]))
    assert (columns.count, columns.payload_bytes, columns.payload_bytes_max, columns.sizes) == (3, 10, 7, [3, 0, 7])


@pytest.mark.requirement("R009")
def test_calls_to_what_is_not_there_or_not_open():
    driver = Driver()
    assert driver.refusal(lambda: driver.send(1)).reason == common_pb2.REASON_QUEUE_NOT_FOUND
    driver.queue(record_pb2.QUEUE_ACTION_CREATE, open_members=["a"])
    batch = batch_of([1])
    refused = driver.refusal(lambda: driver.plan_enqueue(batch, member="b"))
    assert refused.reason == common_pb2.REASON_INVALID_STATE
    driver.enqueue(batch, member="a")


@pytest.mark.requirement("R165")
def test_r165_last_activity_moves_on_sending_and_receiving_only():
    driver = Driver()
    driver.create()
    created = driver.info().created_at.ToMilliseconds()
    seen = []
    for act in (lambda: driver.send(1), driver.browse, driver.lease, driver.expire):
        driver.now_ms += 5
        act()
        seen.append(driver.info().last_activity_at.ToMilliseconds() - created)
    assert seen == [5, 5, 15, 15]
