"""Table 4: a queue manager's life, and the queues that it makes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tandemq.classic import (
    QUEUE_STATE,
    Message_Handle,
    MessageQueue,
    NotSupported,
    Queue_Manager_Model,
    Queue_Type,
    QueueManager,
    QueueMessage,
)
from tandemq.errors import AlreadyExists, NotFound, Refused, TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import S, named, opened
from tests.integration.support import new_name
from tests.support.until import OUTER_S


@pytest.mark.requirement("R035", "R093")
def test_create_q_instance_makes_a_queue_of_this_manager(manager: QueueManager) -> None:
    queue = manager.CreateQInstance(Queue_Type.Actual)
    assert isinstance(queue, MessageQueue)
    queue.SetQueueAddress(new_name())
    assert queue.GetStats().state is QUEUE_STATE.CONFIGURING
    assert queue.GetQueueReplication() is False
    assert QueueManager.CreateQueueInstance is QueueManager.CreateQInstance, "the first design spells it both ways"


def test_create_q_instance_of_a_proxy_says_what_to_use_instead(manager: QueueManager) -> None:
    with pytest.raises(NotSupported, match=r"use create_proxy of QueueManager.client, then BindToQueue"):
        manager.CreateQInstance(Queue_Type.Remote_Proxy)


@pytest.mark.requirement("R014", "R037")
def test_destroy_queue_instance_takes_messages_along_and_frees_the_name(manager: QueueManager) -> None:
    queue = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged)
    queue.EnqueueMsg(b"x")
    manager.DestroyQueueInstance(queue)
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        queue.GetStats()
    again = manager.CreateQInstance()
    again.SetQueueAddress(queue.Name)
    assert again.GetStats().Current_Messages_Queued == 0
    manager.DestroyQInstance(again)


def test_macro_queues_are_made_by_the_client(manager: QueueManager) -> None:
    with pytest.raises(NotSupported, match=r"CreateMacroQueueInstance.*create_macro"):
        manager.CreateMacroQueueInstance()
    with pytest.raises(NotSupported, match="DestroyMacroQueueInstance"):
        manager.DestroyMacroQueueInstance(named(manager))


@pytest.mark.requirement("R011")
def test_a_name_is_unique_and_bind_finds_the_queue(manager: QueueManager) -> None:
    queue = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged)
    twin = manager.CreateQInstance()
    with pytest.raises(AlreadyExists, match="QUEUE_EXISTS"):
        twin.SetQueueAddress(queue.Name)
    with pytest.raises(Refused, match="INVALID_STATE"):
        queue.SetQueueAddress(new_name())
    bound = manager.BindToQueue(queue.Name)
    bound.EnqueueMsg(b"by another object")
    message = queue.DequeueMsg(5 * S)
    assert message is not None
    assert message.Data == b"by another object"
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        manager.BindToQueue(new_name())


@pytest.mark.requirement("R040", "R041", "R095")
def test_a_manager_goes_through_its_states_and_makes_queues_only_when_open(tmp_path: Path) -> None:
    manager = QueueManager(Inside=tmp_path)
    manager.SetServerRequired(False)

    def illegal(*moves: str) -> None:
        before = manager.QueueStats().state
        for move in moves:
            with pytest.raises(Refused, match="INVALID_STATE"):
                getattr(manager, move)()
        assert manager.QueueStats().state is before

    assert manager.QueueStats().state is QUEUE_STATE.CONFIGURING
    illegal("QueueOpen", "QueueClose", "CreateQInstance", "GetQueueModel")
    manager.QueueConfigure()
    assert manager.QueueStats().state is QUEUE_STATE.CONFIGURED
    illegal("QueueConfigure", "QueueClose", "CreateQInstance")
    manager.QueueOpen()
    assert manager.QueueStats().state is QUEUE_STATE.OPEN
    illegal("QueueConfigure", "QueueOpen")
    queue = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged)
    manager.QueueClose()
    assert manager.QueueStats().state is QUEUE_STATE.CLOSED
    illegal("QueueConfigure", "QueueClose", "CreateQInstance")
    with pytest.raises(Refused, match="INVALID_STATE"):
        queue.EnqueueMsg(b"x")
    manager.QueueOpen()
    manager.QueueClose()


@pytest.mark.requirement("R094")
def test_a_manager_that_cannot_be_opened_has_failed_and_may_be_opened_again(tmp_path: Path) -> None:
    holder, late = QueueManager(Inside=tmp_path), QueueManager(Inside=tmp_path)
    for each in (holder, late):
        each.SetServerRequired(False)
        each.QueueConfigure()
    holder.QueueOpen()
    with pytest.raises(TandemqError, match="DIRECTORY_IN_USE"):
        late.QueueOpen()
    assert late.QueueStats().state is QUEUE_STATE.FAILED
    holder.QueueClose()
    late.QueueOpen()
    assert late.QueueStats().state is QUEUE_STATE.OPEN
    late.QueueClose()


@pytest.mark.requirement("R042")
def test_closing_a_manager_closes_all_its_queues(tmp_path: Path) -> None:
    told: list[QueueMessage | None] = []
    sent_away = threading.Event()
    with QueueManager(Inside=tmp_path) as manager:
        manager.SetServerRequired(False)
        manager.QueueConfigure()
        manager.QueueOpen()
        names = []
        for persistence in (admin.PERSISTENCE_VOLATILE, admin.PERSISTENCE_PERSISTENT):
            queue = named(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged)
            manager.client.update_queue(queue.Name, admin.QueueConfig(persistence=persistence), ["persistence"])
            queue.QueueConfigure()
            queue.QueueOpen()
            queue.EnqueueMsg(b"x")
            names.append(queue.Name)
        manager.client.create_queue("by.others")
        untouched = named(manager)
        waiting = opened(manager)
        waiting.DequeueMsg(-1, lambda _handle, message: (told.append(message), sent_away.set()))
        manager.QueueClose()
        assert sent_away.wait(OUTER_S)
        assert told == [None]
        manager.QueueOpen()
        volatile, persistent = (manager.BindToQueue(name) for name in names)
        others = manager.BindToQueue("by.others")
        for queue in (volatile, persistent, others, manager.BindToQueue(waiting.Name)):
            assert queue.GetStats().state is QUEUE_STATE.CLOSED
        assert manager.BindToQueue(untouched.Name).GetStats().state is QUEUE_STATE.CONFIGURING
        assert volatile.GetStats().Current_Messages_Queued == 0
        persistent.QueueOpen()
        message = persistent.DequeueMsg(5 * S)
        assert message is not None
        assert message.Data == b"x"


def test_a_routine_may_not_close_the_manager_and_what_it_raises_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with QueueManager(Inside=tmp_path) as manager:
        manager.SetServerRequired(False)
        manager.QueueConfigure()
        manager.QueueOpen()
        queue = opened(manager)
        told = threading.Semaphore(0)

        def routine(_handle: Message_Handle, _message: QueueMessage | None) -> None:
            told.release()
            manager.QueueClose()

        queue.DequeueMsg(0, routine)
        queue.DequeueMsg(0, routine)
        assert all(told.acquire(timeout=OUTER_S) for _ in range(2)), "the next one is called all the same"
        assert manager.QueueStats().state is QUEUE_STATE.OPEN
    assert caplog.text.count("INVALID_STATE: the manager is OPEN: a routine cannot close it") == 2


@pytest.mark.requirement("R043")
def test_queue_stats_of_a_manager(tmp_path: Path) -> None:
    with QueueManager(Inside=tmp_path) as manager:
        manager.SetServerRequired(False)
        manager.QueueConfigure()
        manager.QueueOpen()
        assert manager.QueueStats() == (QUEUE_STATE.OPEN, 0, 0, 0)
        named(manager)
        opened(manager)
        stats = manager.QueueStats()
        assert (stats.NumMessageQueues, stats.NumMacroQueues, stats.NumRemoteClients) == (2, 0, 0)
