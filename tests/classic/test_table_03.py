"""Table 3: what tells the options that are selected."""

from __future__ import annotations

import pytest

from tandemq.classic import (
    Queue_Manager_Consumer_Options,
    Queue_Manager_Model,
    Queue_Manager_Producer_Options,
    Queue_Type,
    QueueManager,
)
from tandemq.errors import Refused
from tests.classic.support import named


@pytest.mark.requirement("R029", "R033", "R034")
def test_getters_of_a_manager(manager: QueueManager) -> None:
    assert manager.GetQueueModel() is Queue_Manager_Model.One_Way
    assert manager.GetConsumerOptions() is Queue_Manager_Consumer_Options.Prioritized
    assert manager.GetProducerOptions() is Queue_Manager_Producer_Options.First_Available
    assert manager.GetServerRequired() is False
    assert manager.GetQueueReplication() is False
    assert manager.GetMaxQueueDepth() == 1000
    assert manager.GetRemoteClientsAllowed() is True
    assert manager.GetQueueType() is Queue_Type.Actual


@pytest.mark.requirement("R029", "R033", "R034")
def test_getters_of_a_queue_before_and_after_it_is_made(manager: QueueManager) -> None:
    early = manager.CreateQInstance(Queue_Type.Actual)
    early.SetQueueModel(Queue_Manager_Model.One_Way_Acknowledged)
    early.SetMaxQueueDepth(5)
    early.SetRemoteClientsAllowed(False)
    made = named(manager, Queue_Manager_Model.One_Way_Acknowledged, depth=5)
    made.SetRemoteClientsAllowed(False)
    for queue in (early, made):
        assert queue.GetQueueModel() is Queue_Manager_Model.One_Way_Acknowledged
        assert queue.GetServerRequired() is False
        assert queue.GetQueueReplication() is False
        assert queue.GetMaxQueueDepth() == 5
        assert queue.GetRemoteClientsAllowed() is False
        assert queue.GetQueueType() is Queue_Type.Actual


def test_a_plain_queue_has_no_options_of_macro_queues(manager: QueueManager) -> None:
    queue = named(manager)
    for getter in (queue.GetQueueRelationship, queue.GetConsumerOptions, queue.GetProducerOptions):
        with pytest.raises(Refused, match="CONFIG_ERROR") as refused:
            getter()
        assert refused.value.definite
