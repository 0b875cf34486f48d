"""Carries requests for messages that are to come over to threads: asked for now, had later. It decides nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from datetime import timedelta
from weakref import WeakSet

from tandemq.client import aio
from tandemq.client.blocking_results import ReceivedBatch
from tandemq.client.completion import WAIT_SLICE
from tandemq.client.consumer import Mode
from tandemq.client.loop_thread import LoopThread
from tandemq.client.waits import Wait, to_wait


class Ahead:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread
    _asked: WeakSet[Future[ReceivedBatch]]

    def dequeue_ahead(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        wait: Wait | None = -1,
        lease: timedelta | None = None,
        mode: Mode | None = None,
    ) -> Future[ReceivedBatch]:
        """Asks for messages and goes on: the future has them when they have come, or none when the wait is over.

        wait: seconds, -1, the default, for ever. Requests are served in the order in which they came to the master.
        Callbacks of the future run on the client's thread and must not block.
        """
        asked = self._thread.submit(self._until(queue, max_messages, to_wait(wait), lease, mode))
        self._asked.add(asked)
        return asked

    def _give_up(self) -> None:
        """Nobody will have what was asked for and has not come."""
        for asked in list(self._asked):
            asked.cancel()

    async def _until(
        self, queue: str, max_messages: int, wait: timedelta, lease: timedelta | None, mode: Mode | None
    ) -> ReceivedBatch:
        """A slice of the wait at a time: a member that went silent is left by then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait.total_seconds()
        left = wait
        while True:
            slice_ = min(left, WAIT_SLICE)
            batch = await self._inner.dequeue(queue, max_messages, wait=slice_, lease=lease, mode=mode)
            left = timedelta(seconds=until - loop.time())
            if batch or left <= timedelta():
                return ReceivedBatch(self._thread, batch)
