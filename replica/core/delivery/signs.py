"""Decides which open streams are given a sign of life, and when; sends nothing and reads no clock.

A frame a second for each stream costs a member a core at 10,000 streams, and proves no more than one for them all: the
streams of a connection live and end with it. So a member gives FRAMES_A_SECOND signs, at least one a second on each
connection, and the streams of a connection take turns. Where there is room for it each stream has one a second.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

EVERY_MS = 1_000
"""Between two signs on a connection, at most; clients leave one that is silent for three times as long."""
FRAMES_A_SECOND = 100
"""Of a member over all connections, while there are no more connections than that: 1 to 2 % of a core."""
LOOKED_AT_MAX = 8
"""Streams that spoke by themselves and are passed over for one sign."""


class SignedStream(Protocol):
    """What takes turns."""

    spoke: bool
    """It had another frame since its last turn; set by whoever writes that."""


S = TypeVar("S", bound=SignedStream)


class _Line(Generic[S]):
    """The streams of one connection, next one first."""

    __slots__ = ("next_ms", "streams")

    def __init__(self, next_ms: int) -> None:
        self.streams: OrderedDict[S, None] = OrderedDict()
        self.next_ms = next_ms


class Signs(Generic[S]):
    """The open streams of one member. What a look costs does not depend on how many there are."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[S]] = {}
        self._due: list[tuple[int, int, _Line[S]]] = []
        """A heap of (time, number, line), one of each line; lines that ended stay in it until their time."""
        self._numbers = 0

    def join(self, connection: str, stream: S, now_ms: int) -> None:
        """It is open from now on."""
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line(now_ms + EVERY_MS)
            self._push(line)
        line.streams[stream] = None

    def leave(self, connection: str, stream: S) -> None:
        """It is over; nothing happens when it was not there."""
        line = self._lines.get(connection)
        if line is not None:
            line.streams.pop(stream, None)
            if not line.streams:
                del self._lines[connection]

    def due(self, now_ms: int) -> list[S]:
        """Whose turn it is now. A look that comes late makes up for no more than one look."""
        found: list[S] = []
        while self._due and self._due[0][0] <= now_ms:
            line = heapq.heappop(self._due)[2]
            if not line.streams:
                continue  # the connection is over
            if (stream := _next_of(line)) is not None:
                found.append(stream)
            share = max(1, FRAMES_A_SECOND // len(self._lines))
            every_ms = -(-EVERY_MS // min(share, len(line.streams)))  # rounded up
            line.next_ms = max(line.next_ms, now_ms - EVERY_MS // 10) + every_ms
            self._push(line)
        return found

    def _push(self, line: _Line[S]) -> None:
        self._numbers += 1
        heapq.heappush(self._due, (line.next_ms, self._numbers, line))


def _next_of(line: _Line[S]) -> S | None:
    """None: those whose turn it is have had frames of their own."""
    for _ in range(min(LOOKED_AT_MAX, len(line.streams))):
        stream = next(iter(line.streams))
        line.streams.move_to_end(stream)
        if not stream.spoke:
            return stream
        stream.spoke = False
    return None
