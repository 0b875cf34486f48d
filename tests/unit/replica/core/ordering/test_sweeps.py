"""Moves, redrives and removals by an administrator, over a pair in one process: what goes where, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import sweep_looks, sweeps
from replica.core.ordering.sweep import BEHIND_MAX, Sweep, Verb
from replica.core.ordering.sweeps import Sweeps
from replica.core.selection.filters import filter_of
from replica.core.state.calls import PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, QueueDone, SweepDone
from replica.machine import EnqueueCall, QueueCall, SaveLimits, SettleCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CLOSE, QUEUE_ACTION_DELETE, QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.message_pb2 import MessageBatch, MessageFilter
from tandemq.v1.queue_admin_service_pb2 import (
    GROUP_MODE_ORDERED,
    OVERFLOW_DROP_HEAD,
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_PERSISTENT,
    QueueConfig,
)
from tandemq.v1.queue_service_pb2 import OUTCOME_REJECT, EnqueueBatch, Settlement
from tests.support.clients import Reader, Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import begin, contents, info, payloads, reject, take

if TYPE_CHECKING:
    from tests.support.member import Member

CALL = b"the call's own i"
HASH = 7


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages need many turns."""
    monkeypatch.setattr(sweeps, "MOVE_MESSAGES_MAX", 3)
    monkeypatch.setattr(sweeps, "REMOVED_MAX", 3)
    monkeypatch.setattr(sweep_looks, "LOOKS_MAX", 5)


def selected(selector: str) -> Any:
    return filter_of(MessageFilter(selector=selector))


class Call:
    """One attempt of a call at one member, turn by turn."""

    def __init__(self, member: Member, verb: Verb = Verb.MOVE, **asked: Any) -> None:
        fields = {"queue": "q", "request_id": CALL, "request_hash": HASH, **asked}
        if verb is Verb.MOVE:
            fields.setdefault("to", "r")
        self.member = member
        self.sweep = Sweep(verb, **fields)
        core = member.core
        self.sweeps = Sweeps(core.shared, core.orders, core.dying.read)
        self.waiters: list[Waiter] = []
        self.over = False

    def turn(self) -> bool:
        """One turn; whether it was the last."""
        assert not self.over
        self.waiters.append(Waiter())
        self.over = self.sweeps.turn(self.sweep, self.waiters[-1], self.member.pair.wall_ms)
        self.member.dispatch(self.member.core)
        return self.over

    @property
    def answer(self) -> Any:
        """Of the call; None: not yet."""
        told = [waiter.done for waiter in self.waiters if waiter.done is not None]
        return next((each for each in told if not isinstance(each, SweepDone) or each.over), None)


def run(pair: Pair, verb: Verb = Verb.MOVE, **asked: Any) -> Any:
    """The answer to a call that nothing disturbs."""
    assert pair.master is not None
    call = Call(pair.master, verb, **asked)
    while not call.turn():
        pass
    pair.settle(200)
    return call.answer


def send(pair: Pair, queue: str, *rows: bytes, **columns: Any) -> None:
    """One batch."""
    batch = EnqueueBatch(queue=queue, messages=MessageBatch(payloads=rows, **columns))
    waiter = Waiter()
    assert pair.master is not None
    request_id = repr((queue, rows, pair.now_ms)).encode()[-16:].rjust(16)
    body = batch.SerializeToString()
    call = PendingEnqueue(waiter, EnqueueCall(queue, b"", 0, columns_of(batch), "a", request_id=request_id), body)
    pair.master.submit(call)
    pair.settle(20)
    assert isinstance(waiter.done, EnqueueDone), waiter.done


def update(pair: Pair, queue: str, *fields: str, **config: Any) -> None:
    assert pair.master is not None
    mask = fields or tuple(config)
    pair.master.submit(PendingCall(Waiter(), QueueCall(QUEUE_ACTION_UPDATE, queue, QueueConfig(**config), mask=mask)))
    pair.settle()


