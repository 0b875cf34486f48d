"""Fills any protobuf message with values that reach far: names that exist, numbers near those in use, nonsense.

It follows the descriptors, so that a method or a field that is added tomorrow is fuzzed tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tests.fuzz.source import Source

DEPTH_MAX = 6
MILLISECONDS = (0, 1, 20, 500, 30_000, 86_400_000, -1, 1 << 40)
Hint = Callable[[Source], Any]


def fill(source: Source, kind: Descriptor, hints: dict[str, Hint], depth: int = 0) -> Message:
    """A message of that kind. `hints`: by field name, what to put there seven times of eight."""
    message = message_factory.GetMessageClass(kind)()
    if kind.full_name == "google.protobuf.Duration":
        duration: Any = message
        duration.seconds, rest = divmod(source.pick(MILLISECONDS), 1000)
        duration.nanos = rest * 1_000_000 if not source.rarely() else -1
        return message
    for field in kind.fields:
        if field.containing_oneof is None and (field.name in hints or source.flag()):
            _set(source, message, field, hints, depth)
    for oneof in kind.oneofs:
        if not oneof.name.startswith("_") and not source.rarely():
            _set(source, message, source.pick(oneof.fields), hints, depth)
        elif oneof.name.startswith("_") and source.flag():
            _set(source, message, oneof.fields[0], hints, depth)
    return message


def _set(source: Source, message: Any, field: FieldDescriptor, hints: dict[str, Hint], depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _set_entry(source, getattr(message, field.name), field, hints, depth)
        return
    if field.is_repeated:
        count = source.number(0, 4)
        values = [_value(source, field, hints, depth) for _ in range(count)]
        values = [value for value in values if value is not None]
        getattr(message, field.name).extend(values)
        return
    value = _value(source, field, hints, depth)
    if value is None:
        return
    if field.message_type is not None:
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)


def _set_entry(source: Source, entries: Any, field: FieldDescriptor, hints: dict[str, Hint], depth: int) -> None:
    key = source.text().encode(errors="replace").decode()
    value = _value(source, field.message_type.fields_by_name["value"], hints, depth)
    if isinstance(value, Message):
        entries[key].CopyFrom(value)
    elif value is not None:
        entries[key] = value


def _value(source: Source, field: FieldDescriptor, hints: dict[str, Hint], depth: int) -> Any:
    hint = hints.get(field.name)
    if hint is not None and not source.rarely():
        value = hint(source)
        return value % (1 << 32) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT32 else value
    if field.message_type is not None:
        return fill(source, field.message_type, hints, depth + 1) if depth < DEPTH_MAX else None
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return source.flag()
        case FieldDescriptor.CPPTYPE_ENUM:
            return source.pick([value.number for value in field.enum_type.values]) if not source.rarely() else 99
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return source.blob()
        case FieldDescriptor.CPPTYPE_STRING:
            return source.text().encode(errors="replace").decode()
        case FieldDescriptor.CPPTYPE_UINT64:
            return source.u64(1)
        case FieldDescriptor.CPPTYPE_UINT32:
            return source.u64(1) & 0xFFFFFFFF
        case FieldDescriptor.CPPTYPE_INT64:
            return source.u64(1) - (1 << 63) if source.rarely() else source.u64(1) & ((1 << 63) - 1)
        case FieldDescriptor.CPPTYPE_INT32:
            return source.u64(1) & 0x7FFFFFFF
        case _:
            return float(source.byte())


def as_bytes(source: Source, message: Message) -> bytes:
    """On the wire; one time in eight with a misprint."""
    data = message.SerializeToString()
    return source.mutated(data) if source.rarely() else data


def parsed(kind: type[Message], data: bytes) -> Message | None:
    """What a server's own deserializer makes of it."""
    try:
        return kind.FromString(data)
    except DecodeError:
        return None
