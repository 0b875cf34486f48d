"""The producer that failover.py watches: an open loop that sends all the time, whatever is answered. It hurts nobody.

Every message has a moment at which it is due, and its time counts from there: one that left late because others held
its producer up has waited as long.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from bench.peers.figures import percentile
from tandemq import aio

QUEUE = "failover"
SEND_EVERY_S = 0.002
CALM_S = 0.5  # of sending before each fault, so that nothing of the last one is left
PATIENCE_S = 30.0
SKIPPED_S = 0.05  # what is later than that is not sent, where nobody asked for a rate


class Answer(NamedTuple):
    """Of one call of the producer. Times are of `time.monotonic`."""

    due_s: float
    at_s: float
    epoch: int
    copies: int


@dataclass(slots=True)
class Traffic:
    """Sends until its block ends, and then waits for the last answer."""

    client: aio.Client
    every_s: float = SEND_EVERY_S
    payloads: Callable[[], Sequence[bytes]] = lambda: (b"x" * 100,)
    """Of the next call."""
    keeps_up: bool = False
    """Sends everything that was due while this process was held up, too."""
    answers: list[Answer] = field(default_factory=list)
    _over: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Traffic]:
        sending = asyncio.create_task(self._send_all())
        try:
            yield self
            self._over = True
            async with asyncio.timeout(PATIENCE_S):
                await sending
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self) -> None:
        skipped_s = math.inf if self.keeps_up else SKIPPED_S
        async with self.client.producer(QUEUE) as producer, asyncio.TaskGroup() as sends:
            due_s = time.monotonic()
            while not self._over:
                sends.create_task(self._send(producer, self.payloads(), due_s))
                due_s = max(due_s + self.every_s, time.monotonic() - skipped_s)
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    async def _send(self, producer: aio.Producer, payloads: Sequence[bytes], due_s: float) -> None:
        run = (await producer.send_many(payloads)).runs[0]
        self.answers.append(Answer(due_s, time.monotonic(), run.epoch, run.copies))

    async def calm(self) -> None:
        """Returns when everything was acknowledged promptly for a while."""
        began_s = time.monotonic()
        while True:
            await asyncio.sleep(SEND_EVERY_S)
            now_s = time.monotonic()
            recent = [answer.at_s for answer in self.answers[-200:] if answer.due_s > now_s - CALM_S]
            if now_s - began_s > CALM_S and recent and now_s - recent[-1] < 0.05:
                return
            if now_s - began_s > PATIENCE_S:
                raise SystemExit("bench: the pair did not become calm")

    async def first_after(self, fault_s: float) -> float:
        """When the first message that was due after the fault was acknowledged."""
        while True:
            for answer in reversed(self.answers):
                if answer.at_s < fault_s:
                    break
                if answer.due_s >= fault_s:
                    return min(answer.at_s for answer in self.answers if answer.due_s >= fault_s)
            if time.monotonic() - fault_s > PATIENCE_S:
                raise SystemExit(f"bench: nothing was acknowledged within {PATIENCE_S:g} s of a fault")
            await asyncio.sleep(SEND_EVERY_S / 2)

    def due(self, from_s: float, to_s: float) -> Iterator[Answer]:
        """What was due in this time, in the order of its answers."""
        return (answer for answer in self.answers if from_s <= answer.due_s < to_s)

    def p99_ms(self, from_s: float, to_s: float) -> float:
        """Of what was due in this time, from then to its acknowledgement."""
        return round(percentile([answer.at_s - answer.due_s for answer in self.due(from_s, to_s)], 0.99) * 1e3, 1)

    def longest_pause(self, from_s: float, to_s: float) -> float:
        """Between two acknowledgements."""
        times = [from_s, *sorted(answer.at_s for answer in self.answers if from_s < answer.at_s < to_s), to_s]
        return max(after - before for before, after in pairwise(times))
