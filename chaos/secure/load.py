"""Numbered messages that a client sends all the while, and which of them were acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from tandemq import aio

FRAME, PAUSE_S = 20, 0.02
SEND_S = 120.0


@dataclass(slots=True)
class Load:
    """What was sent, and what the pair said."""

    queue: str
    sent: int = 0
    acknowledged: int = 0
    longest_s: float = 0.0
    """That a frame waited for its answer."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def goes_on(self) -> None:
        """Returns when something that is sent from now on was acknowledged."""
        wanted = self.sent + 1
        while self.acknowledged < wanted:
            self.moved.clear()
            await self.moved.wait()


@contextlib.asynccontextmanager
async def loading(target: str, credentials: Path, queue: str) -> AsyncIterator[Load]:
    """Until the block ends, when all that was sent has been answered. Raises TandemqError when a message was not taken,
    in a group."""
    load, over = Load(queue), asyncio.Event()
    async with aio.connect(target, credentials=credentials, timeout=SEND_S) as client, asyncio.TaskGroup() as group:
        group.create_task(_send(client, load, over))
        try:
            yield load
        finally:
            over.set()


async def _send(client: aio.Client, load: Load, over: asyncio.Event) -> None:
    async with client.producer(load.queue) as producer:
        while not over.is_set():
            began_s = time.monotonic()
            frame = [b"%d" % number for number in range(load.sent, load.sent + FRAME)]
            load.sent += FRAME
            load.acknowledged += len(await producer.send_many(frame))
            load.longest_s = max(load.longest_s, time.monotonic() - began_s)
            load.moved.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), PAUSE_S)


async def missing(client: aio.Client, load: Load) -> tuple[int, int]:
    """How many of the acknowledged messages are not there, and how many are there more than once."""
    found = [int(message.payload) async for message in client.browse(load.queue)]
    there = set(found)
    return len(set(range(load.acknowledged)) - there), len(found) - len(there)
