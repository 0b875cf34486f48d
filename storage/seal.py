"""Decides whether a named value that a store gives back is the one that was put there; never what is in it.

LMDB's pages carry no checksum, and these values are believed as they are: an epoch with a flipped bit would be a number
that somebody else owns. A sealed value is magic, CRC32C, value. Values from before the seal (maps of msgpack) cannot
begin with the magic and are taken as they are; each is sealed the next time it is written.
"""

from __future__ import annotations

from struct import Struct

import google_crc32c

from storage.errors import CorruptRecord

_MAGIC = b"TQV\x01"
_HEAD = Struct(">4sI")


def seal(value: bytes) -> bytes:
    """The value with what proves it."""
    return _HEAD.pack(_MAGIC, google_crc32c.value(value)) + value


def unseal(stored: bytes, what: str) -> bytes:
    """The value. Raises CorruptRecord, naming `what`, when it is another one."""
    if stored[: len(_MAGIC)] != _MAGIC:
        return stored
    value = stored[_HEAD.size :]
    if len(stored) < _HEAD.size or _HEAD.unpack_from(stored)[1] != google_crc32c.value(value):
        raise CorruptRecord(f"The {what} fails its checksum")
    return value
