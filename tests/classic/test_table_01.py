"""Table 1: what configures a message queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.classic import (
    QUEUE_STATE,
    MessageQueue,
    NotSupported,
    Queue_Manager_Consumer_Options,
    Queue_Manager_Model,
    Queue_Manager_Producer_Options,
    Queue_Manager_Queue_Relationship,
    QueueManager,
)
from tandemq.errors import InvalidRequest, Refused, ResourceExhausted
from tests.classic.support import named, opened


@pytest.mark.requirement("R029")
@pytest.mark.parametrize("model", Queue_Manager_Model)
def test_set_queue_model_before_configure(manager: QueueManager, model: Queue_Manager_Model) -> None:
    early = manager.CreateQInstance()
    early.SetQueueModel(model)  # before it has a name
    assert early.GetQueueModel() is model
    queue = named(manager)
    queue.SetQueueModel(model)
    queue.QueueConfigure()
    assert queue.GetQueueModel() is model


@pytest.mark.requirement("R029", "R040")
def test_set_queue_model_after_configure_is_refused(manager: QueueManager) -> None:
    queue = named(manager)
    queue.QueueConfigure()
    with pytest.raises(InvalidRequest, match="READ_ONLY"):
        queue.SetQueueModel(Queue_Manager_Model.Two_Way)
    assert queue.GetQueueModel() is Queue_Manager_Model.One_Way
    assert queue.GetStats().state is QUEUE_STATE.CONFIGURED


@pytest.mark.requirement("R032")
def test_set_max_queue_depth(manager: QueueManager) -> None:
    queue = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged, depth=2)
    for _ in range(2):
        queue.EnqueueMsg(b"x", 0)
    with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
        queue.EnqueueMsg(b"x", 0)
    queue.SetMaxQueueDepth(3)  # at any time
    queue.EnqueueMsg(b"x", 0)
    assert queue.GetStats().Current_Messages_Queued == 3


@pytest.mark.parametrize("depth", [0, -1, -(1 << 70), 1 << 64])
def test_a_depth_that_cannot_be_is_refused(manager: QueueManager, depth: int) -> None:
    queue = named(manager)
    with pytest.raises(InvalidRequest, match="BAD_ATTRIBUTE"):
        queue.SetMaxQueueDepth(depth)
    assert queue.GetMaxQueueDepth() == 1000


@pytest.mark.requirement("R033")
def test_set_remote_clients_allowed(manager: QueueManager) -> None:
    queue = opened(manager)
    queue.SetRemoteClientsAllowed(False)
    assert not queue.GetRemoteClientsAllowed()
    queue.EnqueueMsg(b"from this host")
    queue.SetRemoteClientsAllowed(True)
    assert queue.GetRemoteClientsAllowed()


@pytest.mark.requirement("R033")
def test_set_server_required(manager: QueueManager) -> None:
    assert not manager.GetServerRequired()
    with pytest.raises(Refused, match="INVALID_STATE"):
        manager.SetServerRequired(True)  # it runs
    with pytest.raises(Refused, match="CONFIG_ERROR"):
        named(manager).SetServerRequired(True)
    elsewhere = QueueManager("127.0.0.1:1")
    elsewhere.SetServerRequired(True)
    with pytest.raises(Refused, match="CONFIG_ERROR"):
        elsewhere.SetServerRequired(False)


@pytest.mark.requirement("R047")
def test_what_is_set_on_the_manager_is_for_queues_made_from_then_on(tmp_path: Path) -> None:
    with QueueManager(Inside=tmp_path) as manager:
        manager.SetServerRequired(False)
        manager.QueueConfigure()
        manager.QueueOpen()
        before = named(manager)
        manager.SetMaxQueueDepth(7)
        after = named(manager)
        own = named(manager, depth=8)
        assert [queue.GetMaxQueueDepth() for queue in (before, after, own)] == [1000, 7, 8]
        manager.SetMaxQueueDepth(9)
        assert after.GetMaxQueueDepth() == 7
        assert manager.GetMaxQueueDepth() == 9


@pytest.mark.requirement("R030", "R031")
def test_options_of_macro_queues_are_refused_on_a_plain_queue(manager: QueueManager) -> None:
    found: MessageQueue = named(manager)
    for each, reason in ((found, "CONFIG_ERROR"), (manager, "NOT_SUPPORTED")):
        with pytest.raises(Refused, match=f"{reason}.*SetQueueRelationship"):
            each.SetQueueRelationship(Queue_Manager_Queue_Relationship.Consumer)
        with pytest.raises(Refused, match=f"{reason}.*SetConsumerOptions"):
            each.SetConsumerOptions(Queue_Manager_Consumer_Options.Chronologically)
        with pytest.raises(Refused, match=f"{reason}.*SetProducerOptions"):
            each.SetProducerOptions(Queue_Manager_Producer_Options.Duplicate)
    with pytest.raises(NotSupported) as refused:
        manager.SetProducerOptions(Queue_Manager_Producer_Options.Duplicate)
    assert "create_macro" in refused.value.metadata["instead"]
