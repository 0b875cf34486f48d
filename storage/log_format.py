"""Decides how small commits look as bytes in a commit log, and which of them still count; never writes nor syncs.

The first block of 4 KiB says which log it is: magic "TQLOG", version u8, id of 16 bytes, CRC32C of that. All others are
of entries; each begins at a block and fills its last one with zeros. Big-endian:

    0  magic "TQEN"               20  number u64               32  CRC32C of bytes 0 to 32 and the body, u32
    4  id of the log, 16 bytes    28  length of the body u32   36  body: MessagePack, [appends, meta]

A block is the most that a disk may tear at a time: so no entry shares one with another, and only the last one, whose
commit was never reported, can be torn. The numbers rise by one. An entry counts when its number is above that of the
last one that the database holds; those that count must go on from there without a gap.
To change the format: raise the version and STORE_FORMAT.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import google_crc32c
import msgspec

from storage.doubt import EndOfLog
from storage.errors import CorruptRecord
from storage.store import Append

BLOCK_BYTES = 4096
ID_BYTES = 16

_LOG = b"TQLOG\x01"
_MAGIC = b"TQEN"
_COVERED = Struct(">4s16sQI")
_HEAD = Struct(">4s16sQII")
_STATE = Struct(">16sQ")


class Content(msgspec.Struct, frozen=True, array_like=True):
    """What one small commit does."""

    appends: list[Append]
    meta: dict[str, bytes | None]


class LogEntry(NamedTuple):
    """One that counts."""

    number: int
    content: Content
    end: int
    """Where the next one may begin."""


class LogContent(NamedTuple):
    """What a log has for a database."""

    entries: list[LogEntry]
    """Those that count, in order."""
    end: EndOfLog


class LogState(NamedTuple):
    """What the database says of its log."""

    log_id: bytes
    folded: int
    """Number of the last entry that the database holds."""


def encode_state(state: LogState) -> bytes:
    """As a named value of the database."""
    return _STATE.pack(*state)


def decode_state(stored: bytes, where: str) -> LogState:
    """Raises CorruptRecord."""
    if len(stored) != _STATE.size:
        raise CorruptRecord(f"What the directory says of its commit log has {len(stored)} bytes", where)
    return LogState(*_STATE.unpack(stored))


def encode_first_block(log_id: bytes) -> bytes:
    """What a log begins with, for ever."""
    covered = _LOG + log_id
    return (covered + _crc(covered).to_bytes(4, "big")).ljust(BLOCK_BYTES, b"\0")


def encode_entry(log_id: bytes, number: int, content: Content) -> bytes:
    """Whole blocks."""
    body = msgspec.msgpack.encode(content)
    covered = _COVERED.pack(_MAGIC, log_id, number, len(body))
    data = b"".join((covered, _crc(covered + body).to_bytes(4, "big"), body))
    return data.ljust(blocks_of(len(data)) * BLOCK_BYTES, b"\0")


def blocks_of(size: int) -> int:
    """How many blocks so many bytes take."""
    return -(-size // BLOCK_BYTES)


def content_of(data: bytes, state: LogState, where: str) -> LogContent:
    """What the database does not hold. Raises CorruptRecord when an entry that was reported is not whole."""
    if data[:BLOCK_BYTES] != encode_first_block(state.log_id):
        raise CorruptRecord("This is not the commit log that the database names", where)
    found: list[LogEntry] = []
    torn: set[int] = set()
    at = BLOCK_BYTES
    while at < len(data):
        body = _body_at(data, at, state.log_id)
        if body is None:
            torn.add(_number_at(data, at, state.log_id))
            at += BLOCK_BYTES
            continue
        number, content_bytes = body
        at += blocks_of(_HEAD.size + len(content_bytes)) * BLOCK_BYTES
        if number > state.folded:
            found.append(LogEntry(number, _decode(number, content_bytes, where), at))
    for expected, entry in enumerate(found, state.folded + 1):
        if entry.number != expected:
            what = f"The commit log goes on with entry {entry.number} where {expected} must come"
            raise CorruptRecord(what, where)
    last = found[-1].number if found else state.folded
    return LogContent(found, EndOfLog(last, last + 1 in torn))


def _number_at(data: bytes, at: int, log_id: bytes) -> int:
    """What an entry that is not whole says of itself; 0: it does not look like one of this log's."""
    if len(data) - at < _HEAD.size:
        return 0
    magic, its_id, number, _, _ = _HEAD.unpack_from(data, at)
    return int(number) if (magic, its_id) == (_MAGIC, log_id) else 0


def _body_at(data: bytes, at: int, log_id: bytes) -> tuple[int, bytes] | None:
    """Number and body of the entry that begins there and is whole."""
    if data[at : at + len(_MAGIC)] != _MAGIC or len(data) - at < _HEAD.size:
        return None
    _, its_id, number, size, crc = _HEAD.unpack_from(data, at)
    body_at = at + _HEAD.size
    if its_id != log_id or size > len(data) - body_at:
        return None
    body = data[body_at : body_at + size]
    return (number, body) if _crc(data[at : at + _COVERED.size] + body) == crc else None


def _decode(number: int, body: bytes, where: str) -> Content:
    try:
        return msgspec.msgpack.decode(body, type=Content)
    except msgspec.MsgspecError as error:
        raise CorruptRecord(f"Entry {number} of the commit log is whole and cannot be read: {error}", where) from error


def _crc(data: bytes) -> int:
    crc: int = google_crc32c.value(data)
    return crc
