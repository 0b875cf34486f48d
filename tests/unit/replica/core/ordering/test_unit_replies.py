"""Answers to requests as a part of a unit of work, over a pair in one process (U16): given by the commit alone."""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.delivery.completing import Ask
from replica.core.messages.bodies import read_answer
from replica.core.state.calls import ReplyInUnit, RollbackUnit, SendReply, SettleInUnit
from replica.core.state.outcomes import LeaseDone, QueueDone, ReplyDone, UnitDone, UnitEnded, UnitKept
from replica.machine import QueueCall, ReplyCall, handle_of
from storage.memory import MemoryStore
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REPLIED, OUTCOME_REJECT, OUTCOME_RELEASE, Settlement
from tests.support.clients import Waiter, create
from tests.support.member import NUMBER
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_open_units import (
    asked,
    begun,
    commit,
    got,
    new_id,
    payloads,
    put,
    queue_of,
    takeover,
    why,
)
from tests.unit.replica.core.ordering.test_sweeps import send


@pytest.fixture
def pair() -> Pair:
    """Requests 1 to 3 in q, and the queue r."""
    pair = Pair().start()
    create(pair, "q", queue_type=QUEUE_TYPE_TWO_WAY)
    create(pair, "r")
    send(pair, "q", b"one?", b"two?", b"three?")
    return pair


def call_of(unit: bytes, lease_id: int, index: int, text: bytes, request_id: bytes = b"", queue: str = "q") -> Any:
    body = Message(payload=text, content_type="text/plain").SerializeToString()
    call = ReplyCall(queue, lease_id, index, len(text), request_id or new_id(), hash(text) & 0xFFFFFFFF, unit)
    return ReplyInUnit(call, body) if unit else SendReply(call, body)


def answer(pair: Pair, unit: bytes, lease: LeaseDone, index: int, text: bytes = b"yes", request_id: bytes = b"") -> Any:
    return asked(pair, call_of(unit, lease.lease_id, index, text, request_id))


def settle(pair: Pair, unit: bytes, lease: LeaseDone, index: int, outcome: Any) -> Any:
    made = Settlement(lease_id=lease.lease_id, ranges=[IndexRange(first=index, count=1)], outcome=outcome)
    return asked(pair, SettleInUnit(unit, "q", new_id(), 1, [made]))


def progress(pair: Pair, index: int) -> Any:
    master = pair.master
    assert master is not None
    waiter = Waiter()
    prefix = NUMBER.to_bytes(4, "big") + queue_of(pair).queue_id.to_bytes(4, "big")
    master.core.completing.ask(Ask(waiter, "q", [handle_of(prefix, index)], waits=False, each=False))
    master.dispatch(master.core)
    pair.settle()
    return waiter.done.progress[0]


def read(pair: Pair, index: int) -> bytes:
    """The answer, at both members the same."""
    found = progress(pair, index)
    assert found.final == FINAL_STATE_REPLIED
    texts = {_read(member, found) for member in pair.up}
    (text,) = texts
    return text


def _read(member: Any, found: Any) -> bytes:
    message = read_answer(member.store, member.core.shared, found.answer, found.request)
    assert message is not None
    assert message.content_type == "text/plain"
    return message.payload


def test_the_commit_answers_and_nobody_sees_it_before(pair: Pair) -> None:
    unit = begun(pair)
    lease = got(pair, unit, most=2)
    put(pair, unit, "r", b"a", b"b")
    assert isinstance(answer(pair, unit, lease, 1, b"first"), UnitKept)
    assert isinstance(answer(pair, unit, lease, 2, b"second"), UnitKept)
    assert [progress(pair, index).final for index in (1, 2)] == [0, 0]
    done = commit(pair, unit)
    assert isinstance(done, UnitDone)
    assert (list(done.names), [each.count for each in done.puts]) == (["r"], [2])
    assert (read(pair, 1), read(pair, 2), payloads(pair), payloads(pair, "r")) == (
        *(b"first", b"second"),
        *([b"three?"], [b"a", b"b"]),
    )
    assert commit(pair, unit).duplicate
    takeover(pair)
    assert (read(pair, 1), read(pair, 2)) == (b"first", b"second")


def test_a_consumer_is_not_given_the_answers_that_stand_behind_its_messages(pair: Pair) -> None:
    unit = begun(pair)
    lease = got(pair, unit)
    put(pair, unit, "r", b"a")
    answer(pair, unit, lease, 1)
    commit(pair, unit)
    assert pair.master is not None
    stored = pair.master.core.orders.replying.read(pair.master.core.shared.log.last_index)
    assert stored is not None
    assert (stored.count, stored.accepted) == (2, 1)