def act(pair: Pair, action: Any, queue: str, **more: Any) -> None:
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), QueueCall(action, queue, **more)))
    pair.settle()


def filled(count: int = 10, **config: Any) -> tuple[Pair, Member]:
    """Messages in q, and a queue r."""
    pair, master = begin(count, **config)
    create(pair, "r")
    return pair, master


def numbered(*numbers: int) -> list[bytes]:
    return [f"z/{number}".encode() for number in numbers]


TEN = numbered(*range(1, 11))


# -- what goes where ---------------------------------------------------------------------------------------------------


def test_everything_moves_in_order_and_in_bounded_records() -> None:
    pair, master = filled()
    before = master.shared.log.last_index
    assert run(pair) == SweepDone(True, 10)
    for member in (master, master.peer):
        assert (payloads(member, "q"), payloads(member, "r")) == ([], TEN)
    headers = [master.shared.log.header_at(at) for at in range(before + 1, master.shared.log.last_index + 1)]
    assert [header.enqueue.count for header in headers if header.HasField("enqueue")] == [3, 3, 3, 1]
    assert [(header.remove.total, len(header.remove.ranges)) for header in headers if header.HasField("remove")] == [
        (10, 0),  # up to which index it looks
        (10, 0),  # the answer
    ]
    assert (info(master).purged_total, info(master, "r").enqueued_total) == (10, 10)


def test_a_removal_takes_what_fits_and_nothing_else() -> None:
    pair, master = filled(0)
    weights = [{"entries": {"w": {"integer": at}}} for at in range(10)]
    send(pair, "q", *TEN, properties=weights)
    assert run(pair, Verb.REMOVE, asked=selected("w >= 2 AND w < 9")) == SweepDone(True, 7)
    assert payloads(master, "q") == payloads(master.peer, "q") == numbered(1, 2, 10)
    assert info(master).purged_total == 7


def test_ids_correlation_ids_and_groups_name_them() -> None:
    pair, master = filled(0)
    send(pair, "q", *TEN, correlation_ids=["a", "b"] * 5, group_ids=["g"] * 3 + ["h"] * 7)
    ids = [row.id for row in contents(master, "q")]
    wanted = filter_of(MessageFilter(ids=[ids[8], ids[1], ids[4]]))
    assert run(pair, request_id=b"1" * 16, asked=wanted).done == 3
    assert payloads(master, "r") == numbered(2, 5, 9)
    assert run(pair, request_id=b"2" * 16, asked=wanted).done == 0, "they are not there any more"
    both = filter_of(MessageFilter(correlation_id="a", group_id="h"))
    assert run(pair, Verb.REMOVE, request_id=b"3" * 16, asked=both).done == 1
    assert payloads(master, "q") == numbered(1, 3, 4, 6, 8, 10)


def test_at_most_so_many_the_oldest_first() -> None:
    pair, master = filled()
    assert run(pair, most=4) == SweepDone(True, 4)
    assert (payloads(master, "r"), payloads(master, "q")) == (TEN[:4], TEN[4:])


def test_what_consumers_hold_stays_and_is_counted_if_it_fits() -> None:
    pair, master = filled(0)
    weights = [{"entries": {"w": {"integer": at}}} for at in range(10)]
    send(pair, "q", *TEN, properties=weights)
    take(pair, 4)
    assert run(pair, request_id=b"1" * 16, asked=selected("w > 1")) == SweepDone(True, 6, leased=2)
    assert run(pair, Verb.REMOVE, request_id=b"2" * 16, asked=selected("w >= 0")) == SweepDone(True, 0, leased=4)
    assert payloads(master, "q") == TEN[:4]


