"""A bit that turned over on the master's disk, under a message beyond its memory: nobody is given it, the others come,
and the other member delivers it whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import replica.core.state.log
from replica.node.members import MAIN
from tandemq import aio
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.queue_service_pb2 import SETTLE_MODE_IMMEDIATE, SETTLE_MODE_LEASE, BrowsePageRequest
from tests.integration.support import Raw, raw_to
from tests.integration.test_handoff import hand_over
from tests.integration.test_verify import flip, kill, pair_with, refusal, whole
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

COUNT = 200


@asynccontextmanager
async def damaged_master(tmp_path: Path) -> AsyncIterator[tuple[Raw, Raw, aio.Client, list[int]]]:
    """The other member, the master, a client, and the indexes of the messages in the damaged record."""
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        kill(cluster, "a")
        members = manager._members
        assert members is not None
        domain = members.by_name[MAIN]

        async def serves() -> bool:
            return domain.shared.serving

        await until(serves, "b has taken over")
        cluster.spawn("a")
        await until(lambda: whole(client), "the pair is whole")
        machine = domain.shared.machine
        assert machine is not None
        queue_id = machine.queue_id("q")
        assert queue_id is not None
        part = machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False)[0]
        assert domain.shared.log.get(part.log_index) is None, "it is beyond memory"
        await flip(manager, part.log_index)
        async with raw_to(*(cluster.config(name).endpoint for name in ("a", "b"))) as (a, b):
            yield a, b, client, list(range(part.first_index, part.first_index + part.count))


def sent_at(index: int) -> bytes:
    return b"%d" % ((index - 1) // 10)


async def left(client: aio.Client) -> int:
    return (await client.get_queue("q")).length


async def all_of(member: Raw, mode: int) -> dict[int, bytes]:
    """Everything that can be received now."""
    found: dict[int, bytes] = {}
    while (got := await member.receive("q", 30, settle_mode=mode)).messages:
        found |= {row.index: row.message.payload for row in got.messages}
        if got.lease_id:
            await member.ack("q", got)
    return found


async def from_a_stream(client: aio.Client, count: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with client.consumer("q", credit_messages=7) as consumer:
        async for batch in consumer.batches():
            found |= {row.index: bytes(row.payload) for row in batch}
            batch.ack()
            if len(found) >= count:
                return found
    return found


@pytest.mark.promise
@pytest.mark.parametrize("how", ["lease", "immediate", "stream"])
async def test_it_is_not_delivered_but_by_the_other_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(replica.core.state.log, "RING_BYTES_MAX", 1)
    async with damaged_master(tmp_path) as (a, b, client, hurt):
        if how == "stream":
            found = await from_a_stream(client, COUNT - len(hurt))
        else:
            found = await all_of(b, SETTLE_MODE_IMMEDIATE if how == "immediate" else SETTLE_MODE_LEASE)
        assert found == {index: sent_at(index) for index in range(1, COUNT + 1) if index not in hurt}

        async def rest() -> bool:
            return await left(client) == len(hurt)

        await until(rest, "what is damaged stays in the queue")
        assert await refusal(b.queue.BrowsePage(BrowsePageRequest(queue="q"), timeout=OUTER_S)) == "CORRUPT_STORE"

        async def said() -> bool:
            events = (await b.pair.ListEvents(pb.ListEventsRequest())).events
            return any(event.kind == pb.PAIR_EVENT_KIND_FAULT and "hand off to a" in event.text for event in events)

        await until(said, "the way out is among the events")
        told = await hand_over(b, to="a")
        assert told.done, told
        assert await all_of(a, SETTLE_MODE_LEASE) == {index: sent_at(index) for index in hurt}
        assert await left(client) == 0


async def test_a_numbered_batch_goes_round_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with damage in it could not be read, and its good messages would fail with it until they are dead."""
    monkeypatch.setattr(replica.core.state.log, "RING_BYTES_MAX", 1)
    async with damaged_master(tmp_path) as (_, _, client, hurt):
        batch = await client.lease_batch("q", "spark", 1, max_messages=30)
        assert batch is not None
        found = {row.index: row.payload async for page in client.read_batch("q", "spark", 1) for row in page}
        expected = [index for index in range(1, COUNT + 1) if index not in hurt][:30]
        assert found == {index: sent_at(index) for index in expected}
