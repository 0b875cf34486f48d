"""What kept reactions look at in which turn, and what is remembered of it, over a pair in one process (V12, V13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import kept_looks, kept_reactions
from replica.core.state.calls import PendingEnqueue
from replica.machine import EnqueueCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.unit.replica.core.ordering.test_dying import info, payloads, take
from tests.unit.replica.core.ordering.test_kept_reactions import (
    ALL,
    FIRST,
    MINUTE,
    STORE,
    alike,
    begin,
    call_of,
    got,
    keep,
    store,
)
from tests.unit.replica.core.ordering.test_reacting import counts
from tests.unit.replica.core.ordering.test_reacting_unread import hurt
from tests.unit.replica.core.ordering.test_sweeps import act, numbered, send, update

if TYPE_CHECKING:
    from tests.support.member import Member


def asked(master: Member) -> set[int]:
    """Indexes of what waits in q and may be given to consumers."""
    kept, machine = master.core.kept, master.shared.machine
    queue_id = machine.queue_id("q")
    watch = kept._watches[queue_id]
    return {at for at in range(1, machine.queue(queue_id).next_index) if at not in watch.unseen}


def test_v12_a_message_that_cannot_be_read_holds_up_no_other_one() -> None:
    """Of the records that an epoch begins with one may be damaged."""
    pair, master = begin()
    keep(pair, group_id="g")
    for row in numbered(1, 2, 3):
        send(pair, "q", row, group_ids=["h"])
    hurt(master, "q", 2)
    master.core.kept.begin()
    assert asked(master) == set()
    pair.settle(200)
    assert asked(master) == {1, 2, 3}


@pytest.mark.parametrize("records", [1, 2, 5])
def test_v12_so_many_bytes_are_read_in_one_turn(records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record with which there are as many is the last one of its turn."""
    pair, master = begin()
    keep(pair, group_id="g")
    for row in numbered(1, 2, 3, 4):
        send(pair, "q", row, group_ids=["h"])
    (part, *_) = master.shared.machine.state.named("q").segments.parts(1, 2)
    size = len(master.core.dying.read(part.log_index).body)
    monkeypatch.setattr(kept_reactions, "READ_BYTES_MAX", records * size)
    kept = master.core.kept
    kept.begin()
    kept.ask()
    turns = 1
    while kept.unasked:
        assert asked(master) == set(range(1, 1 + turns * records))
        kept.on_tick()
        turns += 1
    assert asked(master) == {1, 2, 3, 4}
    assert turns == -(-4 // records)


def test_v12_another_one_that_is_kept_takes_nothing_from_what_the_first_has_to_look_at() -> None:
    """The new one has looked at all that is there; the first has not."""
    pair, master = begin()
    keep(pair, group_id="g")
    master.core.kept._left = -1  # this turn is over
    rows = EnqueueBatch(queue="q", messages=MessageBatch(payloads=numbered(1, 2), group_ids=["g", "h"]))
    call = EnqueueCall("q", b"", 0, columns_of(rows), master.name, request_id=b"of the sender".rjust(16))
    master.submit(PendingEnqueue(Waiter(), call, rows.SerializeToString()))
    second = call_of(master, ALL, MINUTE, 2, {}, {"correlation_id": "c"})
    assert second.turn()
    assert asked(master) == set()
    pair.settle(200)
    assert counts(second.waiter.done) == {"kept": True}
    assert payloads(master, "q") == numbered(2)


@pytest.mark.parametrize(
    "action", [{"update": pb.ReactionUpdate(payload=b"new")}, {"move": pb.ReactionMove(queue="r")}]
)
def test_v12_what_reactions_have_done_to_a_message_is_forgotten_when_all_was_looked_at(action: Any) -> None:
    """Else each message that one has changed or moved takes memory for ever."""
    pair, master = begin()
    update(pair, "r", reactions_enabled=True)
    store(pair, "r")
    keep(pair, more=action, group_id="g")
    send(pair, "q", *numbered(1, 2, 3), group_ids=["g"] * 3)
    pair.quiesce()
    assert len(payloads(master, "q")) + len(payloads(master, "r")) == 3
    assert (master.core.kept._hits, master.core.kept.unasked) == ({}, {})


def test_with_nothing_but_ids_to_be_found_by_most_messages_are_not_asked_for_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, master = begin()
    for number in range(20):
        keep(pair, number=1 + number, correlation_id=f"c{number}")
    seen: list[int] = []
    candidates = kept_looks.KeptLooks.candidates

    def counted(self: Any, queue: Any, store: Any, part: Any, index: int, row: Any) -> Any:
        seen.append(index)
        return candidates(self, queue, store, part, index, row)

    monkeypatch.setattr(kept_looks.KeptLooks, "candidates", counted)
    send(pair, "q", *numbered(*range(1, 11)), correlation_ids=[f"c{at + 17}" for at in range(10)])
    pair.quiesce()
    assert seen == [1, 2, 3]
    assert payloads(master, "q") == numbered(*range(4, 11))


@pytest.mark.parametrize("scope", [ALL, FIRST])
def test_v11_what_was_kept_for_a_queue_that_is_deleted_is_counted_as_purged(scope: Any) -> None:
    pair, master = begin()
    for number in range(1, 6):
        keep(pair, scope=scope, number=number, ttl_ms=MINUTE, correlation_id=f"c{number}")
    send(pair, "q", b"1", correlation_ids=["c2"])
    left = 5 - (scope == FIRST)
    assert info(master, STORE).length == left
    act(pair, QUEUE_ACTION_DELETE, "q")
    alike(pair)
    for member in (master, master.peer):
        assert (info(member, STORE).length, info(member, STORE).purged_total) == (0, left)
    create(pair, "q", reactions_enabled=True)
    send(pair, "q", b"2", correlation_ids=["c1"])
    assert got(take(pair)) == [b"2"]