def test_priorities_times_and_what_was_sent_with_it_stay() -> None:
    pair, master = filled(0)
    send(
        pair, "q", b"1", b"2", b"3",
        priorities=[9, 4, 0], ttls_ms=[0, 60_000, 0], delays_ms=[0, 0, 30_000], correlation_ids=["c", "", ""],
    )  # fmt: skip
    pair.settle(10_000)
    assert run(pair).done == 3
    rows = contents(master, "r")
    assert [row.message.correlation_id for row in rows] == ["c", "", ""]
    assert list(info(master, "r").ready_by_priority) == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert info(master, "r").delayed == 1
    pair.settle(21_000)
    assert info(master, "r").delayed == 0, "its delay began when it was sent"
    pair.settle(31_000)
    assert payloads(master, "r") == [b"1", b"3"], "so did its time to live"


def test_groups_keep_their_order_where_they_go_and_where_they_leave() -> None:
    pair, master = begin(0, group_mode=GROUP_MODE_ORDERED)
    create(pair, "r", group_mode=GROUP_MODE_ORDERED)
    send(pair, "q", *TEN[:6], group_ids=["g", "h"] * 3)
    held = take(pair, 1)
    assert [payload for *_, payload in held.delivered] == [b"z/1"]
    assert info(master).ready == 1, "the others wait behind the first of their group"
    assert run(pair) == SweepDone(True, 5, leased=1)
    assert (payloads(master, "q"), payloads(master, "r")) == (TEN[:1], TEN[1:6])
    first = take_from(pair, "r")
    assert sorted(payload for *_, payload in first.delivered) == [b"z/2", b"z/3"], "the first of each group"
    reject(pair, held)
    pair.settle(500)
    assert run(pair, Verb.REDRIVE, queue="q.dead", request_id=b"2" * 16) == SweepDone(True, 1)
    assert payloads(master, "q") == TEN[:1]


def test_volatile_ones_stay_volatile() -> None:
    pair, master = begin(3, volatile=True, persistence=PERSISTENCE_CONDITIONAL)
    create(pair, "r", persistence=PERSISTENCE_CONDITIONAL)
    assert run(pair).done == 3
    machine = master.shared.machine
    assert machine.queue(machine.queue_id("r")).volatile.size == 3


def test_what_is_on_its_way_to_become_persistent_moves_as_persistent() -> None:
    """R153: whoever changed the persistence is told that all of it is persistent, wherever it went meanwhile."""
    pair, master = begin(3, volatile=True, persistence=PERSISTENCE_CONDITIONAL)
    create(pair, "r", persistence=PERSISTENCE_CONDITIONAL)
    waiter = Waiter()
    config = QueueConfig(persistence=PERSISTENCE_PERSISTENT)
    master.core.orders.saving.part = SaveLimits(1, 1)
    master.submit(PendingCall(waiter, QueueCall(QUEUE_ACTION_UPDATE, "q", config, ["persistence"])))
    assert run(pair).done == 3
    pair.settle(500)
    assert isinstance(waiter.done, QueueDone)
    machine = master.shared.machine
    assert machine.queue(machine.queue_id("r")).volatile.size == 0


def test_dying_messages_go_too() -> None:
    pair, master = filled(3, dead_letter_queue="nowhere")
    reject(pair, take(pair))
    pair.settle(1_000)
    assert info(master).dying == 3
    assert run(pair).done == 3
    assert (info(master).dying, payloads(master, "r")) == (0, TEN[:3])


# -- back to where they came from --------------------------------------------------------------------------------------


def dead(count: int = 3, **config: Any) -> tuple[Pair, Member]:
    pair, master = begin(count, **config)
    reject(pair, take(pair, count))
    pair.settle(500)
    assert len(payloads(master, "q.dead")) == count
    return pair, master


def test_dead_letters_go_back_as_they_were_sent() -> None:
    pair, master = dead()
    assert run(pair, Verb.REDRIVE, queue="q.dead") == SweepDone(True, 3)
    assert (payloads(master, "q"), payloads(master, "q.dead")) == (TEN[:3], [])
    for row in contents(master, "q"):
        assert (dict(row.message.properties), row.delivery_count) == ({}, 0)
    assert len(take(pair).delivered) == 3


