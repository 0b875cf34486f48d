"""Plays the demo of units: who sends, works, cancels, exchanges, posts the ledger, and kills; it judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from chaos.cluster import Cluster
from chaos.demo_journals import rows_of
from chaos.relay import Relay, Relays
from chaos.units.account import labels_of
from chaos.units.counts import Counts
from chaos.units.plan import DELIVERIES_MAX, Exchange, Flight, airline_of, exchanges_of
from chaos.units.screen import Screen
from chaos.units.seen import CANCEL, DEAD, FLIGHTS, LEDGER, LEGS, REPORTS, TARGET, XMIT, Answer, Seen
from chaos.units.worker import committed_in
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.client.filtering import Where
from tandemq.client.outgoing import Outgoing
from tandemq.client.reactions import Cancel, Change
from tandemq.config_links import Links
from tandemq.demo.record import GONE, IN_SYNC, KILL, NOTE, RESTART, TAKEOVER, Event, Record
from tandemq.errors import LeaseLost, NotFound
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

DEADLINE_S = 900.0  # a machine that others use too is slow, and no fault
ATTEMPT_S = 2.0
KEPT = timedelta(minutes=30)  # the reaction that cancels an airline
LOOK_S, SYNC_DEADLINE_S, TAKEOVER_DEADLINE_S = 0.4, 60.0, 30.0
BATCH_ROWS = 100  # of the sender
POST_EVERY_S, POSTED_ROWS = 0.5, 500  # of whoever posts the ledger
AHEAD_SHARE = 0.2  # of all rows; the sender is no further ahead of the workers
UNITS_EACH = 8  # under way at one worker
RELAY_OFFSET = 21  # from the second pair's base port: two relays that its clients come through
CUT, HEALED, WORKER, REACTION = "cut off", "healed", "worker killed", "reaction"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen. Shares are of all flights that have their leg; the seed decides the moment of a kill."""

    seed: int
    workers: int = 2
    exchanges: int = 24
    masters_die_at: tuple[float, ...] = (0.25, 0.65)
    worker_dies_at: float = 0.45
    cut_at: float = 0.35
    healed_at: float = 0.55


