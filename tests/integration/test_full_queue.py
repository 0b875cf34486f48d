"""Senders that wait for room in a full queue of a pair of real processes, at both members and over a takeover."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq.client.aio import Client
from tandemq.client.receipts import Receipts
from tandemq.errors import TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import gone, new_name, sdk
from tests.support.until import until

pytestmark = pytest.mark.process
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "full_queue.py"


async def waiters_are(client: Client, queue: str, count: int) -> None:
    async def as_many() -> bool:
        return (await client.get_queue(queue)).waiters == count

    await until(as_many, f"{count} waiters")


def index_of(sent: asyncio.Task[Receipts]) -> int:
    [receipt] = sent.result()
    return receipt.index


async def take(client: Client, queue: str) -> bytes:
    received = await client.dequeue(queue)
    await received.ack()
    return received[0].payload


@pytest.mark.requirement("R157", "R158", "R163", "R055")
async def test_a_full_queue_with_waiters_at_both_members(pair: Cluster) -> None:
    """Semantics, worked example 6, as docs/examples/full_queue.py tells it."""
    endpoints = ",".join(pair.endpoint(name) for name in pair.members)
    script = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), endpoints, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await script.communicate()
    assert script.returncode == 0, out.decode()
    assert out.decode().splitlines() == [
        "the queue holds 2 messages, which is all that it may",
        "a sender that does not wait is refused: QUEUE_FULL",
        "P1 waits at one member, P2 at the other one",
        "'one' was acknowledged, and P1 entered at index 3",
        "'two' was acknowledged, and P2 entered at index 4",
        "sending was disabled, and P3, who waited, was told so: ENQUEUE_DISABLED",
        "left in the queue: three, four",
    ]


@pytest.mark.requirement("R158")
async def test_waiters_are_kept_over_a_takeover(pair: Cluster) -> None:
    """A unary call and a producer's messages, of which the master that they wait at dies."""
    name = new_name()
    async with sdk(pair) as client, sdk(pair, "b", follow_master=False) as other:
        await client.create_queue(name, QueueConfig(max_length=1))
        await client.enqueue(name, [b"0"])
        unary = asyncio.create_task(client.enqueue(name, [b"1"], wait=-1))
        await waiters_are(client, name, 1)
        async with other.producer(name, full_wait=-1) as producer:
            sent = [asyncio.ensure_future(producer.send_nowait(b"p%d" % number)) for number in range(3)]
            await waiters_are(client, name, 4)
            await gone(pair, "a")
            await waiters_are(other, name, 4)
            taken = [await take(other, name)]
            while len(taken) < 5:
                taken.append(await take(other, name)) if (await other.get_queue(name)).ready else None
            await asyncio.gather(unary, *sent)
        assert taken[0] == b"0"
        assert sorted(taken[1:]) == [b"1", b"p0", b"p1", b"p2"]
        assert [each for each in taken if each.startswith(b"p")] == [b"p0", b"p1", b"p2"]


async def test_a_sender_that_leaves_takes_no_room(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair, "b", follow_master=False) as client:
        await client.create_queue(name, QueueConfig(max_length=1))
        await client.enqueue(name, [b"0"])
        leaves = asyncio.create_task(client.enqueue(name, [b"leaves"], wait=600))
        await waiters_are(client, name, 1)
        stays = asyncio.create_task(client.enqueue(name, [b"stays"], wait=600))
        await waiters_are(client, name, 2)
        leaves.cancel()
        await waiters_are(client, name, 1)
        await take(client, name)
        await stays
        assert index_of(stays) == 2
        assert await take(client, name) == b"stays"


async def test_the_end_of_a_wait_is_told_and_counted(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair, "b", follow_master=False) as client:
        await client.create_queue(name, QueueConfig(max_length=1))
        await client.enqueue(name, [b"0"])
        with pytest.raises(TandemqError) as caught:
            await client.enqueue(name, [b"1"], wait=0.2)
        assert caught.value.reason == "QUEUE_FULL"
        assert (await client.get_queue(name)).refused_full_total == 1
        with pytest.raises(ValueError, match="ten years"):
            await client.enqueue(name, [b"1"], wait=-2)


async def test_the_command_line_waits_for_room(pair: Cluster) -> None:
    name = new_name()

    async def send(text: str, *options: str) -> asyncio.subprocess.Process:
        arguments = ("msg", "send", name, text, "--target", pair.endpoint("b"), "-o", "json", *options)
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tandemq", *arguments, stdout=pipe, stderr=pipe
        )

    async with sdk(pair) as client:
        await client.create_queue(name, QueueConfig(max_length=1))
        await client.enqueue(name, [b"0"])
        refused = await send("1")
        _, error = await refused.communicate()
        assert refused.returncode == 1
        assert b"QUEUE_FULL" in error
        waits = await send("2", "--wait", "60s")
        await waiters_are(client, name, 1)
        await take(client, name)
        out, _ = await waits.communicate()
        assert waits.returncode == 0
        assert json.loads(out)["first_index"] == 2
