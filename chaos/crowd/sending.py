"""A client that goes on sending while others crowd the pair, and others that come new; how many sends failed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tandemq import aio
from tandemq.errors import AlreadyExists, TandemqError

QUEUE = "crowd"
SEND_S = 10.0
"""A send that is not answered by then has failed."""
TURN_S = 0.05
NEWCOMER_S = 1.0


@dataclass(slots=True)
class Sends:
    """What became of them."""

    sends: int = 0
    failed: int = 0
    newcomers: int = 0
    """Of the sends, those by a client that had just connected."""
    slowest_s: float = 0.0
    errors: list[str] = field(default_factory=list)
    """The first few."""

    def note(self, began_s: float, error: str = "") -> None:
        self.sends += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
        if error:
            self.failed += 1
            self.errors = [*self.errors, error][:5]


@contextlib.asynccontextmanager
async def sending(target: str) -> AsyncIterator[Sends]:
    """Sends until the block ends: one client that stays, and a new one each second."""
    sends = Sends()
    async with aio.connect(target, timeout=60.0) as client:
        with contextlib.suppress(AlreadyExists):
            await client.create_queue(QUEUE)
    over = asyncio.Event()
    tasks = [asyncio.create_task(_stay(target, sends, over)), asyncio.create_task(_come(target, sends, over))]
    try:
        yield sends
    finally:
        over.set()
        await asyncio.gather(*tasks)


async def _send(client: aio.Client, sends: Sends) -> None:
    began_s = time.monotonic()
    try:
        await client.enqueue(QUEUE, [b"x" * 100])
    except TandemqError as error:
        sends.note(began_s, f"{error.reason}: {error.message}")
    else:
        sends.note(began_s)


async def _stay(target: str, sends: Sends, over: asyncio.Event) -> None:
    async with aio.connect(target, timeout=SEND_S) as client:
        while not over.is_set():
            await _send(client, sends)
            await _pause(over, TURN_S)


async def _come(target: str, sends: Sends, over: asyncio.Event) -> None:
    while not over.is_set():
        async with aio.connect(target, timeout=SEND_S) as client:
            await _send(client, sends)
            sends.newcomers += 1
        await _pause(over, NEWCOMER_S)


async def _pause(over: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), seconds)
