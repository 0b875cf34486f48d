"""Frames of records are the bytes that the library makes of the same message, and the values that it reads."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from replica.core.replication.op_frame import (
    Carried,
    OpFrame,
    frame_to_bytes,
    op_frame_of,
)
from replica.core.state.log import HeldRef
from tandemq.peer.v1.peer_service_pb2 import Op, OpAck, PeerFrame

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


def test_either_kind_of_frame_leaves_as_its_message() -> None:
    frame = OpFrame(1, 2, 3, [Carried(bytes(100_000)), Carried(b"second", HeldRef(b"c", "q", 4))])
    assert frame_to_bytes(frame) == frame_to_bytes(message_of(frame))
    other = PeerFrame(domain=1, epoch=2, op_ack=OpAck(durable_index=3))
    assert PeerFrame.FromString(frame_to_bytes(other)) == other
    assert op_frame_of(other).entries == []
