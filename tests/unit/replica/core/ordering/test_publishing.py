"""Publications over a pair in one process: all rows of a batch enter their queues or none, wherever a member dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest

from replica.core.messages.bodies import read_stored
from replica.core.state.calls import PendingCall, Publish, ReleaseWriter, StageRows
from replica.core.state.effects import Note
from replica.core.state.outcomes import Failed, Moved, PublishDone, StageDone, UnstageDone
from replica.machine import Limits, PublishCall, StageCall, columns_of
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Producer, Waiter, create, remaining
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.pair import Member

STAGES = (b"first stage.....", b"second stage....")
ROWS = [f"row {number}".encode() for number in range(6)]
PARTS = ((0, 1, ROWS[:2]), (0, 2, ROWS[2:3]), (1, 1, ROWS[3:]))
"""Number of the stage, of the part, and its rows."""


def begin() -> Pair:
    """A pair with one message in q, and parts that enter one a turn."""
    pair = Pair(limits=Limits(dedup_sequences=1000)).start()
    create(pair)
    producer = Producer(pair, "z")
    assert pair.master is not None
    producer.send(pair.master)
    pair.settle()
    for member in pair.up:
        member.core.orders.publishing.turn_parts = 1
    return pair


def submit(member: Member, action: StageRows | Publish | ReleaseWriter) -> Waiter:
    waiter = Waiter()
    member.submit(PendingCall(waiter, action))
    return waiter


def stage(member: Member, number: int = 0, part: int = 1, rows: list[bytes] = ROWS) -> Waiter:
    batch = EnqueueBatch(queue="q", messages=MessageBatch(payloads=rows))
    body, columns = batch.SerializeToString(), columns_of(batch)
    digest = google_crc32c.value(body)
    call = StageCall(STAGES[number], part, "q", columns, 0, digest, member.name)
    return submit(member, StageRows(call, body))


def publish(member: Member, batch: int = 7, *stages: bytes, writer: str = "w", min_copies: int = 0) -> Waiter:
    call = PublishCall(writer, "query", batch, stages or STAGES, member.name)
    return submit(member, Publish(call, min_copies))


def stage_all(pair: Pair) -> None:
    assert pair.master is not None
    told = [stage(pair.master, *part) for part in PARTS]
    pair.settle()
    assert [type(waiter.done) for waiter in told] == [StageDone] * 3
    assert told[-1].done == StageDone(3, 15, told[-1].done.expires_at_ms, duplicate=False)


def rows_of(member: Member) -> list[bytes]:
    """What consumers may see, without the message that was there before."""
    found = [payload for _, payload in remaining(member, "q")]
    return found[1:]


def publish_to_the_end(pair: Pair) -> PublishDone:
    """As a writer does: until it is answered, by whoever is master."""
    for _ in range(20):
        pair.settle(500)
        assert pair.master is not None
        waiter = publish(pair.master)
        pair.settle(500)
        if isinstance(waiter.done, PublishDone):
            return waiter.done
        assert waiter.done is None or isinstance(waiter.done, Moved), waiter.done
    raise AssertionError("no master has answered")


def check_whole(pair: Pair) -> None:
    pair.settle(500)
    assert pair.master is not None
    for member in (pair.master, pair.master.peer):
        assert rows_of(member) == ROWS
        stages = member.shared.machine.state.stages
        assert (stages.by_id, stages.rows, stages.payload_bytes) == ({}, 0, 0)
        assert stages.publication() is None
    assert pair.a.shared.machine.digest() == pair.b.shared.machine.digest()


def test_a_batch_enters_whole_and_is_answered_when_both_have_it() -> None:
    pair = begin()
    stage_all(pair)
    assert pair.master is not None
    waiter = publish(pair.master)
    pair.quiesce(disks="a")
    assert waiter.done is None, "b has written nothing yet"
    pair.settle(500)
    assert waiter.done == PublishDone((("q", 2, 7, 6),), duplicate=False)
    check_whole(pair)
    again = publish(pair.master)
    pair.settle()
    assert again.done == PublishDone((("q", 2, 7, 6),), duplicate=True)
    older = publish(pair.master, 6)
    pair.settle()
    assert older.done == PublishDone((), duplicate=True)


def test_all_of_it_is_seen_at_once() -> None:
    pair = begin()
    stage_all(pair)
    assert pair.master is not None
    publish(pair.master)
    seen = {len(rows_of(pair.master))}
    for _ in range(400):
        pair.one() or pair.tick()
        seen |= {len(rows_of(member)) for member in pair.up}
    assert seen == {0, 6}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("returns", [False, True], ids=["taken over", "restarted"])
def test_the_master_dies_at_every_point(returns: bool, written: bool) -> None:
    """Decided and answered, or neither: what a crash leaves is finished, or was never begun."""
    ends = set()
    for steps in range(60):
        pair = begin()
        stage_all(pair)
        master = pair.master
        assert master is not None
        waiter = publish(master)
        for _ in range(steps):
            pair.one() or pair.tick()
        was_answered = isinstance(waiter.done, PublishDone)
        pair.crash(master, written=written)
        if returns:
            master.start()
            pair.heal()
        else:
            master.peer.lost(refused=True)
            pair.settle(5_000)
            assert pair.master is master.peer
            if was_answered:
                assert rows_of(pair.master) == ROWS, "what was answered is there at once"
            master.start()
            pair.heal()
        for member in pair.up:
            member.core.orders.publishing.turn_parts = 1
        done = publish_to_the_end(pair)
        check_whole(pair)
        ends.add((was_answered, done.duplicate))
    assert ends >= {(False, False), (False, True), (True, True)} or written


def test_a_full_transfer_in_the_middle_carries_stages_and_what_is_left() -> None:
    for steps in range(0, 60, 3):
        pair = begin()
        stage_all(pair)
        master = pair.master
        assert master is not None
        publish(master)
        for _ in range(steps):
            pair.one() or pair.tick()
        pair.disconnect()
        pair.connect(distrust=True)
        pair.heal()
        publish_to_the_end(pair)
        check_whole(pair)


def test_a_handoff_in_the_middle_lets_the_other_member_go_on() -> None:
    for steps in range(0, 60, 3):
        pair = begin()
        stage_all(pair)
        master = pair.master
        assert master is not None
        publish(master)
        for _ in range(steps):
            pair.one() or pair.tick()
        master.hand_over()
        pair.settle(3_000)
        assert pair.master is master.peer
        publish_to_the_end(pair)
        check_whole(pair)


def test_a_stage_survives_both_and_is_kept_by_a_transfer() -> None:
    pair = begin()
    stage_all(pair)
    for member in pair.up:
        pair.crash(member)
    for member in pair.members.values():
        member.start()
    pair.heal()
    pair.disconnect()
    pair.connect(distrust=True)
    pair.heal()
    publish_to_the_end(pair)
    check_whole(pair)


def test_rows_that_cannot_be_read_hold_the_batch_back_until_another_copy_serves() -> None:
    pair = begin()
    stage_all(pair)
    master = pair.master
    assert master is not None
    damaged = next(index for _, index in master.shared.machine.live_log_indexes() if index > 3)

    def reading(log_index: int) -> Any:
        if log_index == damaged:
            raise CorruptRecord("planted")
        return read_stored(master.store, master.shared, log_index)

    master.core.orders.publishing.read = reading
    waiter = publish(master)
    pair.settle(1_000)
    assert (waiter.done, rows_of(master)) == (None, [])
    assert "hand the mastership over" in master.core.orders.publishing.held_back
    master.hand_over()
    pair.settle(5_000)
    assert pair.master is master.peer
    assert isinstance(waiter.done, Moved)
    assert publish_to_the_end(pair).duplicate
    assert rows_of(pair.master) == ROWS


def test_a_stage_whose_time_is_over_is_told_of() -> None:
    pair = begin()
    stage_all(pair)
    pair.now_ms += 3_600_000
    assert pair.master is not None
    told: list[str] = []

    def listen(_what: str, _member: Member, thing: Any) -> None:
        if isinstance(thing, Note):
            told.append(thing.text)

    pair.listener = listen
    pair.settle(100)
    assert pair.master.shared.machine.state.stages.totals.expired == 2
    assert told == ["2 stages with 6 rows are dropped: their time is over, and nobody published them"]


def test_too_few_copies_and_too_little_room_are_refused_with_nothing_done() -> None:
    pair = begin()
    stage_all(pair)
    master = pair.master
    assert master is not None
    refused = publish(master, min_copies=3)
    pair.settle()
    assert isinstance(refused.done, Failed)
    assert refused.done.reason == Reason.REASON_NOT_ENOUGH_COPIES
    master.core.orders.room_bytes = 10
    for waiter in (publish(master), stage(master, 0, 3)):
        pair.settle()
        assert isinstance(waiter.done, Failed)
        assert waiter.done.reason == Reason.REASON_STORAGE_FULL
        master.core.orders.is_full = False
    assert rows_of(master) == []


def test_who_waits_while_his_writer_is_released_asks_again() -> None:
    pair = begin()
    stage_all(pair)
    master = pair.master
    assert master is not None
    waiter = publish(master)
    released = submit(master, ReleaseWriter("w"))
    pair.settle(1_000)
    assert released.done == UnstageDone(1)
    assert isinstance(waiter.done, Moved)
    assert rows_of(master) == ROWS
