"""What the two ends of a simulated call exchange, and what each of them has received and not read; sends nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from replica.listen.direct import Metadata

WINDOW_BYTES = 64 << 10
"""Written and not read: beyond it a writer waits (HTTP/2 flow control)."""


class Packet(NamedTuple):
    """What travels: part of one call."""

    kind: str
    """open, message, half_close, cancel, end"""
    call: int
    data: Any = b""
    path: str = ""
    """Of what opens a call, and of its messages."""
    metadata: Metadata = ()
    deadline_s: float | None = None


class Inbox:
    """Messages that one side of a call has received and not read, and the end that comes behind them."""

    __slots__ = ("_half", "_items", "_waiter", "ended", "on_read")

    def __init__(self) -> None:
        self._items: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._half = False
        self.ended = False
        self.on_read: Callable[[int], None] = lambda _size: None

    def put(self, data: bytes) -> None:
        if not self.ended:
            self._items.append(data)
            self._wake()

    def finish(self) -> None:
        """No message comes any more; those that did are read first."""
        self._half = True
        self._wake()

    def drop(self) -> None:
        """What was not read is gone."""
        self.ended = self._half = True
        self._items.clear()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> bytes | None:
        """The next message; None: there is none any more."""
        while True:
            if self._items:
                data = self._items.popleft()
                self.on_read(len(data))
                return data
            if self._half:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class Window:
    """How much of a call has been written and not read by the other side."""

    __slots__ = ("_waiter", "over", "used")

    def __init__(self) -> None:
        self.used = 0
        self.over = False
        self._waiter: asyncio.Future[None] | None = None

    async def take(self, size: int) -> None:
        """Wait for room, then use it."""
        while self.used > WINDOW_BYTES and not self.over:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self.used += size

    def give(self, size: int) -> None:
        """The other side has read."""
        self.used -= size
        if self.used <= WINDOW_BYTES:
            self._wake()

    def end(self) -> None:
        self.over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
