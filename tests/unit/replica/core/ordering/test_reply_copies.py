"""Answers that also go to the queue that their request named, over a pair in one process: each once, whoever stops
when; and what cannot go never holds up an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import replying
from replica.core.state.calls import PendingCall, PendingEnqueue, SendReply
from replica.core.state.outcomes import EnqueueDone, ReplyDone
from replica.machine import AliasCall, EnqueueCall, QueueCall, ReplyCall, columns_of
from replica.machine.plan.reply_copies import answer_log_index, owed_of
from storage.errors import CorruptRecord
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CREATE, QUEUE_ACTION_DELETE, QUEUE_ACTION_UPDATE
from tandemq.v1.message_pb2 import Message, MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Reader, Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.member import Member

COUNT = 3
ANSWERS = [b"answer 1", b"answer 2", b"answer 3"]


def asked(
    count: int = COUNT, *, made: bool = True, reply_tos: Sequence[str] = ("r",), **config: Any
) -> tuple[Pair, Member]:
    """Requests in s that want their answers in r as well, and r."""
    pair = Pair().start()
    create(pair, "s", queue_type=QUEUE_TYPE_TWO_WAY, lease_duration={"seconds": 600}, **config)
    if made:
        create(pair, "r")
    send(pair, *[b"request"] * count, correlation_ids=["mine", *[""] * (count - 1)], reply_tos=reply_tos)
    assert pair.master is not None
    return pair, pair.master


def send(pair: Pair, *rows: bytes, **columns: Any) -> None:
    batch = EnqueueBatch(queue="s", messages=MessageBatch(payloads=rows, **{"reply_tos": ["r"], **columns}))
    waiter = Waiter()
    body = batch.SerializeToString()
    call = PendingEnqueue(waiter, EnqueueCall("s", b"", 0, columns_of(batch), "a", request_id=b"r" * 16), body)
    assert pair.master is not None
    pair.master.submit(call)
    pair.settle(20)
    assert isinstance(waiter.done, EnqueueDone), waiter.done


def taken(pair: Pair, count: int = COUNT) -> list[tuple[int, int]]:
    """Lease and index of each request."""
    reader = Reader(pair, "s")
    assert pair.master is not None
    reader.attach(pair.master, count)
    pair.quiesce()
    return [(lease_id, index) for lease_id, index, _ in reader.delivered]


def answer(member: Member, lease_id: int, index: int, **fields: Any) -> Waiter:
    message = Message(payload=b"answer %d" % index, **fields)
    waiter = Waiter()
    call = PendingCall(
        waiter,
        SendReply(
            ReplyCall("s", lease_id, index, len(message.payload), request_hash=100 + index), message.SerializeToString()
        ),
    )
    member.submit(call)
    return waiter


def act(pair: Pair, action: Any, queue: str, **config: Any) -> None:
    assert pair.master is not None
    more = {"members": ["a", "b"], "open_members": ["a", "b"]} if action == QUEUE_ACTION_CREATE else {}
    pair.master.submit(
        PendingCall(Waiter(), QueueCall(action, queue, QueueConfig(**config), mask=tuple(config), **more))
    )
    pair.settle()


def owed(member: Member) -> Any:
    machine = member.shared.machine
    return owed_of(machine.state, machine.queue_id("s"))


def test_an_answer_is_told_and_sent_in_the_same_moment() -> None:
    pair, master = asked()
    first, second, third = taken(pair)
    waiters = [answer(master, *first), answer(master, *second), answer(master, *third, correlation_id="its own")]
    pair.settle(200)
    assert [waiter.done for waiter in waiters] == [ReplyDone(duplicate=False)] * 3
    for member in (master, master.peer):
        rows = contents(member, "r")
        assert [row.message.payload for row in rows] == ANSWERS
        handles = [row.message.properties[replying.REPLY_OF].data for row in rows]
        assert [int.from_bytes(handle[8:], "big") for handle in handles] == [1, 2, 3]
        assert [row.message.correlation_id for row in rows] == ["mine", handles[1].hex(), "its own"]
        assert not owed(member)
    again = answer(master, *first)
    pair.quiesce()
    assert again.done == ReplyDone(duplicate=True)
    assert payloads(master, "r") == ANSWERS


def test_who_names_no_queue_costs_no_record() -> None:
    pair = Pair().start()
    create(pair, "s", queue_type=QUEUE_TYPE_TWO_WAY)
    send(pair, b"1", reply_tos=[])
    assert pair.master is not None
    pair.master.core.orders.replying.read = lambda _log_index: pytest.fail("a plain request is not read")
    ((lease_id, index),) = taken(pair, 1)
    before = pair.master.shared.log.last_index
    answer(pair.master, lease_id, index)
    pair.quiesce()
    assert pair.master.shared.log.last_index == before + 1


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (None, "there is no queue 'r'; create it first"),
        ({"enqueue_enabled": False}, "sending to queue r is disabled"),
        ({"max_length": 1}, "queue r is full"),
    ],
)
def test_a_queue_that_takes_none_holds_up_no_answer(config: dict[str, Any] | None, why: str) -> None:
    pair, master = asked(made=False)
    if config is not None:
        create(pair, "r", **config)
    waiters = [answer(master, *request) for request in taken(pair)]
    pair.settle(3_000)
    assert [waiter.done for waiter in waiters] == [ReplyDone(duplicate=False)] * 3
    full = config is not None and "max_length" in config
    assert len(payloads(master, "r")) == (1 if full else 0)
    assert len(owed(master)["r"]) == (2 if full else 3)
    assert info(master, "s").copies_owed == len(owed(master)["r"])
    told = [note for note in master.notes if "copies of answers wait" in note]
    assert len(told) == 1
    assert why in told[0]

    pair.crash(master)  # the next master knows of them too
    pair.heal()
    assert pair.master is not None
    if config is None:
        act(pair, QUEUE_ACTION_CREATE, "r")
    else:
        act(pair, QUEUE_ACTION_UPDATE, "r", enqueue_enabled=True, max_length=100)
    pair.settle(3_000)
    assert payloads(pair.master, "r") == payloads(pair.master.peer, "r") == ANSWERS
    assert not pair.master.core.orders.replying.waiting


def test_what_waits_too_long_is_given_up_with_a_word() -> None:
    pair, master = asked(made=False, completion_retention={"seconds": 5})
    for request in taken(pair):
        answer(master, *request)
    pair.settle(20_000)
    assert not owed(master)
    assert not owed(master.peer)
    told = [note for note in master.notes if "given up" in note]
    assert told == [
        "3 copies of answers for queue r are given up, with the answers: there is no queue 'r'; create it first"
    ]
    assert not master.core.orders.replying.waiting


def test_a_name_that_becomes_that_of_the_requests_gets_none() -> None:
    pair, master = asked(made=False)
    machine = master.shared.machine
    alias = AliasCall("r", "s", b"a" * 16, 1)
    master.submit(PendingCall(Waiter(), alias))
    pair.settle()
    for request in taken(pair):
        answer(master, *request)
    pair.settle(2_000)
    assert machine.queue_info("s", "a").length == 0
    assert sum("would be a request again" in note for note in master.notes) == 1


def test_the_queue_of_the_requests_may_go() -> None:
    pair, master = asked(made=False)
    for request in taken(pair):
        answer(master, *request)
    pair.settle(100)
    act(pair, QUEUE_ACTION_DELETE, "s")
    pair.settle(3_000)
    assert not master.core.orders.replying.waiting
    assert not master.shared.machine.state.owing


def test_many_are_copied_in_bounded_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replying, "MOVE_MESSAGES_MAX", 2)
    pair, master = asked(7, made=False)
    for request in taken(pair, 7):
        answer(master, *request)
    pair.settle(100)
    before = master.shared.log.last_index
    create(pair, "r")
    pair.settle(5_000)
    headers = [master.shared.log.header_at(at) for at in range(before + 1, master.shared.log.last_index + 1)]
    assert [header.enqueue.count for header in headers if header.HasField("enqueue")] == [2, 2, 2, 1]
    assert len(payloads(master, "r")) == 7


@pytest.mark.parametrize("steps", range(0, 30, 2))
@pytest.mark.parametrize("who", ["master", "replica"])
def test_each_answer_is_copied_once_whoever_stops_when(steps: int, who: str) -> None:
    pair, master = asked()
    waiters = [answer(master, *request) for request in taken(pair)]
    for _ in range(steps):
        if not pair.one():
            pair.tick()
    told = [waiter.done for waiter in waiters]
    pair.crash(master if who == "master" else master.peer, written=steps % 4 == 0)
    pair.heal()
    pair.settle(3_000)
    assert pair.master is not None
    for member in (pair.master, pair.master.peer):
        found = payloads(member, "r")
        ended = [payload for index, payload in enumerate(ANSWERS, 1) if progress(member, index)]
        assert found == ended, "a copy for each answer, and for no other"
        assert not owed(member)
    for index, done in enumerate(told, 1):
        if done == ReplyDone(duplicate=False):
            assert progress(pair.master, index)


def progress(member: Member, index: int) -> bool:
    """It has its answer."""
    machine = member.shared.machine
    queue_id = machine.queue_id("s")
    (found,) = machine.progress(queue_id, [machine.handle_prefix(queue_id) + index.to_bytes(8, "big")])
    return bool(found.answer)


BAD = {
    "a ttl that no clock can tell": {"ttl": {"seconds": 1 << 62}},
    "a priority that there is not": {"priority": 99},
}


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD)
def test_an_answer_that_no_queue_could_hold_is_held_back_and_stops_nobody(fields: dict[str, Any]) -> None:
    """As an earlier version let it in."""
    pair, master = asked()
    first, second, third = taken(pair)
    waiters = [answer(master, *first, **fields), answer(master, *second), answer(master, *third)]
    pair.settle(3_000)
    assert [waiter.done for waiter in waiters] == [ReplyDone(duplicate=False)] * 3
    assert payloads(master, "r") == ANSWERS[1:]
    assert sum("request 1: the answer cannot be a message" in note for note in master.notes) == 1
    pair.crash(master)  # the next master holds it back too
    pair.heal()
    pair.settle(3_000)
    assert pair.master is not None
    assert list(owed(pair.master)["r"]) == [1]
    assert payloads(pair.master, "r") == ANSWERS[1:]


def test_an_answer_that_cannot_be_read_is_held_back_and_stops_nobody() -> None:
    pair, master = asked(made=False)
    for request in taken(pair):
        answer(master, *request)
    pair.settle(100)
    replying_, damaged = master.core.orders.replying, answer_log_index(master.shared.machine.queue(1), 2)
    read = replying_.read

    def reading(log_index: int) -> Any:
        if log_index == damaged:
            raise CorruptRecord("planted")
        return read(log_index)

    replying_.read = reading
    act(pair, QUEUE_ACTION_CREATE, "r")
    pair.settle(3_000)
    assert payloads(master, "r") == [ANSWERS[0], ANSWERS[2]]
    assert sum("cannot be read" in note for note in master.notes) == 1


def test_a_request_that_cannot_be_read_is_answered_without_a_copy() -> None:
    pair, master = asked()
    requests = taken(pair)

    def damaged(_log_index: int) -> Any:
        raise CorruptRecord("planted")

    master.core.orders.replying.read = damaged
    waiter = answer(master, *requests[0])
    pair.settle(200)
    assert waiter.done == ReplyDone(duplicate=False)
    assert not owed(master)
    assert sum("the body of request 1 is gone" in note for note in master.notes) == 1


def sizes(member: Member) -> dict[str, list[int]]:
    """Payload bytes of what each queue holds."""
    return {name: [len(row) for row in payloads(member, name)] for name in ("r0", "r1", "r2", "r3")}


def test_an_answer_that_is_too_large_is_left_and_those_behind_it_go() -> None:
    pair, master = asked(made=False)
    create(pair, "r", max_bytes=100, max_message_bytes=100)
    first, second, third = taken(pair)
    body = Message(payload=b"x" * 101).SerializeToString()
    master.submit(PendingCall(Waiter(), SendReply(ReplyCall("s", *first, 101, request_hash=7), body)))
    answer(master, *second)
    answer(master, *third)
    pair.settle(3_000)
    assert payloads(master, "r") == ANSWERS[1:]
    told = [note for note in master.notes if "copies of answers wait" in note]
    why = "more payload than queue r may hold in all (max_bytes 100)"
    assert told == [f"queue s: 1 copies of answers wait: request 1: {why}"]
    act(pair, QUEUE_ACTION_UPDATE, "r", max_bytes=1_000)
    pair.settle(3_000)
    assert [len(row) for row in payloads(master, "r")] == [8, 8, 101]
    assert not master.core.orders.replying.waiting


def test_what_follows_one_that_cannot_go_waits_for_no_second_try() -> None:
    pair, master = asked()
    first, second, _ = taken(pair)
    answer(master, *first, priority=99)
    pair.settle(100)
    answer(master, *second)
    pair.quiesce()
    assert payloads(master, "r") == ANSWERS[1:2]


def test_queues_that_are_not_there_are_tried_some_at_a_time_and_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replying, "NAMES_MAX", 4)
    pair, master = asked(10, made=False, reply_tos=[f"gone.{number}" for number in range(10)])
    for request in taken(pair, 10):
        answer(master, *request)
    pair.settle(100)
    told = [note for note in master.notes if "copies of answers" in note]
    assert told == [
        "queue s: 10 copies of answers for 10 queues wait; for gone.0: there is no queue 'gone.0'; create it first"
    ]
    tried: list[str] = []
    room_in = replying.room_in
    monkeypatch.setattr(replying, "room_in", lambda state, name: tried.append(name) or room_in(state, name))
    now_ms = pair.now_ms + 2_000
    for step in range(4):
        before = len(tried)
        master.core.orders.replying.look(now_ms + 20 * step)
        assert len(tried) - before <= 4
    assert len(tried) == len(set(tried)) == 10


def test_one_look_copies_no_more_than_one_record_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever queues take them again."""
    monkeypatch.setattr(replying, "MOVE_BYTES_MAX", 25_000)
    names = ["r0", "r1", "r2", "r3"]
    pair, master = asked(8, made=False, reply_tos=names * 2)
    for lease_id, index in taken(pair, 8):
        message = Message(payload=b"x" * 10_000)
        master.submit(
            PendingCall(
                Waiter(),
                SendReply(ReplyCall("s", lease_id, index, 10_000, request_hash=index), message.SerializeToString()),
            )
        )
    pair.settle(100)
    for name in names:
        create(pair, name)
    now_ms, held = pair.now_ms + 5_000, []
    for step in range(5):
        master.core.orders.replying.look(now_ms + 20 * step)
        pair.quiesce()
        held.append(sum(map(len, sizes(master).values())))
    assert all(after - before <= 3 for before, after in zip([0, *held], held, strict=False)), held
    pair.settle(3_000)
    assert sizes(master) == {name: [10_000] * 2 for name in names}


def test_the_requests_of_one_record_are_read_once() -> None:
    pair, master = asked()
    reads: list[int] = []
    read = master.core.orders.replying.read
    master.core.orders.replying.read = lambda log_index: reads.append(log_index) or read(log_index)
    for request in taken(pair):
        answer(master, *request)
    pair.settle(200)
    assert payloads(master, "r") == ANSWERS
    assert reads.count(min(reads)) == 1


def test_who_is_master_no_longer_remembers_no_copies() -> None:
    pair, master = asked(made=False)
    for request in taken(pair):
        answer(master, *request)
    pair.settle(100)
    assert master.core.orders.replying.waiting
    master.core.orders.on_following()
    assert not master.core.orders.replying.waiting
    master.core.orders.replying.look(pair.now_ms)
    assert not [note for note in master.notes if "given up" in note]
