"""Twins as processes of their own: a manager and a twin are killed under load, and nothing is missing or twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from itertools import accumulate
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.twin.snapshots import Snapshots
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
INPUTS = 6_000


async def command(*arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tandemq", "twin", *arguments), cwd=ROOT, stdout=PIPE, stderr=PIPE
    )


@contextlib.asynccontextmanager
async def running(cluster: Cluster, folder: Path, member: str) -> AsyncIterator[Process]:
    settings = {"--name": "sums", "--inputs": "numbers", "--side": cluster.endpoint(member), "--target": cluster.target}
    settings |= {"--directory": str(folder / f"twin-{member}"), "--mark-every": "100", "--snapshot-time": "100ms"}
    options = [part for pair in settings.items() for part in pair]
    process = await command("run", "tests.support.twin_of_sums", *options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.requirement("R137")
@pytest.mark.requirement("R139")
async def test_a_manager_and_a_twin_die_and_the_outputs_are_there_once(tmp_path: Path) -> None:
    async with (
        patient(tmp_path).running() as cluster,
        aio.connect(cluster.target, timeout=OUTER_S) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        await client.create_queue("numbers", admin.QueueConfig(replication=admin.REPLICATION_PRODUCER))
        await client.create_queue("sums")

        async def send() -> None:
            async with client.producer("numbers") as producer:
                for number in range(1, INPUTS + 1):
                    producer.send_nowait(b"%d" % number)
                    if number % 100 == 0:
                        await producer.flush()

        async def reached(count: int) -> bool:
            return (await client.get_queue("sums")).length >= count

        twins = {name: await stack.enter_async_context(running(cluster, tmp_path, name)) for name in ("a", "b")}
        sending = asyncio.create_task(send())
        master, replica = await roles(cluster)
        await until(lambda: reached(INPUTS // 4), "both are at work")
        cluster.kill(master)
        twins[replica].kill()
        await twins[replica].wait()
        await cluster.restart(master)
        twins[replica] = await stack.enter_async_context(running(cluster, tmp_path, replica))
        await sending
        await until(lambda: reached(INPUTS), "all outputs")

        async def is_empty() -> bool:
            return (await client.get_queue("numbers")).length == 0

        await until(is_empty, "both twins have acted on everything")
        outputs = [message.payload async for message in client.browse("sums")]
        assert outputs == [b"%d %d" % each for each in enumerate(accumulate(range(1, INPUTS + 1)), 1)]

        shown = await command("status", "sums", "--target", cluster.target, "-o", "json")
        out, _ = await shown.communicate()
        seen = json.loads(out)
        assert (shown.returncode, seen["sent"], seen["differences"]) == (0, INPUTS, [])
        assert [(each["member"], each["running"]) for each in seen["twins"]] == [("a", True), ("b", True)]
        restarted = await command("restart", "sums", "a", "--target", cluster.target)
        assert (await restarted.wait()) == 0
        for twin in twins.values():
            twin.terminate()
        assert [await twin.wait() for twin in twins.values()] == [0, 0]
        states = {Snapshots(tmp_path / f"twin-{name}").newest() for name in twins}
        (state,) = states
        assert state is not None
        assert (state.index, json.loads(state.state)) == (INPUTS, {"sum": sum(range(1, INPUTS + 1))})
