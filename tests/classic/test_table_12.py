"""Table 12: administration of a replicated queue, at each member."""

from __future__ import annotations

import pytest

from chaos.cluster import Cluster
from tandemq.classic import QUEUE_STATE, Queue_Manager_Model, QueueManager, QueueMessage
from tandemq.errors import AlreadyExists, NotFound, Refused
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import S, masters, named
from tests.integration.support import new_name

pytestmark = pytest.mark.process


def data_of(message: QueueMessage | None) -> bytes:
    assert message is not None
    return message.Data


@pytest.mark.requirement("R044", "R099", "R112", "R124")
def test_both_members_create_and_open_their_instances(members: list[QueueManager], pair: Cluster) -> None:
    name = new_name()
    first, second = members
    queue = first.CreateReplicatedQueueInstance(name)
    twin = second.CreateReplicatedQueueInstance(name, Peer_Address=pair.endpoints[0])
    assert queue.GetQueueReplication() is True
    for each in (queue, twin):
        assert each.GetStats().state is QUEUE_STATE.CONFIGURING
        with pytest.raises(Refused, match="INVALID_STATE"):
            each.EnqueueMsg(b"too early", 0)
        each.QueueOpen()
    assert (queue.GetStats().state, twin.GetStats().state) == (QUEUE_STATE.OPEN, QUEUE_STATE.OPEN)
    queue.EnqueueMsg(b"1")
    twin.EnqueueMsg(b"2")
    assert [data_of(each.DequeueMsg(10 * S)) for each in (twin, queue)] == [b"1", b"2"]
    with pytest.raises(Refused, match="INVALID_STATE"):
        queue.QueueOpen()


@pytest.mark.requirement("R099")
def test_the_peer_s_address_must_be_the_pair_s(members: list[QueueManager]) -> None:
    with pytest.raises(Refused, match=r"CONFIG_ERROR.*the peer of this manager is"):
        members[0].CreateReplicatedQueueInstance(new_name(), Peer_Address="127.0.0.1:1")


def test_a_name_that_an_unreplicated_queue_has_is_taken(members: list[QueueManager]) -> None:
    local = named(members[0])
    assert local.GetQueueReplication() is False
    with pytest.raises(AlreadyExists, match="QUEUE_EXISTS"):
        members[0].CreateReplicatedQueueInstance(local.Name)


@pytest.mark.requirement("R109")
def test_queue_open_with_master_required(members: list[QueueManager]) -> None:
    name = new_name()
    master, replica = masters(members)
    with pytest.raises(AlreadyExists, match="E_MASTER_EXISTS"):
        replica.CreateReplicatedQueueInstance(name).QueueOpen(MasterRequired=True)
    queue = master.CreateReplicatedQueueInstance(name)
    queue.QueueOpen(MasterRequired=True)
    assert queue.QueueStats().state is QUEUE_STATE.OPEN


@pytest.mark.requirement("R125")
def test_the_last_close_drops_what_is_volatile(members: list[QueueManager]) -> None:
    name = new_name()
    queues = [manager.CreateReplicatedQueueInstance(name) for manager in members]
    for queue in queues:
        queue.SetQueueOptions(admin.QueueConfig(persistence=admin.PERSISTENCE_VOLATILE))
        queue.QueueOpen()
    queues[0].EnqueueMsg(b"x")
    queues[0].QueueClose()
    assert [queue.QueueStats().state for queue in queues] == [QUEUE_STATE.CLOSED, QUEUE_STATE.OPEN]
    assert queues[1].QueueStats().Current_Messages_Queued == 1
    with pytest.raises(Refused, match="INVALID_STATE"):
        queues[0].QueueClose()
    queues[1].QueueClose()
    queues[0].QueueOpen()
    assert queues[0].QueueStats().Current_Messages_Queued == 0


@pytest.mark.requirement("R126")
def test_queue_stats_tell_of_replication(members: list[QueueManager]) -> None:
    name = new_name()
    queues = [manager.CreateReplicatedQueueInstance(name) for manager in masters(members)]
    for queue in queues:
        queue.SetQueueModel(Queue_Manager_Model.One_Way_Queued_Acknowledged)
        queue.SetMaxQueueDepth(50)
        queue.QueueOpen()
    for _ in range(3):
        queues[0].EnqueueMsg(b"x")
    data_of(queues[1].DequeueMsg(10 * S))
    told = [queue.QueueStats() for queue in queues]
    assert [stats.Master_Status for stats in told] == [True, False]
    assert {stats.Replication_State for stats in told} == {"IN_SYNC"}
    for stats in told:
        assert stats.state is QUEUE_STATE.OPEN
        assert (stats.Total_Messages_Queued, stats.Current_Messages_Queued) == (3, 2)
        assert (stats.Highest_Queue_Depth, stats.Configured_Queue_Depth) == (3, 50)
        assert (stats.Number_Of_Consumer_Clients, stats.Number_Of_Producer_Clients) == (0, 0)


@pytest.mark.requirement("R045")
def test_destroy_takes_one_instance_then_the_queue(members: list[QueueManager]) -> None:
    name = new_name()
    queues = [manager.CreateReplicatedQueueInstance(name) for manager in members]
    for queue in queues:
        queue.QueueOpen()
    assert members[0].DestroyReplicatedQueueInstance(queues[0]) is False
    queues[1].EnqueueMsg(b"x")
    assert members[1].DestroyReplicatedQueueInstance(queues[1]) is True
    with pytest.raises(NotFound):
        queues[1].GetStats()
    again = members[0].CreateReplicatedQueueInstance(name)
    assert members[0].DestroyReplicatedQueueInstance(again, BothMembers=True) is True


@pytest.mark.requirement("R042")
def test_closing_a_manager_closes_its_own_instances_alone(members: list[QueueManager], pair: Cluster) -> None:
    name = new_name()
    with QueueManager(pair.endpoints[0]) as manager:
        manager.QueueConfigure()
        manager.QueueOpen()
        queue = manager.CreateReplicatedQueueInstance(name)
        queue.QueueOpen()
        twin = members[1].CreateReplicatedQueueInstance(name)
        twin.QueueOpen()
        others = named(members[0])
        others.QueueConfigure()
        others.QueueOpen()
    assert twin.GetStats().state is QUEUE_STATE.OPEN
    assert members[0].client.get_queue(name).open_members == ["b"]
    assert others.GetStats().state is QUEUE_STATE.OPEN
