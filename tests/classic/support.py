"""Queues for the tests of the tables."""

from __future__ import annotations

from tandemq.classic import QUEUE_STATE, MessageQueue, Queue_Manager_Model, QueueManager
from tandemq.v1 import common_pb2 as common
from tests.integration.support import new_name
from tests.support.until import until_sync

MS = 1_000_000
"""Nanoseconds."""
S = 1_000 * MS


def named(manager: QueueManager, model: Queue_Manager_Model | None = None, depth: int = 0) -> MessageQueue:
    """A queue in CONFIGURING."""
    queue = manager.CreateQInstance()
    if model is not None:
        queue.SetQueueModel(model)
    if depth:
        queue.SetMaxQueueDepth(depth)
    queue.SetQueueAddress(new_name())
    return queue


def opened(manager: QueueManager, model: Queue_Manager_Model | None = None, depth: int = 0) -> MessageQueue:
    """A queue that takes messages."""
    queue = named(manager, model, depth)
    queue.QueueConfigure()
    queue.QueueOpen()
    return queue


def masters(members: list[QueueManager]) -> list[QueueManager]:
    """The master of domain main, then the other one."""
    found = []
    for manager in members:
        answer = manager.client.pair_status()[0]
        assert answer.status is not None, answer.error
        roles = {domain.name: domain.role for domain in answer.status.member.domains}
        found.append(roles["main"] == common.ROLE_MASTER)
    assert sorted(found) == [False, True]
    return members if found[0] else members[::-1]


def reaches(queue: MessageQueue, state: QUEUE_STATE) -> None:
    """Asks until it is so: a manager looks for room four times a second."""
    until_sync(lambda: queue.GetStats().state is state, f"it is {state.name}")
