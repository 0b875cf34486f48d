"""What stands beside a message's body, as Arrow columns: null where the producer gave nothing.

A page in which no message has more than its body costs eleven columns of nulls, and no look at a row.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.message_pb2 import Message, PropertyValue

PROPERTY = pa.struct(
    [
        ("text", pa.string()),
        ("integer", pa.int64()),
        ("number", pa.float64()),
        ("flag", pa.bool_()),
        ("data", pa.binary()),
    ]
)
"""One of them is set, as in PropertyValue of the contract; none, where the producer set none."""
MOMENT = pa.timestamp("us", "UTC")
ATTRIBUTES = pa.schema(
    [
        ("priority", pa.int32()),
        ("persistent", pa.bool_()),
        ("ttl_ms", pa.int64()),
        ("delay_ms", pa.int64()),
        ("deliver_at", MOMENT),
        ("content_type", pa.string()),
        ("correlation_id", pa.string()),
        ("group_id", pa.string()),
        ("reply_to", pa.string()),
        ("dedup_id", pa.string()),
        ("properties", pa.map_(pa.string(), PROPERTY)),
    ]
)

Values = tuple[Any, ...]
_NOTHING: Values = (None,) * len(ATTRIBUTES)


def attribute_columns(columns: pb.JournalColumns) -> list[pa.Array]:
    """The columns of ATTRIBUTES, a row for each of the page."""
    if not columns.attribute_offsets:
        return [pa.nulls(columns.count, field.type) for field in ATTRIBUTES]
    offsets, attributes = memoryview(columns.attribute_offsets).cast("i"), columns.attributes
    known: dict[bytes, int] = {b"": 0}  # many rows say the same: each is taken apart once
    distinct, places = [_NOTHING], []
    for at in range(columns.count):
        data = attributes[offsets[at] : offsets[at + 1]]
        place = known.get(data)
        if place is None:
            place = known[data] = len(distinct)
            distinct.append(_values(Message.FromString(data)))
        places.append(place)
    rows = pa.array(places, pa.int32())
    return [
        _array(values, field).take(rows) for values, field in zip(zip(*distinct, strict=True), ATTRIBUTES, strict=True)
    ]


def _array(values: Values, field: pa.Field) -> pa.Array:
    if field.type == MOMENT:
        return pa.array(values, pa.timestamp("ms", "UTC")).cast(MOMENT)
    return pa.array(values, field.type)


def _values(message: Message) -> Values:
    """In the order of ATTRIBUTES. A text that is empty was not given: the contract does not tell the two apart."""
    return (
        message.priority if message.HasField("priority") else None,
        message.persistent if message.HasField("persistent") else None,
        message.ttl.ToMilliseconds() if message.HasField("ttl") else None,
        message.delay.ToMilliseconds() if message.HasField("delay") else None,
        message.deliver_at.ToMilliseconds() if message.HasField("deliver_at") else None,
        message.content_type or None,
        message.correlation_id or None,
        message.group_id or None,
        message.reply_to or None,
        message.dedup_id or None,
        [(name, _property(message.properties[name])) for name in sorted(message.properties)] or None,
    )


def _property(value: PropertyValue) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    return {kind: getattr(value, kind)} if kind is not None else {}
