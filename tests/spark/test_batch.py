"""spark.read.format("tandemq") on real Spark at a real pair: the rows are the journal's, ranges are exact, refusals are
named by their codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.client.aio import JournalKind, JournalPosition, JournalStart
from tandemq.errors import Refused, Unavailable
from tests.integration.support import new_name, roles
from tests.spark.conftest import more, trim_to
from tests.support.until import until_sync


@pytest.fixture
def load(spark: Any, pair: Cluster) -> Callable[..., Any]:
    def loaded(**options: Any) -> Any:
        return spark.read.format("tandemq").options(**{"target": pair.target, **options}).load()

    return loaded


def refusal(load: Callable[..., Any], **options: Any) -> str:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        load(**options).collect()
    return str(caught.value)


def test_the_rows_are_those_that_a_client_reads(
    client: tandemq.Client, filled: Callable[[int], str], load: Callable[..., Any]
) -> None:
    queue = filled(95)
    client.dequeue(queue, 10).ack()

    def is_told() -> bool:
        pages = client.read_journal([queue], JournalStart(1))
        return any(row.kind is JournalKind.ACKED for page in pages for row in page.rows())

    until_sync(is_told, "the replica has heard of the acknowledgement")
    expected = [row for page in client.read_journal([queue]) for row in page.rows()]
    rows = load(queues=queue, partitions=3).collect()
    assert sorted((row.log_index, row["index"], row.kind) for row in rows) == [
        (row.log_index, row.first, row.kind.name) for row in expected
    ]
    by_place = {(row.log_index, row["index"]): row for row in rows}
    for want in expected:
        got = by_place[want.log_index, want.first]
        entered = want.kind is JournalKind.ENQUEUED
        assert (got.epoch, got.queue, got.queue_id, got["count"]) == (
            want.epoch,
            queue,
            want.queue_id,
            want.messages,
        )
        assert got.id == (want.id if entered else None)
        assert (got.lease_id, got.sequence) == (want.lease_id, want.sequence)
        assert got.producer == (want.producer or None)
        assert got.payload == want.payload
        assert got.time.timestamp() == want.time.timestamp()
    assert [bytes(by_place[row.log_index, row.first].payload) for row in expected if row.payload is not None] == [
        f"m{number}".encode() for number in range(1, 96)
    ]


@pytest.mark.parametrize("partitions", [1, 4, 10_000])
def test_no_number_of_partitions_loses_or_doubles_a_row(
    filled: Callable[[int], str], load: Callable[..., Any], partitions: int
) -> None:
    queue = filled(57)
    frame = load(queues=queue, kinds="enqueued", partitions=partitions)
    assert sorted(row["index"] for row in frame.select("index").collect()) == list(range(1, 58))


@pytest.mark.parametrize(("first", "last"), [(1, 58), (5, 6), (10, 21), (11, 57), (13, 13), (58, 58)])
def test_a_range_of_indexes_is_exact_inside_a_record_too(
    filled: Callable[[int], str], load: Callable[..., Any], first: int, last: int
) -> None:
    """Records hold ten messages: 1 to 10, 11 to 20 and so on."""
    queue = filled(57)
    frame = load(queues=queue, kinds="enqueued", startIndex=first, endIndex=last)
    assert sorted(row["index"] for row in frame.select("index").collect()) == list(range(first, last))


def test_ranges_of_log_indexes_meet_without_a_gap(
    client: tandemq.Client, filled: Callable[[int], str], load: Callable[..., Any]
) -> None:
    filled(30)
    end = client.journal_head().next.log_index
    middle = end // 2
    every = {"everyRecord": "true"}  # those of readers, which another test has made, have no row else
    parts = [load(endLogIndex=middle, **every), load(startLogIndex=middle, endLogIndex=end, **every)]
    whole = {(row.log_index, row["index"]) for row in load(endLogIndex=end, **every).collect()}
    low, high = ({(row.log_index, row["index"]) for row in part.collect()} for part in parts)
    assert low | high == whole
    assert max(log_index for log_index, _ in low) == middle - 1
    assert min(log_index for log_index, _ in high) == middle


def test_payloads_can_be_left_out_and_a_deleted_queue_keeps_its_rows(
    client: tandemq.Client, filled: Callable[[int], str], load: Callable[..., Any]
) -> None:
    queue = filled(12)
    bare = load(queues=queue, kinds="enqueued", payloads="false").select("payload").collect()
    assert [row.payload for row in bare] == [None] * 12
    number = client.journal_head([queue]).queues[0].queue_id
    client.delete_queue(queue)
    assert "QUEUE_NOT_FOUND" in refusal(load, queues=queue)
    rows = load(kinds="enqueued").where(f"queue_id = {number}").select("queue", "payload").collect()
    assert {row.queue for row in rows} <= {None, queue}  # the replica hears of the end a little later
    assert len(rows) == 12


def test_a_read_goes_on_over_kill_9_of_the_master(
    pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], load: Callable[..., Any]
) -> None:
    """Planned before the kill, read after it: Spark plans a frame once. Both members keep what is read."""
    queue = filled(40)
    frame = load(queues=queue, kinds="enqueued", partitions=2, startIndex=1)
    assert frame.rdd.getNumPartitions() == 2
    master, _ = asyncio.run(roles(pair))
    pair.kill(master)
    try:
        assert sorted(row["index"] for row in frame.select("index").collect()) == list(range(1, 41))
    finally:
        asyncio.run(pair.restart(master))
        asyncio.run(pair.wait_ready())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queues": "nobody-made-this"}, ("QUEUE_NOT_FOUND", "nobody-made-this")),
        ({"startLogIndex": 1 << 40}, ("OUT_OF_RANGE", "startLogIndex", str(1 << 40))),
        ({"domain": "other"}, ("BAD_REQUEST", "other")),
        ({"queue": "orders"}, ("BAD_OPTION", "queue", "queues")),
        ({"startIndex": 3}, ("BAD_OPTION", "startIndex", "0 are named")),
        ({"kinds": "enqueued,sold"}, ("BAD_OPTION", "kinds", "sold")),
        ({"target": "h:99999"}, ("BAD_OPTION", "target")),
        ({"target": "127.0.0.1:1", "timeoutSeconds": 1}, ("UNREACHABLE",)),
        ({"maxRowsPerTrigger": 5}, ("BAD_OPTION", "maxRowsPerTrigger", "read does not take it")),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_code(
    load: Callable[..., Any], options: dict[str, Any], told: tuple[str, ...]
) -> None:
    message = refusal(load, **options)
    assert [word for word in told if word not in message] == [], message


def test_other_columns_and_indexes_beyond_the_end_are_refused(
    spark: Any, pair: Cluster, filled: Callable[[int], str], load: Callable[..., Any]
) -> None:
    queue = filled(5)
    message = refusal(load, queues=queue, startIndex=7)
    assert ("OUT_OF_RANGE" in message, "ends before 6" in message) == (True, True)
    other = refusal(lambda: spark.read.format("tandemq").schema("a INT").options(target=pair.target).load())
    assert ("BAD_OPTION" in other, "leave schema" in other) == (True, True)


def test_what_is_trimmed_and_what_was_given_up_are_told(spark: Any, small_pair: Cluster) -> None:
    from tandemq.spark.options import Options
    from tandemq.spark.places import Span
    from tandemq.spark.reading import batches

    options = Options(target=small_pair.target, timeout_s=2)
    with tandemq.connect(small_pair.target) as client:
        queue, holder = new_name(), new_name("holder")
        client.create_queue(queue)
        # It trims record by record as long as something is written: what a read is planned from would go under it.
        kept = client.register_reader(holder, at_end=True).position
        more(client, queue, 1, 20)
        trim_to(client, kept.log_index)
        head = client.journal_head()

    def load(**options: Any) -> Any:
        return spark.read.format("tandemq").options(target=small_pair.target, **options).load()

    message = refusal(load, startLogIndex=1)
    assert ("OUT_OF_RANGE" in message, "is trimmed" in message) == (True, True)
    assert load(queues=queue, kinds="enqueued").count() == 20, "without a range it begins at what is kept"
    with tandemq.connect(small_pair.target) as client:
        client.delete_reader(holder)
    end = head.next
    with pytest.raises(Refused, match=r"EPOCH_DIVERGED.*was planned was given up"):
        list(batches(options, Span(JournalPosition(end.log_index - 1), end.log_index, end.epoch + 7)))
    start = JournalPosition(end.log_index - 1, end.epoch + 7)
    with pytest.raises(Refused, match="EPOCH_DIVERGED"):
        list(batches(options, Span(start, end.log_index, end.epoch)))
    with pytest.raises(Unavailable, match="NO_PROGRESS"):
        list(batches(options, Span(end, end.log_index + 5, end.epoch)))
