"""A repetition never says that messages are on a disk which are in memory alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import pytest

from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import EnqueueDone
from replica.machine import EnqueueCall, columns_of
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import (
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_PERSISTENT,
    PERSISTENCE_VOLATILE,
    Persistence,
)
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter, create
from tests.support.pair import Pair

if TYPE_CHECKING:
    from tests.support.pair import Member


def enqueue(pair: Pair, member: Member, marks: list[int]) -> EnqueueDone:
    """Always the same call."""
    batch = EnqueueBatch(queue="q", first_sequence=1, messages=MessageBatch(payloads=[b"1", b"2"], persistence=marks))
    waiter = Waiter()
    body = batch.SerializeToString()
    call = EnqueueCall("q", b"client", 1, columns_of(batch), member.name, request_hash=google_crc32c.value(body))
    member.submit(PendingEnqueue(waiter, call, body))
    pair.settle(500)
    assert isinstance(waiter.done, EnqueueDone), waiter.done
    return waiter.done


@pytest.mark.requirement("R150")
@pytest.mark.parametrize("at", ["master", "replica"])
@pytest.mark.parametrize(
    ("mode", "marks", "volatile"),
    [
        (PERSISTENCE_PERSISTENT, [], False),
        (PERSISTENCE_PERSISTENT, [1], False),
        (PERSISTENCE_VOLATILE, [], True),
        (PERSISTENCE_VOLATILE, [2], True),
        (PERSISTENCE_CONDITIONAL, [], True),
        (PERSISTENCE_CONDITIONAL, [1, 2], False),
        (PERSISTENCE_CONDITIONAL, [0, 1], True),
        (PERSISTENCE_CONDITIONAL, [2], False),
    ],
)
def test_a_repetition_says_of_the_disks_what_the_first_answer_said(
    at: str, mode: Persistence, marks: list[int], volatile: bool
) -> None:
    pair = Pair().start()
    create(pair, persistence=mode)
    assert pair.master is not None
    member = next(each for each in pair.members.values() if (each is pair.master) == (at == "master"))
    first, again = enqueue(pair, pair.master, marks), enqueue(pair, member, marks)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert (first.volatile, again.volatile) == (volatile, volatile)
