"""Readers of the journal over a pair in one process: places, messages that are looked for, both members alike."""

from __future__ import annotations

import pytest

from replica.node import journal
from replica.node.journal import Begins, RowPlace, bounds_of, find, problem_of_history
from replica.node.journal_rows import Wanted
from storage.errors import CorruptRecord
from storage.store import Append, WriteBatch
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.journal_service_pb2 import JOURNAL_KIND_ENQUEUED
from tandemq.v1.queue_admin_service_pb2 import PERSISTENCE_VOLATILE
from tests.support.clients import Producer, create
from tests.support.journalling import rows_at
from tests.support.member import NUMBER
from tests.support.pair import Member, Pair
from tests.support.walk import trim


def busy(count: int = 20) -> tuple[Pair, Member]:
    """Two queues that take turns, and a third that nobody uses."""
    pair = Pair().start()
    for name in ("q", "r", "idle"):
        create(pair, name)
    producers = [Producer(pair, "x"), Producer(pair, "y", "r")]
    assert pair.master is not None
    for at in range(count):
        producers[at % 3 == 0].send(pair.master)
    pair.settle(200)
    return pair, pair.master


def number_of(member: Member, queue: str) -> int:
    number = member.shared.machine.queue_id(queue)
    assert number is not None
    return int(number)


@pytest.mark.parametrize("near", [1, 2, 512])
def test_each_message_is_found_where_the_log_has_it(monkeypatch: pytest.MonkeyPatch, near: int) -> None:
    """By halving the log down to `near` records, and by reading them one after another."""
    monkeypatch.setattr(journal, "NEAR_RECORDS", near)
    _, master = busy()
    for queue in ("q", "r"):
        number, last = number_of(master, queue), master.shared.machine.queue_info(queue, "a").last_index
        assert last > 5
        for index in range(1, last + 1):
            found = find(master.store, NUMBER, number, index, bounds_of(master.shared))
            assert found is not None
            place = RowPlace(found.log_index, found.epoch if found.row else 0, found.row)
            told = rows_at(master, place, Wanted(frozenset((number,))), rows_max=1)
            assert not isinstance(told, str)
            assert [row.first for row in told[0]] == [index]
        for index in (0, last + 1, last + 100):
            assert find(master.store, NUMBER, number, index, bounds_of(master.shared)) is None


def test_where_a_queue_begins_follows_the_trimming() -> None:
    pair, master = busy()
    begins = Begins()

    def first(queue: str) -> int:
        return begins.find(master.store, NUMBER, number_of(master, queue), bounds_of(master.shared))

    assert (first("q"), first("r"), first("idle")) == (1, 1, 0)
    assert (first("q"), first("idle")) == (1, 0)
    trim(master)
    master.commit()
    assert (first("q"), first("r")) != (1, 1)
    producer = Producer(pair, "w", "idle")
    producer.send(master)
    pair.settle(200)
    assert first("idle") == 1


def test_where_a_queue_begins_is_found_anew_in_another_history() -> None:
    """What is kept begins where it did, and holds other records."""
    _, master = busy()
    begins, bounds, number = Begins(), bounds_of(master.shared), number_of(master, "q")
    assert begins.find(master.store, NUMBER, number, bounds) == 1
    shorter = bounds._replace(end=bounds.first, generation=bounds.generation + 1)
    assert begins.find(master.store, NUMBER, number, shorter) == 0
    assert begins.find(master.store, NUMBER, number, bounds._replace(generation=bounds.generation + 2)) == 1


def test_who_has_read_another_history_is_refused_by_name() -> None:
    _, master = busy()
    own = master.shared.machine.history_id
    assert own
    for known in (own, b""):
        assert problem_of_history(master.shared, known) is None
    refused = problem_of_history(master.shared, bytes(16))
    assert refused is not None
    assert (refused.reason, refused.metadata["history_id"]) == (Reason.REASON_PAIR_CHANGED, own.hex())


def test_both_members_give_the_same_rows_and_no_body_that_is_on_no_disk() -> None:
    pair, master = busy()
    create(pair, "v", persistence=PERSISTENCE_VOLATILE)
    producer = Producer(pair, "z", "v", volatile=True)
    producer.send(master)
    pair.settle(200)
    place = RowPlace(master.peer.shared.state.kept_from, 0)
    told, again = rows_at(master, place), rows_at(master.peer, place)
    assert not isinstance(told, str)
    assert told == again
    volatile = number_of(master, "v")
    entered = [row for row in told[0] if row.kind == JOURNAL_KIND_ENQUEUED]
    assert [row.payload for row in entered if row.queue_id == volatile] == [None]
    assert all(row.payload for row in entered if row.queue_id != volatile)


def test_a_damaged_record_is_told_and_not_given() -> None:
    _, master = busy()
    at = master.shared.progress.commit_index - 2
    record = master.store.read(NUMBER, at)
    assert record is not None
    damaged = record[:-1] + bytes((record[-1] ^ 1,))
    master.store.commit(WriteBatch(inserts=[Append(NUMBER, at, damaged)]))
    with pytest.raises(CorruptRecord, match="body of a record"):
        rows_at(master, RowPlace(1, 0))


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (RowPlace(1, 99), 1),  # before the first record there is nothing that could be of another epoch
        (RowPlace(3, 1, 1), 4),
        (RowPlace(3, 2), "EPOCH_DIVERGED"),
        (RowPlace(3, 7, 1), "EPOCH_DIVERGED"),
        (RowPlace(1_000, 1), "OUT_OF_RANGE"),
        (RowPlace(1_000, 0), "OUT_OF_RANGE"),
        (RowPlace(1_000, 2), "STALE_EPOCH"),
    ],
)
def test_places_that_somebody_may_name(place: RowPlace, told: str | int) -> None:
    _, master = busy()
    found = rows_at(master, place)
    assert (found if isinstance(found, str) else found[0][0].log_index) == told


def test_a_replica_that_has_not_heard_yet_gives_nothing_and_keeps_the_place() -> None:
    _, master = busy()
    replica = master.peer
    ahead = RowPlace(replica.shared.progress.commit_index + 3, replica.shared.state.epoch)
    assert rows_at(replica, ahead) == ([], ahead)
