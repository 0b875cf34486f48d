"""R153 over a pair in one process: once a change of the persistence is answered, both may lose their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import saving
from replica.core.state.calls import PendingCall, PendingEnqueue
from replica.core.state.outcomes import Failed, Moved, QueueDone
from replica.machine import EnqueueCall, Limits, QueueCall, SaveLimits, columns_of
from replica.node.recovery import StoreReader
from storage.records import split
from tandemq.peer.v1.record_pb2 import (
    QUEUE_ACTION_UPDATE,
    RecordHeader,
)
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import (
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_PERSISTENT,
    PERSISTENCE_VOLATILE,
    QueueConfig,
)
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Producer, Reader, Waiter, create, remaining
from tests.support.member import NUMBER
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tandemq.v1.queue_admin_service_pb2 import Persistence
    from tests.support.pair import Member

ID = b"change-the-queue"
ONE_BY_ONE = SaveLimits(records=1, body_bytes=1 << 20)


def begin(count: int = 3, persistence: Persistence = PERSISTENCE_VOLATILE) -> tuple[Pair, Member, list[bytes]]:
    """A pair with volatile messages in v, acknowledged by both."""
    pair = Pair(limits=Limits(dedup_sequences=1000)).start()
    create(pair, "v", persistence=persistence)
    producer = Producer(pair, "z", "v", volatile=True)
    assert pair.master is not None
    for _ in range(count):
        producer.send(pair.master)
    pair.settle()
    assert len(producer.acked) == count
    return pair, pair.master, producer.acked


def change(member: Member, persistence: Persistence = PERSISTENCE_PERSISTENT) -> Waiter:
    waiter = Waiter()
    config = QueueConfig(persistence=persistence)
    member.submit(
        PendingCall(waiter, QueueCall(QUEUE_ACTION_UPDATE, "v", config, ["persistence"], request_id=ID, request_hash=1))
    )
    return waiter


def lose_all(pair: Pair) -> None:
    """Both processes die, and begin anew from their disks."""
    for member in pair.up:
        pair.crash(member)
    for member in pair.members.values():
        member.start()
    pair.heal()
    assert pair.is_paired


def payloads(member: Member) -> list[bytes]:
    return [payload for _, payload in remaining(member, "v")]


def info(member: Member) -> Any:
    return member.shared.machine.queue_info("v", member.name)


def both(pair: Pair) -> list[bytes]:
    """What is in the queue, the same on both."""
    pair.settle(500)
    assert pair.master is not None
    found = payloads(pair.master)
    assert found == payloads(pair.master.peer)
    return found


def bodies_on_disk(member: Member) -> int:
    """Of the live messages' records."""
    reader = StoreReader(member.store, NUMBER)
    return sum(reader.has_body(index) for _, index in member.shared.machine.live_log_indexes())


def saves(member: Member) -> list[int]:
    """Log indexes of the SAVE records of its log."""
    found = []
    for log_index, record in member.store.scan(NUMBER, 1, limit_records=10_000):
        if RecordHeader.FromString(bytes(split(record)[1])).HasField("save"):
            found.append(log_index)
    return found


@pytest.mark.requirement("R153")
def test_r153_what_was_answered_survives_the_loss_of_both_memories() -> None:
    pair, master, sent = begin()
    waiter = change(master)
    pair.quiesce()
    assert isinstance(waiter.done, QueueDone)
    lose_all(pair)
    assert both(pair) == sent
    assert info(pair.master).volatile_lost_total == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("which", ["a", "b"])
def test_it_is_answered_when_both_have_the_bodies_on_disk(which: str) -> None:
    pair, master, _ = begin()
    waiter = change(master)
    other = {"a": "b", "b": "a"}[which]
    pair.quiesce(disks=other)
    assert waiter.done is None, f"{which} has written nothing yet"
    assert bodies_on_disk(pair.members[which]) == 0
    pair.quiesce()
    assert isinstance(waiter.done, QueueDone)
    assert bodies_on_disk(master) == bodies_on_disk(master.peer) == 3


def test_memory_is_free_afterwards_and_consumers_get_the_messages() -> None:
    pair, master, sent = begin()
    change(master)
    pair.settle(200)
    for member in (master, master.peer):
        assert not member.shared.volatile.bodies
        assert not member.shared.volatile.bytes
        assert not member.shared.volatile.saved
    reader = Reader(pair, "v")
    reader.attach(master, 10)
    pair.settle(100)
    assert [payload for _, _, payload in reader.delivered] == sent


