"""Table 7: configure, open, close."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tandemq.classic import QUEUE_STATE, MessageQueue, Queue_Manager_Model, QueueManager, QueueMessage
from tandemq.config import Limits, ManagerConfig
from tandemq.errors import Refused, ResourceExhausted
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.classic.support import MS, S, named, opened, reaches
from tests.support.until import OUTER_S


@pytest.mark.requirement("R009", "R040", "R041", "R042", "R092", "R093", "R095")
def test_configure_open_and_close_move_the_state_and_nothing_else_does(manager: QueueManager) -> None:
    queue = named(manager)

    def illegal(*moves: str) -> None:
        before = queue.GetStats().state
        for move in moves:
            with pytest.raises(Refused, match="INVALID_STATE"):
                getattr(queue, move)()
        assert queue.GetStats().state is before

    def closed_to_clients() -> None:
        with pytest.raises(Refused, match="INVALID_STATE"):
            queue.EnqueueMsg(b"x", 0)
        with pytest.raises(Refused, match="INVALID_STATE"):
            queue.DequeueMsg(1 * MS)

    assert queue.GetStats().state is QUEUE_STATE.CONFIGURING
    illegal("QueueOpen", "QueueClose")
    closed_to_clients()
    queue.QueueConfigure()
    assert queue.GetStats().state is QUEUE_STATE.CONFIGURED
    illegal("QueueConfigure", "QueueClose")
    closed_to_clients()
    queue.QueueOpen()
    assert queue.GetStats().state is QUEUE_STATE.OPEN
    illegal("QueueConfigure", "QueueOpen")
    queue.EnqueueMsg(b"x", 0)
    assert queue.DequeueMsg(5 * S) is not None
    queue.QueueClose()
    assert queue.GetStats().state is QUEUE_STATE.CLOSED
    illegal("QueueConfigure", "QueueClose")
    closed_to_clients()
    queue.QueueOpen()
    assert queue.GetStats().state is QUEUE_STATE.OPEN


@pytest.mark.requirement("R009")
def test_nothing_can_be_done_with_a_queue_that_has_no_name(manager: QueueManager) -> None:
    queue = manager.CreateQInstance()
    for call in (queue.QueueConfigure, queue.QueueOpen, queue.QueueClose, queue.GetStats):
        with pytest.raises(Refused, match="SetQueueAddress"):
            call()


@pytest.mark.requirement("R042")
def test_close_sends_who_waits_away_and_keeps_what_is_persistent(manager: QueueManager) -> None:
    queue = named(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged)
    manager.client.update_queue(queue.Name, admin.QueueConfig(persistence=admin.PERSISTENCE_CONDITIONAL), [])
    queue.QueueConfigure()
    queue.QueueOpen()
    told: list[tuple[bool, QueueMessage | None]] = []
    sent_away = threading.Event()
    handle = queue.DequeueMsg(-1, lambda which, message: (told.append((which is handle, message)), sent_away.set()))
    queue.QueueClose()
    assert sent_away.wait(OUTER_S)
    assert told == [(True, None)]
    with pytest.raises(Refused, match="INVALID_STATE"):
        queue.CheckMessageCompletion(handle)
    queue.QueueOpen()
    manager.client.enqueue(queue.Name, [b"volatile"])
    manager.client.send(queue.Name, b"persistent", persistent=True)
    queue.QueueClose()
    queue.QueueOpen()
    kept = queue.DequeueMsg(5 * S)
    assert kept is not None
    assert kept.Data == b"persistent"
    assert queue.GetStats().Current_Messages_Queued == 0


def fill(queue: MessageQueue) -> None:
    for _ in range(100):
        queue.EnqueueMsg(b"x" * (512 << 10), 0)


@pytest.mark.requirement("R094")
def test_a_queue_whose_manager_has_no_room_on_disk_has_failed_until_there_is_some(tmp_path: Path) -> None:
    small = ManagerConfig(
        member="small", data_dir=str(tmp_path), server_required=False, limits=Limits(map_bytes=16 << 20)
    )
    with QueueManager(Inside=small) as manager:
        manager.QueueConfigure()
        manager.QueueOpen()
        full = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged, depth=1)
        full.EnqueueMsg(b"x", 0)
        with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
            full.EnqueueMsg(b"x", 0)
        assert full.GetStats().state is QUEUE_STATE.OPEN, "a full queue has not failed"

        large = opened(manager, Queue_Manager_Model.One_Way_Queued_Acknowledged, depth=1000)
        with pytest.raises(ResourceExhausted, match="STORAGE_FULL"):
            fill(large)
        assert {large.GetStats().state, full.GetStats().state} == {QUEUE_STATE.FAILED}
        assert manager.QueueStats().state is QUEUE_STATE.FAILED
        assert large.DequeueMsg(5 * S) is not None, "receiving goes on"

        manager.DestroyQueueInstance(large)
        reaches(full, QUEUE_STATE.OPEN)
        full.SetMaxQueueDepth(2)
        full.EnqueueMsg(b"x", 0)
