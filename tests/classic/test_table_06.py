"""Table 6, of which the statistics and the address are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq.classic import QUEUE_STATE, Actual_Queue_Stats, Queue_Manager_Model, QueueManager
from tandemq.errors import InvalidRequest, Refused
from tandemq.finding.file_registry import FileRegistry
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import S, named, opened
from tests.integration.support import new_name

QUEUED = Queue_Manager_Model.One_Way_Queued_Acknowledged


@pytest.mark.requirement("R048")
def test_get_stats(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED, depth=10)
    nothing = Actual_Queue_Stats(QUEUE_STATE.OPEN, 0, 0, 0, 0, 10, 0, 0, 0)
    assert queue.GetStats() == nothing
    for _ in range(3):
        queue.EnqueueMsg(b"x")
    assert queue.DequeueMsg(5 * S) is not None
    told = queue.GetStats()
    mean = manager.client.get_queue(queue.Name).mean_process_time.ToNanoseconds()
    assert told.Average_Queue_Process_Time == mean, "what it is made of: test_r048_totals_say_what_happened"
    assert told._replace(Average_Queue_Process_Time=0) == nothing._replace(
        Current_Messages_Queued=2, Total_Messages_Queued=3, Highest_Queue_Depth=3
    )
    assert queue.DequeueMsg(5 * S) is not None
    assert queue.GetStats().Highest_Queue_Depth == 3


@pytest.mark.requirement("R048")
def test_get_stats_counts_who_is_attached(manager: QueueManager) -> None:
    queue = opened(manager, QUEUED)
    client = manager.client
    with client.producer(queue.Name) as producer, client.consumer(queue.Name) as consumer:
        producer.send(b"x")
        assert next(consumer).payload == b"x"
        told = queue.GetStats()
        assert (told.Number_Of_Producer_Clients, told.Number_Of_Consumer_Clients) == (1, 1)
        assert told.Number_Of_Remote_Clients == 0


@pytest.mark.requirement("R011", "R067")
def test_set_queue_address_names_the_queue_and_says_where_it_is(manager: QueueManager) -> None:
    name = new_name()
    queue = manager.CreateQInstance()
    queue.SetQueueAddress(name, "queues.example.org", 7700)
    assert queue.Name == name
    assert queue.GetStats().state is QUEUE_STATE.CONFIGURING
    assert manager.client.get_queue(name).config.address == "queues.example.org:7700"
    assert manager.BindToQueue(name, "queues.example.org", 7700).Name == name
    with pytest.raises(Refused, match="CONFIG_MISMATCH"):
        manager.BindToQueue(name, "queues.example.org", 7701)
    plain = named(manager)
    assert manager.client.get_queue(plain.Name).config.address == "", "where its manager is"
    with pytest.raises(Refused, match="of its manager"):
        manager.BindToQueue(plain.Name, "queues.example.org", 7700)
    with pytest.raises(Refused, match="INVALID_STATE"):
        queue.SetQueueAddress(new_name(), "elsewhere", 1)


@pytest.mark.requirement("R011")
def test_an_address_that_cannot_be_is_refused_and_names_nothing(manager: QueueManager) -> None:
    queue = manager.CreateQInstance()
    for host, port in (("", 7700), ("host", 0), ("host", 70_000), ("a b", 1)):
        with pytest.raises(InvalidRequest, match=r"BAD_ATTRIBUTE.*host:port"):
            queue.SetQueueAddress(new_name(), host, port)
    name = new_name()
    queue.SetQueueAddress(name, "fe80::1", 7700)
    assert manager.client.get_queue(name).config.address == "[fe80::1]:7700"
    change = admin.QueueConfig(address="host:7701")
    assert manager.client.update_queue(name, change, ["address"]).config.address == "host:7701"


@pytest.mark.process
@pytest.mark.requirement("R011", "R012")
def test_an_exported_queue_is_found_at_its_address(members: list[QueueManager], pair: Cluster, tmp_path: Path) -> None:
    registry = FileRegistry(tmp_path / "managers.toml")
    with_one, without = new_name(), named(members[0])
    queue = members[0].CreateQInstance()
    queue.SetQueueAddress(with_one, "127.0.0.1", 7799)
    exported = members[0].client.export_queue(with_one, registry)
    assert exported.endpoints == ("127.0.0.1:7799",)
    assert set(members[0].client.export_queue(without.Name, registry).endpoints) == set(pair.endpoints)
