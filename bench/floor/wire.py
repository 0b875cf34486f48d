"""What both processes of the floor and its client agree on: method names, and how records travel in one frame."""

from __future__ import annotations

import struct
from collections.abc import Iterable

PRODUCE = "/floor.Floor/Produce"
CONSUME = "/floor.Floor/Consume"
REPLICATE = "/floor.Floor/Replicate"
ECHO = "/floor.Floor/Echo"

OPTIONS = [
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
]
NUMBER = struct.Struct(">Q")  # an id, or a count
_LENGTH = struct.Struct(">I")


def pack(records: Iterable[bytes]) -> bytes:
    """Many records as one frame."""
    parts: list[bytes] = []
    for record in records:
        parts.append(_LENGTH.pack(len(record)))
        parts.append(record)
    return b"".join(parts)


def unpack(frame: bytes) -> list[memoryview]:
    """The records of a frame; views, nothing is copied."""
    view, at, out = memoryview(frame), 0, []
    while at < len(frame):
        (length,) = _LENGTH.unpack_from(frame, at)
        out.append(view[at + 4 : at + 4 + length])
        at += 4 + length
    return out
