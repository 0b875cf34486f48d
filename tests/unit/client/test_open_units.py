"""What an open unit of work says on the wire when it ends: a commit where it did anything, a rollback where not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tandemq.client import aio
from tandemq.client.open_units import Unit
from tandemq.client.settling import Act
from tandemq.v1 import queue_service_pb2, transaction_service_pb2
from tests.unit.client.fake import FakeMember
from tests.unit.client.test_unary_calls import Called

ACK = Act(7, queue_service_pb2.OUTCOME_ACK)


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with FakeMember() as started:
        yield started


async def nothing(unit: Unit) -> None:
    await unit.dequeue("q")  # and there is nothing


@pytest.mark.parametrize(
    ("work", "ends"),
    [
        (lambda unit: unit.settle("q", [(ACK, [(1, 2)])]), "Commit"),
        (lambda unit: unit.reply("q", 7, 1, b"answer"), "Commit"),
        (lambda unit: unit.enqueue("q", [b"x"]), "Commit"),
        (nothing, "Rollback"),
    ],
    ids=["settle", "reply", "enqueue", "nothing"],
)
async def test_a_unit_that_did_anything_is_committed(
    member: FakeMember, work: Callable[[Unit], Awaitable[object]], ends: str
) -> None:
    queues = Called(member, queue_service_pb2, "QueueService")
    queues.answers["Settle"] = queue_service_pb2.SettleResponse(results=[queue_service_pb2.SettleResult(settled=2)])
    units = Called(member, transaction_service_pb2, "TransactionService")
    units.answers["Begin"] = transaction_service_pb2.BeginResponse(unit_id=b"u" * 16)
    async with aio.connect(member.endpoint) as client, client.unit() as unit:
        await work(unit)
    assert [name for name, _ in units.seen][-1:] == [ends]
