"""Decides who may add to an outbox that is bounded: first come, first served. It never drops anything."""

from __future__ import annotations

import asyncio
from collections import deque

from tandemq.client.outbox import Outbox


class Room:
    """The bound of one outbox. An empty box takes anything, so that no message is too large to ever be sent."""

    def __init__(self, outbox: Outbox, *, messages_max: int, bytes_max: int) -> None:
        self._outbox, self._messages_max, self._bytes_max = outbox, messages_max, bytes_max
        self._line: deque[asyncio.Event] = deque()

    @property
    def waiting(self) -> int:
        """Senders in line."""
        return len(self._line)

    def has(self, size: int, count: int) -> bool:
        """Whether something may be added now; never ahead of the line."""
        return not self._line and self._fits(size, count)

    def _fits(self, size: int, count: int) -> bool:
        box = self._outbox
        return not box.messages or (box.bytes + size <= self._bytes_max and box.messages + count <= self._messages_max)

    async def wait(self, size: int, count: int) -> None:
        """Returns when it is the caller's turn and there is room; the caller must add before it waits for anything."""
        turn = asyncio.Event()
        self._line.append(turn)
        try:
            while self._line[0] is not turn or not self._fits(size, count):
                turn.clear()
                await turn.wait()
        finally:
            self._line.remove(turn)
            asyncio.get_running_loop().call_soon(self.look)  # after the caller has added

    def look(self) -> None:
        """Something was answered: the first in line may look again."""
        if self._line:
            self._line[0].set()
