"""Units of work over a pair in one process: their answers beside those of others, and what a restart leaves of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replica.core.state.calls import Consumer, PendingCall, Transact
from replica.core.state.outcomes import LeaseDone, QueueDone, UnitDone
from replica.machine import QueueCall, QueuePut, QueueSettling, UnitCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import (
    GROUP_MODE_ORDERED,
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_PERSISTENT,
    PERSISTENCE_VOLATILE,
    QueueConfig,
)
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE, EnqueueBatch, Outcome, Settlement
from tests.support.clients import Producer, Waiter, create, remaining
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.pair import Member


def dequeue(member: Member, queue: str = "q") -> Waiter:
    """Waits for one message."""
    waiter = Waiter()
    asked = Consumer(
        waiter, queue, b"taker", 60_000, credit_messages=1, credit_bytes=1 << 30, member=member.name, one_shot=True
    )  # fmt: skip
    member.attach(asked)
    return waiter


def transact(member: Member, lease_id: int, outcome: Outcome, *queues: str) -> Waiter:
    """Settles message 1 of q, and sends one message to each of the queues."""
    waiter = Waiter()
    batch = EnqueueBatch(messages=MessageBatch(payloads=[queue.encode() for queue in queues]))
    columns = columns_of(batch)
    settlement = Settlement(lease_id=lease_id, ranges=[IndexRange(first=1, count=1)], outcome=outcome)
    call = UnitCall(
        [QueueSettling("q", [settlement])],
        [QueuePut(queue, columns.part(at, 1)) for at, queue in enumerate(queues)],
        member.name,
        b"a unit's request",
        1,
    )
    member.submit(PendingCall(waiter, Transact(call, batch.SerializeToString(), 0)))
    return waiter


def taken(pair: Pair, master: Member) -> int:
    """The lease of the first message of q."""
    first = dequeue(master)
    pair.settle()
    assert isinstance(first.done, LeaseDone)
    return first.done.lease_id


def test_what_a_unit_releases_goes_to_whoever_waits_and_both_are_answered() -> None:
    pair = Pair().start()
    create(pair)
    create(pair, "r")
    master = pair.master
    assert master is not None
    Producer(pair, "z").send(master)
    pair.settle()
    lease_id = taken(pair, master)
    waiting = dequeue(master)
    pair.settle()
    assert waiting.done is None
    unit = transact(master, lease_id, OUTCOME_RELEASE, "r")
    pair.settle()
    assert isinstance(unit.done, UnitDone)
    assert isinstance(waiting.done, LeaseDone)


def test_the_next_of_a_group_goes_to_whoever_waits_when_a_unit_takes_the_first() -> None:
    pair = Pair().start()
    create(pair, group_mode=GROUP_MODE_ORDERED)
    create(pair, "r")
    master = pair.master
    assert master is not None
    producer = Producer(pair, "z", group="g")
    producer.send(master)
    producer.send(master)
    pair.settle()
    lease_id = taken(pair, master)
    waiting = dequeue(master)
    pair.settle()
    assert waiting.done is None
    unit = transact(master, lease_id, OUTCOME_ACK, "r")
    pair.settle()
    assert isinstance(unit.done, UnitDone)
    assert isinstance(waiting.done, LeaseDone)


def ordered_twice(pair: Pair, member: Member, *queues: str) -> tuple[Waiter, Waiter]:
    """A unit, and its repetition."""
    lease_id = taken(pair, member)
    waiters = []
    for _ in range(2):
        waiters.append(transact(member, lease_id, OUTCOME_ACK, *queues))
        pair.settle()
    return waiters[0], waiters[1]


def test_a_repetition_says_again_that_its_messages_are_in_memory_alone() -> None:
    pair = Pair().start()
    create(pair)
    create(pair, "v", persistence=PERSISTENCE_VOLATILE)
    create(pair, "w", persistence=PERSISTENCE_CONDITIONAL)
    master = pair.master
    assert master is not None
    Producer(pair, "z").send(master)
    pair.settle()
    first, again = ordered_twice(pair, master, "v", "w")
    assert (first.done.duplicate, again.done.duplicate) == (False, True)
    assert (first.done.volatile, again.done.volatile) == (True, True)


def lose_all(pair: Pair) -> None:
    """Both members end, and begin anew from their disks."""
    for member in pair.members.values():
        pair.crash(member, written=True)
    pair.heal()


def save(pair: Pair, queue: str) -> None:
    """Its messages become persistent."""
    waiter, config = Waiter(), QueueConfig(persistence=PERSISTENCE_PERSISTENT)
    assert pair.master is not None
    pair.master.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_UPDATE, queue, config, ["persistence"])))
    pair.settle(500)
    assert isinstance(waiter.done, QueueDone)


def payloads(pair: Pair, queue: str) -> list[bytes]:
    """The same on both."""
    pair.settle(500)
    assert pair.master is not None
    found = [payload for _, payload in remaining(pair.master, queue)]
    assert found == [payload for _, payload in remaining(pair.master.peer, queue)]
    return found


@pytest.mark.parametrize("saved", ["", "v", "w", "vw", "wv"])
@pytest.mark.parametrize("beside", ["", "p"])
def test_of_a_unit_in_memory_what_one_queue_makes_persistent_outlives_both(saved: str, beside: str) -> None:
    """Its queues share one body; `beside`: a queue whose messages are persistent is one of them."""
    pair = Pair().start()
    create(pair)
    for queue in "vw":
        create(pair, queue, persistence=PERSISTENCE_VOLATILE)
    create(pair, "p")
    master = pair.master
    assert master is not None
    Producer(pair, "z").send(master)
    pair.settle()
    unit = transact(master, taken(pair, master), OUTCOME_ACK, "v", "w", *beside)
    pair.settle()
    assert isinstance(unit.done, UnitDone)
    for queue in saved:
        save(pair, queue)
    lose_all(pair)
    for queue in "vwp":
        there = queue in saved or queue == beside
        assert payloads(pair, queue) == ([queue.encode()] if there else [])
    assert pair.master is not None
    assert list(pair.master.shared.machine.state.shared.values()) == [len(saved) + len(beside)] * (
        len(saved) + len(beside) > 0
    )
