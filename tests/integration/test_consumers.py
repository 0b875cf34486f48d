"""What becomes of consumers that wait when their queue changes under them: nobody's wait may end the member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq.errors import to_error
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, new_id, new_name, raw_to, refused, still_serves
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with patient(tmp_path).running() as cluster:
        yield cluster
        await still_serves(cluster)


@pytest.fixture
async def member(pair: Cluster) -> AsyncIterator[Raw]:
    async with raw_to(pair.endpoint("a")) as [raw]:
        yield raw


@pytest.fixture
async def queue(member: Raw) -> str:
    name = new_name()
    await member.create(name)
    return name


async def test_one_request_id_waiting_twice_gets_one_answer(member: Raw, queue: str) -> None:
    """Found by these tests: the second waiter was leased for under an id that was answered; the member stopped."""
    request_id = new_id()
    waiting = [asyncio.ensure_future(member.receive(queue, request_id=request_id, wait={"seconds": 3})) for _ in "12"]
    await asyncio.sleep(0)
    await member.receive(queue, wait={"nanos": 50_000_000})  # both are there when this has waited for its time
    await member.send(queue, b"1", b"2")
    got = await asyncio.gather(*waiting, return_exceptions=True)
    served = [answer for answer in got if isinstance(answer, service.DequeueResponse) and answer.messages]
    assert served, got
    assert len({answer.messages[0].index for answer in served}) == 1


@pytest.mark.requirement("R163")
async def test_a_consumer_learns_that_receiving_was_disabled(member: Raw, queue: str) -> None:
    call = await _consuming(member, queue)
    update = admin.UpdateQueueRequest(
        name=queue, request_id=new_id(), config={"dequeue_enabled": False}, update_mask={"paths": ["dequeue_enabled"]}
    )
    await member.admin.UpdateQueue(update, timeout=OUTER_S)
    with refused("DEQUEUE_DISABLED", grpc.StatusCode.FAILED_PRECONDITION, queue):
        await member.receive(queue)
    await member.send(queue, b"x")
    while not (frame := await call.read()).HasField("goaway"):
        assert not frame.HasField("deliveries"), frame
    assert to_error(frame.goaway.error).reason == "DEQUEUE_DISABLED"
    assert await call.read() is grpc.aio.EOF


async def test_a_consumer_learns_that_its_queue_was_deleted(member: Raw, queue: str) -> None:
    """Its stream stayed open and silent for good, also when the queue was created again and got messages."""
    call = await _consuming(member, queue)
    await member.admin.DeleteQueue(admin.DeleteQueueRequest(name=queue, request_id=new_id()), timeout=OUTER_S)
    await member.create(queue)
    await member.send(queue, b"x")
    while not (frame := await call.read()).HasField("goaway"):
        assert not frame.HasField("deliveries"), frame
    assert to_error(frame.goaway.error).reason == "QUEUE_NOT_FOUND"
    assert queue in frame.goaway.error.message
    assert await call.read() is grpc.aio.EOF
    assert await member.take(queue) == [b"x"]


async def _consuming(member: Raw, queue: str) -> Any:
    call = member.queue.Consume(timeout=OUTER_S)
    await call.write(service.ConsumeRequest(open={"queue": queue, "client_id": b"c"}))
    assert (await call.read()).HasField("opened")
    await call.write(service.ConsumeRequest(credit={"messages": 10, "bytes": 1 << 20}))
    return call
