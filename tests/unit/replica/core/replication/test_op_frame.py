"""Frames of records are the same bytes, and the same values, as the library makes of them."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from replica.core.replication import op_frame
from replica.core.replication.op_frame import (
    SHORT_BYTES,
    Carried,
    OpFrame,
    frame_from_bytes,
    frame_to_bytes,
    op_frame_of,
)
from replica.core.state.log import HeldRef
from tandemq.peer.v1.peer_service_pb2 import Op, OpAck, OpEntry, PeerFrame

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
HELD = st.none() | st.builds(
    HeldRef, st.binary(max_size=60), st.text(alphabet=st.characters(codec="utf-8"), max_size=40), st.integers(0, U64)
)
RECORD = st.binary(min_size=1, max_size=200) | st.sampled_from([127, 128, 16_383, 16_384, 70_000]).map(bytes)
FRAMES = st.builds(
    OpFrame,
    st.integers(0, U32),
    st.integers(0, U64),
    st.integers(0, U64),
    st.lists(st.builds(Carried, RECORD, HELD), max_size=4),
)


def message_of(frame: OpFrame) -> PeerFrame:
    """As the library has it."""
    made = PeerFrame(domain=frame.domain, epoch=frame.epoch, op=Op(commit_index=frame.commit_index))
    for record, held in frame.entries:
        item = made.op.entries.add(record=record)
        if held is not None:
            item.held.SetInParent()
            item.held.client_id, item.held.queue, item.held.first_sequence = held
    return made


@given(FRAMES)
@example(OpFrame(0, 0, 0, []))
@example(OpFrame(1, 2, 3, [Carried(b"r", HeldRef(b"", "", 0))]))
def test_the_bytes_are_those_of_the_library(frame: OpFrame) -> None:
    data = frame_to_bytes(frame)
    assert data == message_of(frame).SerializeToString(deterministic=True)
    assert op_frame_of(PeerFrame.FromString(data)) == frame


@given(FRAMES)
def test_what_is_written_is_read(frame: OpFrame) -> None:
    assert op_frame._read(frame_to_bytes(frame)) == frame


LONG = Carried(bytes(SHORT_BYTES))


def test_a_long_frame_of_records_comes_as_a_value_and_any_other_one_as_a_message() -> None:
    frame = OpFrame(1, 2, 3, [LONG, Carried(b"second", HeldRef(b"c", "q", 4))])
    assert frame_from_bytes(frame_to_bytes(frame)) == frame
    for other in (
        PeerFrame(domain=1, epoch=2, op_ack=OpAck(durable_index=3)),
        PeerFrame(domain=1, epoch=2, op=Op(entries=[OpEntry(record=b"short")])),
    ):
        assert frame_from_bytes(frame_to_bytes(other)) == other


def another_order() -> bytes:
    """Legal: an entry whose batch is named before its record."""
    held, record = OpEntry(record=b"").SerializeToString(), OpEntry(record=LONG.record).SerializeToString()
    named = message_of(OpFrame(1, 2, 0, [Carried(b"r", HeldRef(b"c", "q", 4))])).op.entries[0].SerializeToString()
    entry = named[len(OpEntry(record=b"r").SerializeToString()) :] + held + record
    return PeerFrame(domain=1, epoch=2).SerializeToString() + _field(b"\x82\x01", _field(b"\x0a", entry))


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + op_frame._varint(len(data)) + data


def test_what_is_written_in_another_order_is_read_by_the_library() -> None:
    data = another_order()
    read = frame_from_bytes(data)
    assert isinstance(read, PeerFrame)
    assert op_frame_of(read).entries == [Carried(LONG.record, HeldRef(b"c", "q", 4))]


def test_a_field_that_is_not_known_is_read_by_the_library() -> None:
    whole = frame_to_bytes(OpFrame(1, 2, 3, [LONG]))
    for more in (b"\xf8\x01\x01", b"\x08\x05"):
        assert isinstance(frame_from_bytes(whole + more), PeerFrame)


@given(FRAMES, st.data())
def test_of_damaged_bytes_it_reads_what_the_library_reads_or_nothing(frame: OpFrame, data: st.DataObject) -> None:
    good = frame_to_bytes(frame)
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        if bad:
            at = data.draw(st.integers(0, min(len(bad), 60) - 1))
            bad[at] = data.draw(st.integers(0, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(bad)) | st.just(len(bad)))])
    try:
        read = op_frame._read(cut)
    except DecodeError:
        with pytest.raises(DecodeError):
            PeerFrame.FromString(cut)
        return
    if read is not None:
        assert read == op_frame_of(PeerFrame.FromString(cut))


def test_numbers_beyond_their_field_are_left_to_the_library() -> None:
    whole = frame_to_bytes(OpFrame(1, 2, 3, [LONG]))
    for start in (b"\x08" + b"\xff" * 4 + b"\x7f", b"\x08\x01\x10" + b"\xff" * 9 + b"\x7f"):
        data = start + whole[whole.index(b"\x82\x01") :]
        assert op_frame._read(data) is None
        assert isinstance(frame_from_bytes(data), PeerFrame)


def test_long_bytes_that_are_no_frame_are_refused_as_the_library_does() -> None:
    for data in (b"\x07" * SHORT_BYTES, frame_to_bytes(OpFrame(1, 2, 3, [LONG]))[:-1]):
        with pytest.raises(DecodeError):
            frame_from_bytes(data)
