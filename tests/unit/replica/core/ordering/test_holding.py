"""What a replica answers for a batch that it holds, when the master orders another call of the same identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import pytest

from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed
from replica.machine import EnqueueCall, columns_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.member import Member


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.start()
    create(made)
    return made


def submit(member: Member, *payloads: bytes, first_sequence: int = 1) -> Waiter:
    """A batch of the one client id, numbered as a producer does that was told that nothing is executed yet."""
    batch = EnqueueBatch(queue="q", first_sequence=first_sequence, messages=MessageBatch(payloads=payloads))
    body, waiter = batch.SerializeToString(), Waiter()
    call = EnqueueCall(
        "q", b"same", first_sequence, columns_of(batch), member.name, request_hash=google_crc32c.value(body)
    )
    member.submit(PendingEnqueue(waiter, call, body))
    return waiter


def executed(waiter: Waiter) -> tuple[int, bool]:
    (done,) = waiter.answers
    assert isinstance(done, EnqueueDone)
    return done.first_index, done.duplicate


def mismatch(waiter: Waiter) -> bool:
    (failed,) = waiter.answers
    return isinstance(failed, Failed) and failed.reason == Reason.REASON_REQUEST_MISMATCH


@pytest.mark.parametrize("payloads", [(b"new",), (b"new", b"new"), (b"new",) * 3])
@pytest.mark.parametrize("told", [False, True], ids=["ordered", "told"])
def test_what_is_held_is_not_answered_for_another_batch_of_its_identity(
    pair: Pair, payloads: tuple[bytes, ...], told: bool
) -> None:
    """A producer died while its batch was under way to the master; the next one uses its client id and sequences."""
    dead = submit(pair.a, b"dead", b"dead")
    while told and not dead.answers:  # the replica has the record, and does not know yet that it is committed
        assert pair.one()
    new = submit(pair.b, *payloads)
    if told:
        pair.beat(pair.a)
        while pair.one(senders="a"):
            pass
    pair.settle(200)
    assert executed(dead) == (1, False)
    assert mismatch(new)
    assert [member.core.orders.machine.queue(1).length for member in pair.up] == [2, 2]
    assert len(pair.b.core.holding) == 0


def test_what_is_held_is_answered_when_it_comes_first(pair: Pair) -> None:
    new = submit(pair.b, b"new")
    pair.quiesce()
    dead = submit(pair.a, b"dead", b"dead")
    pair.settle(200)
    assert executed(new) == (1, False)
    assert mismatch(dead)


def test_a_repetition_that_comes_through_the_replica_says_that_it_is_one(pair: Pair) -> None:
    first = submit(pair.a, b"1")
    again = submit(pair.b, b"1")
    pair.settle(200)
    assert (executed(first), executed(again)) == ((1, False), (1, True))
    late = submit(pair.b, b"1")
    pair.settle(200)
    assert executed(late) == (1, True)
    through = submit(pair.b, b"2", first_sequence=2)
    pair.settle(200)
    assert executed(through) == (2, False)
