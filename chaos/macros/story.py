"""Plays the demo of macro queues: sends, receives, changes members, kills, and watches; it judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from chaos.demo_journals import rows_of
from chaos.macros.seen import ADDED, DESTROYED, FIRST, IN, MEMBERS, OUT, WEST, Change, Fault, Member, Sample, Seen
from chaos.units.plan import Flight, row_of
from tandemq import aio
from tandemq.cli.output import say
from tandemq.cli.view import PairView
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.client.outgoing import Outgoing
from tandemq.config_links import Links
from tandemq.errors import NotFound, TandemqError

DEADLINE_S, SYNC_S, ATTEMPT_S, LOOK_S = 600.0, 60.0, 2.0, 0.25
BATCH, CREDIT = 100, 200
BURST, PAUSE_S = 10, 1.2  # batches that are sent one behind the other, and what is waited for behind them
AHEAD_SHARE = 0.1  # of all flights; the sender is no further ahead, so that what is done under way meets some
AWAY_S = 12.0  # the single manager stays so long: a look at an open proxy comes within 5 s, and gives up after 5 s
LEASE = timedelta(seconds=10)


class MacroStory:
    """One run. `seen` is complete when `play` has returned."""

    def __init__(self, directory: Path, flights: Sequence[Flight]) -> None:
        self.flights, self.seen = flights, Seen()
        self._single = Cluster(directory / WEST, members=(WEST,))
        links = Links(managers=(f"{WEST}={self._single.endpoint(WEST)}",))
        self._pair = Cluster(directory / "east", pair="east", settings={name: {"links": links} for name in ("a", "b")})
        self._began_s = time.monotonic()
        self._moved = asyncio.Event()
        self._may_send = asyncio.Event()
        self._quiet = asyncio.Event()
        self._may_send.set()
        self._gone: dict[int, str] = {}
        self._reopened: dict[str, int] = {}
        self._choices: Counter[str] = Counter()

    async def play(self) -> None:
        """Raises RuntimeError, TimeoutError, TandemqError."""
        async with (
            asyncio.timeout(DEADLINE_S),
            self._single.running(SYNC_S),
            self._pair.running(SYNC_S),
            self._client(self._pair) as here,
            self._client(self._single) as there,
        ):
            await self._make(here, there)
            self._began_s, self.seen.began_ms = time.monotonic(), round(time.time() * 1000)
            async with asyncio.TaskGroup() as watching:
                watcher = watching.create_task(self._watch(here))
                receiver = watching.create_task(self._receive(here))
                async with asyncio.TaskGroup() as working:
                    working.create_task(self._send(here))
                    working.create_task(self._hurt(here, there))
                await self._until(lambda: len(self.seen.received) >= len(self.flights))
                await self._drained(here, there)
                receiver.cancel()
                watcher.cancel()
            await self._read(there)

    def _client(self, cluster: Cluster) -> aio.Client:
        return aio.connect(cluster.target, timeout=DEADLINE_S, attempt_timeout=ATTEMPT_S)

    async def _make(self, here: aio.Client, there: aio.Client) -> None:
        await here.create_macro(IN, relationship=Relationship.PRODUCER, policy=MacroPolicy.BY_GROUP)
        await here.create_macro(OUT, policy=MacroPolicy.PRIORITIZED)
        for member in FIRST:
            await self._add(here, there, member)

    async def _add(self, here: aio.Client, there: aio.Client, member: Member) -> None:
        if member.is_remote:
            await there.create_queue(member.queue)
            await here.create_proxy(member.gives, member.target)
        else:
            await here.create_queue(member.queue)
        await here.add_macro_member(OUT, member.gives, priority=member.priority)
        await here.add_macro_member(IN, member.target)

    # -- sending and receiving ---------------------------------------------------------------------------------------

    async def _send(self, client: aio.Client) -> None:
        ahead = AHEAD_SHARE * len(self.flights)
        for first in range(0, len(self.flights), BATCH):
            await self._until(lambda: self.seen.sent - len(self.seen.received) < ahead)
            self._quiet.set()
            await self._may_send.wait()
            self._quiet.clear()
            part = self.flights[first : first + BATCH]
            self.seen.sent += len(part)
            await client.enqueue(IN, [Outgoing(each.sent(), {"group_id": each.carrier}) for each in part])
            self.seen.acknowledged.update(each.row for each in part)
            if first // BATCH % BURST == BURST - 1:
                self._quiet.set()
                await asyncio.sleep(PAUSE_S)
        self._quiet.set()

    async def _receive(self, client: aio.Client) -> None:
        while True:
            with contextlib.suppress(TandemqError):  # a stream that was lost; what it held comes again
                async with client.consumer(OUT, credit_messages=CREDIT, lease=LEASE) as consumer:
                    async for delivery in consumer:
                        self.seen.received.add(row_of(delivery.payload))
                        delivery.ack()

    # -- the hand ----------------------------------------------------------------------------------------------------

    async def _hurt(self, here: aio.Client, there: aio.Client) -> None:
        acts: list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]] = [
            (0.15, self._kill_master),
            (0.30, lambda: self._destroy(here)),
            (0.45, self._kill_single),
            (0.60, lambda: self._add_one(here, there)),
            (0.75, self._kill_master),
        ]
        for share, act in acts:
            await self._until(lambda share=share: len(self.seen.received) >= share * len(self.flights))  # type: ignore[misc]
            await act()

    async def _kill_master(self) -> None:
        view = await self._pair.wait_for(PairView.whole, "whole before a kill", SYNC_S)
        victim, at_s = view.masters()[0], self._now_s
        await self._kill(self._pair, victim)
        say(f"{at_s:6.1f} s  master {victim} killed after {len(self.seen.received):,} flights")
        await self._pair.wait_for(lambda view: view.masters()[:1] not in ([], [victim]), "taken over", SYNC_S)
        await self._pair.restart(victim)
        await self._pair.wait_for(PairView.whole, "in sync again", SYNC_S)
        self.seen.faults.append(Fault(at_s, "master killed", victim, self._now_s))

    async def _kill_single(self) -> None:
        at_s = self._now_s
        await self._kill(self._single, WEST)
        say(f"{at_s:6.1f} s  {WEST} killed after {len(self.seen.received):,} flights")
        await asyncio.sleep(AWAY_S)
        await self._single.restart(WEST)
        await self._until(lambda: self.seen.reopened > 0)  # before a takeover, which counts anew
        self.seen.faults.append(Fault(at_s, "killed", WEST, self._now_s))

    async def _kill(self, cluster: Cluster, name: str) -> None:
        child = cluster.children[name]
        cluster.kill(name)
        assert child.process is not None
        self.seen.kills += await asyncio.to_thread(child.process.wait) == -signal.SIGKILL

    @contextlib.asynccontextmanager
    async def _between_batches(self) -> AsyncIterator[None]:
        """What is sent before is dealt by the members before."""
        self._may_send.clear()
        await self._quiet.wait()
        yield
        self._may_send.set()

    async def _destroy(self, here: aio.Client) -> None:
        members = (await here.get_macro(IN)).members
        self._gone = {each.handle: each.queue for each in members if each.queue == DESTROYED.queue}
        async with self._between_batches():
            await here.remove_macro_member(IN, DESTROYED.target)
            self.seen.changes.append(Change(self.seen.sent, DESTROYED, is_added=False))
        while (await here.get_queue(DESTROYED.queue)).length:  # noqa: ASYNC110 - no event comes from another process
            await asyncio.sleep(LOOK_S)
        await here.delete_queue(DESTROYED.queue, if_empty=True)
        left = [each.queue for each in (await here.get_macro(OUT)).members]
        if DESTROYED.gives in left:
            raise RuntimeError(f"{DESTROYED.queue} is destroyed, and still a member of {OUT}")
        self.seen.faults.append(Fault(self._now_s, "destroyed", DESTROYED.queue))

    async def _add_one(self, here: aio.Client, there: aio.Client) -> None:
        async with self._between_batches():
            await self._add(here, there, ADDED)
            self.seen.changes.append(Change(self.seen.sent, ADDED, is_added=True))
        self.seen.faults.append(Fault(self._now_s, "added", ADDED.queue))

    # -- watching ----------------------------------------------------------------------------------------------------

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    async def _watch(self, here: aio.Client) -> None:
        last: dict[str, int] = {}
        while True:
            with contextlib.suppress(NotFound):
                self._count(last, {each.name: each.reopened for each in await here.list_proxies()}, self._reopened)
                self._count(last, dict((await here.get_macro(IN)).choices), self._choices)
            self.seen.reopened = sum(self._reopened.values())
            self.seen.choices = dict(sorted(self._choices.items()))
            self.seen.samples.append(Sample(self._now_s, self.seen.sent, len(self.seen.received)))
            self._moved.set()
            await asyncio.sleep(LOOK_S)

    @staticmethod
    def _count(last: dict[str, int], now: dict[str, int], into: dict[str, int]) -> None:
        """Each master counts from 0."""
        for name, value in now.items():
            before = last.get(name, 0)
            into[name] = into.get(name, 0) + (value - before if value >= before else value)
            last[name] = value

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    async def _drained(self, here: aio.Client, there: aio.Client) -> None:
        for member in MEMBERS:
            clients = [(here, member.enters)] + ([(there, member.queue)] if member.is_remote else [])
            for client, queue in clients:
                if member != DESTROYED:
                    while (await client.get_queue(queue)).length:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(LOOK_S)
        await self._pair.wait_for(PairView.equal, "equal on both members", SYNC_S)
        say(f"{self._now_s:6.1f} s  drained; both members of the pair hold the same")

    async def _read(self, there: aio.Client) -> None:
        for name in self._pair.members:
            async with aio.connect(self._pair.endpoint(name), follow_master=False) as client:
                self.seen.pair[name] = [row async for row in rows_of(client, "main", self._gone)]
        self.seen.single = [row async for row in rows_of(there, "local")]
