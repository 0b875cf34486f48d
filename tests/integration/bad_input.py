"""What tests of bad input share: one pair for all of them, each member in turn, and that the pair is as good as before.

`pair = module_pair()`, `serves_on = served_on()`, `member = each_member()`, `queue = new_queue()`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, new_name, raw_to, still_serves
from tests.support.until import OUTER_S

INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
QUEUE, ADMIN = "/tandemq.v1.QueueService/", "/tandemq.v1.QueueAdminService/"
GARBAGE = b"\xff\xff\xff\xff garbage"


def served_on() -> Any:
    """The fixture `serves_on`."""

    @pytest.fixture(autouse=True)
    async def serves_on(pair: Cluster) -> AsyncIterator[None]:
        """Whatever a test does, the pair is as good as before."""
        pids = {name: child.pid for name, child in pair.children.items()}
        yield
        await still_serves(pair)
        assert {name: child.pid for name, child in pair.children.items()} == pids

    return serves_on


def each_member() -> Any:
    """The fixture `member`."""

    @pytest.fixture(params=["a", "b"])
    async def member(pair: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Raw]:
        """Each member in turn: one orders, one forwards."""
        async with raw_to(pair.endpoint(request.param)) as [raw]:
            yield raw

    return member


def new_queue() -> Any:
    """The fixture `queue`."""

    @pytest.fixture
    async def queue(member: Raw) -> str:
        name = new_name()
        await member.create(name)
        return name

    return queue


def batch_of(queue: str, first: int, *payloads: bytes) -> service.EnqueueBatch:
    return service.EnqueueBatch(queue=queue, first_sequence=first, messages={"payloads": payloads})


def consume_open(queue: str, **fields: Any) -> service.ConsumeOpen:
    return service.ConsumeOpen(queue=queue, client_id=b"c", **fields)


async def first_answer(stub: Any, frame: Any) -> Any:
    """The answer to the first frame of a stream."""
    call = stub(timeout=OUTER_S)
    await call.write(frame)
    return await to_the_end(call)


async def to_the_end(call: Any) -> Any:
    """Reads until the stream ends; raises how it ended."""
    while await call.read() is not grpc.aio.EOF:
        pass
    raise AssertionError(f"ended in {await call.code()}")
