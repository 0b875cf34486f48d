"""A queue with group_mode COMPLETE over a pair in one process (V19): with reactions, units, moves and takeovers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import kept_reactions
from replica.core.ordering.reaction import Advice, Effect
from replica.core.state.calls import PendingCall, PendingEnqueue, Transact
from replica.core.state.outcomes import EnqueueDone, Failed, UnitDone
from replica.machine import EnqueueCall, QueuePut, UnitCall, columns_of
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_COMPLETE
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Reader, Waiter, create
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads, reject
from tests.unit.replica.core.ordering.test_kept_reactions import FIRST, alike, got, keep, release
from tests.unit.replica.core.ordering.test_kept_reactions import begin as begin_kept
from tests.unit.replica.core.ordering.test_reacting import Call, counts, run, taken_over, where
from tests.unit.replica.core.ordering.test_reacting_changes import change
from tests.unit.replica.core.ordering.test_sweeps import run as move

if TYPE_CHECKING:
    from tests.support.member import Member
    from tests.support.pair import Pair


def begin(**config: Any) -> tuple[Pair, Member]:
    return begin_kept(group_mode=GROUP_MODE_COMPLETE, **config)


def members(words: str) -> EnqueueBatch:
    """Words as a2, or a3! for the last of its group; their payloads are the words."""
    found = [word.rstrip("!") for word in words.split()]
    return EnqueueBatch(
        queue="q",
        messages=MessageBatch(
            payloads=[word.encode() for word in found],
            group_ids=[word[0] for word in found],
            group_sequences=[int(word[1:]) for word in found],
            lasts_in_group=[word.endswith("!") for word in words.split()],
        ),
    )


def ask(pair: Pair, words: str, queue: str = "q", **more: Any) -> Waiter:
    batch, waiter = members(words), Waiter()
    batch.queue = queue
    assert pair.master is not None
    request_id = repr((queue, words, pair.now_ms)).encode()[-16:].rjust(16)
    call = EnqueueCall(queue, b"", 0, columns_of(batch), "a", request_id=request_id, **more)
    pair.master.submit(PendingEnqueue(waiter, call, batch.SerializeToString()))
    return waiter


def send(pair: Pair, words: str, queue: str = "q", **more: Any) -> list[tuple[int, int]]:
    """What was refused."""
    waiter = ask(pair, words, queue, **more)
    pair.settle(20)
    assert isinstance(waiter.done, EnqueueDone), waiter.done
    return list(waiter.done.refusals)


def drained(pair: Pair, queue: str = "q") -> list[bytes]:
    """As they are delivered when each is acknowledged before the next one is taken."""
    assert pair.master is not None
    found: list[bytes] = []
    while True:
        reader = Reader(pair, queue)
        reader.attach(pair.master, 1)
        pair.settle(20)
        if not reader.delivered:
            reader.at = None
            pair.master.core.consumers.on_following()
            return found
        found += got(reader)
        reader.ack(pair.master)
        pair.settle(20)


# -- the pair ----------------------------------------------------------------------------------------------------------


def test_v19_the_first_is_delivered_when_the_record_that_made_its_group_whole_is_committed() -> None:
    pair, master = begin()
    send(pair, "a1")
    reader = Reader(pair, "q")
    reader.attach(master, 10)
    pair.settle(20)
    ask(pair, "a2!")
    pair.quiesce(link=False)
    assert got(reader) == [], "the other member has not heard of the last one"
    pair.settle(20)
    assert got(reader) == [b"a1"]


def test_v19_a_group_goes_on_gathering_over_a_takeover_and_is_the_same_at_both() -> None:
    pair, _ = begin()
    send(pair, "a3! a1")
    now = taken_over(pair)
    assert (info(now).blocked, info(now).groups_gathering) == (2, 1)
    assert send(pair, "a3 a2") == [(0, Reason.REASON_GROUP_MISMATCH)]
    pair.heal()
    assert drained(pair) == [b"a1", b"a2", b"a3"]
    alike(pair)


def test_v19_a_takeover_in_the_middle_of_a_group_leaves_it_whole() -> None:
    pair, master = begin()
    send(pair, "a2 a1 a3!")
    reader = Reader(pair, "q")
    reader.attach(master, 1)
    pair.settle(20)
    reader.ack(master)
    pair.settle(20)
    taken_over(pair)
    assert drained(pair) == [b"a2", b"a3"]


def test_v19_what_is_not_whole_in_time_is_among_the_dead_letters_with_its_reason() -> None:
    pair, master = begin(group_timeout={"seconds": 5})
    send(pair, "a1 a2 b1!")
    pair.settle(6_000)
    assert (payloads(master, "q"), payloads(master, "q.dead")) == ([b"b1"], [b"a1", b"a2"])
    for row in contents(master, "q.dead"):
        assert row.message.properties["tq_dead_letter_reason"].text == "GROUP_TIMEOUT"
        assert "tq_reject_reason" not in row.message.properties
        assert row.message.properties["tq_deliveries"].integer == 0
        assert (row.message.group_id, row.message.group_sequence > 0) == ("a", True)
    assert payloads(master.peer, "q.dead") == [b"a1", b"a2"]
    alike(pair)


def test_v19_dead_letters_wait_for_no_others() -> None:
    pair, master = begin(group_timeout={"seconds": 5}, dead_letter_queue="letters")
    create(pair, "letters", group_mode=GROUP_MODE_COMPLETE, dead_letter_queue="")
    send(pair, "a2 a3!")
    pair.settle(6_000)
    assert (info(master, "letters").ready, info(master, "letters").blocked) == (2, 0)


def test_v19_no_consumer_can_say_that_a_group_was_late() -> None:
    pair, master = begin()
    send(pair, "a1!")
    reader = Reader(pair, "q")
    reader.attach(master, 1)
    pair.settle(20)
    reject(pair, reader, "\0group timeout")
    pair.settle(200)
    (row,) = contents(master, "q.dead")
    assert row.message.properties["tq_dead_letter_reason"].text == "REJECTED"
    assert row.message.properties["tq_reject_reason"].text == "group timeout"


# -- reactions ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R202", "R213")
def test_v4_v19_reactions_see_members_that_wait_and_one_that_is_deleted_may_come_again() -> None:
    pair, master = begin()
    send(pair, "a1 a3!")
    assert counts(run(pair, where(selector="tq_index = 1"))) == {"applied": 1}
    assert send(pair, "a2") == []
    assert drained(pair) == []
    assert send(pair, "a1") == []
    assert drained(pair) == [b"a1", b"a2", b"a3"]
    assert counts(run(pair, where(group_id="a"), request_id=b"2" * 16)) == {}
    assert info(master).length == 0


def test_v19_one_that_is_deleted_before_anybody_had_any_of_its_group_is_waited_for() -> None:
    pair, _ = begin()
    send(pair, "a1 a2 a3!")
    run(pair, where(selector="tq_index = 2"))
    assert drained(pair) == []
    send(pair, "a2")
    assert drained(pair) == [b"a1", b"a2", b"a3"]


def test_v5_v19_the_first_of_a_group_is_the_one_that_is_delivered_first() -> None:
    pair, master = begin()
    send(pair, "a3! a1 a2")
    assert counts(run(pair, where(group_id="a"), first=True)) == {"applied": 1}
    assert payloads(master, "q") == [b"a3", b"a2"]
    assert counts(run(pair, where(group_id="a"), first=True, request_id=b"2" * 16)) == {"applied": 1}
    assert payloads(master, "q") == [b"a3"]


@pytest.mark.requirement("R211")
@pytest.mark.parametrize("index", [1, 2, 3])
@pytest.mark.parametrize("whole", [False, True])
def test_v8_v19_one_that_is_changed_keeps_its_place_in_its_group(index: int, *, whole: bool) -> None:
    pair, _ = begin()
    send(pair, "a2 a1 a3!" if whole else "a2 a1 a4!")
    assert counts(change(pair, where(selector=f"tq_index = {index}"), payload=b"new")) == {"applied": 1}
    assert drained(pair) == [] if not whole else True
    if not whole:
        assert send(pair, "a3") == []
    expected = [b"a1", b"a2", b"a3"] if whole else [b"a1", b"a2", b"a3", b"a4"]
    expected[{1: 1, 2: 0, 3: len(expected) - 1}[index]] = b"new"
    assert drained(pair) == expected


def test_v8_v19_one_that_is_changed_in_a_group_that_has_begun_is_delivered_in_its_place() -> None:
    pair, master = begin()
    send(pair, "a1 a2 a3!")
    reader = Reader(pair, "q")
    reader.attach(master, 1)
    pair.settle(20)
    reader.ack(master)
    pair.settle(20)
    master.core.consumers.on_following()
    assert counts(change(pair, where(selector="tq_index >= 2"), first=False, payload=b"new")) == {"applied": 2}
    assert len(drained(pair)) == 2


def test_v8_v19_one_that_entered_without_a_group_stays_without_one_when_it_is_changed() -> None:
    """It was moved here, and its place was taken."""
    pair, _ = begin()
    send(pair, "a1", "r")
    send(pair, "a1")
    assert move(pair, queue="r", to="q", request_id=b"a move".rjust(16)).over
    assert counts(change(pair, where(selector="tq_index = 2"), payload=b"free")) == {"applied": 1}
    assert drained(pair) == [b"free"]
    send(pair, "a2!")
    assert drained(pair) == [b"a1", b"a2"]


@pytest.mark.requirement("R216")
@pytest.mark.parametrize("to", ["to", ""])
def test_v18_v19_members_of_several_queues_gather_where_one_record_puts_them(to: str) -> None:
    pair, master = begin()
    for name in ("s", "to"):
        create(pair, name, group_mode=GROUP_MODE_COMPLETE, reactions_enabled=True)
    send(pair, "a1 a3! b1")
    send(pair, "a2 b2!", "s")
    call = Call(master, where(selector="tq_index > 0"), to=to)
    call.reaction.others = [replace(call.reaction, queue="s")]
    done = call.run()
    assert [each.applied for each in (done.counts, *done.others)] == [3, 2]
    assert [info(master, name).groups_gathering for name in ("q", "s")] == [0, 0]
    assert drained(pair, "to") == ([b"a1", b"b1", b"a2", b"a3", b"b2"] if to else [])
    assert send(pair, "a1 a2! c1") == [], "nothing is left of them where they were"
    alike(pair)


@pytest.mark.requirement("R212")
def test_v10_v19_what_one_answer_deletes_the_changed_ones_of_its_group_wait_for() -> None:
    pair, master = begin()
    send(pair, "a1 a2 a3! b1!")
    call = Call(master, where(group_id="a"), asking=Advice("them"))
    assert not call.turn()
    asking = call.reaction.asking
    assert asking is not None
    said = (Effect(update=pb.ReactionUpdate(payload=b"new")), Effect(), None)
    asking.effects = {found.index: said[found.index - 1] for found in asking.questions}
    assert counts(call.run()) == {"applied": 2, "left": 1}
    assert drained(pair) == [b"b1"]
    assert send(pair, "a2") == []
    assert drained(pair) == [b"new", b"a2", b"a3"]
    alike(pair)


@pytest.mark.requirement("R205")
def test_v12_v19_a_group_is_not_whole_by_a_member_that_is_deleted_as_it_comes() -> None:
    pair, master = begin()
    assert counts(keep(pair, scope=FIRST, selector="tq_index = 2")) == {"kept": True}
    reader = Reader(pair, "q")
    reader.attach(master, 10)
    send(pair, "a1")
    send(pair, "a2!")
    pair.settle(200)
    assert (got(reader), payloads(master, "q")) == ([], [b"a1"])
    assert info(master).groups_gathering == 1
    send(pair, "a2!")
    pair.settle(20)
    assert got(reader) == [b"a1"]
    alike(pair)


def test_v12_v19_a_group_waits_for_what_nobody_has_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where much is to be looked at, a member that may go yet makes no group whole."""
    pair, master = begin()
    keep(pair, scope=FIRST, selector="tq_index = 2")
    send(pair, "a1")
    pair.settle(1_000)
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 0)
    pair.settle(1_000)
    reader = Reader(pair, "q")
    reader.attach(master, 10)
    send(pair, "a2!")
    pair.settle(1_000)
    assert got(reader) == []
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 8_000)
    pair.settle(1_000)
    assert (got(reader), payloads(master, "q")) == ([], [b"a1"])


