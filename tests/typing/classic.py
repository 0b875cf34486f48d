"""The API of the first design as a user's file sees it; checked by mypy and, by hand, by pyright; never run."""

from __future__ import annotations

from typing import assert_type

from tandemq.classic import (
    QUEUE_STATE,
    Actual_Queue_Stats,
    Message_Handle,
    MessageQueue,
    NotSupported,
    Queue_Manager_Model,
    Queue_Manager_Stats,
    Queue_Type,
    QueueManager,
    QueueMessage,
    Replicated_Queue_Stats,
    ReplicatedQueue,
    RTNval,
    timestruc_t,
)
from tandemq.v1 import queue_admin_service_pb2 as admin


class Order(QueueMessage):
    """An application's own message."""

    def __init__(self, number: int) -> None:
        super().__init__(b"%d" % number)


def completed(handle: Message_Handle, message: QueueMessage | None) -> None:
    assert_type(bytes(handle), bytes)
    if message is not None:
        assert_type(message.Data, bytes)
        assert_type(message.Length, int)


def use() -> None:
    manager = QueueManager("127.0.0.1:7600")
    manager.SetServerRequired(True)
    manager.SetRemoteClientsAllowed(True)
    manager.QueueConfigure()
    manager.QueueOpen()
    queue = manager.CreateQInstance(Queue_Type.Actual)
    assert_type(queue, MessageQueue)
    queue.SetQueueModel(Queue_Manager_Model.Two_Way)
    queue.SetQueueModel(4)  # type: ignore[arg-type]  # the words of the design, not their numbers
    queue.SetQueueAddress("orders")
    queue.QueueConfigure()
    queue.QueueOpen()
    queue.MessageCompletedFP = completed
    handle = queue.EnqueueMsg(Order(1), timestruc_t(1, 500))
    assert_type(handle, Message_Handle)
    queue.EnqueueMsg(b"raw", 0)
    queue.EnqueueMsg("text")  # type: ignore[arg-type]
    assert_type(queue.DequeueMsg(), QueueMessage | None)
    assert_type(queue.DequeueMsg(-1), QueueMessage | None)
    assert_type(queue.DequeueMsg(-1, completed), Message_Handle)
    assert_type(queue.DequeueMsg(0, None), Message_Handle)
    assert_type(queue.CheckMessageCompletion(handle, QueueMessage()), RTNval)
    queue.SendReply(handle, b"answer")
    assert_type(queue.GetStats(), Actual_Queue_Stats)
    assert_type(manager.QueueStats(), Queue_Manager_Stats)
    assert_type(manager.QueueStats().state, QUEUE_STATE)
    replicated = manager.CreateReplicatedQueueInstance("pairs", "127.0.0.1:7610")
    assert_type(replicated, ReplicatedQueue)
    replicated.SetQueueOptions(admin.QueueConfig(max_length=5))
    assert_type(replicated.GetQueueOptions(), admin.QueueConfig)
    replicated.QueueOpen(MasterRequired=True)
    assert_type(replicated.QueueStats(), Replicated_Queue_Stats)
    assert_type(replicated.MasterHandoffRequest(), bool)
    assert_type(manager.DestroyReplicatedQueueInstance(replicated, BothMembers=True), bool)
    try:
        manager.CreateMacroQueueInstance()
    except NotSupported as refused:
        assert_type(refused.metadata, dict[str, str])
    manager.DestroyQueueInstance(queue)
    manager.QueueClose()