def test_each_goes_to_its_own_queue_and_who_has_none_stays() -> None:
    pair, master = begin(2, dead_letter_queue="d")
    create(pair, "d")
    create(pair, "p", dead_letter_queue="d")
    create(pair, "gone", dead_letter_queue="d")
    send(pair, "d", b"never dead")
    send(pair, "p", b"p")
    send(pair, "gone", b"gone")
    for queue in ("q", "p", "gone"):
        reader = take_from(pair, queue)
        reject_in(pair, queue, reader)
    pair.settle(500)
    act(pair, QUEUE_ACTION_DELETE, "gone")
    done = run(pair, Verb.REDRIVE, queue="d")
    assert (done.done, sum(each.count for each in done.behind)) == (3, 2)
    told = {(Reason.Name(each.reason), each.queue): (each.count, each.message) for each in done.behind}
    assert told == {
        ("REASON_QUEUE_NOT_FOUND", ""): (1, sweeps._NO_ORIGIN),
        ("REASON_QUEUE_NOT_FOUND", "gone"): (1, "there is no queue 'gone'; create it first"),
    }  # fmt: skip
    assert (payloads(master, "q"), payloads(master, "p")) == (TEN[:2], [b"p"])
    assert payloads(master, "d") == [b"never dead", b"gone"]
    elsewhere = run(pair, Verb.REDRIVE, queue="d", to="p", request_id=b"2" * 16)
    assert (elsewhere.done, payloads(master, "d")) == (2, [])
    assert payloads(master, "p") == [b"p", b"never dead", b"gone"]


def take_from(pair: Pair, queue: str) -> Reader:
    reader = Reader(pair, queue)
    assert pair.master is not None
    reader.attach(pair.master, 10)
    pair.quiesce()
    return reader


def reject_in(pair: Pair, queue: str, reader: Reader) -> None:
    assert pair.master is not None
    for lease_id, index, _ in reader.delivered:
        ranges = [IndexRange(first=index, count=1)]
        settlement = Settlement(lease_id=lease_id, ranges=ranges, outcome=OUTCOME_REJECT, reason="no")
        pair.master.submit(PendingCall(Waiter(), SettleCall(queue, [settlement])))


def test_what_dies_again_on_the_way_is_not_driven_again() -> None:
    """A consumer that rejects everything, and dead letters that go back: the call ends all the same."""
    pair, master = dead(10)
    call = Call(master, Verb.REDRIVE, queue="q.dead")
    for _ in range(100):
        if call.turn():
            break
        pair.settle(50)
        reject(pair, take(pair))
        pair.settle(500)
    pair.settle()
    assert call.answer == SweepDone(True, 10)
    assert len(payloads(master, "q") + payloads(master, "q.dead")) == 10


# -- where they cannot go ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "reason", "words"),
    [
        ("nowhere", Reason.REASON_QUEUE_NOT_FOUND, "there is no queue 'nowhere'"),
        ("q", Reason.REASON_BAD_REQUEST, "is where the messages are already"),
        ("closed", Reason.REASON_INVALID_STATE, "is not open"),
        ("shut", Reason.REASON_ENQUEUE_DISABLED, "sending to queue shut is disabled"),
        ("full", Reason.REASON_QUEUE_FULL, "queue full is full"),
    ],
)
def test_a_call_that_can_do_nothing_is_refused_and_changes_nothing(to: str, reason: Reason, words: str) -> None:
    pair, master = filled()
    create(pair, "closed")
    for member in ("a", "b"):
        act(pair, QUEUE_ACTION_CLOSE, "closed", member=member)
    create(pair, "shut", enqueue_enabled=False)
    create(pair, "full", max_length=1)
    send(pair, "full", b"x")
    before = master.shared.log.last_index
    for verb in (Verb.MOVE, Verb.REDRIVE):
        refused = run(pair, verb, to=to)
        assert isinstance(refused, Failed)
        assert refused.reason == reason
        assert words in refused.message
    assert master.shared.log.last_index == before
    assert payloads(master, "q") == TEN
    assert run(pair, to="r") == SweepDone(True, 10), "the same call, mended"