@pytest.mark.requirement("R201", "R215")
def test_v12_v19_a_whole_group_is_cancelled_those_that_come_later_too() -> None:
    pair, master = begin()
    send(pair, "a1 a2 b1")
    assert counts(keep(pair, group_id="a")) == {"applied": 2, "kept": True}
    send(pair, "a3! b2!")
    assert payloads(master, "q") == [b"b1", b"b2"]
    assert drained(pair) == [b"b1", b"b2"]


@pytest.mark.requirement("R200")
def test_v13_v19_what_comes_back_is_asked_about_and_its_group_goes_on() -> None:
    pair, master = begin()
    send(pair, "a1 a2!")
    reader = Reader(pair, "q")
    reader.attach(master, 1)
    pair.settle(20)
    keep(pair, scope=FIRST, more={"update": pb.ReactionUpdate(payload=b"new")}, selector="tq_index = 1")
    release(pair, reader)
    master.core.consumers.on_following()
    assert drained(pair) == [b"new", b"a2"]


# -- units, moves, what is put back ------------------------------------------------------------------------------------


def transact(pair: Pair, words: str, number: int) -> Any:
    batch, waiter = members(words), Waiter()
    assert pair.master is not None
    call = UnitCall([], [QueuePut("q", columns_of(batch))], pair.master.name, number.to_bytes(16, "big"), 1)
    pair.master.submit(PendingCall(waiter, Transact(call, batch.SerializeToString(), 0)))
    pair.settle(200)
    return waiter.done


