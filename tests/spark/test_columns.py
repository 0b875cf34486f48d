"""A page becomes one Arrow batch: its buffers are wrapped, odd rows are null where there is nothing."""

from __future__ import annotations

from array import array
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.schema import BARE_JOURNAL, JOURNAL
from replica.core.messages.bodies import row_of
from tandemq.client.journal import JournalKind, JournalPage
from tandemq.errors import InvalidRequest
from tandemq.spark import sending
from tandemq.spark.attributes import ATTRIBUTES, attribute_columns
from tandemq.spark.columns import SCHEMA, WITH_ATTRIBUTES, batch_of, before_message
from tandemq.spark.sending import values_of
from tandemq.spark.write_options import COLUMNS
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue

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
    kinds |= {"int32": "INT", "bool": "BOOLEAN", "double": "DOUBLE"}

    def kind(of: pa.DataType) -> str:
        if pa.types.is_map(of):
            return f"MAP<{kind(of.key_type)}, {kind(of.item_type)}>"
        if pa.types.is_struct(of):
            return f"STRUCT<{', '.join(f'{field.name}: {kind(field.type)}' for field in of)}>"
        return kinds[str(of)]

    assert [tuple(column) for column in JOURNAL] == [(field.name, kind(field.type)) for field in WITH_ATTRIBUTES]
    assert [tuple(column) for column in BARE_JOURNAL] == [(field.name, kind(field.type)) for field in SCHEMA]
    assert set(COLUMNS) - {"payload", "queue"} == set(ATTRIBUTES.names) - {"dedup_id"}, "what is read can be written"


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


RICH = Message(
    priority=0,
    persistent=False,
    content_type="text/\u00fcml",
    correlation_id="\u2603",
    group_id="g",
    reply_to="//m/q",
    dedup_id="d",
    properties={
        "text": PropertyValue(text=""),
        "integer": PropertyValue(integer=-(1 << 63)),
        "number": PropertyValue(number=0.1),
        "flag": PropertyValue(flag=False),
        "data": PropertyValue(data=b"\x00\xff"),
        "": PropertyValue(),
    },
)
RICH.ttl.FromMilliseconds(1)
RICH.delay.FromMilliseconds(315_576_000_000_000)
RICH.deliver_at.FromMilliseconds(253_402_300_799_999)


def test_what_stands_beside_a_body_is_a_column_each() -> None:
    columns = page()
    rows = [Message(priority=4).SerializeToString(), RICH.SerializeToString()]
    columns.attributes = b"".join(rows)
    ends = [0, len(rows[0]), len(columns.attributes)]
    columns.attribute_offsets = array("i", [*ends, ends[-1], ends[-1]]).tobytes()
    batch = batch_of(columns, attributes=True)
    batch.validate(full=True)
    assert batch.schema == WITH_ATTRIBUTES
    found = [{name: row[name] for name in ATTRIBUTES.names} for row in batch.to_pylist()]
    nothing = dict.fromkeys(ATTRIBUTES.names)
    none = dict.fromkeys(("text", "integer", "number", "flag", "data"))
    assert found[0] == {**nothing, "priority": 4}
    assert found[2:] == [nothing, nothing]
    assert dict(found[1].pop("properties")) == {
        "text": {**none, "text": ""},
        "integer": {**none, "integer": -(1 << 63)},
        "number": {**none, "number": 0.1},
        "flag": {**none, "flag": False},
        "data": {**none, "data": b"\x00\xff"},
        "": none,
    }
    assert found[1] == {
        "priority": 0,
        "persistent": False,
        "ttl_ms": 1,
        "delay_ms": 315_576_000_000_000,
        "deliver_at": datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC),
        "content_type": "text/\u00fcml",
        "correlation_id": "\u2603",
        "group_id": "g",
        "reply_to": "//m/q",
        "dedup_id": "d",
    }


class Looked:
    """Columns of a page, and how often each was looked at: protobuf copies one of bytes each time."""

    def __init__(self, columns: pb.JournalColumns) -> None:
        self._columns, self.looks = columns, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.looks[name] += 1
        return getattr(self._columns, name)


def test_no_column_of_bytes_is_copied_for_each_row() -> None:
    columns, count = page(), 4
    columns.attributes = RICH.SerializeToString() * count
    columns.attribute_offsets = array(
        "i", range(0, len(columns.attributes) + 1, len(columns.attributes) // count)
    ).tobytes()
    columns.kinds = bytes([JournalKind.ENQUEUED]) * count
    looked: Any = Looked(columns)
    attribute_columns(looked)
    rows = JournalPage(pb.ReadJournalPageResponse())
    rows.columns = looked
    assert len(list(rows.rows())) == count
    copied = {name: times for name, times in looked.looks.items() if name not in ("count", "producer_ids")}
    assert max(copied.values()) < count, copied


def test_what_was_read_is_what_is_written() -> None:
    """Every attribute of a message, but the id by which a repetition is recognised."""
    columns = page()
    columns.attributes = RICH.SerializeToString()
    columns.attribute_offsets = array("i", [0, *[len(columns.attributes)] * 4]).tobytes()
    batch = batch_of(columns, attributes=True).slice(0, 2)
    rows = {name: values_of(batch, name) for name in COLUMNS if name != "queue"}
    rows["payload"] = [b"one", b"two"]
    made = sending.batch_of(rows)
    first, second = row_of(made, 0), row_of(made, 1)
    wanted = Message(payload=b"one")
    wanted.MergeFrom(RICH)
    wanted.ClearField("dedup_id")
    assert first == wanted
    assert second == Message(payload=b"two", priority=4), "beside one that gives a priority, the default is said"
    bare = {name: values_of(batch.slice(1), name) for name in COLUMNS if name not in ("queue", "payload")}
    assert sending.batch_of({**bare, "payload": [b"x"]}) == MessageBatch(payloads=[b"x"]), "nothing is made up"


def test_a_property_has_one_type_or_is_a_text() -> None:
    both = [[("p", {"text": "a", "integer": 1})]]
    batch = pa.RecordBatch.from_arrays([pa.array(both, ATTRIBUTES.field("properties").type)], ["properties"])
    with pytest.raises(InvalidRequest, match="BAD_ROW: property 'p' of a row has text and integer: set one of them"):
        values_of(batch, "properties")
    texts = pa.array([[("p", "a")], [], None], pa.map_(pa.string(), pa.string()))
    found = values_of(pa.RecordBatch.from_arrays([texts], ["properties"]), "properties")
    assert found == [Properties(entries={"p": PropertyValue(text="a")}), None, None]


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
