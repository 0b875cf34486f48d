"""The audit of a real pair: what it wrote down over a kill, moves and rejections breaks no promise, and damage
to a copy of it is named.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns

import pytest

from chaos.cluster import Cluster
from chaos.journal_checks import judged, violations
from chaos.journals import Asked, Head, Row
from tandemq import aio
from tandemq.client.delivery import DeliveryBatch, ReceivedMessage
from tandemq.client.receipts import Receipts
from tandemq.errors import LeaseLost
from tandemq.v1.queue_admin_service_pb2 import (
    LOCKSTEP_PLAIN,
    LOCKSTEP_SELECTED,
    REPLICATION_PRODUCER,
    Lockstep,
    QueueConfig,
)
from tests.integration.support import roles
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process


class Watched:
    """A client that writes down what it was told."""

    def __init__(self, client: aio.Client) -> None:
        self._client = client
        self.told: list[Asked] = []

    async def send(self, producer: aio.Producer, queue: str, first: int, count: int) -> None:
        """Over a stream; `first` is the sequence of the first."""
        asked = monotonic_ns()
        receipts = await producer.send_many([b"m"] * count)
        self._sent(receipts, queue, asked, producer.client_id, first)

    async def enqueue(self, queue: str, payloads: Sequence[bytes]) -> None:
        """By a call of its own. Its request id is not told, so that what it sent is found by its id."""
        asked = monotonic_ns()
        receipts = await self._client.enqueue(queue, payloads)
        self._sent(receipts, queue, asked, None, 0)

    def _sent(self, receipts: Receipts, queue: str, asked: int, producer: bytes | None, first: int) -> None:
        for at, receipt in enumerate(receipts):
            sequence = first + at if first else 0
            self.told.append(
                Asked(
                    "send",
                    "ok",
                    asked,
                    monotonic_ns(),
                    queue,
                    receipt.index,
                    receipt.id,
                    receipt.epoch,
                    producer,
                    sequence,
                )
            )

    async def take(self, queue: str, count: int) -> DeliveryBatch:
        """By one consumer; no message has a priority."""
        asked = monotonic_ns()
        got = await self._client.dequeue(queue, count)
        self._of("recv", queue, got, asked)
        return got

    async def ack(self, queue: str, count: int) -> None:
        got = await self.take(queue, count)
        asked = monotonic_ns()
        await got.ack()
        self._of("ack", queue, got, asked)

    async def consume(self, name: str, queue: str) -> None:
        """Over a stream, whose deliveries leave before their leases are durable; each is acknowledged late."""
        async with self._client.consumer(queue, credit_messages=6, on_lost=lambda _lost: None) as consumer:
            asked = monotonic_ns()
            async for batch in consumer.batches():
                self._of("recv", queue, batch, asked, name)
                await self._client.get_queue(queue)  # meanwhile more is delivered, and lies here
                asked = monotonic_ns()
                with contextlib.suppress(LeaseLost):
                    await batch.ack_async()
                    self._of("ack", queue, batch, asked, name)
                asked = monotonic_ns()

    async def act(self, at_side: aio.Client, name: str, queue: str, count: int) -> None:
        """As the process of one side: over a stream, until so many are settled."""
        async with at_side.consumer(queue, credit_messages=count) as consumer:
            for _ in range(count):
                asked = monotonic_ns()
                each = await anext(consumer)
                self._of("recv", queue, [each], asked, name)
                asked = monotonic_ns()
                each.ack()
                await consumer.settled()
                self._of("ack", queue, [each], asked, name)

    def _of(self, op: str, queue: str, got: Iterable[ReceivedMessage], asked: int, client: str = "one") -> None:
        level = 4 if op == "recv" else None
        self.told += [
            Asked(op, "ok", asked, monotonic_ns(), queue, each.index, each.id, client=client, priority=level)
            for each in got
        ]


async def journal_of(endpoint: str, name: str, queues: Sequence[str], end: int) -> tuple[list[Row], list[Head]]:
    """A member's own copy up to `end`, and what it says of itself."""
    async with aio.connect(endpoint, follow_master=False) as member:

        async def there() -> bool:
            return (await member.journal_head(this_member=True)).next.log_index >= end

        await until(there, f"{name} knows of record {end - 1}")
        head = await member.journal_head(queues, this_member=True)
        rows = [
            Row(
                name,
                row.log_index,
                row.epoch,
                row.kind.name,
                row.queue_id,
                row.first,
                row.messages,
                row.queue or None,
                row.id or None,
                row.lease_id,
                row.producer or None,
                row.sequence,
                round(row.time.timestamp() * 1_000_000),
                row.payload,
                (row.attributes.SerializeToString(deterministic=True) if row.attributes else None) or None,
            )
            async for page in member.read_journal(this_member=True, attributes=True)
            for row in page.rows()
        ]
    heads = [
        Head(
            name,
            head.first.log_index,
            head.next.log_index,
            each.queue,
            each.queue_id,
            each.first_index,
            each.next_index,
        )
        for each in head.queues
    ]
    return rows, heads


async def journals_of(cluster: Cluster, queues: Sequence[str]) -> tuple[list[Row], list[Head]]:
    """Of both members."""
    master, _ = await roles(cluster)
    async with aio.connect(cluster.endpoint(master), follow_master=False) as member:
        # Of the master: the replica hears of a commit with what comes next, and may not know of the last ones.
        end = (await member.journal_head(this_member=True)).next.log_index
    rows: list[Row] = []
    heads: list[Head] = []
    for name in ("a", "b"):
        found = await journal_of(cluster.endpoint(name), name, queues, end)
        rows += found[0]
        heads += found[1]
    return rows, heads


