"""Producers that send batch after batch to one queue, and what they were answered; stops nobody but itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from chaos.lying.copies import token, tokens_in
from chaos.lying.kinds import LARGE
from tandemq import aio
from tandemq.errors import TandemqError

QUEUE = "lying"
LARGE_COUNT, LARGE_PADDING = 601, b"." * 180  # above what goes to the commit log
SMALL_COUNT, SMALL_PADDING = 7, b"." * 40
BUSY_PRODUCERS = 3


@dataclass(slots=True)
class Load:
    """What was acknowledged, in the order in which it was sent, by producer."""

    size: str
    acknowledged: dict[bytes, int] = field(default_factory=dict)  # token to the index that was answered
    batches: int = 0
    _next: dict[int, int] = field(default_factory=dict)
    _waits: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self, client: aio.Client, producers: int) -> AsyncIterator[None]:
        """Sends until the block ends; what is unanswered then stays unknown."""
        tasks = [asyncio.create_task(self._produce(client, number)) for number in range(producers)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, BaseException) and not isinstance(result, (asyncio.CancelledError, TandemqError)):
                    raise result

    async def after(self, batches: int, deadline_s: float = 60.0, act: Callable[[], None] | None = None) -> None:
        """Returns when so many more batches were acknowledged, having done `act` in the same turn of the loop."""
        reached = asyncio.Event()

        def wake() -> None:
            if act is not None:
                act()
            reached.set()

        self._waits.append((self.batches + batches, wake))
        async with asyncio.timeout(deadline_s):
            await reached.wait()

    async def _produce(self, client: aio.Client, producer: int) -> None:
        count, padding = (LARGE_COUNT, LARGE_PADDING) if self.size == LARGE else (SMALL_COUNT, SMALL_PADDING)
        sending = client.producer(QUEUE)
        try:
            while True:
                first = self._next.get(producer, 0)
                self._next[producer] = first + count
                names = [token(producer, number) for number in range(first, first + count)]
                receipts = await sending.send_many([name + padding for name in names])
                for name, receipt in zip(names, receipts, strict=True):
                    self.acknowledged[name] = receipt.index
                self.batches += 1
                self._wake()
        finally:
            sending.abort()  # what is under way would be waited for

    def _wake(self) -> None:
        due = [wake for at, wake in self._waits if at <= self.batches]
        self._waits = [(at, wake) for at, wake in self._waits if at > self.batches]
        for wake in due:
            wake()


@dataclass(slots=True)
class Found:
    """What a queue holds after the fault, against what was acknowledged."""

    lost: list[bytes]
    doubled: list[bytes]
    out_of_order: int


def compare(acknowledged: dict[bytes, int], there: list[bytes]) -> Found:
    """`there`: payloads by rising index."""
    at: dict[bytes, int] = {}
    doubled = []
    for place, payload in enumerate(there):
        (name,) = tokens_in(payload)[:1] or (b"",)
        if name in at:
            doubled.append(name)
        at[name] = place
    lost = [name for name in acknowledged if name not in at]
    kept = sorted((index, at[name]) for name, index in acknowledged.items() if name in at)
    breaks = sum(before > after for (_, before), (_, after) in itertools.pairwise(kept))
    return Found(lost, doubled, breaks)
