"""R153, when something is in the way: no room, a queue that goes, bodies that are lost, marks that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, QueueDone
from replica.machine import QueueCall
from storage.errors import CorruptRecord
from tandemq.peer.v1.record_pb2 import (
    QUEUE_ACTION_CLOSE,
    QUEUE_ACTION_DELETE,
    QUEUE_ACTION_DESTROY,
    QUEUE_ACTION_PURGE,
)
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import (
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_VOLATILE,
)
from tests.support.clients import Producer, Waiter, create
from tests.unit.replica.core.ordering.test_saving import begin, both, change, info, lose_all, many_parts, saves

if TYPE_CHECKING:
    from tandemq.peer.v1.record_pb2 import QueueAction


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_without_room_for_all_of_it_nothing_is_changed() -> None:
    pair, master, _ = begin()
    size = master.shared.volatile.bytes
    master.core.orders.room_bytes = size - 1
    waiter = change(master)
    assert isinstance(waiter.done, Failed)
    assert waiter.done.reason == Reason.REASON_STORAGE_FULL
    assert (info(master).version, info(master).config.persistence) == (1, PERSISTENCE_VOLATILE)
    master.core.orders.room_bytes = size
    waiter = change(master)
    pair.quiesce()
    assert isinstance(waiter.done, QueueDone)


def test_what_is_written_takes_the_room_of_its_bodies_until_the_store_says_anew() -> None:
    pair, master, _ = begin()
    size = master.shared.volatile.bytes
    master.core.orders.room_bytes = 10 * size
    change(master)
    assert len(saves(master)) <= 1
    assert master.core.orders.room_bytes <= 9 * size
    pair.quiesce()


def test_other_queues_messages_do_not_count_against_the_room() -> None:
    pair, master, _ = begin(2)
    size = master.shared.volatile.bytes
    create(pair, "other", persistence=PERSISTENCE_VOLATILE)
    Producer(pair, "o", "other").send(master)
    pair.settle()
    assert master.shared.volatile.bytes > size
    master.core.orders.room_bytes = size
    waiter = change(master)
    pair.quiesce()
    assert isinstance(waiter.done, QueueDone)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (QUEUE_ACTION_CLOSE, Reason.REASON_INVALID_STATE),
        (QUEUE_ACTION_DELETE, Reason.REASON_QUEUE_NOT_FOUND),
    ],
    ids=["closed", "deleted"],
)
def test_who_waits_is_told_that_the_messages_went_with_the_queue(
    monkeypatch: pytest.MonkeyPatch, action: QueueAction, reason: Reason
) -> None:
    pair, master, sent, waiter = many_parts(monkeypatch)
    pair.quiesce()
    gone = Waiter()
    master.submit(PendingCall(gone, QueueCall(action, "v")))
    assert waiter.done is None, "it is not on both yet"
    pair.settle(500)
    assert isinstance(gone.done, QueueDone)
    assert isinstance(waiter.done, Failed), waiter.done
    assert waiter.done.reason == reason
    assert "while its messages were being made persistent" in waiter.done.message
    if action == QUEUE_ACTION_CLOSE:
        assert both(pair) == sent[:1], "what was saved stays"
        assert not info(master).saving


def test_one_instance_that_stays_open_and_a_purge_take_nothing_from_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, master, _, waiter = many_parts(monkeypatch)
    pair.quiesce()
    master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_CLOSE, "v", member="a")))
    master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_DESTROY, "v", member="a")))
    master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_PURGE, "v")))
    pair.settle(500)
    assert isinstance(waiter.done, QueueDone), waiter.done


def test_room_that_ends_in_the_middle_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, sent, waiter = many_parts(monkeypatch)
    pair.quiesce()
    master.core.orders.room_bytes = 0
    pair.settle(300)
    assert waiter.done is None
    assert [note for note in master.notes if "wait to be made persistent" in note], "told"
    assert len(saves(master)) == 1
    master.core.orders.room_bytes = 1 << 40
    pair.settle(1_000)
    assert isinstance(waiter.done, QueueDone)
    lose_all(pair)
    assert both(pair) == sent


def test_a_body_that_is_lost_everywhere_is_declared_lost() -> None:
    pair, master, sent = begin()
    lost = min(master.shared.volatile.bodies)
    ring = master.shared.log.ring
    ring.clear()
    master.shared.volatile.forget([lost])
    waiter = change(master)
    pair.settle(200)
    assert isinstance(waiter.done, QueueDone)
    assert info(master).volatile_lost_total == 1
    lose_all(pair)
    assert both(pair) == sent[1:]


def test_both_restart_in_the_middle_and_what_was_not_saved_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master, sent, _ = many_parts(monkeypatch)
    pair.quiesce()
    lose_all(pair)
    assert both(pair) == sent[:1]
    assert pair.master is not None
    assert info(pair.master).volatile_lost_total == 4
    again = change(pair.master)
    pair.settle(500)
    assert again.done.duplicate
    assert not info(master).saving


def test_a_record_whose_marks_cannot_be_read_is_kept_whole_and_stops_nobody() -> None:
    """Its producer may have marked it, and the other copy may be good."""
    pair, master, sent = begin()
    read, damaged = master.core.orders.saving.read, master.shared.log.last_index

    def reading(log_index: int) -> Any:
        if log_index == damaged:
            raise CorruptRecord("planted")
        return read(log_index)

    master.core.orders.saving.read = reading
    waiter = change(master, PERSISTENCE_CONDITIONAL)
    pair.settle(500)
    assert isinstance(waiter.done, QueueDone)
    master.core.orders.saving.read = read
    lose_all(pair)
    assert both(pair) == sent[-1:]
