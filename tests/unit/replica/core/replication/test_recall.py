"""A member that has lost its memory gets volatile messages back from its peer before it claims, in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from failover.marks import Role
from replica.core.replication import recall
from replica.core.replication.recall import ANSWER_MS
from replica.core.state.calls import PendingEnqueue
from replica.machine import EnqueueCall, columns_of
from tandemq.peer.v1.peer_service_pb2 import PeerFrame, VolatileBodies, VolatileBody
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import PERSISTENCE_CONDITIONAL
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Producer, Reader, Waiter, create, remaining
from tests.support.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pair import Member


def with_volatile(count: int = 3) -> tuple[Pair, Member, Producer]:
    """A pair, its master and the producer of what is acknowledged on both."""
    pair = Pair().start()
    create(pair, "v", persistence=PERSISTENCE_CONDITIONAL)
    producer = Producer(pair, "z", "v", volatile=True)
    master = pair.master
    assert master is not None
    for _ in range(count):
        producer.send(master)
        pair.settle()
    assert [op.done.copies for op in producer.ops if op.done] == [2] * count
    return pair, master, producer


def restart(pair: Pair, member: Member) -> None:
    """Dead and back before anybody could take over."""
    pair.crash(member)
    member.start()
    pair.connect()


def payloads(member: Member) -> list[bytes]:
    return [payload for _, payload in remaining(member, "v")]


def lost(member: Member) -> int:
    return member.shared.machine.queue_info("v", member.name).volatile_lost_total


def test_a_master_that_restarts_at_once_gets_them_back() -> None:
    pair, master, producer = with_volatile()
    restart(pair, master)
    pair.settle(400)
    assert pair.is_paired
    assert pair.master is master, "the register names it"
    assert payloads(master) == payloads(master.peer) == producer.acked
    assert lost(master) == 0


def test_they_are_there_for_the_next_master_too() -> None:
    pair, master, producer = with_volatile()
    for member in (master, master.peer, master):
        restart(pair, member)
        pair.settle(800)
        assert pair.is_paired
    assert pair.master is not None
    assert payloads(pair.master) == payloads(pair.master.peer) == producer.acked


def test_what_is_in_a_batch_with_persistent_ones_comes_back() -> None:
    pair, master, producer = with_volatile(1)
    send_mixed(master, 1)
    pair.settle()
    restart(pair, master)
    pair.settle(400)
    assert payloads(master) == payloads(master.peer) == [*producer.acked, b"stays", b"goes"]
    assert lost(master) == 0


def test_both_restarted_lose_them_and_count() -> None:
    pair, master, _ = with_volatile()
    pair.crash(master.peer)
    master.peer.start()
    restart(pair, master)
    pair.settle(800)
    assert pair.master is not None
    assert payloads(pair.master) == payloads(pair.master.peer) == []
    assert lost(pair.master) == 3


def test_a_peer_that_never_answers_is_not_waited_for() -> None:
    pair, master, _ = with_volatile()
    silence(master.peer, lambda frame: frame.WhichOneof("frame") == "fetch_body")
    restart(pair, master)
    assert not recall.Recall(master.shared).silent
    asks = master.core.mastership.recall
    pair.settle(ANSWER_MS - 200)
    assert pair.master is None
    assert not asks.silent, "its time is not over"
    pair.settle(600)
    assert pair.master is master
    assert lost(master) == 3
    assert asks.silent
    asks.reset()
    assert not asks.silent, "of the next connection nobody has waited in vain"


def test_many_come_in_several_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "ANSWER_BYTES_MAX", 1)
    monkeypatch.setattr(recall, "ASKED_MAX", 2)
    pair, master, producer = with_volatile(7)
    restart(pair, master)
    pair.settle(400)
    assert payloads(master) == producer.acked


def test_a_question_that_its_connection_took_with_it_is_asked_again() -> None:
    pair, master, producer = with_volatile()
    hear = master.peer.take_frame
    silence(master.peer, lambda frame: frame.WhichOneof("frame") == "fetch_body")
    restart(pair, master)
    pair.settle(100)
    assert master.core.mastership.recall.asked
    pair.disconnect()
    master.peer.take_frame = hear  # type: ignore[method-assign]
    pair.connect()
    pair.settle(400)
    assert payloads(master) == producer.acked


def test_an_answer_that_comes_twice_or_unasked_is_not_counted() -> None:
    pair, master, _ = with_volatile(1)
    bodies = dict(master.shared.volatile.bodies)
    restart(pair, master)
    pair.settle(400)
    index, body = next(iter(bodies.items()))
    again = [VolatileBody(index=index, body=body, held=True), VolatileBody(index=1, held=True)]
    for member in (master, master.peer):
        member.core.mastership.recall.asked.add(1)  # as if it had become master or replica meanwhile
        member.take_frame(PeerFrame(domain=7, epoch=1, volatile_bodies=VolatileBodies(bodies=again)))
        assert member.shared.volatile.bodies == bodies
        assert member.shared.volatile.bytes == len(body)


@pytest.mark.parametrize(
    "wrong", [b"", b"x", None], ids=["a body that is not there", "another body", "what nobody asked for"]
)
def test_a_wrong_answer_brings_nothing(wrong: bytes | None) -> None:
    pair, master, _ = with_volatile(1)
    (index,) = master.shared.volatile.bodies
    silence(master.peer, lambda frame: frame.WhichOneof("frame") == "fetch_body")
    restart(pair, master)
    pair.settle(100)
    body = VolatileBody(index=index, body=wrong, held=True) if wrong is not None else VolatileBody(index=1, held=True)
    for _ in range(2):
        master.take_frame(PeerFrame(domain=7, epoch=1, volatile_bodies=VolatileBodies(bodies=[body])))
    pair.settle(ANSWER_MS + 400)
    assert master.shared.volatile.bodies == {}
    assert lost(pair.master or master) == 1


@pytest.mark.parametrize("in_memory", [True, False], ids=["still in memory", "gone, and counted"])
def test_what_was_settled_in_a_record_that_is_cut_is_not_there_without_a_body(*, in_memory: bool) -> None:
    pair, master, producer = with_volatile(3)
    reader = Reader(pair, "v")
    reader.attach(master, 3)
    pair.settle(50)
    pair.cut()
    reader.ack(master)
    assert master.shared.volatile.bodies == {}, "freed when it was ordered"
    pair.disconnect()
    master.peer.lost(refused=False)
    pair.settle(600)
    if not in_memory:
        master.shared.log.ring.clear()
    pair.heal()
    follower = master
    assert follower.role is Role.REPLICA
    pair.crash(follower.peer)
    follower.lost(refused=True)
    pair.settle(600)
    assert pair.master is follower
    assert payloads(follower) == (producer.acked if in_memory else [])
    assert lost(follower) == (0 if in_memory else 3)


@pytest.mark.parametrize("count", [0, 1], ids=["by a delta", "by a full transfer, for one more is lost"])
def test_what_comes_in_place_of_a_record_that_is_cut_is_not_lost_with_it(count: int) -> None:
    """A restart loses what was stored before it; what a cut of that log makes room for came later."""
    pair, master, producer = with_volatile(count)
    follower = master.peer
    pair.cut()
    for sequence in (1, 2, 3, 4):
        send_mixed(master, sequence)
    pair.settle(50)
    pair.crash(master)
    follower.lost(refused=True)
    pair.settle(600)
    assert pair.master is follower
    send_mixed(follower, 1)
    pair.settle(50)
    master.start()
    assert master.shared.volatile.floor >= follower.shared.log.last_index
    master.shared.volatile.missing.add(follower.shared.log.last_index)  # as if what is cut had come without its body
    pair.heal()
    pair.settle(600)
    assert pair.is_paired
    pair.crash(follower)
    master.lost(refused=True)
    pair.settle(600)
    assert pair.master is master
    assert payloads(master) == [*producer.acked, b"stays", b"goes"]
    assert lost(master) == 0


def send_mixed(member: Member, sequence: int) -> None:
    """One batch with a persistent and a volatile message: a record that is on disk with both."""
    messages = MessageBatch(payloads=[b"stays", b"goes"], persistence=[2, 1])
    batch = EnqueueBatch(queue="v", first_sequence=sequence, messages=messages)
    member.submit(
        PendingEnqueue(
            Waiter(), EnqueueCall("v", b"m", sequence, columns_of(batch), member.name), batch.SerializeToString()
        )
    )


def silence(member: Member, unheard: Callable[[PeerFrame], bool]) -> None:
    """Frames of that kind do not reach it."""
    take = member.take_frame
    member.take_frame = lambda frame: None if unheard(frame) else take(frame)  # type: ignore[method-assign]
