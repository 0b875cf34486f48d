"""The frame that carries records to the peer, as a value and as the bytes of its `PeerFrame`; decides nothing.

A record of 500 messages is half a megabyte. As a field of a message it is copied into the message, into a buffer that
is made larger again and again, and into the bytes that leave: 730 us a frame at its sender, and 270 where the head of
the frame and the record are joined once. So here records are bytes beside the frame, and what is written is what the
library would write. Frames are read by the library: slices gained little, and a loop in Python over what a stranger
sends has no bound.
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


class Carried(NamedTuple):
    """One record, without its body where the peer holds that."""

    record: bytes
    held: HeldRef | None = None


class OpFrame(NamedTuple):
    """Records in the order of the log, none of them empty, and how far the log is committed."""

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
    """The value of a message whose kind is `op`; other kinds give one without records."""
    op = frame.op
    entries = [
        Carried(item.record, HeldRef(item.held.client_id, item.held.queue, item.held.first_sequence))
        if item.HasField("held")
        else Carried(item.record)
        for item in op.entries
    ]
    return OpFrame(frame.domain, frame.epoch, op.commit_index, entries)


def frame_to_bytes(frame: PeerFrame | OpFrame) -> bytes:
    """The bytes of the `PeerFrame`, of either kind of frame."""
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
