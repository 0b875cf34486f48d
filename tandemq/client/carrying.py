"""Begins units of work over a stream of their client, so that they are rolled back as soon as it is gone. It decides
nothing; where it cannot, the unary call does, and the timeout ends them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tandemq import retry
from tandemq.client.calls import TRANSACTION_SERVICE
from tandemq.client.members import Members
from tandemq.client.streams import Stream
from tandemq.errors import TandemqError, to_error
from tandemq.v1 import transaction_service_pb2 as pb

ATTEMPTS = 2
"""The first may find that the stream has ended since."""


class Carrier:
    """The stream of one client to one manager. Belongs to one event loop."""

    def __init__(self, members: Members, timeout_s: float) -> None:
        self._members = members
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._call: Any = None
        self._stream: Stream | None = None
        self._late: asyncio.Task[bytes] | None = None
        """The answer that nobody waits for any more: what is asked next would get it. Until it has come the unary call
        begins units; the stream stays, for others are open on it.
        """
        self._beginning: set[asyncio.Task[pb.BeginResponse | None]] = set()

    async def begin(self, request: pb.BeginRequest) -> pb.BeginResponse | None:
        """None: not over a stream. Raises what the manager refuses, with nothing begun.

        Whoever is cancelled does not take the stream along: other units of its client are open on it.
        """
        task = asyncio.create_task(self._begin(request))
        self._beginning.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[pb.BeginResponse | None]) -> None:
        self._beginning.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear it

    async def _begin(self, request: pb.BeginRequest) -> pb.BeginResponse | None:
        async with self._lock:
            reply = await self._over_the_stream(request)
        if reply is None:
            return None
        if reply.HasField("error"):
            error = to_error(reply.error)
            if error.reason == "CROSS_DOMAIN":  # of this stream: another call has none
                return None
            raise error
        self._members.learn(reply.begun.header, request.queue)
        return reply.begun

    async def _over_the_stream(self, request: pb.BeginRequest) -> pb.WorkResponse | None:
        for _ in range(ATTEMPTS):
            late = self._late
            if late is not None and not late.done():
                return None
            self._late = None
            try:
                if late is not None:
                    late.result()  # of a unit that nobody has heard of, and that has nothing in it
                return await self._ask(request)
            except TandemqError:
                self.close()
        return None

    async def _ask(self, request: pb.BeginRequest) -> pb.WorkResponse | None:
        """None: no answer yet."""
        if self._stream is None:
            await self._members.located()
            domain = self._members.masters.domain_of(request.queue) or "main"
            endpoint = retry.first_endpoint(self._members.endpoints(domain), self._members.master(domain))
            self._call = self._members.channel(endpoint).stream_stream(TRANSACTION_SERVICE + "Work")()
            self._stream = Stream(self._call, endpoint)
        await self._stream.write(pb.WorkRequest(begin=request).SerializeToString())
        reading = asyncio.create_task(self._stream.read())
        reading.add_done_callback(_note)
        await asyncio.wait([reading], timeout=self._timeout_s)
        if not reading.done():
            self._late = reading  # to cancel it would end the stream
            return None
        return pb.WorkResponse.FromString(reading.result())

    def close(self) -> None:
        """Its units that are still open are rolled back."""
        call, self._call, self._stream, self._late = self._call, None, None, None
        if call is not None:
            call.cancel()


def _note(reading: asyncio.Task[bytes]) -> None:
    """Its failure is known, whether or not anybody asks."""
    if not reading.cancelled():
        reading.exception()
