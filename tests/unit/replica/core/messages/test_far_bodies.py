"""Messages of another manager, in the batches that hold them there: taken apart, packed again, and believed only where
they can be settled.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.messages.bodies import message_id
from replica.core.messages.far_bodies import UnsoundError, fill_rows, fill_segments, runs_of
from replica.core.state.far_runs import FarRun, count_of, left_of
from tandemq.far_leases import FAR_LEASE
from tandemq.v1.message_pb2 import DeliveredMessage, DeliveredSegment, Message, MessageBatch
from tandemq.v1.queue_service_pb2 import Deliveries, DequeueResponse, EnqueueBatch

LEASE, DOMAIN = 7, 99


def packed(batch: MessageBatch) -> bytes:
    return EnqueueBatch(messages=batch).SerializeToString()


def segment_of(batch: MessageBatch, **more: Any) -> DeliveredSegment:
    given = {"first_index": 10, "epoch": 3, "log_index": 40, "first_ordinal": 2, "enqueue_time_ms": 5_000}
    return DeliveredSegment(batch=packed(batch), id_domain=DOMAIN, **(given | more))


def reply(*segments: DeliveredSegment, lease_id: int = LEASE) -> DequeueResponse:
    return DequeueResponse(lease_id=lease_id, segments=segments)


def rows_of(runs: list[FarRun]) -> list[DeliveredMessage]:
    into = DequeueResponse()
    for run in runs:
        fill_rows(run, "p", LEASE, into.messages.add)
    return list(into.messages)


def packed_again(runs: list[FarRun]) -> list[FarRun]:
    """As another one reads what goes out as segments."""
    out = Deliveries()
    fill_segments(runs, out.segments.add)
    return runs_of(reply(*out.segments))


PRIORITIES = st.lists(st.integers(0, 9), min_size=1, max_size=12)
RANGES = st.lists(st.tuples(st.integers(8, 22), st.integers(1, 4)), max_size=3)


@given(PRIORITIES, RANGES, st.booleans(), st.data())
def test_no_message_changes_by_being_taken_apart(
    priorities: list[int], gone: list[tuple[int, int]], sparse: bool, data: st.DataObject
) -> None:
    """Whatever is split off, left out and packed again: rows say the same of each that is left."""
    count = len(priorities)
    batch = MessageBatch(payloads=[b"%d" % each for each in range(count)], priorities=priorities, content_types=["t"])
    more: dict[str, Any] = {"delivery_counts": list(range(1, count + 1))}
    if sparse:
        more |= {"indexes": list(range(10, 10 + 2 * count, 2)), "ordinals": list(range(0, 3 * count, 3))}
    whole = runs_of(reply(segment_of(batch, **more)))
    assert count_of(whole) == count
    before = {row.index: row.SerializeToString() for row in rows_of(whole)}
    parts = list[FarRun]()
    for run in whole:
        at = data.draw(st.integers(0, run.size))
        parts += run.split(at) if 0 < at < run.size else [run]
    left = left_of(parts, gone)
    kept = [index for index in before if not any(first <= index < first + more_ for first, more_ in gone)]
    for runs in (left, packed_again(left)):
        assert [row.SerializeToString() for row in rows_of(runs)] == [before[index] for index in kept]
    assert [index for run in left for first, size in run.ranges() for index in range(first, first + size)] == kept


def test_a_run_has_one_priority_and_what_is_whole_goes_out_as_it_came() -> None:
    batch = MessageBatch(payloads=[b"a", b"b", b"c"], priorities=[4, 4, 9])
    runs = runs_of(reply(segment_of(batch)))
    assert [(run.size, run.age) for run in runs] == [(2, (4, 5_000)), (1, (9, 5_000))]
    out = Deliveries()
    fill_segments(runs, out.segments.add)
    assert [each.batch for each in out.segments] == [packed(batch)]


def test_a_delivery_has_no_more_messages_and_bytes_than_may_be() -> None:
    (run,) = runs_of(reply(segment_of(MessageBatch(payloads=[b"12345"] * 4))))
    assert run.fits(2, 1_000) == (2, 10)
    assert run.fits(9, 11) == (2, 10)
    assert run.fits(9, 4) == (0, 0)
    assert run.fits(9, 1_000)[0] == 4


def test_an_older_manager_gives_rows_which_read_the_same() -> None:
    made = DeliveredMessage(index=5, lease_id=LEASE, id=message_id(DOMAIN, 3, 40, 6), delivery_count=2)
    made.message.MergeFrom(Message(payload=b"x", priority=7, correlation_id="c"))
    made.message.properties["p"].text = "v"
    made.enqueue_time.FromMilliseconds(5_000)
    (row,) = rows_of(runs_of(DequeueResponse(lease_id=LEASE, messages=[made])))
    made.queue = "p"
    assert row == made


@pytest.mark.parametrize(
    ("segment", "lease_id"),
    [
        (segment_of(MessageBatch()), LEASE),
        (segment_of(MessageBatch(payloads=[b""])), 0),
        (segment_of(MessageBatch(payloads=[b""])), FAR_LEASE),
        (segment_of(MessageBatch(payloads=[b""]), first_index=0), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), first_index=1 << 62), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), indexes=[1, 2]), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), ordinals=[1, 2]), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), delivery_counts=[1, 2]), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), log_index=1 << 48), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), first_ordinal=1 << 16), LEASE),
        (segment_of(MessageBatch(payloads=[b""]), enqueue_time_ms=1 << 63), LEASE),
        (segment_of(MessageBatch(payloads=[b""] * 3, ttls_ms=[1, 2])), LEASE),
        (DeliveredSegment(batch=b"\xff", first_index=1), LEASE),
    ],
)
def test_nothing_is_believed_that_nobody_could_settle(segment: DeliveredSegment, lease_id: int) -> None:
    with pytest.raises(UnsoundError):
        runs_of(reply(segment, lease_id=lease_id))
