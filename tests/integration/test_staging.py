"""Staged rows over real gRPC and real disks: published once, all of them or none, over kill -9 and restarts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.staging import new_stage_id
from tandemq.errors import InvalidRequest, NotFound, Refused, TandemqError
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import gone, new_name, payloads, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

ROWS = 50


pair = module_pair()
client = module_client()


async def test_rows_are_published_once_and_in_order(client: aio.Client) -> None:
    queue, other, writer = new_name(), new_name(), new_name()
    for name in (queue, other):
        await client.create_queue(name)
    first, second = new_stage_id(), new_stage_id()
    await client.stage(queue, [b"a", tandemq.Outgoing(b"b", {"priority": 9})], stage_id=first)
    staged = await client.stage(other, [b"x"], stage_id=first, part=2)
    again = await client.stage(other, [b"x"], stage_id=first, part=2)
    await client.stage(queue, [b"c"], stage_id=second)
    assert (staged.rows, staged.payload_bytes, staged.duplicate, again.duplicate) == (3, 3, False, True)
    assert await payloads(client, queue) == []

    done = await client.publish(writer, "query", 4, [second, first])

    assert done[:2] == (False, (aio.PublishedRows(queue, 1, 3, 3), aio.PublishedRows(other, 1, 1, 1)))
    assert (await payloads(client, queue), await payloads(client, other)) == ([b"c", b"a", b"b"], [b"x"])
    got = await client.dequeue(queue, 10)
    assert [message.payload for message in got] == [b"b", b"c", b"a"]
    await got.ack()
    late = new_stage_id()
    await client.stage(queue, [b"c"], stage_id=late)
    repeated = await client.publish(writer, "query", 4, [late])
    assert repeated[:2] == (True, done.queues)
    assert await payloads(client, queue) == []
    state = await client.writer_state(writer)
    assert state is not None
    assert state[:2] == ("query", 4)


async def test_refusals_name_their_reason(client: aio.Client) -> None:
    queue, writer = new_name(), new_name()
    await client.create_queue(queue)
    stage = new_stage_id()
    await client.stage(queue, [b"a"], stage_id=stage)
    await client.publish(writer, "one", 1, [stage])
    with pytest.raises(Refused, match=r"WRITER_TAKEN.*belongs to query 'one', whose last batch was 1"):
        await client.publish(writer, "two", 2, [])
    assert await client.release_writer(writer) is True
    assert await client.release_writer(writer) is False
    assert await client.writer_state(writer) is None
    await client.publish(writer, "two", 2, [])
    with pytest.raises(NotFound, match="STAGE_NOT_FOUND"):
        await client.publish(writer, "two", 3, [new_stage_id()])
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.stage("no-such-queue", [b"a"], stage_id=new_stage_id())
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*16 bytes"):
        await client.stage(queue, [b"a"], stage_id=b"short")
    with pytest.raises(InvalidRequest, match=r"BAD_ATTRIBUTE.*24 hours"):
        await client.stage(queue, [b"a"], stage_id=new_stage_id(), ttl=timedelta(days=2))
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*no domain"):
        await client.publish(writer, "two", 3, [], domain="nowhere")
    with pytest.raises(TandemqError, match=r"MESSAGE_TOO_LARGE.*more parts"):
        await client.stage(queue, [bytes(1 << 20)] * 5, stage_id=new_stage_id())
    dropped = new_stage_id()
    await client.stage(queue, [b"a"], stage_id=dropped)
    assert await client.abort_stages([dropped, new_stage_id()]) == 1
    assert await payloads(client, queue) == [b"a"]


async def test_a_replica_takes_the_calls_too(pair: Cluster) -> None:
    queue, writer, stage = new_name(), new_name(), new_stage_id()
    for member in ("a", "b"):
        async with aio.connect(pair.endpoint(member), follow_master=False) as client:
            if member == "a":
                await client.create_queue(queue)
            await client.stage(queue, [member.encode()], stage_id=stage, part=1 + (member == "b"))
    for member, duplicate in (("b", False), ("a", True)):
        async with aio.connect(pair.endpoint(member), follow_master=False) as client:
            assert (await client.publish(writer, "query", 0, [stage])).duplicate is duplicate
            assert await payloads(client, queue) == [b"a", b"b"]


def test_the_blocking_client_has_the_same_calls(pair: Cluster) -> None:
    queue, stage = new_name(), new_stage_id()
    with tandemq.connect(pair.target) as client:
        client.create_queue(queue)
        assert client.stage(queue, [b"a"], stage_id=stage).rows == 1
        assert client.publish(queue, "query", 0, [stage]).queues[0].rows == 1
        assert client.writer_state(queue) is not None
        assert client.release_writer(queue)
        assert client.abort_stages([stage]) == 0


@pytest.mark.promise
async def test_the_master_dies_again_and_again_while_a_writer_publishes(tmp_path: Path) -> None:
    """Each batch is staged and published until it is answered, over kill -9 of whoever is master: every row is there
    once, in order, and each batch in one piece.
    """
    queue, writer = new_name(), new_name()
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            await client.create_queue(queue)
            for batch, moment in enumerate(("staging", "deciding", "answering")):
                await _write(cluster, client, (queue, writer, batch), moment)
            wanted = [row for batch in range(3) for part in _parts(batch) for row in part]
            assert await payloads(client, queue) == wanted
        await gone(cluster, "a", "b")  # both begin anew from their disks
        for name in ("a", "b"):
            cluster.spawn(name)
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            assert await payloads(client, queue) == wanted
            assert (await client.publish(writer, "query", 2, [])).duplicate


def _parts(batch: int) -> list[list[bytes]]:
    """The rows of the parts of a batch, in the order of its stages."""
    return [[f"{batch}:{part}:{row}".encode() + bytes(1_000) for row in range(ROWS)] for part in range(60)]


async def _write(cluster: Cluster, client: aio.Client, what: tuple[str, str, int], moment: str) -> None:
    """One batch in two stages of 1.5 MB; the master is killed at that moment of it, and started again."""
    queue, writer, batch = what
    master, _ = await roles(cluster)
    parts, stages = _parts(batch), [new_stage_id(), new_stage_id()]
    for number, rows in enumerate(parts):
        if moment == "staging" and number == 45:
            cluster.kill(master)
        await client.stage(queue, rows, stage_id=stages[number // 30], part=1 + number % 30)
    publishing = asyncio.create_task(client.publish(writer, "query", batch, stages))
    if moment == "deciding":
        await asyncio.sleep(0)
        cluster.kill(master)
    elif moment == "answering":

        async def is_decided() -> bool:
            state = await client.writer_state(writer)
            return state is not None and state.batch == batch

        await until(is_decided, f"batch {batch} is decided")
        cluster.kill(master)
    done = await publishing
    assert sum(each.rows for each in done.queues) == 60 * ROWS
    await cluster.restart(master)
