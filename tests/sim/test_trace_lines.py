"""Packets are told in words; a story of a real run names calls, frames, roles and the register, and can be drawn."""

from __future__ import annotations

import grpc
import pytest

from chaos.sim.draw.profiles import draw
from chaos.sim.judges.trace_lines import line_of, register_line
from chaos.sim.kernel.wire import Packet
from chaos.sim.tools.picture import picture
from chaos.sim.tools.product import run, traced
from failover.register import Register, RegisterState
from replica.listen.direct import Ending
from storage.records import ZERO_DIGEST, build_head
from tandemq.peer.v1 import peer_service_pb2 as peer
from tandemq.v1 import queue_service_pb2 as queue
from tests.sim.stories import REAL

DATA, PRODUCE, ENQUEUE = "/tandemq.peer.v1.PeerService/Data", "/tandemq.v1.QueueService/Produce", "/x.Y/Unknown"


def message(frame: peer.PeerFrame | queue.ProduceRequest) -> Packet:
    return Packet("message", 1, frame.SerializeToString())


def test_a_frame_is_told_by_its_kind_and_its_small_fields() -> None:
    frame = peer.PeerFrame(domain=7, epoch=3, op_ack=peer.OpAck(durable_index=12, applied_index=9))
    assert line_of(message(frame), DATA, is_request=True) == "Data op_ack durable_index 12 applied_index 9 epoch 3"


def test_payloads_are_told_when_they_can_be_read() -> None:
    batch = queue.EnqueueBatch(queue="q", first_sequence=4)
    batch.messages.payloads.extend([b"0:1", b"\xff\xff", b"0:2", b"0:3", b"0:4"])
    text = line_of(message(queue.ProduceRequest(batch=batch)), PRODUCE, is_request=True)
    assert text == "Produce batch queue q first_sequence 4 messages(payloads(0:1, 0:2, 0:3, and 1 more))"


def test_properties_are_told_in_order() -> None:
    """Their own order differs from process to process, and a story must not."""
    batch = queue.EnqueueBatch(queue="q")
    properties = batch.messages.properties.add().entries
    for name in "fdbace":
        properties[name].text = "x"
    text = line_of(message(queue.ProduceRequest(batch=batch)), PRODUCE, is_request=True)
    assert "entries(a, b, c, and 3 more)" in text


@pytest.mark.parametrize(
    ("packet", "path", "text"),
    [
        (Packet("open", 1, path=DATA), DATA, ""),
        (Packet("half_close", 1), DATA, ""),
        (Packet("cancel", 1), DATA, "Data cancelled"),
        (Packet("cancel", 1), "/tandemq.v1.QueueService/Enqueue", ""),
        (Packet("end", 1, Ending(grpc.StatusCode.OK, "")), DATA, ""),
        (Packet("end", 1, Ending(grpc.StatusCode.UNAVAILABLE, "gone")), DATA, "Data UNAVAILABLE gone"),
        (Packet("message", 1, b"\xff\xff"), DATA, "Data 2 bytes that nobody can read"),
        (Packet("message", 1, b"abc"), ENQUEUE, "Unknown 3 bytes that nobody can read"),
    ],
)
def test_what_goes_without_saying_is_left_out(packet: Packet, path: str, text: str) -> None:
    assert line_of(packet, path, is_request=True) == text


def test_the_register_is_told_in_order() -> None:
    sets = frozenset({"b", "a"}), frozenset({"a"})
    register = Register(4, 2, "a", *sets, RegisterState.CLAIMED, b"nonce")
    assert register_line(register) == "version 4: CLAIMED epoch 2 of a, in sync a, b (committed a)"


@pytest.mark.slow
def test_a_whole_story_is_told_and_drawn() -> None:
    outcome = traced(REAL)
    assert outcome.violations == []
    text = {(event.who, event.what, event.to): event.text for event in outcome.trace}
    assert {("p0", "sent", "a"), ("a", "arrived", "b"), ("a", "lost", "b")} <= text.keys()
    roles = [event.text for event in outcome.trace if event.what == "role" and event.who == "b"]
    assert any(text.startswith("MASTER") or "REPLICA" in text for text in roles)
    assert any(event.text == "DOWN" for event in outcome.trace if event.who == "a")
    assert any("COMMITTED" in event.text for event in outcome.trace if event.who == "register")
    drawn = picture(outcome)
    assert "DOWN" in drawn
    assert "a&gt;b cut for_ms 1500" in drawn


def test_a_record_whose_body_comes_behind_is_told_and_changes_nothing() -> None:
    """What fails while it tells would end the connection that it tells of."""
    head, _ = build_head(
        flags=0, domain=7, epoch=3, log_index=4, header=b"h", body=b"body", previous_digest=ZERO_DIGEST
    )
    frame = peer.PeerFrame(op=peer.Op(entries=[peer.OpEntry(record=head)]))
    assert line_of(message(frame), DATA, is_request=True) == "Data op entries(record that cannot be read)"
    plan = draw("restart", 41)
    assert traced(plan).trace_hash == run(plan).trace_hash
