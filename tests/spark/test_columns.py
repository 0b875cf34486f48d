"""A page becomes one Arrow batch: its buffers are wrapped, odd rows are null where there is nothing."""

from __future__ import annotations

from array import array

import pyarrow as pa

from pipeline.schema import JOURNAL
from tandemq.client.journal import JournalKind
from tandemq.spark.columns import SCHEMA, batch_of, before_message
from tandemq.v1 import journal_service_pb2 as pb

IDS = [bytes([number]) * 16 for number in (1, 2, 3)]


def page() -> pb.JournalColumns:
    """Two messages of one record, one of them volatile; an acknowledgement; a kind that nobody knows yet."""
    return pb.JournalColumns(
        count=4,
        log_indexes=array("Q", [7, 7, 8, 9]).tobytes(),
        epochs=array("Q", [2, 2, 2, 3]).tobytes(),
        times_ms=array("q", [1_000, 1_000, 2_000, 3_000]).tobytes(),
        kinds=bytes([JournalKind.ENQUEUED, JournalKind.ENQUEUED, JournalKind.ACKED, 200]),
        queue_ids=array("I", [5, 5, 5, 6]).tobytes(),
        indexes=array("Q", [11, 12, 11, 0]).tobytes(),
        counts=array("Q", [1, 1, 2, 0]).tobytes(),
        ids=IDS[0] + IDS[1] + bytes(32),
        lease_ids=array("Q", [0, 0, 99, 0]).tobytes(),
        producers=array("I", [1, 0, 0, 0]).tobytes(),
        sequences=array("Q", [4, 0, 0, 0]).tobytes(),
        payload_states=bytes([1, 2, 0, 0]),
        payload_offsets=array("i", [0, 3, 3, 3, 3]).tobytes(),
        payloads=b"abc",
        queues=[pb.JournalQueue(queue_id=5, name="orders"), pb.JournalQueue(queue_id=6)],
        producer_ids=[b"client"],
    )


def test_the_lake_has_the_columns_of_the_source() -> None:
    kinds = {"int64": "BIGINT", "string": "STRING", "binary": "BINARY", "timestamp[us, tz=UTC]": "TIMESTAMP"}
    assert [tuple(column) for column in JOURNAL] == [(field.name, kinds[str(field.type)]) for field in SCHEMA]


def test_every_column_says_what_the_page_says() -> None:
    batch = batch_of(page())
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    rows = batch.to_pydict()
    assert [time.timestamp() for time in rows.pop("time")] == [1, 1, 2, 3]
    assert rows == {
        "log_index": [7, 7, 8, 9],
        "epoch": [2, 2, 2, 3],
        "kind": ["ENQUEUED", "ENQUEUED", "ACKED", "200"],
        "queue": ["orders", "orders", "orders", None],
        "queue_id": [5, 5, 5, 6],
        "index": [11, 12, 11, 0],
        "count": [1, 1, 2, 0],
        "id": [IDS[0], IDS[1], None, None],
        "lease_id": [0, 0, 99, 0],
        "producer": [b"client", None, None, None],
        "sequence": [4, 0, 0, 0],
        "payload": [b"abc", None, None, None],
    }


def test_payloads_are_not_copied() -> None:
    size = 4 << 20
    columns = page()
    columns.payloads = bytes(size)
    columns.payload_offsets = array("i", [0, size, size, size, size]).tobytes()
    before = pa.total_allocated_bytes()
    batch = batch_of(columns)
    assert pa.total_allocated_bytes() - before < size // 100, "Arrow keeps only what it had to make"
    assert batch.nbytes > size


def test_a_batch_is_cut_before_a_message_of_its_record_alone() -> None:
    batch = batch_of(page())
    assert before_message(batch, 7, 12).num_rows == 1
    assert before_message(batch, 7, 11).num_rows == 0
    assert before_message(batch, 7, 13).num_rows == 4
    assert before_message(batch, 8, 11).num_rows == 4, "that record stored no message"


def test_an_empty_page_is_an_empty_batch() -> None:
    columns = pb.JournalColumns(payload_offsets=array("i", [0]).tobytes())
    assert batch_of(columns).num_rows == 0