def test_v19_a_unit_brings_members_or_none_of_what_is_in_it() -> None:
    pair, master = begin()
    assert isinstance(transact(pair, "a2! b1", 1), UnitDone)
    for number, words in enumerate(("a3", "a2", "b2! a1 a1"), 2):
        failed = transact(pair, words, number)
        assert isinstance(failed, Failed)
        assert failed.reason == Reason.REASON_GROUP_MISMATCH
    assert payloads(master, "q") == [b"a2", b"b1"]
    assert isinstance(transact(pair, "a1 b2!", 9), UnitDone)
    assert drained(pair) == [b"b1", b"a1", b"a2", b"b2"]


def test_v19_members_that_are_moved_out_are_missing_and_gather_where_they_come_to() -> None:
    pair, master = begin()
    create(pair, "to", group_mode=GROUP_MODE_COMPLETE)
    send(pair, "a1 a2! b1")
    assert move(pair, to="to").over
    assert info(master).groups_gathering == 0
    assert info(master, "to").groups_gathering == 1
    assert drained(pair, "to") == [b"a1", b"a2"]
    assert send(pair, "b2!", "to") == []
    assert drained(pair, "to") == [b"b1", b"b2"]


def test_v19_what_is_moved_in_and_does_not_fit_is_of_no_group() -> None:
    pair, master = begin()
    for words in ("a1", "a1", "a9!", "b1"):
        send(pair, words, "r")
    send(pair, "a1")
    send(pair, "a2!")
    assert move(pair, queue="r", to="q", request_id=b"a move".rjust(16)).over
    assert (info(master).ready, info(master).blocked, info(master).groups_gathering) == (4, 2, 1)
    assert sorted(drained(pair)) == [b"a1", b"a1", b"a1", b"a2", b"a9"]
    assert payloads(master, "q") == [b"b1"]


def test_v19_what_is_put_back_gathers_and_what_does_not_fit_is_of_no_group() -> None:
    pair, master = begin()
    send(pair, "a1")
    assert send(pair, "a1 a2! b1!", left_out=()) == []
    assert (info(master).ready, info(master).blocked) == (3, 1)
    assert drained(pair) == [b"a1", b"a1", b"a2", b"b1"]
    alike(pair)
