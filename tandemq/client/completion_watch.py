"""Carries out a watch over messages of one queue: one stream at a time, opened again at another member when it ends.

It decides nothing about what an end means. What was not reported is asked for again, so each end is reported once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from tandemq.client.calls import QUEUE_SERVICE, Attempts, Caller, Moved
from tandemq.client.streams import Stream, open_stream, run_both
from tandemq.errors import TandemqError, to_error
from tandemq.v1 import queue_service_pb2

HANDLES_PER_CALL = 10_000


class Watch:
    """Handles of one queue that somebody wants to hear of."""

    def __init__(self, caller: Caller, queue: str, *, stays: bool = False) -> None:
        self.queue = queue
        self._caller = caller
        self._stays = stays  # when all is reported too, for what is added later
        self._open: dict[bytes, None] = {}  # not reported yet, in the order in which they came
        self._unwritten: deque[bytes] = deque()  # of those, on the present stream
        self._reported: asyncio.Queue[queue_service_pb2.CompletionStatus] = asyncio.Queue()
        self._wake = asyncio.Event()

    def add(self, handles: Iterable[bytes]) -> None:
        """Adds handles; one that is watched already is reported once."""
        for handle in handles:
            if handle not in self._open:
                self._open[handle] = None
                self._unwritten.append(handle)
        self._wake.set()

    @property
    def is_done(self) -> bool:
        """Nothing more will be reported."""
        return not self._stays and not self._open

    async def statuses(self, task: asyncio.Future[None]) -> AsyncIterator[queue_service_pb2.CompletionStatus]:
        """What ended, as it is reported; `task` runs the watch, and its failure is raised here."""
        while True:
            while not self._reported.empty():
                yield self._reported.get_nowait()
            if task.done():
                task.result()
                return
            getting = asyncio.ensure_future(self._reported.get())
            try:
                await asyncio.wait([getting, task], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]  # two kinds of results
                if getting.done():
                    yield getting.result()
            finally:
                getting.cancel()

    async def run(self) -> None:
        """Until all is reported. Raises what ends it for good."""
        members = self._caller.members
        attempts = Attempts(members, self._caller.policy, members.masters.domain_of(self.queue) or "main")
        async for attempt in attempts.retrying():
            with attempt:
                while not self.is_done:
                    await self._session(attempts)

    async def _session(self, attempts: Attempts) -> None:
        while not self._open:
            self._wake.clear()
            await self._wake.wait()
            attempts.progress()
        endpoint = await attempts.located()
        channel = self._caller.members.channel(endpoint)
        self._unwritten = deque(self._open)
        async with open_stream(channel, QUEUE_SERVICE + "WatchCompletions", endpoint) as stream:
            first = queue_service_pb2.WatchCompletionsRequest(queue=self.queue)
            await stream.write(first.SerializeToString())
            self._take(await stream.read_first(min(attempts.policy.attempt_s, attempts.remaining_s)), attempts)
            try:
                await run_both(lambda: self._read(stream, attempts), lambda: self._write(stream))
            except TandemqError:
                attempts.progress()  # it was open, for however long nothing ended
                raise

    async def _write(self, stream: Stream) -> None:
        while True:
            while self._unwritten:
                part = [self._unwritten.popleft() for _ in range(min(len(self._unwritten), HANDLES_PER_CALL))]
                request = queue_service_pb2.WatchCompletionsRequest(queue=self.queue, handles=part)
                await stream.write(request.SerializeToString())
            self._wake.clear()
            await self._wake.wait()

    async def _read(self, stream: Stream, attempts: Attempts) -> None:
        while not self.is_done:
            self._take(await stream.read(), attempts)

    def _take(self, frame: bytes, attempts: Attempts) -> None:
        response = queue_service_pb2.WatchCompletionsResponse.FromString(frame)
        if response.HasField("goaway"):
            self._on_goaway(response.goaway, attempts)
        self._caller.members.learn(response.header, self.queue)
        attempts.progress()
        for status in response.statuses:
            if status.handle in self._open:
                del self._open[status.handle]
                self._reported.put_nowait(status)

    def _on_goaway(self, goaway: queue_service_pb2.Goaway, attempts: Attempts) -> None:
        error: TandemqError = to_error(goaway.error)
        if not error.retryable:
            raise error
        members = self._caller.members
        members.masters.learn(attempts.domain, goaway.epoch, goaway.master_endpoint)
        raise Moved(members.master(attempts.domain), goaway.error.message)
