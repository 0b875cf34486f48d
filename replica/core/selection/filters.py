"""Decides whether one message is what a filter asks for; looks for none, and reads no store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replica.core.selection.selector import Selector, parse
from replica.core.selection.selector_steps import Value
from replica.machine import Refused
from replica.machine.state.segments import PRIORITY_DEFAULT, Part
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch, MessageFilter, PropertyValue

IDS_MAX = 10_000
ID_BYTES = 16


class Read(NamedTuple):
    """One record's batch, and when it was ordered."""

    messages: MessageBatch
    time_ms: int
    size: int = 0
    """Bytes of its body."""


class Filter(NamedTuple):
    selector: Selector | None
    places: frozenset[tuple[int, int, int]] | None
    """Domain, log index and ordinal of each message id."""
    correlation_id: str | None
    group_id: str | None

    @property
    def exact(self) -> bool:
        """It names messages by something that an index knows."""
        return self.places is not None or self.correlation_id is not None or self.group_id is not None

    @property
    def needs_bodies(self) -> bool:
        """It asks for more than the place of a message."""
        return self.selector is not None or self.correlation_id is not None or self.group_id is not None


def filter_of(asked: MessageFilter) -> Filter | None:
    """None: nothing is limited. Raises Refused: BAD_SELECTOR, BAD_REQUEST."""
    if len(asked.ids) > IDS_MAX:
        raise Refused(Reason.REASON_BAD_REQUEST, f"filter.ids has {len(asked.ids)} entries; it may have {IDS_MAX}")
    for place, name in enumerate(asked.ids):
        if len(name) != ID_BYTES:
            text = f"filter.ids[{place}] has {len(name)} bytes; a message id has {ID_BYTES}"
            raise Refused(Reason.REASON_BAD_REQUEST, text)
    found = Filter(
        parse(asked.selector) if asked.selector.strip() else None,
        frozenset(map(place_of, asked.ids)) if asked.ids else None,
        asked.correlation_id if asked.HasField("correlation_id") else None,
        asked.group_id if asked.HasField("group_id") else None,
    )
    return found if found.selector or found.exact else None


def place_of(message_id: bytes) -> tuple[int, int, int]:
    """Domain, log index and ordinal of a message id (rulings.md 18); its epoch says nothing that these do not."""
    return (
        int.from_bytes(message_id[:4], "big"),
        int.from_bytes(message_id[8:14], "big"),
        int.from_bytes(message_id[14:], "big"),
    )


def properties_of(read: Read, ordinal: int) -> Mapping[str, PropertyValue]:
    """Of one message of the batch."""
    column = read.messages.properties
    return column[0 if len(column) == 1 else ordinal].entries if column else {}


def entry_of(column: object, ordinal: int) -> str:
    assert hasattr(column, "__getitem__")
    assert hasattr(column, "__len__")
    if not len(column):
        return ""
    return str(column[0] if len(column) == 1 else column[ordinal])


def _plain(value: PropertyValue) -> Value:
    match value.WhichOneof("value"):
        case "text":
            return value.text
        case "integer":
            return value.integer
        case "number":
            return value.number
        case "flag":
            return value.flag
    return None  # bytes compare with nothing


def ordinal_of(part: Part, index: int) -> int:
    at = part.offset + index - part.start
    return part.extra.ordinals[at] if part.extra.ordinals else at


def _priority(part: Part, index: int) -> int:
    column = part.extra.priorities
    if not column:
        return PRIORITY_DEFAULT
    return column[0] if len(column) == 1 else column[part.offset + index - part.start]


def _value(name: str, part: Part, index: int, read: Read) -> Value:
    """None: the message has no such property."""
    batch, ordinal = read.messages, ordinal_of(part, index)
    match name:
        case "tq_priority":
            return _priority(part, index)
        case "tq_index":
            return index
        case "tq_enqueue_time":
            return read.time_ms
        case "tq_correlation_id":
            return entry_of(batch.correlation_ids, ordinal) or None
        case "tq_group_id":
            return entry_of(batch.group_ids, ordinal) or None
        case "tq_content_type":
            return entry_of(batch.content_types, ordinal) or None
        case "tq_reply_to":
            return entry_of(batch.reply_tos, ordinal) or None
    entries = properties_of(read, ordinal)
    return _plain(entries[name]) if name in entries else None


def _selected(selector: Selector, part: Part, index: int, read: Read) -> bool:
    """Each property is looked up once, however often the selector names it."""
    return selector.matches({name: _value(name, part, index, read) for name in selector.names})


def fits(asked: Filter, domain: int, part: Part, index: int, read: Read) -> bool:
    """Whether one message is what a filter asks for."""
    batch, ordinal = read.messages, ordinal_of(part, index)
    if asked.places is not None and (domain, part.log_index, ordinal) not in asked.places:
        return False
    if asked.correlation_id is not None and entry_of(batch.correlation_ids, ordinal) != asked.correlation_id:
        return False
    if asked.group_id is not None and entry_of(batch.group_ids, ordinal) != asked.group_id:
        return False
    return asked.selector is None or _selected(asked.selector, part, index, read)
