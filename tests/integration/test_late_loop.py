"""A loop that is late is no lost member, one that hangs is; a process that stands still is lost by its connection."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq.config import Timers
from tandemq.v1 import queue_service_pb2 as service
from tests.integration import standing_still
from tests.integration.support import Raw, new_name, raw_to, stopped_at_end
from tests.support.clusters import PATIENT, QUICK, patient
from tests.support.until import until

pytestmark = pytest.mark.process


@asynccontextmanager
async def still_standing(folder: Path, timers: Timers) -> AsyncIterator[tuple[Cluster, Raw, Raw]]:
    """A pair whose members can be made to stand still."""
    cluster = patient(folder, timers=timers)
    for name in cluster.members:
        cluster.children[name].arguments[0] = standing_still.__name__
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(*cluster.endpoints) as (a, b):
            yield cluster, a, b


async def epoch_of(cluster: Cluster) -> int:
    view = await cluster.wait_ready()
    return max(part.epoch for member in view.members for part in member.domains if part.name == "main")


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_loop_that_is_late_is_no_lost_member(tmp_path: Path, name: str) -> None:
    """Whichever member dials, whichever is master: for longer than the lost time nothing of its interpreter runs, as
    under a load of clients, and nobody takes over.
    """
    async with still_standing(tmp_path, Timers(hung_ms=PATIENT.hung_ms)) as (cluster, a, b):
        queue = new_name()
        await a.create(queue)
        before = await epoch_of(cluster)
        pid = cluster.children[name].pid
        assert pid is not None
        loop = asyncio.get_running_loop()
        began = loop.time()
        cluster.kill(name, signal.SIGUSR1)
        other = b if name == "a" else a
        await other.send(queue, b"x")  # needs both
        assert loop.time() - began >= standing_still.STALL_S - 0.5, "it did not stand still"
        assert await epoch_of(cluster) == before
        assert "is over" not in cluster.children["a"].log.read_text()
        assert await other.take(queue) == [b"x"]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_process_that_stands_still_is_lost_by_its_connection(tmp_path: Path, name: str) -> None:
    """Whoever dials: either side pings, and no heartbeat has to be missed."""
    async with (
        patient(tmp_path, timers=Timers(hung_ms=600_000)).running() as cluster,
        raw_to(*cluster.endpoints) as (a, b),
    ):
        queue = new_name()
        await a.create(queue)
        cluster.pause(name)
        other = b if name == "a" else a

        async def is_alone() -> bool:
            try:
                return (await other.send(queue, b"x")).header.copies == 1
            except grpc.aio.AioRpcError:
                return False

        await until(is_alone, "the other member goes on alone")
        cluster.resume(name)
        await cluster.wait_ready()


async def test_a_loop_that_hangs_is_a_lost_member(tmp_path: Path) -> None:
    """Its process lives and answers pings; its heartbeats, which prove its loop, do not come."""
    async with still_standing(tmp_path, QUICK) as (cluster, a, b):
        queue = new_name()
        await a.create(queue)
        carried = b.queue.Consume()
        await carried.write(service.ConsumeRequest(open={"queue": queue, "client_id": b"c"}))
        assert (await carried.read()).HasField("opened")
        cluster.kill("a", signal.SIGUSR2)

        async def is_served() -> bool:
            try:
                return bool((await b.send(queue, b"x")).header.epoch)
            except grpc.aio.AioRpcError:
                return False

        await until(is_served, "the other member serves")
        while not (frame := await carried.read()).HasField("goaway"):  # its way to the old master is answered as ever
            assert frame.HasField("progress")
        assert frame.goaway.master_endpoint == cluster.endpoint("b")
        assert "silent for longer" in cluster.children["b"].log.read_text()
        cluster.kill("a")
