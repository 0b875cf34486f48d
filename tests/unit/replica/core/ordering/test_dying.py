"""Dead letters on their way, over a pair in one process: whatever stops whom when, each is in one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.messages.copies import HOPS
from replica.core.ordering import dying
from replica.core.state.calls import PendingCall
from replica.machine import Limits, QueueCall, SettleCall
from storage.errors import CorruptRecord
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD, PERSISTENCE_CONDITIONAL, QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_REJECT, Settlement
from tests.support.clients import Producer, Reader, Waiter, create, rows
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.pair import Member


def begin(count: int = 3, *, volatile: bool = False, **config: Any) -> tuple[Pair, Member]:
    """A pair with messages in q, acknowledged by both."""
    pair = Pair(limits=Limits(dedup_sequences=1000)).start()
    create(pair, "q", lease_duration={"seconds": 1}, **config)
    producer = Producer(pair, "z", "q", volatile=volatile)
    assert pair.master is not None
    for _ in range(count):
        producer.send(pair.master)
    pair.settle()
    assert len(producer.acked) == count
    return pair, pair.master


def take(pair: Pair, count: int = 10) -> Reader:
    reader = Reader(pair, "q")
    assert pair.master is not None
    reader.attach(pair.master, count)
    pair.quiesce()
    return reader


def reject(pair: Pair, reader: Reader, reason: str = "broken") -> None:
    settlements = [
        Settlement(lease_id=lease_id, ranges=[IndexRange(first=index, count=1)], outcome=OUTCOME_REJECT, reason=reason)
        for lease_id, index, _ in reader.delivered
    ]
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), SettleCall("q", settlements)))


def update(pair: Pair, queue: str, **config: Any) -> None:
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_UPDATE, queue, QueueConfig(**config))))
    pair.settle()


def contents(member: Member, queue: str) -> list[Any]:
    machine = member.shared.machine
    queue_id = machine.queue_id(queue)
    if queue_id is None:
        return []
    slices = machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False)
    return rows(member.store, member.shared, queue, 0, slices)


def payloads(member: Member, queue: str) -> list[bytes]:
    return [row.message.payload for row in contents(member, queue)]


def info(member: Member, queue: str = "q") -> Any:
    return member.shared.machine.queue_info(queue, member.name)


ALL = [b"z/1", b"z/2", b"z/3"]


def test_a_rejected_message_says_where_it_came_from_and_why() -> None:
    pair, master = begin()
    origin = contents(master, "q")
    reject(pair, take(pair))
    pair.settle(200)
    assert payloads(master, "q") == []
    assert payloads(master, "q.dead") == payloads(master.peer, "q.dead") == ALL
    for row, before in zip(contents(master, "q.dead"), origin, strict=True):
        found = row.message.properties
        assert found["tq_origin_queue"].text == "q"
        assert found["tq_origin_id"].data == before.id
        assert found["tq_dead_letter_reason"].text == "REJECTED"
        assert found["tq_reject_reason"].text == "broken"
        assert (found["tq_deliveries"].integer, found["tq_hops"].integer) == (1, 1)
        assert row.delivery_count == 0
    config = info(master, "q.dead").config
    assert (config.max_deliveries, config.dead_letter_queue) == (0, "")
    assert info(master).dead_lettered_total == 3


def test_a_message_that_was_delivered_too_often_says_how_often() -> None:
    pair, master = begin(1, max_deliveries=3)
    for _ in range(3):
        take(pair)
        master.core.consumers.on_following()  # the stream is gone
        pair.settle(1_500)
    assert payloads(master, "q") == []
    (row,) = contents(master, "q.dead")
    found = row.message.properties
    assert (found["tq_dead_letter_reason"].text, found["tq_deliveries"].integer) == ("MAX_DELIVERIES", 3)
    assert "tq_reject_reason" not in found


def dead_everywhere(pair: Pair) -> list[bytes]:
    """At rest, each message is in one of the two queues, on both members."""
    pair.heal()
    pair.settle(3_000)
    master = pair.master
    assert master is not None
    for member in (master, master.peer):
        both = payloads(member, "q") + payloads(member, "q.dead")
        assert sorted(both) == ALL
    assert payloads(master, "q.dead") == payloads(master.peer, "q.dead")
    assert (info(master).dying, info(master.peer).dying) == (0, 0)
    return payloads(master, "q.dead")


@pytest.mark.parametrize("steps", range(0, 40, 3))
@pytest.mark.parametrize("who", ["master", "replica"])
def test_each_is_in_one_queue_whoever_stops_when(steps: int, who: str) -> None:
    pair, master = begin()
    reject(pair, take(pair))
    pair.tick()
    for _ in range(steps):
        if not pair.one():
            pair.tick()
    pair.crash(master if who == "master" else master.peer, written=steps % 2 == 0)
    assert dead_everywhere(pair) in ([], ALL), "a settlement that nobody was told of may be gone with its master"


def test_a_full_dead_letter_queue_holds_them_back_with_one_word() -> None:
    pair, master = begin()
    create(pair, "d", max_length=2)
    update(pair, "q", dead_letter_queue="d")
    reject(pair, take(pair))
    pair.settle(5_000)
    assert payloads(master, "d") == ALL[:2]
    assert (info(master).dying, info(master).length) == (1, 1)
    told = [note for note in master.notes if "dead letters wait" in note]
    assert told == ["queue q: 1 dead letters wait: queue d is full"]
    assert payloads(master, "q") == ALL[2:], "held back, not lost"
    assert master.core.dying.held_back
    update(pair, "d", max_length=3)
    pair.settle(3_000)
    assert payloads(master, "d") == ALL
    assert not master.core.dying.held_back


def test_a_full_dead_letter_queue_that_drops_its_oldest_does_so_for_new_ones() -> None:
    pair, master = begin()
    create(pair, "q.dead", max_length=4, overflow=OVERFLOW_DROP_HEAD)
    older = Producer(pair, "old", "q.dead")
    for _ in range(4):
        older.send(master)
    pair.settle()
    reject(pair, take(pair))
    pair.settle(200)
    assert payloads(master, "q.dead") == payloads(master.peer, "q.dead") == [b"old/4", *ALL]
    assert info(master, "q.dead").dropped_total == info(master).dead_lettered_total == 3
    assert info(master).dying == 0


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"dead_letter_queue": "nowhere"}, "there is no queue 'nowhere'; create it first"),
        ({"dead_letter_queue": "d"}, "sending to queue d is disabled"),
        ({"dead_letter_queue": ""}, "it has no dead-letter queue any more; name one, or remove them"),
    ],
)
def test_what_cannot_go_waits_for_whoever_mends_it(config: dict[str, Any], why: str) -> None:
    pair, master = begin()
    create(pair, "d", enqueue_enabled=False)
    reader = take(pair)
    update(pair, "q", dead_letter_queue="nowhere")
    reject(pair, reader)
    pair.quiesce()
    update(pair, "q", **config)
    pair.settle(3_000)
    assert (info(master).dying, payloads(master, "q")) == (3, ALL)
    assert sum(why in note for note in master.notes) == 1
    create(pair, "e")
    update(pair, "q", dead_letter_queue="e")
    pair.settle(3_000)
    assert (payloads(master, "e"), payloads(master, "q")) == (ALL, [])


def test_those_held_back_are_held_by_the_next_master_too() -> None:
    pair, master = begin(dead_letter_queue="nowhere")
    reject(pair, take(pair))
    pair.settle(2_000)
    pair.crash(master)
    pair.heal()
    pair.settle(2_000)
    assert pair.master is not None
    assert (info(pair.master).dying, payloads(pair.master, "q")) == (3, ALL)
    create(pair, "nowhere")
    pair.settle(3_000)
    assert payloads(pair.master, "nowhere") == ALL


def test_volatile_ones_stay_volatile() -> None:
    pair, master = begin(volatile=True, persistence=PERSISTENCE_CONDITIONAL)
    reject(pair, take(pair))
    pair.settle(300)
    assert payloads(master, "q.dead") == payloads(master.peer, "q.dead") == ALL
    assert master.shared.volatile.bytes > 0
    pair.crash(master)
    pair.heal()
    assert pair.master is not None
    assert payloads(pair.master, "q.dead") == ALL, "the other member held them"
    for member in list(pair.members.values()):
        pair.crash(member)
    pair.heal()
    assert pair.master is not None
    assert payloads(pair.master, "q.dead") == []
    assert info(pair.master, "q.dead").volatile_lost_total == 3


def test_a_message_that_goes_round_stops_at_the_limit() -> None:
    """A circle of configuration is refused; one that comes about by names that are made later is cut here."""
    pair, master = begin(1)
    for at in range(9):
        create(pair, f"d{at}", dead_letter_queue=f"d{at + 1}")
    update(pair, "q", dead_letter_queue="d0")
    for name in ("q", *(f"d{at}" for at in range(8))):
        reader = Reader(pair, name)
        reader.attach(master, 1)
        pair.quiesce()
        ((lease_id, index, _),) = reader.delivered
        ranges = [IndexRange(first=index, count=1)]
        settlement = Settlement(lease_id=lease_id, ranges=ranges, outcome=OUTCOME_REJECT)
        master.submit(PendingCall(Waiter(), SettleCall(name, [settlement])))
        pair.settle(1_200)
    (row,) = contents(master, "d7")
    assert row.message.properties[HOPS].integer == 8
    assert info(master, "d7").dying == 1
    assert sum("LOOP_LIMIT" in note for note in master.notes) == 1


def test_a_storm_is_moved_in_bounded_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dying, "MOVE_MESSAGES_MAX", 2)
    pair, master = begin(7)
    before = master.shared.log.last_index
    reject(pair, take(pair))
    pair.settle(500)
    assert len(payloads(master, "q.dead")) == 7
    headers = [master.shared.log.header_at(at) for at in range(before + 1, master.shared.log.last_index + 1)]
    counts = [header.enqueue.count for header in headers if header.HasField("enqueue")]
    assert counts == [2, 2, 2, 1]


@pytest.mark.parametrize(("missing", "counts"), [(1, [1, 1, 1, 1]), (0, [2, 2])])
def test_a_record_takes_dead_letters_up_to_its_last_byte(
    monkeypatch: pytest.MonkeyPatch, missing: int, counts: list[int]
) -> None:
    pair, master = begin(6)
    reject(pair, take(pair, 2))
    pair.settle(500)
    letters = [row.message.ByteSize() for row in contents(master, "q.dead")]
    assert letters[0] == letters[1]
    monkeypatch.setattr(dying, "MOVE_BYTES_MAX", sum(letters) - missing)
    before = master.shared.log.last_index
    reject(pair, take(pair, 4))
    pair.settle(500)
    assert len(payloads(master, "q.dead")) == 6
    headers = [master.shared.log.header_at(at) for at in range(before + 1, master.shared.log.last_index + 1)]
    assert [header.enqueue.count for header in headers if header.HasField("enqueue")] == counts


def test_a_body_that_cannot_be_read_holds_nothing_else_up() -> None:
    pair, master = begin()
    read = master.core.dying.read
    lost = master.shared.machine.segments_of(
        master.shared.machine.queue_id("q"), [IndexRange(first=2, count=1)], delivered=False
    )[0].log_index
    master.core.dying.read = lambda log_index: None if log_index == lost else read(log_index)
    reject(pair, take(pair))
    pair.settle(5_000)
    assert payloads(master, "q.dead") == [b"z/1", b"z/3"]
    assert info(master).dying == 1
    assert sum("cannot be read" in note for note in master.notes) == 1


def test_a_dead_letter_that_cannot_be_read_is_held_back_and_stops_nobody() -> None:
    pair, master = begin()
    read, damaged = master.core.dying.read, master.shared.log.last_index

    def reading(log_index: int) -> Any:
        if log_index == damaged:
            raise CorruptRecord("planted")
        return read(log_index)

    master.core.dying.read = reading
    reject(pair, take(pair))
    pair.settle(3_000)
    assert payloads(master, "q") == [b"z/3"]
    assert payloads(master, "q.dead") == [b"z/1", b"z/2"]
    assert sum("the bodies of some cannot be read" in note for note in master.notes) == 1
