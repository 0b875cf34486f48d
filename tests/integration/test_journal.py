"""The log stays short: what falls out of the journal goes; the position and the messages that are left stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.errors import ResourceExhausted, TandemqError
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

LIMITS = Limits(journal_bytes=1 << 20, checkpoint_bytes=256 << 10)
PAYLOAD = bytes(10_000)
BATCH, BATCHES = 100, 20


async def used_bytes(cluster: Cluster) -> list[int]:
    sizes = []
    for endpoint in cluster.endpoints:
        async with aio.connect(endpoint, follow_master=False) as client:
            sizes.append((await client.manager_info()).store_used_bytes)
    return sizes


async def paired(client: aio.Client) -> bool:
    answers = await client.pair_status()
    mains = [answer.status.member.domains[0] for answer in answers if answer.status is not None]
    return len(mains) == 2 and all(main.link_state == 5 for main in mains) and len({m.digest for m in mains}) == 1


async def test_the_journal_is_bounded_and_what_is_left_survives_both_restarts(tmp_path: Path) -> None:
    cluster = patient(tmp_path, limits=LIMITS)
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            await client.create_queue("q")
            producer, consumer = client.producer("q"), client.consumer("q", credit_messages=BATCH)
            kept = 0
            batches = consumer.batches()
            for _ in range(BATCHES):
                await producer.send_many([PAYLOAD] * BATCH)
                taken = 0
                while taken < BATCH:
                    batch = await anext(batches)
                    taken += len(batch.payloads)
                    batch.ack()
            await consumer.settled()
            await consumer.close()
            await producer.send_many([b"kept"] * 7)
            kept += 7
            last = (await client.get_queue("q")).last_index

            async def short() -> list[int] | None:
                sizes = await used_bytes(cluster)
                return sizes if all(size < 6 << 20 for size in sizes) else None

            # 20 MB went through; the journal keeps 1 MiB, and the pages of what was dropped are free again.
            await until(short, "both stores have let go of what was settled")

            # A replica that missed more than the journal gets a full transfer; then both restart.
            cluster.kill("b")
            for _ in range(5):
                await producer.send_many([PAYLOAD] * BATCH)
            await cluster.restart("b")
            await until(lambda: paired(client), "b is back")
            await producer.close()
            cluster.kill("a")
            cluster.kill("b")
            await cluster.restart("a")
            await cluster.restart("b")
            await until(lambda: paired(client), "both are back")
            info = await client.get_queue("q")
            assert (info.length, info.last_index) == (kept + 5 * BATCH, last + 5 * BATCH)
            first = await client.dequeue("q", max_messages=kept)
            assert [message.payload for message in first] == [b"kept"] * kept
    finally:
        await cluster.stop()


async def test_a_full_store_takes_messages_again_once_they_are_consumed(tmp_path: Path) -> None:
    """Consuming frees room although the journal would keep it for a day: the store is pressed."""
    cluster = patient(tmp_path, limits=Limits(map_bytes=24 << 20))
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            await client.create_queue("q")
            producer = client.producer("q")
            sent = 0
            reason = ""
            while sent < 10_000 and not reason:
                try:
                    await producer.send_many([PAYLOAD] * BATCH)
                    sent += BATCH
                except TandemqError as error:
                    reason = error.reason
            assert reason == "STORAGE_FULL"
            assert sent >= 1_000
            consumer = client.consumer("q")
            taken = 0
            async for batch in consumer.batches():
                taken += len(batch.payloads)
                batch.ack()
                if taken >= sent:
                    break
            await consumer.settled()
            await consumer.close()

            async def accepted() -> bool:
                try:
                    await client.enqueue("q", [b"again"])
                except ResourceExhausted:
                    return False
                return True

            await until(accepted, "there is room again")
    finally:
        await cluster.stop()
