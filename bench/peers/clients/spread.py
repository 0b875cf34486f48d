"""Open loops over several connections of one process: each message goes to the next connection when it is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from bench.peers.load import Job

Due = tuple[bytes, float]
"""A payload, and when it was due."""
Send = Callable[[list[Due]], Awaitable[None]]
"""Returns when all of it is answered."""


async def when_due(job: Job, count: int, hand: Callable[[int, Due], None]) -> None:
    """Calls `hand` with the number of a connection and a message, for each when it is due; returns after the last."""
    due, loop = asyncio.Event(), asyncio.get_running_loop()
    job.wake_when_due(lambda: _call(loop, due.set))
    number = 0
    while not job.over:
        await due.wait()
        due.clear()
        while payloads := job.take(job.batch):
            for place, payload in enumerate(payloads):
                hand(number % count, (payload, payloads.began + place * job.step_s))
                number += 1


async def one_request_each(job: Job, sends: Sequence[Send]) -> None:
    """For clients that wait for an answer: what is due while one is under way leaves together with the next."""
    waiting: list[list[Due]] = [[] for _ in sends]
    more = [asyncio.Event() for _ in sends]
    answered = asyncio.Event()

    def hand(number: int, message: Due) -> None:
        waiting[number].append(message)
        more[number].set()

    async def lane(number: int) -> None:
        while True:
            await more[number].wait()
            more[number].clear()
            while messages := waiting[number]:
                waiting[number] = []
                await sends[number](messages)
                for _, at in messages:
                    job.answered(1, at)
                answered.set()

    async def all_answered() -> None:
        await when_due(job, len(sends), hand)
        while job.unanswered:
            await answered.wait()
            answered.clear()

    tasks = [asyncio.create_task(each) for each in (all_answered(), *map(lane, range(len(sends))))]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*(_ended(each) for each in tasks if each not in done))
    for each in done:
        each.result()  # a lane ends by its failure alone


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the last look may come after the loop
        loop.call_soon_threadsafe(what)
