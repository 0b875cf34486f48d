"""Answers over a consumer's stream: frames of their own, repeated until they are confirmed."""

from __future__ import annotations

import pytest

from tandemq.client.settling import REPLIES_UNCONFIRMED_MAX, Act, Settling
from tandemq.errors import AlreadyExists
from tandemq.v1 import common_pb2, message_pb2
from tandemq.v1 import queue_service_pb2 as pb

ACK = pb.OUTCOME_ACK


def frames(settling: Settling) -> list[pb.ConsumeRequest]:
    found = []
    while (data := settling.next_frame()) is not None:
        found.append(pb.ConsumeRequest.FromString(data))
    return found


def answered(settling: Settling, count: int) -> None:
    for index in range(1, count + 1):
        settling.add_reply(7, index, message_pb2.Message(payload=b"%d" % index), watcher=index)


@pytest.mark.requirement("R018")
def test_what_was_settled_before_an_answer_is_said_before_it() -> None:
    settling = Settling()
    settling.add(Act(7, ACK), [(5, 1)])
    answered(settling, 1)
    assert [frame.WhichOneof("frame") for frame in frames(settling)] == ["settle", "reply"]


def test_unconfirmed_answers_are_bounded_and_said_again_on_a_new_stream() -> None:
    settling = Settling()
    answered(settling, REPLIES_UNCONFIRMED_MAX + 1)
    first = frames(settling)
    assert len(first) == REPLIES_UNCONFIRMED_MAX
    settling.on_settled(pb.ConsumeSettled(settle_id=1, results=[pb.SettleResult(settled=1)]))
    assert [frame.reply.index for frame in frames(settling)] == [REPLIES_UNCONFIRMED_MAX + 1]
    settling.opened()
    again = frames(settling)
    assert [frame.reply.index for frame in again] == list(range(2, REPLIES_UNCONFIRMED_MAX + 2))
    assert again[0] == first[1]


def test_whoever_waits_for_an_answer_is_told_why_it_was_refused() -> None:
    settling = Settling()
    answered(settling, 1)
    frames(settling)
    error = common_pb2.Error(reason=common_pb2.REASON_ALREADY_REPLIED)
    told = settling.on_settled(pb.ConsumeSettled(settle_id=1, results=[pb.SettleResult(error=error)])).watchers
    ((watcher, found),) = told
    assert watcher.sink == 1
    assert isinstance(found, AlreadyExists)
    assert settling.messages == 0