def test_what_comes_after_it_is_persistent_and_what_came_before_stays_so() -> None:
    pair, master, sent = begin(2)
    change(master)
    pair.settle(100)
    later = Producer(pair, "y", "v", volatile=True)
    later.send(master)
    pair.settle()
    waiter = Waiter()
    config = QueueConfig(persistence=PERSISTENCE_VOLATILE)
    master.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_UPDATE, "v", config, ["persistence"])))
    pair.settle(100)
    assert isinstance(waiter.done, QueueDone)
    Producer(pair, "x", "v").send(master)  # volatile again: a restart of both takes it
    pair.settle()
    lose_all(pair)
    assert both(pair) == [*sent, *later.acked]
    assert info(master).volatile_lost_total == 1


def test_of_a_conditional_queue_only_what_was_marked_survives() -> None:
    pair, master, _ = begin(0)
    messages = MessageBatch(payloads=[b"marked", b"not", b"marked too"], persistence=[2, 1, 2])
    batch = EnqueueBatch(queue="v", first_sequence=1, messages=messages)
    call = PendingEnqueue(
        Waiter(), EnqueueCall("v", b"m", 1, columns_of(batch), master.name), batch.SerializeToString()
    )
    master.submit(call)
    pair.settle()
    change(master, PERSISTENCE_CONDITIONAL)
    pair.settle(100)
    pair.crash(master)  # one memory is left
    pair.heal()
    assert both(pair) == [b"marked", b"not", b"marked too"]
    lose_all(pair)
    assert both(pair) == [b"marked", b"marked too"]


def many_parts(monkeypatch: pytest.MonkeyPatch, count: int = 5) -> tuple[Pair, Member, list[bytes], Waiter]:
    """One record a part; the first one is under way."""
    monkeypatch.setattr(saving, "PART", ONE_BY_ONE)
    pair, master, sent = begin(count)
    return pair, master, sent, change(master)