async def test_a_real_pair_is_clean_and_damage_is_named(tmp_path: Path) -> None:
    queues = ["orders", "orders.dead", "bills"]
    async with patient(tmp_path).running() as cluster:
        await cluster.wait_ready()
        async with aio.connect(cluster.target) as client:
            watched = Watched(client)
            for queue in ("orders", "bills"):
                await client.create_queue(queue)
            producer = client.producer("orders")
            await watched.send(producer, "orders", 1, 40)
            await watched.ack("orders", 10)
            await (await watched.take("orders", 5)).reject("not ours")
            await (await watched.take("orders", 3)).release()
            await watched.enqueue("bills", [b"one", b"two", b"three"])

            async def dead() -> bool:
                return (
                    "orders.dead" in {each.name for each in await client.list_queues()}
                    and (await client.get_queue("orders.dead")).length == 5
                )

            await until(dead, "what was rejected is in the dead-letter queue")
            master, _ = await roles(cluster)
            cluster.kill(master)
            await watched.send(producer, "orders", 41, 40)
            await watched.ack("orders", 20)
            await cluster.restart(master)
            await cluster.wait_ready()
            await client.move_messages("bills", "orders")
            await watched.ack("orders", 30)
            await watched.enqueue("bills", [b"four"])
            await producer.close()
        rows, heads = await journals_of(cluster, queues)
    assert {row.member for row in rows} == {"a", "b"}
    assert {"ACKED", "RELEASED", "REJECTED", "DEAD_LETTERED", "MOVED", "EPOCH_BEGAN"} <= {row.kind for row in rows}
    assert len({row.epoch for row in rows}) > 1
    assert violations(rows, watched.told, heads) == []

    entered = next(
        at for at, row in enumerate(rows) if row.kind == "ENQUEUED" and row.index == 50 and row.member == "b"
    )
    place = rows[entered]
    damaged = [*rows[:entered], *rows[entered + 1 :]]
    assert {each.kind for each in violations(damaged, watched.told, heads)} == {"COPIES_DIFFER", "GAP"}
    gone = [row for row in rows if row.log_index != place.log_index]
    assert {"LOST", "GAP"} <= {each.kind for each in violations(gone, watched.told, heads)}
    refused = [
        replace(each, outcome="fail", id=None, index=None) if each.id == place.id else each for each in watched.told
    ]
    assert {(each.kind, each.index) for each in violations(rows, refused, heads)} == {("GHOST", 50)}


async def test_deliveries_over_streams_and_kills_are_clean(tmp_path: Path) -> None:
    """Two consumers that are slow, leases that end, two masters killed: what comes again is explained by leases."""
    async with patient(tmp_path).running() as cluster:
        await cluster.wait_ready()
        async with aio.connect(cluster.target) as client, asyncio.TaskGroup() as tasks:
            watched, config = Watched(client), QueueConfig()
            config.lease_duration.FromSeconds(1)
            await client.create_queue("streamed", config)
            producer = client.producer("streamed")
            consuming = [tasks.create_task(watched.consume(name, "streamed")) for name in ("one", "two")]
            for first in (1, 201):
                more = some_more(watched)
                await watched.send(producer, "streamed", first, 100)
                await until(more, "more is received")
                master, _ = await roles(cluster)
                cluster.kill(master)
                await watched.send(producer, "streamed", first + 100, 100)
                await cluster.restart(master)
                await cluster.wait_ready()

            async def empty() -> bool:
                return (await client.get_queue("streamed")).length == 0

            await until(empty, "everything is acknowledged")
            for each in consuming:
                each.cancel()
            await producer.close()
        rows, heads = await journals_of(cluster, ["streamed"])
    found = judged(rows, watched.told, heads)
    assert found.violations == [], found.unjudged
    received = [told for told in watched.told if told.op == "recv"]
    assert len({told.index for told in received}) == 400


def some_more(watched: Watched) -> Callable[[], Awaitable[bool]]:
    before = len(watched.told)

    async def more() -> bool:
        return len(watched.told) > before + 60

    return more


@pytest.mark.parametrize("lockstep", [LOCKSTEP_PLAIN, LOCKSTEP_SELECTED])
async def test_a_queue_with_sides_is_clean(tmp_path: Path, lockstep: Lockstep) -> None:
    """Both sides are given everything, with lockstep SELECTED by numbers of their own, and the pair's journal says when
    both have passed it. A takeover lies between.
    """
    config = QueueConfig(replication=REPLICATION_PRODUCER, lockstep=lockstep)
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        await cluster.wait_ready()
        watched = Watched(client)
        await client.create_queue("sided", config)
        producer = client.producer("sided")
        for first in (1, 21):
            await watched.send(producer, "sided", first, 20)
            for name in ("a", "b"):
                async with aio.connect(cluster.endpoint(name), follow_master=False) as at_side:
                    await watched.act(at_side, name, "sided", 10)
            master, _ = await roles(cluster)
            if first == 1:
                cluster.kill(master)
                await cluster.restart(master)
                await cluster.wait_ready()

        async def passed() -> bool:
            return (await client.get_queue("sided")).length == 20

        await until(passed, "what both sides have passed is gone")
        await producer.close()
        rows, heads = await journals_of(cluster, ["sided"])
    found = judged(rows, watched.told, heads)
    assert found.violations == [], found.unjudged
