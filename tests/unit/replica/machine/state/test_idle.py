"""When a queue has been empty and unused for its time: against a dict, whatever comes up too early or too late."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from replica.machine.state.idle import IdleQueues


def made(queue_id: int, since_ms: int, idle_ms: int, length: int = 0) -> SimpleNamespace:
    return SimpleNamespace(queue_id=queue_id, idle_since_ms=since_ms, idle_ms=idle_ms, length=length)


@pytest.mark.parametrize("seed", range(8))
def test_they_are_due_when_their_time_is_over(seed: int) -> None:
    chance, now_ms, numbers = random.Random(seed), 0, 0
    queues: dict[int, SimpleNamespace] = {}
    idle = IdleQueues(queues)  # type: ignore[arg-type]  # what it reads of a queue
    spared: dict[int, int] = {}  # until when at least
    for _ in range(300):
        now_ms += chance.randrange(4)
        if len(queues) < 8:
            numbers += 1
            queues[numbers] = made(numbers, now_ms, chance.choice((0, 5, 20)))
            idle.touch(queues[numbers])  # type: ignore[arg-type]  # as above
        queue_id = chance.choice(sorted(queues))
        queue = queues[queue_id]
        if chance.random() < 0.2:
            del queues[queue_id]
        elif chance.random() < 0.3:
            queue.length = 1
        else:  # used, or emptied
            queue.length, queue.idle_since_ms, queue.idle_ms = 0, now_ms, chance.choice((0, 5, 5, 20))
            idle.touch(queue)  # type: ignore[arg-type]  # as above
            spared.pop(queue_id, None)
        ends = {
            each.queue_id: max(each.idle_since_ms + each.idle_ms, spared.get(each.queue_id, 0))
            for each in queues.values()
            if each.idle_ms and not each.length
        }
        assert idle.next_ms() == min(ends.values(), default=None)
        assert idle.may_be_due(now_ms) or all(end > now_ms for end in ends.values())
        due = sorted(each for each, end in ends.items() if end <= now_ms)
        found = idle.due(now_ms, 100)
        assert sorted(each.queue_id for each in found) == due
        assert [each.queue_id for each in idle.due(now_ms, 100)] == [each.queue_id for each in found], "until it goes"
        assert len(idle.due(now_ms, 1)) == min(1, len(due))
        for each in found:
            if chance.random() < 0.5:
                idle.spare(each, now_ms)
                spared[each.queue_id] = now_ms + each.idle_ms
            else:
                del queues[each.queue_id]
    assert len(idle) <= 3 * 12


def test_only_queues_with_such_a_time_are_looked_at() -> None:
    queues = {1: made(1, 0, 0)}
    idle = IdleQueues(queues)  # type: ignore[arg-type]  # what it reads of a queue
    idle.touch(queues[1])  # type: ignore[arg-type]  # as above
    assert (idle.used, len(idle), idle.next_ms(), idle.may_be_due(1 << 60)) == (False, 0, None, False)
    queues[1].idle_ms = 7
    idle.touch(queues[1])  # type: ignore[arg-type]  # as above
    assert (idle.used, len(idle), idle.may_be_due(6), idle.may_be_due(7)) == (True, 1, False, True)
