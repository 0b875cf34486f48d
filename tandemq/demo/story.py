"""Plays the demo: one producer, one consumer, and a hand that kills the master; the ledger says what it proves."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tandemq.demo.record import GONE, IN_SYNC, KILL, NOTE, RESTART, TAKEOVER, Event, Record
from tandemq.demo.rows import Rows
from tandemq.demo.screen import Screen
from tandemq.errors import LeaseLost, TandemqError

if TYPE_CHECKING:
    from chaos.cluster import Cluster
    from chaos.ledger import Ledger
    from tandemq.cli.doctor.finding import Finding
    from tandemq.cli.view import PairView
    from tandemq.client.aio import Client, DeliveryBatch, Lost, Producer

QUEUE = "flights"
DEADLINE_S = 180.0
STREAM_S = 10.0  # how long sending would take without any fault
WINDOW_S = 0.03  # rows leave about this often, so that a pause is seen as long as it was
WINDOWS_UNANSWERED_MAX = 8
SETTLES_UNCONFIRMED_MAX = 4
CREDIT_ROWS = 500
LEASE_S = 5  # what a dead master had on its way comes again after this
LOOK_S = 0.1
TURN_S = 0.05
KILL_SPREAD_S = 0.008
TAKEOVER_DEADLINE_S = 30.0
SYNC_DEADLINE_S = 60.0
DOCTOR_S = 5.0  # for each answer


class Plan(NamedTuple):
    """What is to happen; the seed decides windows and the exact rows at which members die."""

    kills: int
    seed: int


class Story:
    """One run. `ledger` and `record` are complete when `play` returned or raised."""

    def __init__(self, cluster: Cluster, ledger: Ledger, rows: Rows, plan: Plan, screen: Screen) -> None:
        self.record = Record(tuple(cluster.members))
        self._cluster, self._ledger, self._rows, self._plan, self._screen = cluster, ledger, rows, plan, screen
        self._random = random.Random(plan.seed)
        self._began_s = time.monotonic()
        self._window_rows = max(1, round(len(rows) / STREAM_S * WINDOW_S))
        self._allowed_rows = len(rows)  # the producer waits here until the pair is whole again
        self._refused: set[tuple[int, int]] = set()  # (lease, index) of settlements that a member refused
        self._struck: tuple[int, float] | None = None  # epoch of the dead master, and when it died
        self._changed = asyncio.Event()  # a count or a bound moved
        self.findings: list[Finding] = []
        """Of `tandemq doctor`, about the pair once it is whole again."""
        self.thresholds = self._choose_thresholds()

    def _choose_thresholds(self) -> list[int]:
        """Acknowledged rows at which the master dies: about evenly apart, never at the ends."""
        parts = self._plan.kills + 1
        jitter = len(self._rows) // (20 * parts)
        evenly = [len(self._rows) * number // parts for number in range(1, parts)]
        return [max(1, rows + self._random.randint(-jitter, jitter)) for rows in evenly]

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    async def play(self) -> None:
        """Raises TandemqError, RuntimeError (a process failed) or TimeoutError, in groups; all processes are ended."""
        try:
            async with asyncio.timeout(DEADLINE_S), self._cluster.running():
                self._began_s = time.monotonic()
                self._note(NOTE, "", f"pair {', '.join(self._cluster.members)} is whole; witness beside it")
                await self._with_client()
        finally:
            self.record.ended_s = self.now_s

    async def _with_client(self) -> None:
        from tandemq.client import aio
        from tandemq.v1 import queue_admin_service_pb2 as admin

        async with aio.connect(self._cluster.target, timeout=DEADLINE_S, attempt_timeout=2.0) as client:
            config = admin.QueueConfig(require_two=False)
            config.lease_duration.FromSeconds(LEASE_S)
            await client.create_queue(QUEUE, config)
            async with asyncio.TaskGroup() as watching:
                watcher = watching.create_task(self._watch())
                async with asyncio.TaskGroup() as working:
                    consuming = working.create_task(self._consume(client))
                    working.create_task(self._produce(client))
                    await self._hurt()
                    await self._drained(client)
                    consuming.cancel()
                await self._cluster.wait_for(lambda view: view.equal(), "equal on both members", SYNC_DEADLINE_S)
                self._note(IN_SYNC, "", "drained; both members hold the same log and the same queues")
                self.findings = await self._examine()
                watcher.cancel()

    async def _examine(self) -> list[Finding]:
        from tandemq.cli.doctor.command import look_over
        from tandemq.cli.doctor.places import find

        files = [str(self._cluster.config_file(name)) for name in self._cluster.members]
        _, findings = await look_over(find(files, self._cluster.target, environ={}), DOCTOR_S, classify=True)
        return findings

    # -- the producer --------------------------------------------------------------------------------------------

    async def _produce(self, client: Client) -> None:
        room = asyncio.Semaphore(WINDOWS_UNANSWERED_MAX)
        rate = len(self._rows) / STREAM_S
        row, due_s = 0, self.now_s
        async with client.producer(QUEUE) as producer, asyncio.TaskGroup() as windows:
            while row < len(self._rows):
                count = self._random.randint(max(1, self._window_rows // 2), self._window_rows * 3 // 2)
                await self._allowed(row)
                await room.acquire()
                due_s = max(due_s, self.now_s)
                await asyncio.sleep(due_s - self.now_s)
                payloads = self._rows.texts[row : row + count]
                due_s += len(payloads) / rate
                self._ledger.on_sent(len(payloads), self.now_s)
                windows.create_task(self._send(producer, row, payloads, room))
                self._changed.set()
                row += len(payloads)

    async def _send(self, producer: Producer, row: int, payloads: Sequence[bytes], room: asyncio.Semaphore) -> None:
        receipts = await producer.send_many(payloads)
        now_s = self.now_s
        for offset, receipt in enumerate(receipts):
            self._ledger.on_acknowledged(row + offset, receipt.index, now_s)
            if self._struck and receipt.epoch > self._struck[0]:
                self.record.takeovers_s.append(now_s - self._struck[1])
                self._struck = None
        self.record.acks.append((now_s, len(receipts)))
        self._changed.set()
        room.release()

    # -- the consumer --------------------------------------------------------------------------------------------

    async def _consume(self, client: Client) -> None:
        room = asyncio.Semaphore(SETTLES_UNCONFIRMED_MAX)
        async with (
            client.consumer(QUEUE, credit_messages=CREDIT_ROWS, on_lost=self._on_refused) as consumer,
            asyncio.TaskGroup() as settling,
        ):
            async for batch in consumer.batches():
                rows: dict[int, int] = {}
                for delivery in batch:
                    row = self._rows.find(delivery.index, delivery.payload)
                    if row is None:
                        self._ledger.on_corrupt(delivery.index)
                    else:
                        rows[delivery.index] = row
                        self._ledger.on_received(row, delivery.index, delivery.delivery_count)
                await room.acquire()
                settling.create_task(self._settle(batch, rows, room))

    async def _settle(self, batch: DeliveryBatch, rows: dict[int, int], room: asyncio.Semaphore) -> None:
        with contextlib.suppress(LeaseLost):  # _on_refused was given them; they come again
            await batch.ack_async()
        self._ledger.on_settled(row for index, row in rows.items() if (batch.lease_id, index) not in self._refused)
        room.release()

    def _on_refused(self, lost: Lost) -> None:
        for first, count in lost.ranges:
            self._refused.update((lost.act.lease_id, index) for index in range(first, first + count))

    async def _drained(self, client: Client) -> None:
        """Returns when all rows are acknowledged and settled, or the queue is empty although some are missing."""
        await self._reached(len(self._rows))
        while self._ledger.settled < len(self._rows):
            await asyncio.sleep(TURN_S)
            if self._ledger.settled < len(self._rows) and (await client.get_queue(QUEUE)).length == 0:
                await asyncio.sleep(LEASE_S)  # the last confirmations may still be on their way
                return

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def _allowed(self, row: int) -> None:
        await self._until(lambda: row < self._allowed_rows)

    async def _reached(self, rows: int) -> None:
        await self._until(lambda: self._ledger.acknowledged >= rows)

    # -- the hand ------------------------------------------------------------------------------------------------

    async def _hurt(self) -> None:
        for number, threshold in enumerate(self.thresholds, 1):
            await self._reached(threshold)
            later = self.thresholds[number:]
            self._allowed_rows = later[0] - 2 * self._window_rows if later else len(self._rows)
            await self._kill_master()
            self._allowed_rows = len(self._rows)
            self._changed.set()

    async def _kill_master(self) -> None:
        view = await self._cluster.wait_for(lambda view: view.whole(), "whole before a kill", SYNC_DEADLINE_S)
        victim = view.masters()[0]
        epoch = epoch_of(view, victim)
        await self._until(lambda: self._ledger.sent > self._ledger.acknowledged)
        await asyncio.sleep(self._random.uniform(0.0, KILL_SPREAD_S))  # anywhere between its arrival and its answer
        killed_s = self.now_s
        self._struck = (epoch, killed_s)
        pid = self._cluster.kill(victim)
        self.record.saw(victim, GONE, 0, killed_s)
        self._ledger.on_kill(victim, epoch, killed_s)
        self._note(KILL, victim, f"kill -9 {pid}: master {victim} is gone after {self._ledger.acknowledged:,} rows")

        def taken_over(view: PairView) -> bool:
            return any(epoch_of(view, name) > epoch for name in view.masters())

        view = await self._cluster.wait_for(taken_over, "taken over", TAKEOVER_DEADLINE_S)
        heir = view.masters()[0]
        self._ledger.on_master(epoch_of(view, heir))
        self.record.saw(heir, "MASTER", epoch_of(view, heir), self.now_s)
        took_ms = (self.now_s - killed_s) * 1000
        self._note(
            TAKEOVER, heir, f"{heir} is master, epoch {epoch_of(view, heir)}, seen {took_ms:.0f} ms after the kill"
        )
        await self._cluster.restart(victim)
        self._note(RESTART, victim, f"{victim} runs again, pid {self._cluster.children[victim].pid}")
        await self._cluster.wait_for(lambda view: view.whole(), "in sync again", SYNC_DEADLINE_S)
        self._note(IN_SYNC, victim, f"{victim} is replica and in sync")

    # -- watching ------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            view = await self._cluster.status()
            now_s = self.now_s
            seen = {member.name: member.domain("main") for member in view.members if member.reachable}
            for name in self.record.members:
                state = seen.get(name)
                self.record.saw(name, state.role if state else GONE, state.epoch if state else 0, now_s)
                if state and state.role == "MASTER":
                    self._ledger.on_master(state.epoch)
            self._screen.show(view, self._ledger, self.record, now_s)
            await asyncio.sleep(LOOK_S)

    def _note(self, kind: str, member: str, text: str) -> None:
        event = Event(self.now_s, kind, member, text)
        self.record.events.append(event)
        self._screen.add(event)


def epoch_of(view: PairView, name: str) -> int:
    return max((state.epoch for member in view.members if member.name == name for state in member.domains), default=0)


def failures_of(error: BaseException) -> list[str]:
    """What went wrong, one line each, out of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        return [line for inner in error.exceptions for line in failures_of(inner)]
    if isinstance(error, TimeoutError):
        return [f"not finished within {DEADLINE_S:g} s"]
    if isinstance(error, TandemqError):
        return [f"{error.reason}: {error.message}"]
    return [str(error)]
