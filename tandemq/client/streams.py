"""Carries out one stream: opens it, reads the first frame, and runs a reader and a writer until either ends.

It decides nothing about frames and never reconnects. Frames are bytes in both directions, so a resend costs no parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from tandemq.errors import TimedOut, Unreachable, from_rpc_error


class Ended(Unreachable):
    """The member ended the stream in good order. Stays inside the client."""


class Stream:
    """One open bidirectional stream. Every failure of it is raised as a TandemqError."""

    def __init__(self, call: Any, endpoint: str) -> None:
        self._call = call
        self.endpoint = endpoint

    async def read(self) -> bytes:
        """The next frame; raises Ended when the member ends the stream in good order."""
        try:
            frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.InvalidStateError as error:
            raise Unreachable("UNREACHABLE", f"{self.endpoint}: the stream is over", retryable=True) from error
        if frame is grpc.aio.EOF:
            raise Ended("UNREACHABLE", f"{self.endpoint} ended the stream", retryable=True)
        data: bytes = frame
        return data

    async def write(self, frame: bytes) -> None:
        """Returns when gRPC has taken the frame; waits while the member does not read. One write at a time."""
        try:
            await self._call.write(frame)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.InvalidStateError as error:
            raise Unreachable("UNREACHABLE", f"{self.endpoint}: the stream is over", retryable=True) from error

    async def half_close(self) -> None:
        """Nothing more is written; the member ends the stream when it has said what it had to say."""
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # it is over already, which the reader learns with the reason

    async def read_first(
        self, timeout_s: float, *, patience_s: float = 0.0, heard_s: Callable[[], float] = float
    ) -> bytes:
        """The first frame; a member that is silent for `timeout_s` is left.

        `heard_s`: when it last spoke over any stream. One that speaks to others lets this one in later, where many come
        at once, and is waited for up to `patience_s`.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        reading = asyncio.ensure_future(self.read())
        reading.add_done_callback(_note)  # who waits for it may be gone by then
        try:
            while not reading.done():
                silent_at_s = max(began_s, heard_s()) + timeout_s
                left_s = min(silent_at_s, began_s + max(timeout_s, patience_s)) - loop.time()
                if left_s <= 0:
                    took_s = loop.time() - began_s
                    raise TimedOut(
                        "DEADLINE_EXCEEDED", f"{self.endpoint} did not answer within {took_s:.1f} s", retryable=True
                    )
                await asyncio.wait([reading], timeout=left_s)
            return reading.result()
        finally:
            reading.cancel()


def _note(reading: asyncio.Future[bytes]) -> None:
    """Its failure is known, whether or not anybody asks."""
    if not reading.cancelled():
        reading.exception()


@asynccontextmanager
async def open_stream(channel: grpc.aio.Channel, path: str, endpoint: str) -> AsyncIterator[Stream]:
    """A stream that is cancelled when the block ends."""
    call: Any = channel.stream_stream(path)()
    try:
        yield Stream(call, endpoint)
    finally:
        call.cancel()


async def run_both(reader: Callable[[], Awaitable[None]], writer: Callable[[], Awaitable[None]]) -> None:
    """Runs both until one ends; then cancels the other. Raises what the reader, else the writer, failed with.

    The reader goes first because it gets the member's words, where a writer only notices that the stream is over.
    """
    tasks = [asyncio.ensure_future(reader()), asyncio.ensure_future(writer())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1].done() and not tasks[0].done() and tasks[1].exception() is not None:
            await asyncio.wait(tasks[:1], timeout=1.0)  # the end of the stream reaches the reader too, with its reason
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
