"""While a call of many units is carried out, everybody else is served after so much of it, however it is divided."""

from __future__ import annotations

import pytest

from replica.services.messages.transact_many import ROWS_A_QUEUE, WEIGHT_AT_ONCE, pauses_of
from tandemq.v1 import transaction_service_pb2 as pb


def unit(queues: int = 1, messages: int = 1, settlements: int = 0) -> pb.TransactRequest:
    puts = [pb.QueueMessages(queue="q", messages=[{}] * messages)] * queues
    settles = [pb.QueueSettlements(queue="q", settlements=[{}] * settlements)] if settlements else []
    return pb.TransactRequest(puts=puts, settles=settles)


@pytest.mark.parametrize(
    ("each", "at_once"),
    [
        (unit(), WEIGHT_AT_ONCE // 2),
        (unit(queues=100), 1),
        (unit(messages=10_000), 1),
        (unit(settlements=ROWS_A_QUEUE * WEIGHT_AT_ONCE), 1),
        (pb.TransactRequest(), WEIGHT_AT_ONCE),
    ],
)
def test_everybody_else_is_served_after_so_much_of_a_call(each: pb.TransactRequest, at_once: int) -> None:
    assert sorted(pauses_of([each] * (3 * at_once))) == [at_once - 1, 2 * at_once - 1, 3 * at_once - 1]


def test_a_small_call_goes_without_a_pause() -> None:
    assert not pauses_of([unit(), unit(queues=3)])
