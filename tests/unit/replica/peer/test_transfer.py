"""A full transfer is complete, or it is no transfer: whichever of its frames comes twice, in another place, or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from failover.marks import DataMark
from tandemq.peer.v1.peer_service_pb2 import TransferFrame
from tests.support.clients import Producer, create
from tests.support.pair import Pair

Frames = list[TransferFrame]


def transfer_under_way() -> Pair:
    """Every frame of the transfer is sent, none of them has arrived."""
    pair = Pair().start()
    for queue in ("q", "r"):
        create(pair, queue)
        Producer(pair, queue, queue).send(pair.a)
    pair.settle(100)
    pair.disconnect()
    pair.connect(distrust=True)
    for _ in range(1000):
        for member in pair.up:
            member.pump()
            pair.deliver(member)
            member.commit()
        for call in list(pair.calls):
            pair.answer(call)
    kinds = [frame.WhichOneof("frame") for frame in pair.transfer_wires["a"]]
    assert kinds == ["queue_begin", "segments", "queue_end"] * 2 + ["state", "end"]
    return pair


def arrive(pair: Pair, frames: Frames) -> None:
    for frame in frames:
        if pair.b.in_session:
            pair.b.take_transfer(TransferFrame.FromString(frame.SerializeToString()))
    pair.b.commit()


def first_queue_twice(frames: Frames) -> Frames:
    return frames[:3] + frames[:3] + frames[6:]


def queues_with_each_others_records(frames: Frames) -> Frames:
    return [frames[0], frames[4], frames[2], frames[3], frames[1], *frames[5:]]


def a_queue_under_the_others_number(frames: Frames) -> Frames:
    renamed = [TransferFrame.FromString(frame.SerializeToString()) for frame in frames[:3]]
    renamed[0].queue_begin.queue_id = renamed[2].queue_end.queue_id = frames[3].queue_begin.queue_id
    return frames[:3] + renamed + frames[6:]


def records_before_their_queue(frames: Frames) -> Frames:
    return [frames[1], frames[0], *frames[2:]]


def a_queue_that_does_not_end(frames: Frames) -> Frames:
    return frames[:5] + frames[6:]


def a_queue_less(frames: Frames) -> Frames:
    return frames[3:]


def no_state(frames: Frames) -> Frames:
    return [frame for frame in frames if frame.WhichOneof("frame") != "state"]


WRONG = (
    *(first_queue_twice, queues_with_each_others_records, a_queue_under_the_others_number, records_before_their_queue),
    *(a_queue_that_does_not_end, a_queue_less, no_state),
)


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_a_wrong_transfer_is_refused(change: Callable[[Frames], Frames]) -> None:
    pair = transfer_under_way()
    frames = change(list(pair.transfer_wires["a"]))
    pair.transfer_wires["a"].clear()
    arrive(pair, frames)
    assert pair.corrupt
    assert pair.b.shared.state.data is DataMark.SYNCING
    pair.heal()
    pair.settle(1000)
    pair.checks.equal()


def test_as_it_was_sent_it_is_taken() -> None:
    pair = transfer_under_way()
    pair.settle(1000)
    assert not pair.corrupt
    pair.checks.equal()
