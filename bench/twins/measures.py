"""What queues with PRODUCER replication, and twins, are measured by on a real pair; a measure is turns.

Processor time is that of both members, whoever else uses the machine; times and rates are those of a machine that
others may use.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.place import BenchError
from bench.turns.figures import Bound, Figure, Single
from bench.turns.taking import in_turns, members_cpu_us
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.demo.rows import flights
from tandemq.errors import AlreadyExists, TandemqError
from tandemq.twin import Twin, TwinInput, TwinOptions
from tandemq.twin.looking import look
from tandemq.v1.queue_admin_service_pb2 import (
    LOCKSTEP_SELECTED,
    LOCKSTEP_UNSPECIFIED,
    REPLICATION_FULL,
    REPLICATION_PRODUCER,
    Lockstep,
    QueueConfig,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "execution_environment"
OUTPUTS = ("departures", "delays", "faults")
BATCH = 100
PAYLOAD = b"x" * 200
PRIORITIES = 10
WAIT_S = 120.0
LOOK_S = 0.005
NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    turns: int = 9
    batches: int = 100  # that enter, in a turn
    delivered: int = 200_000  # messages that are consumed, in a turn: the second at its end hardly counts
    replayed: int = 100_000  # inputs that a twin replays, in a turn
    credit: int = 20_000  # of each consumer, of whichever queue: that of `tandemq.twin`


QUICK = Size(turns=2, batches=5, delivered=500, replayed=1_000)


@dataclass(frozen=True, slots=True)
class World:
    """One pair, and where twins keep their state."""

    pair: Cluster
    client: aio.Client
    folder: Path
    size: Size

    async def make(self, queue: str, *, sided: bool, lockstep: Lockstep = LOCKSTEP_UNSPECIFIED) -> None:
        replication = REPLICATION_PRODUCER if sided else REPLICATION_FULL
        config = QueueConfig(replication=replication, lockstep=lockstep, max_length=NEVER, max_bytes=0)
        await self.client.create_queue(queue, config)


async def enqueue(world: World) -> Figure:
    """A message into a queue with sides beside one into a queue with FULL replication, by batches of 100."""
    await world.make("sided", sided=True)
    await world.make("full", sided=False)
    puts = [PAYLOAD] * BATCH

    async def into(queue: str) -> float:
        before = members_cpu_us(world.pair)
        for _ in range(world.size.batches):
            await world.client.enqueue(queue, puts)
        return (members_cpu_us(world.pair) - before) / world.size.batches / BATCH

    turns = await in_turns(lambda: into("sided"), lambda: into("full"), world.size.turns)
    what = "a message into a PRODUCER queue / into a FULL one, batches of 100"
    return Figure(what, "CPU us of both members", Bound(1.05), turns)


async def lockstep(world: World) -> Figure:
    """What is delivered to two consumers, one a side, beside the same to one consumer of a FULL queue."""
    await world.make("steps", sided=True)
    await world.make("one", sided=False)
    async with _at_both(world) as sides:
        turns = await in_turns(
            lambda: _delivered(world, "steps", sides),
            lambda: _delivered(world, "one", [world.client]),
            world.size.turns,
        )
    what = "a message delivered to both sides / to one consumer of a FULL queue"
    return Figure(what, "CPU us of both members", Bound(1.25), turns)


async def priority(world: World) -> Figure:
    """What is delivered to both sides by priority, the highest first, beside the same in the order of arrival."""
    await world.make("selected", sided=True, lockstep=LOCKSTEP_SELECTED)
    await world.make("plain", sided=True)
    async with _at_both(world) as sides:
        turns = await in_turns(
            lambda: _delivered(world, "selected", sides, priorities=PRIORITIES),
            lambda: _delivered(world, "plain", sides),
            world.size.turns,
        )
    what = "a message delivered to both sides by lockstep SELECTED, of ten priorities / PLAIN, without any"
    return Figure(what, "CPU us of both members", Bound(1.25), turns)


@contextlib.asynccontextmanager
async def _at_both(world: World) -> AsyncIterator[list[aio.Client]]:
    """A client at each member."""
    async with contextlib.AsyncExitStack() as stack:
        at = [aio.connect(endpoint, follow_master=False) for endpoint in world.pair.endpoints]
        yield [await stack.enter_async_context(each) for each in at]


async def _delivered(world: World, queue: str, clients: list[aio.Client], priorities: int = 0) -> float:
    """Processor time for each message that all of the clients take from it, until the queue is empty. Frames of 100
    are in there before; `priorities`: each frame has the next one of so many.
    """
    count = world.size.delivered
    async with world.client.producer(queue) as producer:
        for number, first in enumerate(range(0, count, BATCH)):
            payloads = [PAYLOAD] * min(BATCH, count - first)
            if priorities:
                await producer.send_many(payloads, priority=number % priorities)
            else:
                await producer.send_many(payloads)
    before = members_cpu_us(world.pair)
    await asyncio.gather(*(_take(client, queue, count, world.size.credit) for client in clients))
    async with asyncio.timeout(WAIT_S):
        while (await world.client.get_queue(queue)).length:  # noqa: ASYNC110 - no event comes
            await asyncio.sleep(0.1)
    return (members_cpu_us(world.pair) - before) / count


async def _take(client: aio.Client, queue: str, count: int, credit: int) -> None:
    async with client.consumer(queue, credit_messages=credit) as consumer:
        async for batch in consumer.batches():
            count -= len(batch)
            batch.ack()
            if count <= 0:
                break
        await consumer.settled()


async def takeover_ms(world: World) -> Single:
    """From the kill of the twin that was ahead to the output that the other one makes of the next input.

    That input is sent when the process is dead, so no output that was on its way is taken for it.
    """
    client = world.client
    rows = flights().texts
    await world.make("arriving", sided=True)
    for queue in OUTPUTS:
        await world.make(queue, sided=False)
    turns: list[float] = []
    async with _running(world, "a") as first, _running(world, "b") as second, client.consumer("departures") as seen:
        processes, sent = {"a": first, "b": second}, 0

        async def output() -> None:
            async with asyncio.timeout(WAIT_S):
                (await anext(seen)).ack()

        for number in range(world.size.turns + 1):
            for _ in range(20):  # at work
                await client.enqueue("arriving", [rows[sent]])
                sent += 1
                await output()
            victim = await _ahead(client, number)
            at = time.perf_counter()
            processes[victim].kill()
            await asyncio.to_thread(processes[victim].wait)
            await client.enqueue("arriving", [rows[sent]])
            sent += 1
            await output()
            if number:  # the first one warms up
                turns.append((time.perf_counter() - at) * 1e3)
            processes[victim] = _start(world, victim)
            await _runs(client, victim)
    for process in processes.values():
        process.kill()
        process.wait()
    what = "ms from the kill of the twin that was ahead to the output that the other one makes of the next input, p50"
    return Single(what, Bound(50.0), turns)


async def _ahead(client: aio.Client, number: int) -> str:
    """The twin that has settled more; where both have settled alike, each in its turn."""
    passed = {twin.member: twin.passed for twin in (await look(client, "board")).twins}
    return "ab"[number % 2] if passed["a"] == passed["b"] else max(passed, key=lambda member: passed[member])


def _start(world: World, member: str) -> subprocess.Popen[bytes]:
    """By the standard library, which runs no handlers of forks. uvloop's way does, and gRPC's leave some children that
    never come to the program that they are to be (decision 0092).
    """
    settings = {"--name": "board", "--inputs": "arriving", "--side": world.pair.endpoint(member)}
    settings |= {"--target": world.pair.target, "--directory": str(world.folder / f"board-{member}")}
    settings |= {"--snapshot-time": "100ms"}
    words = [word for pair in settings.items() for word in pair]
    command = (sys.executable, "-m", "tandemq", "twin", "run", "board", *words)
    way = os.pathsep.join((str(EXAMPLE), str(ROOT)))
    env = {**os.environ, "PYTHONPATH": way}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=env, cwd=ROOT, stdin=quiet, stdout=quiet, stderr=quiet)


@contextlib.asynccontextmanager
async def _running(world: World, member: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    process = _start(world, member)
    try:
        await _runs(world.client, member)
        yield process
    finally:
        process.kill()
        process.wait()


async def _runs(client: aio.Client, member: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(TandemqError):
                if any(twin.member == member and twin.running for twin in (await look(client, "board")).twins):
                    return
            await asyncio.sleep(LOOK_S)


async def replay_per_s(world: World) -> Single:
    """Inputs a second that a twin replays whose outputs its twin has sent: from nothing, as one that lost its disk."""
    client, count = world.client, world.size.replayed
    rows = flights().texts
    await world.make("past", sided=True)
    for queue in OUTPUTS:
        with contextlib.suppress(AlreadyExists):
            await world.make(queue, sided=False)
    async with client.producer("past") as producer:
        for first in range(0, count, 1_000):
            part = range(first, min(first + 1_000, count))
            await producer.send_many([rows[number % len(rows)] for number in part])
    await _acted(world, "a", count, outputs=True)
    turns = [await _acted(world, "b", count, outputs=False) for _ in range(world.size.turns)]
    what = f"inputs/s that a twin replays of {count:,} flights whose outputs are there, from nothing"
    return Single(what, Bound(50_000.0, at_least=True), turns)


async def _acted(world: World, member: str, count: int, *, outputs: bool) -> float:
    """A twin acts on all of them, and is killed before it has settled any. Inputs a second, from the first one on."""
    folder = world.folder / f"past-{member}"
    shutil.rmtree(folder, ignore_errors=True)
    board, times = _board(), list[float]()

    def handler(state: Any, message: TwinInput) -> Any:
        if message.index in (1, count):
            times.append(time.perf_counter())
        return board.handler(state, message)

    options = TwinOptions(
        "past",
        world.pair.endpoint(member),
        folder,
        world.pair.target,
        snapshot_every=NEVER,
        snapshot_s=NEVER,
    )
    twin: Twin[Any] = Twin("past", handler, options, initial=board.initial)
    task = asyncio.create_task(twin.run())
    try:
        async with asyncio.timeout(WAIT_S):
            await _until(task, lambda: twin.index >= count)
            if outputs:
                await _until(task, lambda: twin.counts.sent >= twin.counts.made)
        if not outputs and twin.counts.sent:
            raise BenchError(f"replay: {twin.counts.sent} outputs were sent, and all of them were there")
        return count / (times[-1] - times[0])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until(task: asyncio.Task[Any], condition: Callable[[], bool]) -> None:
    while not condition():
        if task.done():
            task.result()
            raise BenchError("replay: the twin has ended")
        await asyncio.sleep(LOOK_S)


def _board() -> Any:
    """The example, as a module of its own."""
    spec = importlib.util.spec_from_file_location("board", EXAMPLE / "board.py")
    assert spec is not None, "it is a file of this repository"
    assert spec.loader is not None, "as above"
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    return board
