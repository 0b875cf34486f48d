"""Watches of queues over real gRPC (V20): at either member, over a kill -9, and as a command that runs others."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import grpc
import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.queue_watch import DepthEvent, WatchReason
from tandemq.errors import NotFound
from tandemq.v1.queue_service_pb2 import WatchedQueue, WatchQueuesRequest
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import Raw, new_name, raw_to, refused, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.requirement("R193")]

pair = module_pair()
client = module_client()


async def made(client: aio.Client, *, sent: int = 0) -> str:
    queue = new_name()
    await client.create_queue(queue)
    if sent:
        await client.enqueue(queue, [b"x"] * sent)
    return queue


async def following(events: AsyncIterator[DepthEvent]) -> DepthEvent:
    async with asyncio.timeout(OUTER_S):
        return await anext(events)


@pytest.mark.parametrize("member", [0, 1])
async def test_v20_a_watch_at_either_member_says_what_is_there_and_what_comes(
    pair: Cluster, client: aio.Client, member: int
) -> None:
    one, other = await made(client), await made(client, sent=2)
    async with (
        aio.connect(pair.target.split(",")[member], follow_master=False) as attached,
        aclosing(attached.watch([one, other], depth=2)) as events,
    ):
        assert await following(events) == (other, 2, WatchReason.DEPTH, True)
        await client.enqueue(one, [b"x"])
        await client.enqueue(one, [b"x"])
        assert await following(events) == (one, 2, WatchReason.DEPTH, False)
        await client.purge_queue(other)
        await client.enqueue(other, [b"x"] * 3)
        assert await following(events) == (other, 3, WatchReason.DEPTH, False)


def test_v20_the_blocking_client_watches_too(pair: Cluster) -> None:
    with tandemq.connect(pair.target) as client:
        queue = new_name()
        client.create_queue(queue)
        client.enqueue(queue, [b"x"])
        events = client.watch(queue)
        assert next(events) == (queue, 1, WatchReason.NOT_EMPTY, True)
        events.close()  # type: ignore[attr-defined]  # a generator


async def test_v20_a_watch_goes_on_after_kill_9_and_misses_nothing_that_holds(tmp_path: Path) -> None:
    async with stopped_at_end(patient(tmp_path)) as cluster:
        await cluster.start()
        async with aio.connect(cluster.target) as client, aclosing(client.watch(["q", "r"])) as events:
            for queue in ("q", "r"):
                await client.create_queue(queue)
            first = asyncio.ensure_future(following(events))
            await client.enqueue("q", [b"x"])
            assert (await first).queue == "q"
            master, _ = await roles(cluster)
            following_one = asyncio.ensure_future(following(events))
            cluster.kill(master)
            await client.enqueue("r", [b"x"])  # perhaps before the watch is open again
            heard = {(await following_one).queue, (await following(events)).queue}
            assert heard == {"q", "r"}


async def test_v20_what_cannot_be_watched_is_refused_by_name(pair: Cluster, client: aio.Client) -> None:
    queue, local = await made(client), new_name()
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await anext(client.watch([queue, "nowhere"]))

    async def watch(member: Raw, *names: str) -> None:
        request = WatchQueuesRequest(watches=[WatchedQueue(queue=name) for name in names])
        await member.queue.WatchQueues(request, timeout=OUTER_S).read()

    async with raw_to(*pair.endpoints) as members:
        for member in members:
            with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "0 watches"):
                await watch(member)
            with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nowhere"):
                await watch(member, queue, "nowhere")
        await members[0].create(local, domain="local")
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "a stream each"):
            await watch(members[0], queue, local)


async def test_v20_a_watch_ends_with_its_queue(client: aio.Client) -> None:
    queue = await made(client, sent=1)
    async with aclosing(client.watch(queue)) as events:
        assert (await following(events)).depth == 1
        ended = asyncio.ensure_future(following(events))
        await client.delete_queue(queue)
        with pytest.raises(NotFound, match="was deleted"):
            await ended


@asynccontextmanager
async def watching(pair: Cluster, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "tandemq", "queue", "watch", *words, "--target", pair.target),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_v20_the_command_is_run_for_each_report_and_its_failure_is_not_fatal(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    queue, seen = await made(client, sent=2), tmp_path / "seen"
    command = f'echo "$TANDEMQ_QUEUE $TANDEMQ_DEPTH $TANDEMQ_REASON" >> {seen}; exit 7'
    async with watching(pair, queue, "--depth", "2", "--exec", command, "-o", "jsonl") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(await process.stdout.readline())
        assert first == {"queue": queue, "depth": 2, "reason": "depth", "at_opening": True}
        assert b"exit code 7; watching goes on" in await process.stderr.readline()
        await client.purge_queue(queue)
        await client.enqueue(queue, [b"x"] * 3)
        await until(lambda: seen.read_text().splitlines() == [f"{queue} 2 depth", f"{queue} 3 depth"])
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(["nowhere"], 1, "QUEUE_NOT_FOUND"), (["--depth", "0", "q"], 2, "Usage"), ([], 2, "Usage")],
)
async def test_v20_the_command_ends_with_the_codes_of_every_command(
    pair: Cluster, words: list[str], code: int, said: str
) -> None:
    async with watching(pair, *words) as process:
        assert process.stderr is not None
        text = (await process.stderr.read()).decode()
        assert (await process.wait(), said in text) == (code, True), text


async def test_v20_the_command_ends_after_so_many_reports(pair: Cluster, client: aio.Client) -> None:
    queue = await made(client, sent=1)
    async with watching(pair, queue, "--count", "1", "-o", "table") as process:
        assert process.stdout is not None
        assert (await process.stdout.read()).decode() == f"not_empty {queue} has 1\n"
        assert await process.wait() == 0
