"""Finds from the bytes of a request that carries messages what would be costly to parse: maps that are far too large.
Decides by counts alone, and leaves what it does not understand to the parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from replica.machine.plan.content import PROPERTIES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES, ANSWER, PROPERTIES = 0x1A, 0x2A, 0x4A
"""Tags of EnqueueRequest.messages, ReplyRequest.message and Message.properties."""
BATCH, COLUMNS, ENTRIES = 0x12, 0x1A, 0x0A
"""Tags of ProduceRequest.batch, EnqueueBatch.messages and Properties.entries; MessageBatch.properties is PROPERTIES."""
KEY_OR_VALUE = b"\x0a\x12"
"""Tags of the key and the value of an entry."""
ENTRY_BYTES_MIN = 2
LONG_BYTES = 128 << 10
_LONG = re.compile(rb"\x4a[\x80-\xff]{2}(?:[\x08-\x7f]|[\x80-\xff][\x01-\x7f])\x0a([\x00-\x7f])[\x0a\x12]")
"""What could be the beginning of properties of so many bytes or more, with the length of their first entry and the tag
of its key or value. The time that a map takes to parse grows with its square, but below that nobody feels it."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def has_huge_map(request: bytes, messages: int = MESSAGES) -> bool:
    """Whether a message has more properties than any may have. Counting bytes is nearly free; only a request with many
    that could be tags is looked at field by field.
    """
    if request.count(PROPERTIES) <= PROPERTIES_MAX:
        return False
    return any(
        _is_huge(request, start, end) for tag, start, end in _fields(request, 0, len(request)) if tag == messages
    )


def has_huge_column(frame: bytes) -> bool:
    """The same of a frame of Produce, as far as it matters. Batches of many messages are not looked at field by field
    unless some of their bytes look like a huge map.
    """
    if len(frame) < LONG_BYTES or PROPERTIES not in frame:
        return False
    if not any(_goes_on(frame, found.end() - 1 + found[1][0]) for found in _LONG.finditer(frame)):
        return False
    spans = [(0, len(frame))]
    for wanted in (BATCH, COLUMNS, PROPERTIES):
        spans = [(at, end) for span in spans for tag, at, end in _fields(frame, *span) if tag == wanted]
    return any(_has_many(frame, at, end, ENTRIES) for at, end in spans)


def _goes_on(frame: bytes, at: int) -> bool:
    """Whether a second and a third entry follow. Other bytes seldom look like that; payloads one after the other, whose
    tag is the same, seldom begin like one.
    """
    for _ in range(2):
        head = frame[at : at + 3]
        if len(head) < 3 or head[0] != ENTRIES or head[2] not in KEY_OR_VALUE:
            return False
        at += 2 + head[1]
    return True


def _is_huge(request: bytes, start: int, end: int) -> bool:
    if end - start <= ENTRY_BYTES_MIN * PROPERTIES_MAX or request.count(PROPERTIES, start, end) <= PROPERTIES_MAX:
        return False
    return _has_many(request, start, end, PROPERTIES)


def _has_many(data: bytes, start: int, end: int, entries: int) -> bool:
    found = 0
    for tag, _, _ in _fields(data, start, end):
        found += tag == entries
        if found > PROPERTIES_MAX:
            return True
    return False


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(tag, first byte, end) of each field, as far as it can be followed."""
    while at < end:
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at, end)
        elif kind == _VARINT:
            _, after = _varint(data, at, end)
            size = after - at
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            return
        yield tag, at, min(at + size, end)
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
