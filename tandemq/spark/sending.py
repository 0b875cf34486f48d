"""Turns the columns of a frame into those of a MessageBatch: what a row does not give is None until it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from tandemq.client.outgoing import PRIORITY_DEFAULT
from tandemq.errors import InvalidRequest
from tandemq.spark.write_options import TEXTS
from tandemq.v1.message_pb2 import MessageBatch, Properties, PropertyValue

PROPERTY_BYTES = 8
"""Counted for each beside its bytes: a batch may have 200,000, and a part is sent at 1 MiB."""


class Wire(NamedTuple):
    """A column of MessageBatch."""

    column: str
    missing: Any
    """For a row that gives nothing, beside one that does."""


WIRE = MappingProxyType(
    {
        "priority": Wire("priorities", PRIORITY_DEFAULT),
        **{name: Wire(f"{name}s", "") for name in TEXTS},
        "persistent": Wire("persistence", 0),
        "ttl_ms": Wire("ttls_ms", 0),
        "delay_ms": Wire("delays_ms", 0),
        "deliver_at": Wire("deliver_at_ms", 0),
        "properties": Wire("properties", Properties()),
    }
)
PAYLOAD = "payload"


def values_of(batch: pa.RecordBatch, name: str) -> list[Any]:
    """A column as MessageBatch takes it; None: not given. Spark's strings are bytes that need not be UTF-8: as a
    payload they go as they are.

    Raises InvalidRequest with reason BAD_ROW for what is no text where a text belongs, and for a property of two types.
    """
    column = batch.column(name)
    if name == PAYLOAD:
        return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]  # pyarrow is not looked into
    if name == "deliver_at":
        return [_milliseconds(each) for each in column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()]
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        text = f"column {name} has a text that is not UTF-8 ({error.reason}); encode it, for example by base64()"
        raise InvalidRequest("BAD_ROW", text, {"column": name}, definite=True) from error
    if name == "persistent":
        return [None if each is None else 1 + each for each in found]  # see MessageBatch.persistence
    if name == "properties":
        return [_properties(each) if each else None for each in found]
    return [each or None for each in found] if name in TEXTS else found


def batch_of(columns: dict[str, list[Any]]) -> MessageBatch:
    """Rows of one queue. A column in which no row gives anything is left out. Raises ValueError for a number that the
    wire does not hold.
    """
    made = {"payloads": columns[PAYLOAD]}
    for name, values in columns.items():
        if name != PAYLOAD and any(value is not None for value in values):
            wire = WIRE[name]
            made[wire.column] = [wire.missing if value is None else value for value in values]
    return MessageBatch(**made)


def weight_of(value: Any) -> int:
    """Bytes of an attribute, about."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Properties):
        return value.ByteSize() + PROPERTY_BYTES * len(value.entries)
    return 0


def _milliseconds(moment_us: int | None) -> int | None:
    """Rounded up: never before the moment that was named."""
    return None if moment_us is None else -(-moment_us // 1_000)


def _properties(given: Sequence[tuple[str, Any]]) -> Properties:
    return Properties(entries={name: _property(name, value) for name, value in given})


def _property(name: str, value: str | dict[str, Any] | None) -> PropertyValue:
    if isinstance(value, str):
        return PropertyValue(text=value)
    given = {kind: each for kind, each in (value or {}).items() if each is not None}
    if len(given) > 1:
        text = f"property {name!r} of a row has {' and '.join(given)}: set one of them"
        raise InvalidRequest("BAD_ROW", text, {"column": "properties"}, definite=True)
    return PropertyValue(**given)