@pytest.mark.parametrize("other", ["made before", "made meanwhile", "not there"])
def test_a_change_of_another_queue_waits_for_nothing_that_is_saved(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr(saving, "PART", ONE_BY_ONE)
    pair, master, _ = begin(5)
    if other == "made before":
        create(pair, "w", persistence=PERSISTENCE_VOLATILE)
    waiter = change(master)
    pair.quiesce()
    if other == "made meanwhile":
        create(pair, "w", persistence=PERSISTENCE_VOLATILE)
    assert info(master).saving
    assert waiter.done is None
    second = Waiter()
    config = QueueConfig(persistence=PERSISTENCE_PERSISTENT)
    master.submit(PendingCall(second, QueueCall(QUEUE_ACTION_UPDATE, "w", config, ["persistence"])))
    pair.quiesce()
    assert isinstance(second.done, Failed if other == "not there" else QueueDone)
    assert waiter.done is None


def test_many_parts_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, sent, waiter = many_parts(monkeypatch)
    for done in range(1, 5):
        pair.quiesce()
        assert waiter.done is None
        assert len(saves(master)) == done
        assert info(master).volatile_length == 5 - done
        assert info(master).saving
        pair.tick()
    pair.quiesce()
    assert isinstance(waiter.done, QueueDone)
    assert not info(master).saving
    lose_all(pair)
    assert both(pair) == sent


@pytest.mark.parametrize("parts", range(5))
def test_a_takeover_in_the_middle_goes_on_and_answers_who_asks_again(
    monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    pair, master, sent, waiter = many_parts(monkeypatch)
    for _ in range(parts):
        pair.quiesce()
        pair.tick()
    other = master.peer
    pair.crash(master)
    other.lost(refused=True)
    pair.settle(500)
    assert pair.master is other
    again = change(other)
    pair.settle(1_000)
    assert again.done.duplicate is (parts > 0), "before that its record was lost with the master"
    assert waiter.done is None
    assert info(other).version == 2, "one effect"
    assert not info(other).saving
    pair.crash(other)
    other.start()
    other.lost(refused=True)
    pair.settle(2_000)
    assert payloads(other) == sent, "alone, from its disk"
    pair.heal()
    assert both(pair) == sent


def test_who_repeats_the_call_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, _, waiter = many_parts(monkeypatch)
    pair.quiesce()
    again = change(master)
    pair.quiesce()
    assert waiter.done is None
    assert again.done is None
    pair.settle(500)
    assert (waiter.done.duplicate, again.done.duplicate) == (False, True)


def test_a_change_of_something_else_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, _, waiter = many_parts(monkeypatch)
    pair.quiesce()
    other = Waiter()
    master.submit(PendingCall(other, QueueCall(QUEUE_ACTION_UPDATE, "v", QueueConfig(annotation="x"), ["annotation"])))
    pair.quiesce()
    assert isinstance(other.done, QueueDone)
    assert waiter.done is None


def test_without_a_mask_the_attributes_that_are_set_count(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, _, _ = many_parts(monkeypatch)
    again = Waiter()
    master.submit(
        PendingCall(again, QueueCall(QUEUE_ACTION_UPDATE, "v", QueueConfig(persistence=PERSISTENCE_PERSISTENT)))
    )
    pair.quiesce()
    assert again.done is None
    pair.settle(1_000)
    assert isinstance(again.done, QueueDone)


def test_more_callers_than_may_wait_are_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "WAITING_MAX", 1)
    pair, master, _, waiter = many_parts(monkeypatch)
    pair.quiesce()
    again = change(master)
    assert isinstance(again.done, Moved), "it is ordered: nothing that says not applied would be true"
    pair.settle(1_000)
    assert isinstance(waiter.done, QueueDone)


def test_who_waits_is_told_when_the_mastership_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, _, waiter = many_parts(monkeypatch)
    pair.quiesce()
    master.core.orders.on_following()
    master.dispatch(master.core)
    assert isinstance(waiter.done, Moved)


def test_a_member_that_dies_in_the_middle_has_all_of_a_record_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the change, each member, with its last batch on disk or not."""
    for victim in ("a", "b"):
        for written in (False, True):
            for steps in range(12):
                pair, _, sent, waiter = many_parts(monkeypatch, 3)
                for _ in range(steps):
                    if not pair.one():
                        pair.tick()
                answered = waiter.done is not None
                pair.crash(pair.members[victim], written=written)
                pair.members[victim].start()
                pair.heal()
                assert both(pair) == sent, (victim, written, steps)
                pair.settle(500)
                if answered:
                    lose_all(pair)
                    assert both(pair) == sent, (victim, written, steps)


# -- a member that is away, or comes back ----------------------------------------------------------------------------


def alone(pair: Pair, master: Member) -> Member:
    """The master goes on alone; the other one, which is down."""
    other = master.peer
    pair.crash(other)
    master.lost(refused=True)
    pair.settle(500)
    assert pair.master is master
    return other


def test_alone_it_is_on_one_disk_and_a_restarted_member_gets_it_in_full() -> None:
    pair, master, sent = begin()
    other = alone(pair, master)
    waiter = change(master)
    pair.settle(200)
    assert isinstance(waiter.done, QueueDone)
    other.start()
    pair.heal()
    assert bodies_on_disk(other) == 3
    lose_all(pair)
    assert both(pair) == sent


def test_a_member_that_was_only_cut_off_takes_the_records_and_writes_its_own_copies() -> None:
    pair, master, sent = begin()
    full: list[bool] = []
    pair.disconnect()
    master.lost()
    pair.settle(500)
    assert pair.master is master
    change(master)
    pair.settle(200)
    pair.listener = lambda what, _member, _thing: full.append(what == "transfer")
    pair.connect()
    pair.heal()
    assert not any(full), "a delta is enough"
    assert bodies_on_disk(master.peer) == 3
    lose_all(pair)
    assert both(pair) == sent


def test_messages_that_came_while_it_was_away_arrive_whole() -> None:
    pair, master, sent = begin()
    other = alone(pair, master)
    producer = Producer(pair, "y", "v", volatile=True)
    for _ in range(3):
        producer.send(master)
    pair.settle()
    change(master)
    pair.settle(200)
    other.start()
    pair.heal()
    lose_all(pair)
    assert both(pair) == [*sent, *producer.acked]


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_change_while_a_member_joins(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """By a full transfer, whose records may be stored by the sender before or after they are read."""
    monkeypatch.setattr(saving, "PART", ONE_BY_ONE)
    pair, master, sent = begin(4)
    other = alone(pair, master)
    other.start()
    pair.connect(distrust=True)
    for _ in range(steps):
        if not pair.one():
            pair.tick()
    waiter = change(master)
    pair.heal()
    pair.settle(500)
    assert isinstance(waiter.done, QueueDone)
    assert both(pair) == sent
    lose_all(pair)
    assert both(pair) == sent