class Story:
    """One run. `seen` and `record` are complete when `play` returned."""

    def __init__(self, directory: Path, flights: Sequence[Flight], plan: Plan, screen: Screen) -> None:
        self.flights, self._plan, self._screen = flights, plan, screen
        self.airline = airline_of(flights)
        self.exchanges: list[Exchange] = exchanges_of(flights, self.airline, plan.exchanges)
        self.seen, self.counts = Seen(), Counts()
        self.directory = directory
        self._random = random.Random(plan.seed)
        self._second = Cluster(directory / TARGET, pair=TARGET)
        relayed = [f"127.0.0.1:{self._second.base_port + RELAY_OFFSET + place}" for place in range(2)]
        self._ways = list(zip(relayed, self._second.endpoints, strict=True))
        members = list(self._second.members)
        self._second.settings = {
            name: {"advertise": relayed[place], "peer_endpoint": relayed[1 - place]}
            for place, name in enumerate(members)
        }
        links = Links(managers=tuple(f"{TARGET}={endpoint}" for endpoint in relayed))
        self._first = Cluster(directory / "east", pair="east", settings={name: {"links": links} for name in ("a", "b")})
        self.record = Record(tuple(self._first.members))
        self._workers: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self._began_s = time.monotonic()
        self.began_ms = 0
        self._moved = asyncio.Event()  # a count is another one

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    def note(self, kind: str, member: str, text: str) -> None:
        event = Event(self.now_s, kind, member, text)
        self.record.events.append(event)
        self._screen.add(event)

    async def play(self) -> None:
        """Raises TandemqError, RuntimeError (a process failed) or TimeoutError, in groups; all processes are ended."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                async with self._pairs() as wire:
                    self._began_s, self.began_ms = time.monotonic(), round(time.time() * 1000)
                    what = f"{len(self.flights):,} flights; {self.airline} is to be cancelled"
                    self.note(NOTE, "", f"two pairs are whole; {what}")
                    await self._with_clients(wire)
        finally:
            self.record.ended_s = self.record.ended_s or self.now_s

    @contextlib.asynccontextmanager
    async def _pairs(self) -> AsyncIterator[list[Relay]]:
        with Relays() as relays:
            async with contextlib.AsyncExitStack() as cleanup:
                wire = [relays.open(listen, target) for listen, target in self._ways]
                for cluster in (self._first, self._second):
                    cleanup.push_async_callback(cluster.stop)
                await asyncio.gather(self._first.start(), self._second.start())
                cleanup.push_async_callback(self._end_workers)
                yield wire

    async def _with_clients(self, wire: list[Relay]) -> None:
        here, there = (
            aio.connect(each.target, timeout=DEADLINE_S, attempt_timeout=ATTEMPT_S)
            for each in (self._first, self._second)
        )
        async with here, there:
            await self._make_queues(here, there)
            for number in range(self._plan.workers):
                self._start_worker(number)
            async with asyncio.TaskGroup() as watching:
                watchers = [watching.create_task(self._watch()), watching.create_task(self._count(here))]
                async with asyncio.TaskGroup() as working:
                    posting = working.create_task(self._post(here))
                    working.create_task(self._send(here))
                    working.create_task(self._cancel(here))
                    working.create_task(self._exchange(here))
                    await self._hurt(wire)
                    await self._drained(here)
                    posting.cancel()
                for watcher in watchers:
                    watcher.cancel()
            await self._first.wait_for(lambda view: view.equal(), "equal on both members", SYNC_DEADLINE_S)
            self.note(IN_SYNC, "", "drained; both members hold the same log and the same queues")
            self.record.ended_s = self.now_s
            await self._end_workers()
            self.seen.here = [row async for row in rows_of(here, "main", labelled=True)]
            self.seen.there = [row async for row in rows_of(there, "main", labelled=True)]
        for file in sorted(self.directory.glob("worker-*.csv")):
            self.seen.committed += committed_in(file)

    async def _make_queues(self, here: aio.Client, there: aio.Client) -> None:
        await here.create_queue(FLIGHTS, QueueConfig(reactions_enabled=True, max_deliveries=DELIVERIES_MAX))
        for queue in (DEAD, LEGS, LEDGER, REPORTS):
            await here.create_queue(queue)
        await there.create_queue(LEDGER)

    # -- who works --------------------------------------------------------------------------------------------------

    def _start_worker(self, number: int) -> None:
        file = self.directory / f"worker-{number}.csv"
        log = (self.directory / f"worker-{number}.log").open("ab")
        self._logs.append(log)
        command = [sys.executable, "-P", "-m", "chaos.units.worker", self._first.target, str(file), str(UNITS_EACH)]
        self._workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log))

    async def _end_workers(self) -> None:
        for worker in self._workers:
            if worker.stdin and not worker.stdin.closed:
                worker.stdin.close()
        for worker in self._workers:
            try:
                await asyncio.to_thread(worker.wait, 10.0)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for log in self._logs:
            log.close()

    async def _send(self, client: aio.Client) -> None:
        ahead = AHEAD_SHARE * len(self.flights)
        for first in range(0, len(self.flights), BATCH_ROWS):
            batch = self.flights[first : first + BATCH_ROWS]
            await self._until(lambda: self.counts.sent - self.counts.ended < ahead)
            messages = [
                Outgoing(flight.sent(), {"correlation_id": flight.name, "group_id": flight.carrier}) for flight in batch
            ]
            receipts = await client.enqueue(FLIGHTS, messages)
            self.seen.sent.update(flight.row for flight, _ in zip(batch, receipts, strict=True))
            self.counts.sent += len(batch)
            self._moved.set()

    async def _post(self, client: aio.Client) -> None:
        """The ledger to the second pair: each batch is acknowledged here and sent on by one unit."""
        while True:
            await asyncio.sleep(POST_EVERY_S)
            taken = await client.dequeue(LEDGER, POSTED_ROWS)
            if taken:
                with contextlib.suppress(LeaseLost):  # they come again
                    # A transmission queue keeps on disk what its sender has marked so, and nothing else.
                    entries = [Outgoing(each.payload, {"persistent": True}) for each in taken]
                    await client.transact([taken], {f"//{TARGET}/{LEDGER}": entries})

    async def _cancel(self, client: aio.Client) -> None:
        """Once, when half of its flights are sent: the others are cancelled as they arrive, or come back."""
        mine = [flight.row for flight in self.flights if flight.carrier == self.airline]
        await self._sent(mine[len(mine) // 2])
        label = f"{CANCEL}-{self.airline}"
        done = await client.react(
            FLIGHTS,
            Where(group_id=self.airline),
            Cancel(),
            everything=True,
            sticky=KEPT,
            report_to=REPORTS,
            correlation_id=label,
        )
        self.seen.answers.append(Answer(label, done.applied, done.locked, sticky=done.kept))
        self.counts.cancelled += done.applied
        self.note(
            REACTION, "", f"{self.airline} is cancelled: {done.applied} flights waited, workers had {done.locked}"
        )

    async def _exchange(self, client: aio.Client) -> None:
        for exchange in self.exchanges:
            await self._sent(exchange.after_rows)
            for label, (row, tail) in labels_of(self.flights, [exchange]).items():
                flight = self.flights[row - 1]
                done = await client.react(
                    FLIGHTS,
                    Where(correlation_id=flight.name),
                    Change(flight.sent(tail)),
                    report_to=REPORTS,
                    correlation_id=label,
                )
                self.seen.answers.append(Answer(label, done.applied, done.locked))
                self.counts.exchanged += done.applied

    # -- the hand ---------------------------------------------------------------------------------------------------

    async def _hurt(self, wire: list[Relay]) -> None:
        plan = self._plan
        acts: list[tuple[float, Callable[[], Any]]] = [
            *((share, self._kill_master) for share in plan.masters_die_at),
            (plan.worker_dies_at, self._kill_worker),
            (plan.cut_at, lambda: self._cut(wire)),
            (plan.healed_at, lambda: self._heal(wire)),
        ]
        for share, act in sorted(acts, key=lambda each: each[0]):
            await self._flown(share)
            await act()

    async def _cut(self, wire: list[Relay]) -> None:
        for relay in wire:
            await asyncio.to_thread(relay.refuse)
        self.note(CUT, "", "the second pair is cut off")

    async def _heal(self, wire: list[Relay]) -> None:
        for relay in wire:
            await asyncio.to_thread(relay.heal)
        self.note(HEALED, "", f"the second pair is there again; {self.counts.onward:,} entries wait for it")

    async def _kill_worker(self) -> None:
        victim = self._workers[0]
        victim.kill()
        code = await asyncio.to_thread(victim.wait)
        self.seen.workers_killed += code == -signal.SIGKILL
        self.note(WORKER, "", f"kill -9 {victim.pid}: a worker is gone with up to {UNITS_EACH} open units")
        self._start_worker(len(self._workers))

    async def _kill_master(self) -> None:
        view = await self._first.wait_for(lambda view: view.whole(), "whole before a kill", SYNC_DEADLINE_S)
        victim = view.masters()[0]
        epoch = _epoch_of(view, victim)
        await asyncio.sleep(self._random.uniform(0.0, 0.02))
        child, killed_s = self._first.children[victim], self.now_s
        pid = self._first.kill(victim)
        self.record.saw(victim, GONE, 0, killed_s)
        self.note(KILL, victim, f"kill -9 {pid}: master {victim} is gone after {self.counts.legs:,} legs")
        view = await self._first.wait_for(
            lambda view: any(_epoch_of(view, name) > epoch for name in view.masters()),
            "taken over",
            TAKEOVER_DEADLINE_S,
        )
        heir = view.masters()[0]
        took_ms = (self.now_s - killed_s) * 1000
        self.record.saw(heir, "MASTER", _epoch_of(view, heir), self.now_s)
        self.note(
            TAKEOVER, heir, f"{heir} is master, epoch {_epoch_of(view, heir)}, seen {took_ms:.0f} ms after the kill"
        )
        assert child.process is not None
        self.seen.masters_killed += child.process.wait() == -signal.SIGKILL
        await self._first.restart(victim)
        self.note(RESTART, victim, f"{victim} runs again, pid {child.pid}")
        await self._first.wait_for(lambda view: view.whole(), "in sync again", SYNC_DEADLINE_S)
        self.note(IN_SYNC, victim, f"{victim} is replica and in sync")

    # -- watching ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            view = await self._first.status()
            seen = {member.name: member.domain("main") for member in view.members if member.reachable}
            for name in self.record.members:
                state = seen.get(name)
                self.record.saw(name, state.role if state else GONE, state.epoch if state else 0, self.now_s)
            await asyncio.sleep(LOOK_S)

    async def _count(self, here: aio.Client) -> None:
        counts = self.counts
        while True:
            counts.legs = (await here.get_queue(LEGS)).length
            counts.waiting = (await here.get_queue(FLIGHTS)).length
            counts.here = (await here.get_queue(LEDGER)).length
            with contextlib.suppress(NotFound):
                counts.onward = (await here.get_queue(XMIT)).length
            for number, worker in enumerate(self._workers):
                if worker.poll() not in (None, -signal.SIGKILL):
                    raise RuntimeError(f"worker {number} ended with {worker.poll()}; see worker-{number}.log")
            self._moved.set()
            self._screen.show(counts, len(self.flights), self.now_s)
            await asyncio.sleep(LOOK_S)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    async def _sent(self, rows: int) -> None:
        await self._until(lambda: self.counts.sent >= rows)

    async def _flown(self, share: float) -> None:
        await self._until(lambda: self.counts.legs >= share * len(self.flights))

    async def _drained(self, here: aio.Client) -> None:
        """Every flight has come to its end, and every entry is at the second pair."""
        await self._sent(len(self.flights))
        for queue in (FLIGHTS, LEDGER, XMIT):
            while (await here.get_queue(queue)).length:  # noqa: ASYNC110 - no event comes from another process
                await asyncio.sleep(LOOK_S)


def _epoch_of(view: PairView, name: str) -> int:
    return max((state.epoch for member in view.members if member.name == name for state in member.domains), default=0)
