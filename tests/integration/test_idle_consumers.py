"""What many consumers that wait may do to a pair: their limit, their signs of life, and the ways that they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos.cluster import WITNESS, Cluster
from chaos.crowd.idle import run_idle
from replica.core.delivery.signs import FRAMES_A_SECOND
from replica.node.standing import OPENING_MAX
from tandemq.cli.view import PairView
from tandemq.config import Limits
from tandemq.errors import from_rpc_error
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, new_name, raw_to, refused
from tests.support.clusters import patient
from tests.support.starvation import Soon, Stopwatch
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


async def opened(member: Raw, queue: str, count: int) -> list[Any]:
    """Streams whose first answer has come, all on one connection. One whose way to the master broke is opened again, as
    its refusal says: on a busy machine a connection between the members takes longer than gRPC waits for it.
    """

    async def open_one() -> Any:
        while True:
            call = member.queue.Consume()
            try:
                await call.write(service.ConsumeRequest(open={"queue": queue, "client_id": b"c"}))
                assert (await call.read()).HasField("opened")
            except grpc.aio.AioRpcError as error:
                if from_rpc_error(error).reason != "NOT_MASTER":
                    raise
            else:
                return call

    async with asyncio.timeout(OUTER_S):
        return await asyncio.gather(*(open_one() for _ in range(count)))


@asynccontextmanager
async def pair_with(folder: Path, limits: Limits) -> AsyncIterator[tuple[Cluster, Raw, Raw, str]]:
    async with patient(folder, limits=limits).running() as cluster, raw_to(*cluster.endpoints) as (a, b):
        queue = new_name()
        await a.create(queue)
        yield cluster, a, b, queue


@pytest.mark.parametrize("through", ["a", "b"])
async def test_one_stream_more_than_the_limit_is_refused_by_name(tmp_path: Path, through: str) -> None:
    """At the master, and at the replica, which carries them there."""
    async with pair_with(tmp_path, Limits(consume_streams=3)) as (_, a, b, queue):
        member = a if through == "a" else b
        calls = await opened(member, queue, 3)
        with refused("TOO_MANY_WAITERS", grpc.StatusCode.RESOURCE_EXHAUSTED, "consume_streams", "3") as caught:
            await opened(member, queue, 1)
        assert caught.error.metadata["limit"] == "3"
        calls[0].cancel()

        async def is_let_in() -> bool:
            try:
                return bool(await opened(member, queue, 1))
            except grpc.aio.AioRpcError:
                return False

        await until(is_let_in, "the place of one that left is free")


@pytest.mark.clock
@pytest.mark.parametrize("through", ["a", "b"])
async def test_streams_that_wait_share_the_signs_of_their_connection(tmp_path: Path, through: str) -> None:
    """No timer of each: three times as many streams as a member gives signs in a second, and every one has its turn."""
    async with pair_with(tmp_path, Limits()) as (_, a, b, queue):
        count = 3 * FRAMES_A_SECOND
        calls = await opened(a if through == "a" else b, queue, count)
        frames, heard = 0, set()

        async def listen(number: int) -> None:
            nonlocal frames
            while True:
                assert (await calls[number].read()).HasField("progress")
                frames += 1
                heard.add(number)

        with Stopwatch() as watch:
            listeners = [asyncio.create_task(listen(number)) for number in range(count)]
            async with asyncio.timeout(OUTER_S):
                while len(heard) < count:
                    await asyncio.wait(listeners, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                    assert not any(task.done() for task in listeners)
        # What the master says over the carried streams goes to whom they belong.
        a_second = FRAMES_A_SECOND * (2 if through == "b" else 1)
        watch.judge(f"so much as {frames} signs are", watch.took_s + 1.0, frames / a_second)
        for task in listeners:
            task.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)


async def test_more_streams_than_a_connection_takes_are_carried_by_a_replica(tmp_path: Path) -> None:
    """They took the one connection to the master for themselves: 1,000 of them, and no call got through any more."""
    async with pair_with(tmp_path, Limits()) as (cluster, _, b, queue), AsyncExitStack() as stack:
        for _ in range(3):
            (more,) = await stack.enter_async_context(raw_to(cluster.endpoint("b")))
            await opened(more, queue, 400)
        await b.send(queue, b"x")


@pytest.mark.clock
async def test_who_waits_for_a_master_keeps_no_other_domain_waiting(tmp_path: Path) -> None:
    """A herd for main, which has no master, and behind it a consumer of a local queue, which has one. The herd is
    refused once the park time is over: also those that had a place, which were parked twice.
    """
    limits = Limits(park_ms=10_000)
    async with pair_with(tmp_path, limits) as (cluster, a, b, queue):
        left, stays, member = ("a", "b", b) if (await cluster.status()).masters() == ["a"] else ("b", "a", a)
        await member.create(own := new_name(), replication=admin.REPLICATION_NONE)
        cluster.kill(left)
        cluster.kill(WITNESS)
        await cluster.wait_for(lambda view: role_of(view, stays) not in ("", "MASTER", "REPLICA"), "alone", OUTER_S)
        with Soon("the last refusal", 1.8 * limits.park_ms / 1000):
            herd = [member.queue.Consume() for _ in range(3 * OPENING_MAX)]
            for call in herd:
                await call.write(service.ConsumeRequest(open={"queue": queue, "client_id": b"c"}))
            assert await opened(member, own, 1)
            assert not any(call.done() for call in herd)
            async with asyncio.timeout(OUTER_S):
                for call in herd:
                    with refused("NO_MASTER", grpc.StatusCode.UNAVAILABLE):
                        await call.read()


def role_of(view: PairView, name: str) -> str:
    """In domain main."""
    [domain] = [member.domain("main") for member in view.members if member.name == name] or [None]
    return domain.role if domain is not None else ""


async def test_a_small_crowd_of_idle_consumers(tmp_path: Path) -> None:
    """The measurement itself; its figures at full size are the business of `make crowd`."""
    result = await run_idle(60, 4, quiet_s=0.5, folder=tmp_path / "pair")
    assert (result.idle_consumers, result.sends_failed, result.takeovers_without_fault) == (60, 0, 0)
    assert result.takeover_ms > 0
    assert result.reattached_s > 0
