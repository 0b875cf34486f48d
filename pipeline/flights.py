"""The load of the demo: flight records through a pair whose master is killed; what clients saw is kept."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipeline.patience import while_it_moves
from pipeline.schema import ACK, FAIL, OK, RECV, SEND, UNKNOWN
from tandemq import aio
from tandemq.errors import LeaseLost, TandemqError
from tandemq.spark.recording import Recording
from tandemq.v1 import queue_admin_service_pb2 as admin

if TYPE_CHECKING:
    from chaos.cluster import Cluster
    from tandemq.client.aio import Client, DeliveryBatch, Lost, Producer

QUEUE = "flights"
STREAM_S, WINDOW_ROWS = 15.0, 60
UNANSWERED_MAX, SETTLES_MAX, CREDIT = 8, 4, 500
LEASE_S, QUIET_S, DEADLINE_S = 5, 180.0, 600.0
"""Lease; how long nothing may move; how long the pair may take for one step."""
PRIORITY = 4
"""Of every record: the default."""


class Played(NamedTuple):
    """What was done."""

    rows: int
    victim: str
    killed_ms: int
    """By the clock of this machine, which is that of the members too."""
    takeover_ms: int
    """From the kill to the first acknowledgement of the next master."""


class Flights:
    """One run. `recording` is complete when `play` returned."""

    def __init__(self, cluster: Cluster, rows: Sequence[bytes], notify: Callable[[str], None]) -> None:
        self._cluster, self._rows, self._report = cluster, rows, notify
        self.recording = Recording()
        self._acknowledged = self._last_epoch = 0
        self._refused: set[tuple[int, int]] = set()  # (lease, index)
        self._done: set[int] = set()  # indexes
        self._struck_at = self._takeover_s = 0.0
        self._killed_ms = 0
        self._half, self._settled = asyncio.Event(), asyncio.Event()

    async def begin(self) -> None:
        """Make the queue: the first record that both members' journals have."""
        async with aio.connect(self._cluster.target, timeout=DEADLINE_S) as client:
            config = admin.QueueConfig()
            config.lease_duration.FromSeconds(LEASE_S)
            await client.create_queue(QUEUE, config)

    async def play(self) -> Played:
        """After `begin`; the pair must be whole. It takes as long as records move.

        Raises TandemqError, RuntimeError, or PipelineError when nothing moves any more.
        """
        return await while_it_moves(self._play(), self._moved, "records acknowledged and consumed", QUIET_S)

    def _moved(self) -> tuple[int, int]:
        return self._acknowledged, len(self._done)

    async def _play(self) -> Played:
        async with aio.connect(self._cluster.target, timeout=DEADLINE_S) as client:
            async with asyncio.TaskGroup() as tasks:
                consuming = tasks.create_task(self._consume(client))
                producing = tasks.create_task(self._produce(client))
                victim = await self._kill()
                await producing
                await self._settled.wait()
                consuming.cancel()
            await self._cluster.wait_for(lambda view: view.equal(), "equal on both members", DEADLINE_S)
        return Played(len(self._rows), victim, self._killed_ms, round(self._takeover_s * 1000))

    async def _kill(self) -> str:
        await self._half.wait()
        victim = (await self._cluster.status()).masters()[0]
        self._struck_at = time.monotonic()
        self._killed_ms = time.time_ns() // 1_000_000
        pid = self._cluster.kill(victim)
        self._report(f"kill -9 {pid}: master {victim} is gone after {self._acknowledged:,} records")
        await self._cluster.wait_for(lambda view: bool(view.masters()), "taken over", DEADLINE_S)
        await self._cluster.restart(victim)
        await self._cluster.wait_for(lambda view: view.whole(), "in sync again", DEADLINE_S)
        self._report(f"{victim} is replica and in sync")
        return victim

    async def _produce(self, client: Client) -> None:
        room = asyncio.Semaphore(UNANSWERED_MAX)
        due = time.monotonic()
        async with client.producer(QUEUE) as producer, asyncio.TaskGroup() as windows:
            for first in range(0, len(self._rows), WINDOW_ROWS):
                await room.acquire()
                due = max(due, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
                due += STREAM_S * WINDOW_ROWS / len(self._rows)
                windows.create_task(self._send(producer, first, room))

    async def _send(self, producer: Producer, first: int, room: asyncio.Semaphore) -> None:
        payloads = self._rows[first : first + WINDOW_ROWS]
        asked_ns = self.recording.now_ns()
        try:
            receipts = list(await producer.send_many(payloads))
        except TandemqError as error:
            outcome = FAIL if error.definite else UNKNOWN
            self._sent(producer, first, outcome, asked_ns, payloads, [None] * len(payloads))
            raise
        indexes = [receipt.index for receipt in receipts]
        ids, epochs = [receipt.id for receipt in receipts], [receipt.epoch for receipt in receipts]
        self._sent(producer, first, OK, asked_ns, payloads, indexes, ids, epochs)
        self._acknowledged += len(receipts)
        if not self._struck_at:
            self._last_epoch = epochs[-1]
        elif not self._takeover_s and epochs[0] > self._last_epoch:
            self._takeover_s = time.monotonic() - self._struck_at
        if self._acknowledged >= len(self._rows) // 2:
            self._half.set()
        room.release()

    def _sent(
        self,
        producer: Producer,
        first: int,
        outcome: str,
        asked_ns: int,
        payloads: Sequence[bytes],
        indexes: Sequence[int | None],
        ids: Sequence[bytes] = (),
        epochs: Sequence[int] = (),
    ) -> None:
        self.recording.add(
            "producer",
            SEND,
            outcome,
            asked_ns,
            QUEUE,
            indexes=indexes,
            ids=ids,
            epochs=epochs,
            producer=producer.client_id,
            first_sequence=first + 1,
            payloads=payloads,
        )

    async def _consume(self, client: Client) -> None:
        room = asyncio.Semaphore(SETTLES_MAX)
        async with (
            client.consumer(QUEUE, credit_messages=CREDIT, on_lost=self._on_refused) as consumer,
            asyncio.TaskGroup() as settling,
        ):
            asked_ns = self.recording.now_ns()
            async for batch in consumer.batches():
                indexes = [delivery.index for delivery in batch]
                ids = [delivery.id for delivery in batch]
                levels, bodies = [PRIORITY] * len(indexes), [delivery.payload for delivery in batch]
                self.recording.add(
                    *("consumer", RECV, OK, asked_ns, QUEUE),
                    indexes=indexes,
                    ids=ids,
                    priorities=levels,
                    payloads=bodies,
                )
                await room.acquire()
                settling.create_task(self._settle(batch, indexes, ids, room))
                asked_ns = self.recording.now_ns()

    async def _settle(
        self, batch: DeliveryBatch, indexes: list[int], ids: list[bytes], room: asyncio.Semaphore
    ) -> None:
        asked_ns = self.recording.now_ns()
        with contextlib.suppress(LeaseLost):  # _on_refused was given them; they come again
            await batch.ack_async()
        for outcome, refused in ((OK, False), (UNKNOWN, True)):
            chosen = [at for at, index in enumerate(indexes) if ((batch.lease_id, index) in self._refused) is refused]
            if not chosen:
                continue
            some = [indexes[at] for at in chosen]
            self.recording.add("consumer", ACK, outcome, asked_ns, QUEUE, indexes=some, ids=[ids[at] for at in chosen])
            if outcome == OK:
                self._done.update(some)
        if len(self._done) == len(self._rows):
            self._settled.set()
        room.release()

    def _on_refused(self, lost: Lost) -> None:
        for first, count in lost.ranges:
            self._refused.update((lost.act.lease_id, index) for index in range(first, first + count))
