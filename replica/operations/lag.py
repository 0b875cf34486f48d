"""How far the peer is behind, in operations, bytes and time, from samples; costs nothing per message, decides nothing.

A sample is taken now and then. The age of the oldest unconfirmed operation is exact to the time between two samples,
the bytes to what was ordered between them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SAMPLES_MAX = 256
"""Beyond it every second one goes: the longer the peer is away, the coarser."""


class Sample(NamedTuple):
    """Where the log stood when it was looked at."""

    last_index: int
    log_bytes: int
    at_ms: int


class Behind(NamedTuple):
    """What the peer has not confirmed."""

    operations: int = 0
    log_bytes: int = 0
    ms: int = 0


class Lag:
    """The samples of one domain at its master."""

    def __init__(self) -> None:
        self.peer_index = 0
        """Highest log index that the peer was heard to hold durably."""
        self._confirmed_bytes = 0
        """Of the log, at the newest sample that the peer has confirmed."""
        self._open: deque[Sample] = deque()

    def sample(self, last_index: int, log_bytes: int, peer_index: int, now_ms: int) -> None:
        """Look at the log. `log_bytes` only grows; a `peer_index` of 0 means that it says nothing new."""
        if peer_index:
            self.peer_index = peer_index
        opened = self._open
        while opened and opened[-1].last_index > last_index:
            opened.pop()  # the log was cut
        if last_index > (opened[-1].last_index if opened else self.peer_index):
            opened.append(Sample(last_index, log_bytes, now_ms))
        while opened and opened[0].last_index <= self.peer_index:
            self._confirmed_bytes = opened.popleft().log_bytes
        if not opened:
            self._confirmed_bytes = log_bytes
        elif len(opened) > SAMPLES_MAX:
            kept = [each for place, each in enumerate(opened) if place % 2 == 0 or each is opened[-1]]
            self._open = deque(kept)

    def behind(self, last_index: int, log_bytes: int, now_ms: int) -> Behind:
        """What the peer lacks now."""
        operations = max(0, last_index - self.peer_index)
        if not operations:
            return Behind()
        age_ms = now_ms - self._open[0].at_ms if self._open else 0
        return Behind(operations, max(0, log_bytes - self._confirmed_bytes), max(0, age_ms))
