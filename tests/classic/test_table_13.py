"""Table 13: options of an instance, the operations between managers, and the handoff."""

from __future__ import annotations

import threading

import pytest

from tandemq.classic import QUEUE_STATE, Message_Handle, Queue_Manager_Model, QueueManager, QueueMessage, RTNval
from tandemq.errors import InvalidRequest, Refused
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import S, masters
from tests.integration.support import new_name
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process


@pytest.mark.requirement("R049")
def test_options_stand_at_each_member_and_take_effect_at_open(members: list[QueueManager]) -> None:
    name = new_name()
    first, second = (manager.CreateReplicatedQueueInstance(name) for manager in members)
    before = first.GetQueueOptions()
    assert before.max_length > 5
    first.SetQueueOptions(admin.QueueConfig(max_length=5, annotation="ours"))
    assert first.GetQueueOptions().max_length == 5
    assert second.GetQueueOptions() == before, "not before QueueOpen"
    first.QueueOpen()
    assert (second.GetQueueOptions().max_length, second.GetQueueOptions().annotation) == (5, "ours")
    first.SetMaxQueueDepth(6)
    assert (first.GetMaxQueueDepth(), second.GetMaxQueueDepth()) == (6, 5), "for the next QueueOpen"


@pytest.mark.requirement("R049")
def test_members_that_differ_do_not_open_together(members: list[QueueManager]) -> None:
    name = new_name()
    first, second = (manager.CreateReplicatedQueueInstance(name) for manager in members)
    first.SetMaxQueueDepth(5)
    first.QueueOpen()
    second.SetMaxQueueDepth(6)
    with pytest.raises(Refused, match=r"CONFIG_MISMATCH.*max_length is 5.*not 6"):
        second.QueueOpen()
    assert members[0].client.get_queue(name).open_members == ["a"]
    second.SetQueueOptions(admin.QueueConfig(max_length=5, address="127.0.0.1:9", remote_clients_allowed=False))
    second.QueueOpen()
    assert second.GetStats().state is QUEUE_STATE.OPEN
    third = members[0].CreateReplicatedQueueInstance(new_name())
    third.SetMaxQueueDepth(0)
    with pytest.raises(InvalidRequest, match="BAD_ATTRIBUTE"):
        third.QueueOpen()


@pytest.mark.requirement("R122", "R123")
def test_enqueue_dequeue_and_reply_go_between_the_managers_in_both_directions(members: list[QueueManager]) -> None:
    """Whatever is begun at one member is completed at the other one, whose caller is called back."""
    name = new_name()
    first, second = (manager.CreateReplicatedQueueInstance(name) for manager in members)
    for queue in (first, second):
        queue.SetQueueModel(Queue_Manager_Model.Two_Way)
        queue.QueueOpen()
    for sender, receiver in ((first, second), (second, first)):
        completed, answered = threading.Event(), []

        def done(
            handle: Message_Handle,
            message: QueueMessage | None,
            told: list[bytes] = answered,
            event: threading.Event = completed,
        ) -> None:
            told.append(message.Data if message is not None else b"")
            event.set()

        sender.MessageCompletedFP = done
        handle = sender.EnqueueMsg(b"request", 0)
        request = receiver.DequeueMsg(10 * S)
        assert request is not None
        receiver.SendReply(request.Handle, b"answer")
        assert completed.wait(OUTER_S)
        assert answered == [b"answer"]
        assert receiver.CheckMessageCompletion(Message_Handle(bytes(handle))) is RTNval.RTNvalTrue


@pytest.mark.requirement("R133", "R136")
def test_master_handoff_request_from_either_side(members: list[QueueManager]) -> None:
    name = new_name()
    queues = {manager: manager.CreateReplicatedQueueInstance(name) for manager in members}
    for queue in queues.values():
        queue.QueueOpen()
    for who in (1, 0):  # the replica asks; then the master offers
        pair_before = masters(members)
        assert queues[pair_before[who]].MasterHandoffRequest() is True
        assert masters(members) == pair_before[::-1]
        queues[members[0]].EnqueueMsg(b"x")
        message = queues[members[1]].DequeueMsg(10 * S)
        assert message is not None
