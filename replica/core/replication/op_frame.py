"""The frame that carries records to the peer, as a value and as the bytes of its `PeerFrame`; decides nothing.

A record of 500 messages is half a megabyte. As a field of a message it is copied into the message, into a buffer that
is made larger again and again, and into the bytes that leave: 730 us a frame at its sender, and 270 where the head of
the frame and the record are joined once. So here records are bytes beside the frame. What is written is what the
library would write; what is read in another order than ours is left to the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.log import HeldRef
from tandemq.peer.v1.peer_service_pb2 import HeldKey, PeerFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

DOMAIN, EPOCH, OP = b"\x08", b"\x10", b"\x82\x01"
"""Tags of PeerFrame.domain, epoch and op."""
ENTRY, COMMIT_INDEX = b"\x0a", b"\x10"
"""Tags of Op.entries and commit_index."""
RECORD, HELD = b"\x0a", b"\x12"
"""Tags of OpEntry.record and held."""
SHORT_BYTES = 64 << 10
"""Frames below that the library reads faster: 3 us, and 8 here. At 100 KiB both take 9, at 500 KiB 170 and 20."""
VARINT_BYTES_MAX = 10
U32_MAX, U64_MAX = (1 << 32) - 1, (1 << 64) - 1


class Carried(NamedTuple):
    """One record, without its body where the peer holds that."""

    record: bytes
    held: HeldRef | None = None


class OpFrame(NamedTuple):
    """Records in the order of the log, and how far the log is committed."""

    domain: int
    epoch: int
    commit_index: int
    entries: Sequence[Carried]

    def SerializeToString(self) -> bytes:  # noqa: N802  # as messages have it: frames of both kinds leave the same way
        """The bytes of its PeerFrame."""
        parts: list[bytes] = []
        size = 0
        for record, held in self.entries:
            before = RECORD + _varint(len(record))
            after = b"" if held is None else _held(held)
            inner = len(before) + len(record) + len(after)
            head = ENTRY + _varint(inner) + before
            parts += (head, record, after)
            size += len(head) + len(record) + len(after)
        commit = COMMIT_INDEX + _varint(self.commit_index) if self.commit_index else b""
        start = (DOMAIN + _varint(self.domain) if self.domain else b"") + (
            EPOCH + _varint(self.epoch) if self.epoch else b""
        )
        return b"".join((start, OP, _varint(size + len(commit)), *parts, commit))


def op_frame_of(frame: PeerFrame) -> OpFrame:
    """Of a message of that kind."""
    op = frame.op
    entries = [
        Carried(item.record, HeldRef(item.held.client_id, item.held.queue, item.held.first_sequence))
        if item.HasField("held")
        else Carried(item.record)
        for item in op.entries
    ]
    return OpFrame(frame.domain, frame.epoch, op.commit_index, entries)


def frame_from_bytes(data: bytes) -> PeerFrame | OpFrame:
    """What came. Raises DecodeError."""
    if len(data) >= SHORT_BYTES and (read := _read(data)) is not None:
        return read
    return PeerFrame.FromString(data)


def frame_to_bytes(frame: PeerFrame | OpFrame) -> bytes:
    """What leaves."""
    return frame.SerializeToString()


def _held(held: HeldRef) -> bytes:
    client_id, queue, first_sequence = held
    key = HeldKey(client_id=client_id, queue=queue, first_sequence=first_sequence).SerializeToString()
    return HELD + _varint(len(key)) + key


def _varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "little")
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class _NotOursError(Exception):
    """The bytes are not as we write them: for the library to read, or to refuse."""


def _read(data: bytes) -> OpFrame | None:
    try:
        return _OpReader(data).frame()
    except (_NotOursError, IndexError):
        return None


class _OpReader:
    """Reads what `OpFrame.SerializeToString` writes, and nothing else. Raises _NotOursError or IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def frame(self) -> OpFrame:
        domain = self._number(U32_MAX) if self._is_next(DOMAIN) else 0
        epoch = self._number() if self._is_next(EPOCH) else 0
        self._need(OP)
        self._need_end(len(self._data))
        entries: list[Carried] = []
        while self._is_next(ENTRY):
            entries.append(self._entry())
        commit_index = self._number() if self._is_next(COMMIT_INDEX) else 0
        if self._at != len(self._data):
            raise _NotOursError
        return OpFrame(domain, epoch, commit_index, entries)

    def _entry(self) -> Carried:
        end = self._number() + self._at
        self._need(RECORD)
        record = self._bytes()
        held = None
        if self._at != end:
            self._need(HELD)
            key = HeldKey.FromString(self._bytes())
            held = HeldRef(key.client_id, key.queue, key.first_sequence)
        if self._at != end:
            raise _NotOursError
        return Carried(record, held)

    def _bytes(self) -> bytes:
        size, at = self._number(), self._at
        self._at = at + size
        if self._at > len(self._data):
            raise _NotOursError
        return self._data[at : self._at]

    def _need_end(self, end: int) -> None:
        if self._number() + self._at != end:
            raise _NotOursError

    def _need(self, tag: bytes) -> None:
        if not self._is_next(tag):
            raise _NotOursError

    def _is_next(self, tag: bytes) -> bool:
        if not self._data.startswith(tag, self._at):
            return False
        self._at += len(tag)
        return True

    def _number(self, highest: int = U64_MAX) -> int:
        value = 0
        for place in range(VARINT_BYTES_MAX):
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        else:
            raise _NotOursError
        if value > highest:
            raise _NotOursError
        return value
