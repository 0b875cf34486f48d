"""Decides how a message's attributes are written, as rows for the unary call and as columns for the fast path.

It never sends anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict

from tandemq.v1 import message_pb2

Value = str | int | float | bool | bytes
PRIORITY_DEFAULT = 4
BYTES_LIKE = (bytes, bytearray, memoryview)


class Attributes(TypedDict, total=False):
    """What a message may carry besides its payload. Unset: the queue decides."""

    priority: int  # 0 to 9, 9 first
    persistent: bool
    ttl: timedelta  # unsettled messages older than this are removed
    delay: timedelta  # not delivered before so much time has passed since ordering
    deliver_at: datetime  # not delivered before; with a time zone, or local time
    content_type: str
    correlation_id: str
    reply_to: str
    group_id: str
    group_sequence: int  # queue of group_mode complete: its place in the group, from 1
    last_in_group: bool  # none of its group comes after it
    dedup_id: str  # a second message with the same one, within the queue's window, is not stored
    properties: Mapping[str, Value]
    inert: bool  # no reaction acts on it (Client.react)


NAMES = Attributes.__optional_keys__


class Outgoing(NamedTuple):
    """A message for the unary call."""

    payload: bytes
    attributes: Attributes = {}  # noqa: RUF012 - never written to


def to_property(value: Value) -> message_pb2.PropertyValue:
    """A typed property; bool is told from int."""
    match value:
        case bool():
            return message_pb2.PropertyValue(flag=value)
        case str():
            return message_pb2.PropertyValue(text=value)
        case int():
            return message_pb2.PropertyValue(integer=value)
        case float():
            return message_pb2.PropertyValue(number=value)
        case _:
            return message_pb2.PropertyValue(data=value)


def from_property(value: message_pb2.PropertyValue) -> Value:
    """The same back; what says nothing is empty bytes."""
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind is not None else b""


def check_payload(payload: object) -> None:
    """Raises TypeError for what cannot be a payload."""
    if isinstance(payload, bytes):
        return
    text = f"a payload is bytes, not {type(payload).__name__}"
    if isinstance(payload, str):
        text += ": encode it"
    elif isinstance(payload, BYTES_LIKE):
        text += ": pass bytes(...)"
    raise TypeError(text)


def check_names(names: AbstractSet[str]) -> None:
    """Raises TypeError for an attribute that no message has: left out, it would be missed by whoever receives it."""
    if not names <= NAMES:
        unknown = ", ".join(map(repr, sorted(names - NAMES)))
        raise TypeError(f"a message has no attribute {unknown}; it may have {', '.join(sorted(NAMES))}")


def check_payloads(payloads: Sequence[object]) -> None:
    """The same of each. No Python is run for a single one where all are bytes: 13 ns each."""
    if list(map(type, payloads)).count(bytes) < len(payloads):
        for each in payloads:
            check_payload(each)


def rows_of(messages: Iterable[bytes | Outgoing]) -> list[message_pb2.Message]:
    """The row form of each; raises TypeError for what is no message."""
    if isinstance(messages, (str, *BYTES_LIKE)):
        raise TypeError(f"messages are a list, not {type(messages).__name__}: put even a single one into a list")
    return [
        to_message(*message) if isinstance(message, tuple) else to_message(message, Attributes())
        for message in messages
    ]


def to_message(payload: bytes, attributes: Attributes) -> message_pb2.Message:
    """The row form. Raises TypeError for what is no message."""
    check_payload(payload)
    check_names(attributes.keys())
    message = message_pb2.Message(
        payload=payload,
        priority=attributes.get("priority"),
        content_type=attributes.get("content_type", ""),
        correlation_id=attributes.get("correlation_id", ""),
        reply_to=attributes.get("reply_to", ""),
        group_id=attributes.get("group_id", ""),
        dedup_id=attributes.get("dedup_id", ""),
        inert=attributes.get("inert", False),
        group_sequence=attributes.get("group_sequence", 0),
        last_in_group=attributes.get("last_in_group", False),
    )
    if "persistent" in attributes:
        message.persistent = attributes["persistent"]
    if "ttl" in attributes:
        message.ttl.FromTimedelta(attributes["ttl"])
    if "delay" in attributes:
        message.delay.FromTimedelta(attributes["delay"])
    if "deliver_at" in attributes:
        message.deliver_at.FromMilliseconds(_moment(attributes["deliver_at"]))
    for name, value in attributes.get("properties", {}).items():
        message.properties[name].CopyFrom(to_property(value))
    return message


def attributes_bytes(attributes: Attributes) -> int:
    """What attributes add to a batch; raises TypeError or ValueError for values that have no form on the wire."""
    return to_message(b"", attributes).ByteSize() + 16


def write_columns(batch: message_pb2.MessageBatch, rows: Sequence[Attributes | None], counts: Sequence[int]) -> None:
    """Adds the columns that any of `rows` uses; row n stands for `counts[n]` messages. Without a row: defaults."""
    used = {name for row in rows if row for name in row}
    check_names(used)
    for row, count in zip(rows, counts, strict=True):
        given: Attributes = row or {}
        if "priority" in used:
            batch.priorities.extend([given.get("priority", PRIORITY_DEFAULT)] * count)
        if "persistent" in used:
            batch.persistence.extend([1 + given["persistent"] if "persistent" in given else 0] * count)
        if "ttl" in used:
            batch.ttls_ms.extend([_milliseconds(given["ttl"]) if "ttl" in given else 0] * count)
        if "delay" in used:
            batch.delays_ms.extend([_milliseconds(given["delay"]) if given.get("delay") else 0] * count)
        if "deliver_at" in used:
            batch.deliver_at_ms.extend([_moment(given["deliver_at"]) if "deliver_at" in given else 0] * count)
        if "content_type" in used:
            batch.content_types.extend([given.get("content_type", "")] * count)
        if "correlation_id" in used:
            batch.correlation_ids.extend([given.get("correlation_id", "")] * count)
        if "reply_to" in used:
            batch.reply_tos.extend([given.get("reply_to", "")] * count)
        _write_groups(batch, used, given, count)
        if "dedup_id" in used:
            batch.dedup_ids.extend([given.get("dedup_id", "")] * count)
        if "inert" in used:
            batch.inerts.extend([given.get("inert", False)] * count)
        if "properties" in used:
            entries = {name: to_property(value) for name, value in given.get("properties", {}).items()}
            batch.properties.extend([message_pb2.Properties(entries=entries)] * count)


def _write_groups(batch: message_pb2.MessageBatch, used: set[str], given: Attributes, count: int) -> None:
    if "group_id" in used:
        batch.group_ids.extend([given.get("group_id", "")] * count)
    if "group_sequence" in used:
        batch.group_sequences.extend([given.get("group_sequence", 0)] * count)
    if "last_in_group" in used:
        batch.lasts_in_group.extend([given.get("last_in_group", False)] * count)


def _milliseconds(duration: timedelta) -> int:
    """At least 1: on the wire 0 means that none was given."""
    return max(1, round(duration / timedelta(milliseconds=1)))


def _moment(at: datetime) -> int:
    """Milliseconds since 1970, rounded up: never before the moment that was named."""
    return max(0, math.ceil(at.timestamp() * 1_000))
