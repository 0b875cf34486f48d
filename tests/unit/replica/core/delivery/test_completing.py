"""Who waits to hear how messages end: told when it is committed and not before, woken and never polling."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.delivery import completing
from replica.core.delivery.completing import Ask
from replica.core.messages.bodies import read_answer
from replica.core.state.calls import PendingCall, SendReply
from replica.core.state.outcomes import Failed, Moved, ProgressDone, ReplyDone
from replica.machine import Machine, QueueCall, ReplyCall, handle_of
from storage.memory import MemoryStore
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tandemq.v1.common_pb2 import COMPLETION_REPLIED, Reason
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tests.support.clients import Producer, Waiter, create
from tests.support.member import NUMBER, Member
from tests.support.pair import Pair


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.start()
    create(made, queue_type=QUEUE_TYPE_TWO_WAY)
    return made


def sent(pair: Pair, count: int) -> None:
    producer = Producer(pair, "p")
    for _ in range(count):
        producer.send(pair.a)
    pair.settle(200)


def machine_of(member: Member) -> Machine:
    machine = member.core.shared.machine
    assert machine is not None
    return machine


def handle(index: int) -> bytes:
    return handle_of(NUMBER.to_bytes(4, "big") + (1).to_bytes(4, "big"), index)


def asked(member: Member, *indexes: int, waits: bool = True, each: bool = False) -> tuple[Ask, Waiter]:
    waiter = Waiter()
    ask = Ask(waiter, "q", [handle(index) for index in indexes], waits=waits, each=each)
    member.core.completing.ask(ask)
    member.dispatch(member.core)
    return ask, waiter


def answer(member: Member, index: int, body: bytes = b"answer") -> Waiter:
    """Nobody holds the request, so any lease will do."""
    waiter = Waiter()
    message = Message(payload=body).SerializeToString()
    member.submit(
        PendingCall(waiter, SendReply(ReplyCall("q", 5, index, len(body), request_hash=hash(body) & 0xFFFF), message))
    )
    return waiter


def told(waiter: Waiter) -> list[list[bool]]:
    """For each time that it was told: which of the messages had ended."""
    assert all(isinstance(each, ProgressDone) for each in waiter.answers), waiter.answers
    return [[progress.completed for progress in each.progress] for each in waiter.answers]


@pytest.mark.requirement("R018", "R025")
def test_an_end_is_told_when_it_is_committed_and_not_before(pair: Pair) -> None:
    sent(pair, 1)
    _, waits = asked(pair.a, 1)
    replied = answer(pair.a, 1)
    _, checks = asked(pair.a, 1, waits=False)  # the state has it already; the replica does not
    assert (replied.answers, told(waits), told(checks)) == ([], [], [])
    pair.settle(200)
    assert replied.answers == [ReplyDone(duplicate=False)]
    assert (told(waits), told(checks)) == ([[True]], [[True]])
    assert waits.done.progress[0].completion == COMPLETION_REPLIED


@pytest.mark.requirement("R025")
def test_an_end_that_is_lost_with_the_master_was_told_to_nobody(pair: Pair) -> None:
    sent(pair, 1)
    _, waits = asked(pair.a, 1)
    answer(pair.a, 1, b"lost")
    _, checks = asked(pair.a, 1, waits=False)
    pair.crash(pair.a)
    pair.heal()
    assert told(waits) == told(checks) == []
    master = pair.master
    assert master is not None
    _, again = asked(master, 1, waits=False)
    pair.settle(200)
    assert told(again) == [[False]]


@pytest.mark.requirement("R025")
def test_whoever_waits_at_a_master_that_follows_is_sent_on(pair: Pair) -> None:
    sent(pair, 2)
    _, waits = asked(pair.a, 1, 2)
    _, watches = asked(pair.a, 1, each=True)
    pair.a.hand_over()
    pair.settle(2_000)
    assert pair.master is pair.b
    assert [type(each) for each in (*waits.answers, *watches.answers)] == [Moved, Moved]
    assert (pair.a.core.completing.asked, pair.a.core.completing.count) == ({}, 0)
    _, again = asked(pair.b, 1)
    answer(pair.b, 1)
    pair.settle(200)
    assert told(again) == [[True]]


@pytest.mark.requirement("R028")
def test_ten_thousand_wait_and_one_end_wakes_one(pair: Pair) -> None:
    sent(pair, 3)
    waits = [asked(pair.a, 1)[1] for _ in range(5_000)]
    others = [asked(pair.a, 2)[1] for _ in range(5_000)]
    looked: list[int] = []
    machine = machine_of(pair.a)
    progress = machine.progress

    def counted(queue_id: int, handles: Any) -> Any:
        looked.append(queue_id)
        return progress(queue_id, handles)

    machine.progress = counted  # type: ignore[method-assign]  # nobody looks while nothing ends
    pair.settle(1_000)
    answer(pair.a, 3)
    pair.settle(200)
    assert looked == []
    answer(pair.a, 1)
    pair.settle(200)
    assert len(looked) == 5_000
    assert all(told(waiter) == [[True]] for waiter in waits)
    assert not any(waiter.answers for waiter in others)
    assert pair.a.core.completing.count == 5_000


def test_all_that_are_asked_for_are_told_at_once(pair: Pair) -> None:
    sent(pair, 3)
    _, waits = asked(pair.a, 3, 1)
    answer(pair.a, 1)
    pair.settle(200)
    assert told(waits) == []
    answer(pair.a, 3)
    pair.settle(200)
    assert told(waits) == [[True, True]]
    assert not machine_of(pair.a).queue(1).completions.listening  # type: ignore[union-attr]  # a TWO_WAY queue


@pytest.mark.requirement("R026")
def test_a_watch_is_told_of_each_once(pair: Pair) -> None:
    sent(pair, 3)
    answer(pair.a, 2)
    ask, watches = asked(pair.a, 1, 2, 3, each=True)
    pair.settle(200)
    answer(pair.a, 1)
    pair.settle(200)
    pair.a.core.completing.more(ask, [handle(1)])
    pair.a.dispatch(pair.a.core)
    answer(pair.a, 3)
    pair.settle(200)
    assert [list(each.handles) for each in watches.answers] == [[handle(2)], [handle(1)], [handle(1)], [handle(3)]]


def test_whoever_leaves_is_forgotten(pair: Pair) -> None:
    sent(pair, 2)
    ask, waits = asked(pair.a, 1, 2)
    pair.a.core.completing.leave(ask)
    completing_ = pair.a.core.completing
    assert (completing_.asked, completing_.count) == ({}, 0)
    answer(pair.a, 1)
    pair.settle(200)
    assert waits.answers == []


def test_who_follows_listens_to_nothing_any_more(pair: Pair) -> None:
    """What it heard grew with each answer of the new master, for good."""
    sent(pair, 2)
    asked(pair.a, 1)
    pair.a.hand_over()
    pair.settle(2_000)
    assert pair.master is pair.b
    answer(pair.b, 2)
    pair.settle(200)
    completions = machine_of(pair.a).queue(1).completions
    assert completions is not None
    assert (completions.listening, completions.heard) == (False, [])


def test_a_deleted_queue_ends_every_wait(pair: Pair) -> None:
    sent(pair, 1)
    _, waits = asked(pair.a, 1)
    pair.a.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_DELETE, "q")))
    pair.settle(200)
    (failed,) = waits.answers
    assert isinstance(failed, Failed)
    assert failed.reason == Reason.REASON_QUEUE_NOT_FOUND
    assert pair.a.core.completing.count == 0, "others may wait in its place"


def test_waits_are_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    sent(pair, 3)
    monkeypatch.setattr(completing, "ASKED_MAX", 2)
    asked(pair.a, 1)
    _, refused = asked(pair.a, 2, 3)
    (failed,) = refused.answers
    assert (failed.reason, failed.retry_after_ms) == (Reason.REASON_TOO_MANY_WAITERS, 1_000)
    _, checks = asked(pair.a, 2, 3, waits=False)
    pair.settle(200)
    assert told(checks) == [[False, False]]


@pytest.mark.requirement("R018", "R025")
def test_an_answer_comes_with_a_full_transfer(pair: Pair) -> None:
    """Its record is the only one that holds anything: the request is gone."""
    sent(pair, 1)
    answer(pair.a, 1, b"kept")
    pair.settle(200)
    pair.crash(pair.b)
    pair.b.store = MemoryStore(member="b", instance=b"b" * 16)
    pair.heal()
    assert machine_of(pair.a).digest() == machine_of(pair.b).digest()
    (progress,) = machine_of(pair.b).progress(1, [handle(1)])
    for member in pair.up:
        found = read_answer(member.store, member.core.shared, progress.answer)
        assert found is not None
        assert found.payload == b"kept"


@pytest.mark.requirement("R018")
def test_an_answer_that_finds_no_room_is_refused_and_the_request_stays(pair: Pair) -> None:
    sent(pair, 1)
    pair.a.core.orders.room_bytes = 3
    waiter = answer(pair.a, 1)
    pair.settle(200)
    assert waiter.done.reason == Reason.REASON_STORAGE_FULL
    assert machine_of(pair.a).queue(1).length == 1
