"""What a refusal says of the pair is on every copy before it is said, as what an answer says is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replica.core.state.calls import AwaitOrdered, PendingCall, ReadWeights, SideCall, StageRows
from replica.core.state.outcomes import Moved, QueueDone, UnstageDone
from replica.machine import (
    AdvanceCall,
    DeleteWeightsCall,
    ForgetCall,
    PublishWeightsCall,
    QueueCall,
    ReaderPlace,
    RegisterCall,
    SettleCall,
    StageCall,
    Window,
    columns_of,
)
from replica.machine.features.readers import plan_lose
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CREATE, QUEUE_ACTION_DELETE
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Member, Pair

TABLE, READER, QUEUE = "shares", "lake", "q"
Ask = Callable[[Waiter], Any]


def asking(call: SideCall | ReadWeights) -> Ask:
    return lambda waiter: PendingCall(waiter, call)


def publish(over: int) -> Ask:
    return asking(PublishWeightsCall(TABLE, ((QUEUE, 1.0),), 0, 1_000, over, "job", Window(), b"", 0))


REGISTER = asking(RegisterCall(READER, ReaderPlace(1, 0), 0, False, b"", 0))


def queue(action: Any, name: str) -> Ask:
    config = QueueConfig() if action == QUEUE_ACTION_CREATE else None
    return lambda waiter: PendingCall(
        waiter, QueueCall(action, name, config, members=["a", "b"], open_members=["a", "b"])
    )


def settle(waiter: Waiter) -> SettleCall:
    return PendingCall(waiter, SettleCall(QUEUE, ()))


DELETE_WEIGHTS, READ_WEIGHTS = asking(DeleteWeightsCall(TABLE, 1, b"", 0)), asking(ReadWeights(TABLE))
FORGET, ADVANCE = asking(ForgetCall(READER, b"", 0)), asking(AdvanceCall(READER, None, b"", 0))
CREATE, DELETE = queue(QUEUE_ACTION_CREATE, "new"), queue(QUEUE_ACTION_DELETE, QUEUE)


def lose(member: Member) -> Waiter:
    """The master itself gives a reader up; whoever waits for all that is ordered hears when it is on both."""
    orders = member.core.orders
    orders.order(plan_lose(orders.machine.state, orders.time_ms, READER, 2, "it was late"))
    return asked(member, lambda waiter: PendingCall(waiter, AwaitOrdered()))


BEFORE: tuple[Ask, ...] = (publish(0), REGISTER)
CASES: dict[str, tuple[Callable[[Member], Waiter], Ask, Any]] = {
    "a table that is deleted": (lambda at: asked(at, DELETE_WEIGHTS), READ_WEIGHTS, Reason.REASON_WEIGHTS_NOT_FOUND),
    "a version that is replaced": (lambda at: asked(at, publish(1)), publish(1), Reason.REASON_VERSION_MISMATCH),
    "a reader that is forgotten": (lambda at: asked(at, FORGET), ADVANCE, Reason.REASON_READER_NOT_FOUND),
    "a reader that is given up": (lose, ADVANCE, Reason.REASON_READER_LOST),
    "a queue that is made": (lambda at: asked(at, CREATE), CREATE, Reason.REASON_QUEUE_EXISTS),
    "a queue that is deleted": (lambda at: asked(at, DELETE), settle, Reason.REASON_QUEUE_NOT_FOUND),
}


@pytest.fixture
def pair() -> Pair:
    made = Pair().start()
    create(made)
    assert made.master is not None
    for ask in BEFORE:
        assert isinstance(asked(made.master, ask, made).done, QueueDone)
    return made


def asked(member: Member, ask: Ask, pair: Pair | None = None) -> Waiter:
    waiter = Waiter()
    member.submit(ask(waiter))
    if pair is not None:
        pair.settle(200)
    return waiter


@pytest.mark.parametrize(("change", "ask", "reason"), CASES.values(), ids=CASES)
def test_it_is_told_when_what_it_says_is_on_both(
    pair: Pair, change: Callable[[Member], Waiter], ask: Ask, reason: Any
) -> None:
    assert pair.master is not None
    changed, refused = change(pair.master), asked(pair.master, ask)
    assert changed.answers == refused.answers == []
    pair.settle(200)
    assert isinstance(changed.done, QueueDone | UnstageDone)
    assert [answer.reason for answer in refused.answers] == [reason]


@pytest.mark.parametrize(("change", "ask", "reason"), CASES.values(), ids=CASES)
def test_it_is_not_told_when_a_takeover_takes_that_back(
    pair: Pair, change: Callable[[Member], Waiter], ask: Ask, reason: Any
) -> None:
    """1. A master has deleted a table, and its peer has not heard of it. 2. Somebody asks, and is told that there is
    none. 3. The peer takes over: the table is there. Whoever routes by it was told what never was so.
    """
    old = pair.master
    assert old is not None
    pair.cut()
    change(old)
    refused = asked(old, ask)
    old.commit()
    old.peer.notice()
    old.peer.lost(refused=True)
    pair.quiesce()
    assert old.peer.serving
    assert refused.answers == []
    pair.heal()
    assert [type(answer) for answer in refused.answers] == [Moved]


def test_what_lacks_only_for_now_is_told_at_once(pair: Pair) -> None:
    """It says nothing of what the pair holds, and the commit that it would wait for may need the same room."""
    master = pair.master
    assert master is not None
    asked(master, publish(1))
    master.core.orders.is_full = True

    batch = EnqueueBatch(queue=QUEUE, messages=MessageBatch(payloads=[b"row"]))
    part = StageCall(bytes(16), 1, QUEUE, columns_of(batch), 0, 0, master.name)
    told = asked(master, lambda waiter: PendingCall(waiter, StageRows(part, batch.SerializeToString()))).answers
    assert [answer.reason for answer in told] == [Reason.REASON_STORAGE_FULL]
