"""How a unit of work is ordered, over a pair in one process: copies, room in the store, numbers of writers, what it
says of what it has lost, and what its record is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering.divergences import Between
from replica.core.state.calls import PendingCall, PutInUnit, Transact
from replica.core.state.effects import Note
from replica.core.state.outcomes import Failed, UnitDone, UnitKept
from replica.machine import QueuePut, UnitCall, UnitIdentity, columns_of
from tandemq.v1.message_pb2 import Message, MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tandemq.v1.queue_service_pb2 import EnqueueBatch, EnqueueRequest
from tests.support.clients import Waiter, create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_copies_wanted import alone
from tests.unit.replica.core.ordering.test_dying import contents, payloads
from tests.unit.replica.core.ordering.test_open_units import asked, begun, commit, commit_of, got, new_id, put, why
from tests.unit.replica.core.ordering.test_reacting import filled, where
from tests.unit.replica.core.ordering.test_sweeps import send, update
from tests.unit.replica.core.ordering.test_unit_reactions import found, held

if TYPE_CHECKING:
    from tests.support.member import Member


def transact(
    member: Member, *queues: str, min_copies: int = 0, identity: UnitIdentity | None = None, request_id: bytes = b""
) -> Waiter:
    """One message for each of these queues, sent once."""
    batch = EnqueueBatch(messages=MessageBatch(payloads=[b"of a unit"] * len(queues)))
    columns, waiter = columns_of(batch), Waiter()
    puts = [QueuePut(queue, columns.part(at, 1)) for at, queue in enumerate(queues)]
    call = UnitCall((), puts, member.name, request_id or new_id(), 1, identity)
    member.submit(PendingCall(waiter, Transact(call, batch.SerializeToString(), min_copies)))
    return waiter


@pytest.fixture
def pair() -> Pair:
    """Queue q and r; what enters `two` must be on two members."""
    made = Pair().start()
    for queue in "qr":
        create(made, queue)
    create(made, "two", require_two=True)
    return made


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("min_copies", [0, 1, 2])
@pytest.mark.parametrize("queues", [("q",), ("q", "two"), ("two", "q")])
def test_as_many_hold_it_as_the_caller_or_one_of_its_queues_wants(
    pair: Pair, queues: tuple[str, ...], min_copies: int, copies: int
) -> None:
    member = alone(pair) if copies == 1 else pair.a
    last = member.shared.log.last_index
    done = transact(member, *queues, min_copies=min_copies)
    pair.settle(200)
    if copies >= max(min_copies, 1 + ("two" in queues)):
        assert isinstance(done.done, UnitDone)
        assert done.done.copies == copies
    else:
        assert isinstance(done.done, Failed)
        assert (why(done.done), done.done.metadata) == ("NOT_ENOUGH_COPIES", {"copies": "1", "min_copies": "2"})
        assert member.shared.log.last_index == last, "nothing is ordered"


def test_a_repetition_wants_as_many_as_the_first_did(pair: Pair) -> None:
    """Of one that has entered already, the queues that it has entered say that."""
    first = transact(pair.a, "two", request_id=b"r" * 16)
    pair.settle(200)
    assert isinstance(first.done, UnitDone)
    member = alone(pair)
    again = transact(member, "two", request_id=b"r" * 16)
    pair.settle(200)
    assert (why(again.done), again.done.metadata["outcome"]) == ("NOT_ENOUGH_COPIES", "stored")


def test_what_a_reaction_of_a_unit_acts_on_may_want_two_since_it_was_asked_for() -> None:
    pair, master = filled(1)
    assert alone(pair) is master
    unit = begun(pair)
    assert found(held(pair, unit)) == {"held": 1}
    update(pair, "q", require_two=True)
    assert why(commit(pair, unit)) == "NOT_ENOUGH_COPIES"
    update(pair, "q", require_two=False)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(master, "q") == []


# -- room --------------------------------------------------------------------------------------------------------------


def test_what_is_ordered_takes_the_room_of_its_body_until_the_store_says_anew(pair: Pair) -> None:
    orders = pair.a.core.orders
    body = EnqueueBatch(messages=MessageBatch(payloads=[b"of a unit"] * 2)).ByteSize()
    orders.room_bytes = 2 * body - 1
    first, second = (transact(pair.a, "q", "r") for _ in range(2))
    assert orders.room_bytes == body - 1
    pair.settle(20)
    assert isinstance(first.done, UnitDone)
    assert why(second.done) == "STORAGE_FULL"
    assert [len(payloads(pair.a, queue)) for queue in "qr"] == [1, 1]


# -- numbers -----------------------------------------------------------------------------------------------------------


def numbered_unit(pair: Pair, number: int, digest: int, writer: str = "w") -> Any:
    waiter = transact(pair.a, "q", identity=UnitIdentity(writer, "", number, number - 1, digest))
    pair.settle(200)
    return waiter.done


def test_u15_a_unit_that_comes_again_under_its_number_is_done_once(pair: Pair) -> None:
    """By another request: its writer has begun anew and has only its number left."""
    first = numbered_unit(pair, 1, 7)
    assert (first.duplicate, first.repeated, [run.count for run in first.puts]) == (False, None, [1])
    again = numbered_unit(pair, 1, 7)
    assert (again.duplicate, again.puts, again.epoch, again.copies) == (True, [], first.epoch, 2)
    assert (again.repeated.last, again.repeated.differs) == (1, False)
    assert len(payloads(pair.a, "q")) == 1
    assert why(numbered_unit(pair, 3, 7)) == "SEQUENCE_GAP"
    assert not numbered_unit(pair, 2, 7).duplicate


def test_k8_that_a_writer_sends_another_content_is_said_once(pair: Pair) -> None:
    said: list[Note] = []
    listen = pair.listener

    def listener(kind: str, member: Member, what: Any) -> None:
        if isinstance(what, Note) and "writer" in what.facts:
            said.append(what)
        listen(kind, member, what)

    pair.listener = listener
    for writer in ("v", "w"):
        for number in (1, 2):
            numbered_unit(pair, number, 7, writer)
    assert numbered_unit(pair, 2, 7, "w").duplicate
    assert said == [], "the same content again is no difference"
    assert pair.a.core.orders.divergences.counts[Between.OUTPUTS] == 0
    answers = [numbered_unit(pair, number, 8, writer) for writer, number in (("w", 2), ("w", 1), ("v", 1), ("w", 2))]
    assert all(each.duplicate and each.repeated.differs for each in answers)
    assert [(note.facts["writer"], note.facts["number"]) for note in said] == [("w", "2"), ("v", "1")]
    assert said[0].facts == {
        "writer": "w",
        "number": "2",
        "digest": f"{8:016x}",
        "first_digest": f"{7:016x}",
    }


# -- what is lost ------------------------------------------------------------------------------------------------------


def test_u9_after_its_deadline_nothing_is_done_for_it_before_anybody_has_looked_at_the_clock(pair: Pair) -> None:
    unit = begun(pair, 1_000)
    assert isinstance(put(pair, unit, "r", b"in time"), UnitKept)
    pair.now_ms += 1_000 + 10_000
    waiter = Waiter()
    pair.a.submit(PendingCall(waiter, commit_of(pair, unit)))
    pair.quiesce()
    assert why(waiter.done) == "TXN_ABORTED"
    assert len(pair.a.core.orders.units) == 0, "it has ended"
    assert payloads(pair.a, "r") == []


def test_u6_a_request_whose_time_is_over_is_named_by_its_queue_and_place(pair: Pair) -> None:
    create(pair, "asks", queue_type=QUEUE_TYPE_TWO_WAY, reply_timeout={"seconds": 1})
    send(pair, "asks", b"1?", b"2?")
    unit = begun(pair)
    assert got(pair, unit, "asks", most=2).lease_id
    assert isinstance(put(pair, unit, "r", b"a"), UnitKept)
    pair.settle(1_500)
    lost = commit(pair, unit)
    assert (why(lost), lost.metadata) == ("LEASE_LOST", {"queue": "asks", "index": "1"})
    assert "message 1 of queue asks, which the unit holds, is not there any more" in lost.message
    assert payloads(pair.a, "r") == []


@pytest.mark.parametrize(("reply_to", "reason"), [("asks", "BAD_REQUEST"), ("x" * 256, "BAD_NAME"), ("r", "")])
def test_u4_a_request_whose_answer_cannot_go_where_it_says_is_refused_at_once(
    pair: Pair, reply_to: str, reason: str
) -> None:
    create(pair, "asks", queue_type=QUEUE_TYPE_TWO_WAY)
    unit = begun(pair)
    request = EnqueueRequest(queue="asks", messages=[Message(payload=b"?", reply_to=reply_to)])
    columns = columns_of(EnqueueBatch(messages=MessageBatch(payloads=[b"?"], reply_tos=[reply_to])))
    done = asked(pair, PutInUnit(unit, "asks", new_id(), 1, columns, request.SerializeToString(), "a"))
    assert (why(done) if reason else isinstance(done, UnitKept)) == (reason or True)
    assert isinstance(commit(pair, unit), UnitDone)
    assert payloads(pair.a, "asks") == ([] if reason else [b"?"])


# -- its record --------------------------------------------------------------------------------------------------------


def test_v15_reactions_of_a_unit_at_one_queue_are_one_entry_of_its_record() -> None:
    """A record has one entry a queue."""
    pair, master = filled(5)
    ids = [row.id for row in contents(master, "q")]
    unit = begun(pair)
    for chosen in (ids[3:4], ids[0:2]):
        assert found(held(pair, unit, where(ids=chosen))) == {"held": len(chosen)}
    assert isinstance(commit(pair, unit), UnitDone)
    txn = master.shared.log.header_at(master.shared.log.last_index).txn
    (removed,) = txn.removes
    assert [(part.first, part.count) for part in removed.ranges] == [(4, 1), (1, 2)]
    assert [len(settle.effects) for settle in txn.settles] == [2]
    assert payloads(master, "q") == [b"z/3", b"z/5"]
