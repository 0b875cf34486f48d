"""The Consume streams that stand open at this member: how many there may be, how fast they come in, and which of them
is given a sign of life. Decides nothing about messages.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from replica.core.delivery.signs import Signs
from replica.core.state.outcomes import Failed
from tandemq.ambient import monotonic_ms
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.node.loop import Node

OPENING_MAX = 16
"""Streams of a domain that are being opened at one time. While it has no master these look for one every few
milliseconds, and the others wait for them; those of other domains do not.
"""
LET_IN_S = 0.001
"""Between two that are let in once many have come: a herd takes about half of a loop, and the rest goes on."""
AT_ONCE = 20
"""Let in without a pause after a quiet time."""


class Standing(Protocol):
    """A stream that may be given a sign."""

    spoke: bool

    def sign(self) -> None:
        """Write one, unless something is being written already."""


class Door:
    """Lets one in every LET_IN_S, in the order in which they came; AT_ONCE at first."""

    def __init__(self) -> None:
        self.places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(OPENING_MAX))
        """By domain."""
        self._free_at_s = 0.0
        """When as many are let in as may have been by then."""

    async def pace(self) -> None:
        """Whoever has a place waits for its moment."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._free_at_s = max(self._free_at_s, now_s - AT_ONCE * LET_IN_S) + LET_IN_S
        if self._free_at_s > now_s:
            await asyncio.sleep(self._free_at_s - now_s)


class OpeningStream:
    """A place among those that are being opened; given back once. Without a master it is kept until `until_s`."""

    def __init__(self, places: asyncio.Semaphore, until_s: float) -> None:
        self._places: asyncio.Semaphore | None = places
        self.until_s = until_s

    def leave(self) -> None:
        """The stream is open, or will not be."""
        places, self._places = self._places, None
        if places is not None:
            places.release()


class Streams:
    """The streams of one member."""

    def __init__(self, node: Node, most: int) -> None:
        self.most = most
        """`limits.consume_streams`."""
        self.count = 0
        self.door = Door()
        self._signs: Signs[Standing] = Signs()
        node.on_tick.append(self._look)

    def problem(self) -> Failed | None:
        """Why one more stream cannot be taken."""
        if self.count < self.most:
            return None
        text = f"{self.most} Consume streams are open at this member (limits.consume_streams); use fewer, or the other"
        return Failed(Reason.REASON_TOO_MANY_WAITERS, text, {"limit": str(self.most)}, 1000)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While it is open, or waits to be."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    @contextmanager
    def signed(self, connection: str, stream: Standing) -> Iterator[None]:
        """While it is given signs of life."""
        self._signs.join(connection, stream, monotonic_ms())
        try:
            yield
        finally:
            self._signs.leave(connection, stream)

    def _look(self, now_ms: int) -> None:
        for stream in self._signs.due(now_ms):
            stream.sign()


__all__ = ["Door", "OpeningStream", "Standing", "Streams"]