def test_a_request_without_an_answer_refuses_the_commit(pair: Pair) -> None:
    """By name, and the unit stays open: U7."""
    unit = begun(pair)
    lease = got(pair, unit, most=3)
    answer(pair, unit, lease, 1)
    refused = commit(pair, unit)
    assert (why(refused), refused.metadata["index"]) == ("REPLY_REQUIRED", "2")
    assert isinstance(settle(pair, unit, lease, 2, OUTCOME_RELEASE), UnitKept)
    assert isinstance(settle(pair, unit, lease, 3, OUTCOME_REJECT), UnitKept)
    assert isinstance(commit(pair, unit), UnitDone)
    assert (read(pair, 1), payloads(pair)) == (b"yes", [b"two?"])


def test_a_rollback_forgets_the_answer_and_gives_back_the_request(pair: Pair) -> None:
    unit = begun(pair)
    lease = got(pair, unit)
    answer(pair, unit, lease, 1)
    assert asked(pair, RollbackUnit(unit)) == UnitEnded(1)
    assert queue_of(pair).deliveries == {1: 1}
    assert progress(pair, 1).final == 0
    assert pair.master is not None
    assert pair.master.core.orders.units.bytes == 0


def test_a_takeover_forgets_it_too(pair: Pair) -> None:
    unit = begun(pair)
    answer(pair, unit, got(pair, unit), 1)
    takeover(pair)
    assert why(commit(pair, unit)) == "TXN_ABORTED"
    assert (progress(pair, 1).final, queue_of(pair).deliveries) == (0, {})


def test_what_was_taken_outside_may_be_answered_in_a_unit(pair: Pair) -> None:
    """U6: as long as the lease holds it."""
    outside, lost = got(pair), got(pair)
    unit = begun(pair)
    assert isinstance(answer(pair, unit, outside, 1), UnitKept)
    assert isinstance(answer(pair, unit, lost, 2), UnitKept)
    assert asked(pair, call_of(b"", lost.lease_id, 2, b"sooner")) == ReplyDone(duplicate=False)
    assert why(commit(pair, unit)) == "ALREADY_REPLIED"
    other = begun(pair)
    assert isinstance(answer(pair, other, outside, 1), UnitKept)
    assert isinstance(commit(pair, other), UnitDone)
    assert (read(pair, 1), read(pair, 2)) == (b"yes", b"sooner")


def test_the_same_refusals_as_outside_and_the_unit_stays_as_it_was(pair: Pair) -> None:
    create(pair, "tiny", queue_type=QUEUE_TYPE_TWO_WAY, max_message_bytes=2)
    send(pair, "tiny", b"?")
    send(pair, "r", b"plain")
    plain, outside = got(pair, queue="r"), got(pair)
    unit = begun(pair)
    lease = got(pair, unit)
    assert why(asked(pair, call_of(unit, plain.lease_id, 1, b"x", queue="r"))) == "NOT_TWO_WAY"
    assert why(asked(pair, call_of(unit, 1, 1, b"x", queue="nowhere"))) == "QUEUE_NOT_FOUND"
    assert why(asked(pair, call_of(unit, 0, 1, b"x"))) == "BAD_REQUEST"
    assert why(asked(pair, call_of(unit, lease.lease_id, 3, b"x"))) == "LEASE_LOST", "nobody holds it"
    small = got(pair, unit, "tiny")
    assert why(asked(pair, call_of(unit, small.lease_id, 1, b"long", queue="tiny"))) == "MESSAGE_TOO_LARGE"
    assert isinstance(asked(pair, call_of(unit, small.lease_id, 1, b"ok", queue="tiny")), UnitKept)
    assert why(asked(pair, call_of(b"", lease.lease_id, 2, b"x"))) == "BAD_REQUEST", "it is the unit's"
    other = begun(pair)
    assert why(answer(pair, other, lease, 2)) == "BAD_REQUEST"
    name = new_id()
    assert answer(pair, unit, lease, 2, b"yes", name) == UnitKept(duplicate=False)
    assert answer(pair, unit, lease, 2, b"yes", name) == UnitKept(duplicate=True)
    assert why(answer(pair, unit, lease, 2, b"no", name)) == "REQUEST_MISMATCH"
    assert why(answer(pair, unit, lease, 2, b"no")) == "ALREADY_REPLIED", "the first one counts"
    assert why(settle(pair, unit, lease, 2, OUTCOME_REJECT)) == "BAD_REQUEST", "once is enough"
    assert isinstance(settle(pair, unit, outside, 1, OUTCOME_REJECT), UnitKept)
    assert why(answer(pair, unit, outside, 1)) == "BAD_REQUEST"
    assert isinstance(commit(pair, unit), UnitDone)
    assert read(pair, 2) == b"yes"
    assert why(answer(pair, unit, lease, 2)) == "INVALID_STATE"


