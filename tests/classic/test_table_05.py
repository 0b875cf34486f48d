"""Table 5: the default options, as profile classic gives them."""

from __future__ import annotations

import pytest

from tandemq.classic import (
    Queue_Manager_Consumer_Options,
    Queue_Manager_Model,
    Queue_Manager_Producer_Options,
    QueueManager,
)
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import named


@pytest.mark.requirement("R020", "R046")
def test_the_defaults_are_those_of_the_table(manager: QueueManager, tmp_path_factory: pytest.TempPathFactory) -> None:
    fresh = QueueManager(Inside=tmp_path_factory.mktemp("fresh"))
    assert fresh.GetServerRequired() is True
    assert manager.GetQueueModel() is Queue_Manager_Model.One_Way
    assert manager.GetRemoteClientsAllowed() is True
    assert manager.GetMaxQueueDepth() == 1000
    assert manager.GetConsumerOptions() is Queue_Manager_Consumer_Options.Prioritized
    assert manager.GetProducerOptions() is Queue_Manager_Producer_Options.First_Available


@pytest.mark.requirement("R020", "R046", "R047")
def test_a_queue_that_says_nothing_has_them(manager: QueueManager) -> None:
    queue = named(manager)
    assert queue.GetQueueModel() is Queue_Manager_Model.One_Way
    assert queue.GetRemoteClientsAllowed() is True
    assert queue.GetMaxQueueDepth() == 1000


@pytest.mark.requirement("R020", "R046")
def test_they_are_the_manager_s_and_can_be_changed_there(manager: QueueManager) -> None:
    told = manager.client.get_defaults("local")
    assert told.profile == "classic"
    assert told.config.queue_type == admin.QUEUE_TYPE_ONE_WAY
    assert (told.config.max_length, told.config.remote_clients_allowed) == (1000, True)
    safer = admin.QueueConfig(queue_type=admin.QUEUE_TYPE_ONE_WAY_QUEUED_ACK, max_length=9)
    manager.client.update_defaults(safer, ["queue_type", "max_length"], domain="local")
    try:
        assert manager.GetQueueModel() is Queue_Manager_Model.One_Way_Queued_Acknowledged
        assert named(manager).GetMaxQueueDepth() == 9
    finally:
        manager.client.update_defaults(admin.QueueConfig(), ["queue_type", "max_length"], domain="local")
    assert manager.GetQueueModel() is Queue_Manager_Model.One_Way