def test_a_queue_that_is_not_there_is_said_so() -> None:
    pair, _ = filled()
    refused = run(pair, queue="nowhere")
    assert (refused.reason, refused.message) == (
        Reason.REASON_QUEUE_NOT_FOUND,
        "there is no queue 'nowhere'; create it first",
    )


def test_a_queue_that_becomes_full_takes_what_fits_and_the_answer_says_what_stays() -> None:
    pair, master = filled()
    update(pair, "r", max_length=4)
    done = run(pair)
    assert (done.done, [(each.reason, each.queue, each.count, each.message) for each in done.behind]) == (
        4,
        [(Reason.REASON_QUEUE_FULL, "r", 6, "queue r is full")],
    )
    assert (payloads(master, "r"), payloads(master, "q")) == (TEN[:4], TEN[4:])
    update(pair, "r", max_length=100)
    again = run(pair)
    assert again == done._replace(duplicate=True), "it is the first answer"
    assert run(pair, request_id=b"2" * 16) == SweepDone(True, 6)
    assert payloads(master, "r") == TEN


def test_a_queue_that_drops_drops_nothing_for_what_is_moved_into_it() -> None:
    """Each record would drop what the one before it brought: moved, counted as moved, and nowhere."""
    pair, master = begin(10)
    create(pair, "r", max_length=4, overflow=OVERFLOW_DROP_HEAD)
    send(pair, "r", b"was here")
    done = run(pair)
    assert (done.done, [(each.reason, each.count) for each in done.behind]) == (3, [(Reason.REASON_QUEUE_FULL, 7)])
    assert (payloads(master, "r"), payloads(master, "q")) == ([b"was here", *TEN[:3]], TEN[3:])


def test_what_was_not_asked_for_is_not_left_behind() -> None:
    pair, _ = filled()
    update(pair, "r", max_length=2)
    done = run(pair, most=5)
    assert (done.done, done.behind[0].count) == (2, 3)


def test_a_queue_that_is_deleted_on_the_way_ends_the_call_with_what_was_done() -> None:
    pair, master = filled()
    call = Call(master)
    for _ in range(3):
        call.turn()
    act(pair, QUEUE_ACTION_DELETE, "q")
    assert call.turn()
    assert call.answer.reason == Reason.REASON_QUEUE_NOT_FOUND
    assert call.answer.message.startswith("after 6 messages were moved: ")
    assert payloads(master, "r") == TEN[:6]


def test_a_full_store_stops_it_and_loses_nothing() -> None:
    pair, master = filled()
    master.core.orders.room_bytes = 0
    done = run(pair)
    assert (done.done, done.behind[0].reason, done.behind[0].count) == (0, Reason.REASON_STORAGE_FULL, 10)
    assert payloads(master, "q") == TEN


def test_a_body_that_cannot_be_read_holds_nothing_else_up() -> None:
    pair, master = filled()
    call = Call(master)
    lost = master.shared.machine.locate(master.shared.machine.queue_id("q"), 4)[0]
    read = call.sweeps.read
    call.sweeps.read = lambda log_index: None if log_index == lost else read(log_index)
    while not call.turn():
        pass
    pair.settle()
    assert (call.answer.done, call.answer.behind[0].reason, call.answer.behind[0].count) == (
        9, Reason.REASON_MESSAGE_NOT_FOUND, 1,
    )  # fmt: skip
    assert payloads(master, "q") == numbered(4)


def test_the_reasons_of_one_answer_are_bounded() -> None:
    sweep = Sweep(Verb.REDRIVE, "d", CALL, HASH)
    for number in range(BEHIND_MAX + 10):
        sweep.stays(1, f"q{number}", Reason.REASON_QUEUE_NOT_FOUND, "gone")
    assert len(sweep.behind) == BEHIND_MAX
    assert sum(each.count for each in sweep.behind.values()) == BEHIND_MAX + 10