def test_one_out_and_one_in_fit_a_full_queue_of_requests(pair: Pair) -> None:
    """U7: what is answered has left by then. The same queue keeps the body for its answer, and for its message."""
    create(pair, "s", queue_type=QUEUE_TYPE_TWO_WAY, max_length=1)
    send(pair, "s", b"is it?")
    unit = begun(pair)
    lease = got(pair, unit, "s")
    put(pair, unit, "s", b"is it still?")
    assert isinstance(asked(pair, call_of(unit, lease.lease_id, 1, b"it is", queue="s")), UnitKept)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "s") == [b"is it still?"]
    machine = pair.a.core.shared.machine
    assert machine is not None
    log_index = machine.locate(queue_of(pair, "s").queue_id, 2)[0]
    assert machine.state.shared == {log_index: 2}
    second = got(pair, queue="s")
    assert asked(pair, call_of(b"", second.lease_id, 2, b"it was", queue="s")) == ReplyDone(duplicate=False)
    assert machine.state.shared == {log_index: 1}, "the answer is kept"
    assert isinstance(asked(pair, QueueCall(QUEUE_ACTION_DELETE, "s")), QueueDone)
    assert (machine.live(log_index), machine.state.shared) == (False, {})


def test_both_holds_of_one_queue_end_with_it(pair: Pair) -> None:
    create(pair, "s", queue_type=QUEUE_TYPE_TWO_WAY)
    send(pair, "s", b"is it?")
    unit = begun(pair)
    lease = got(pair, unit, "s")
    put(pair, unit, "s", b"is it still?")
    asked(pair, call_of(unit, lease.lease_id, 1, b"it is", queue="s"))
    commit(pair, unit)
    log_index = pair.a.core.shared.log.last_index
    machine = pair.a.core.shared.machine
    assert machine is not None
    assert machine.live(log_index)
    assert isinstance(asked(pair, QueueCall(QUEUE_ACTION_DELETE, "s")), QueueDone)
    assert (machine.live(log_index), machine.state.shared) == (False, {})


@pytest.mark.parametrize("puts", [(), (b"a",)])
def test_an_answer_of_a_unit_comes_with_a_full_transfer(pair: Pair, puts: tuple[bytes, ...]) -> None:
    """U14: the record comes once, under the first of its queues that needs it still."""
    unit = begun(pair)
    lease = got(pair, unit, most=2)
    answer(pair, unit, lease, 1, b"first")
    answer(pair, unit, lease, 2, b"second")
    if puts:
        put(pair, unit, "r", *puts)
    assert isinstance(commit(pair, unit), UnitDone)
    pair.settle(200)
    pair.crash(pair.b)
    pair.b.store = MemoryStore(member="b", instance=b"b" * 16)
    pair.heal()
    assert len(pair.up) == 2
    assert (read(pair, 1), read(pair, 2)) == (b"first", b"second")


def test_the_copy_that_a_request_wants_goes_out_behind_the_unit(pair: Pair) -> None:
    send(pair, "q", b"four?", reply_tos=["r"])
    unit = begun(pair)
    lease = got(pair, unit, most=4)
    for index in range(1, 5):
        answer(pair, unit, lease, index, b"%d" % index)
    assert payloads(pair, "r") == []
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair, "r") == [b"4"]


def test_answers_count_for_the_limits_of_a_unit(pair: Pair) -> None:
    unit = begun(pair)
    lease = got(pair, unit)
    assert pair.master is not None
    pair.master.core.orders.units.bytes = 256 << 20
    assert why(answer(pair, unit, lease, 1)) == "QUOTA_EXCEEDED"


def test_an_answer_needs_room_in_the_store(pair: Pair) -> None:
    unit = begun(pair)
    answer(pair, unit, got(pair, unit), 1)
    assert pair.master is not None
    pair.master.core.orders.room_bytes = 3
    assert why(commit(pair, unit)) == "STORAGE_FULL"
    assert progress(pair, 1).final == 0
