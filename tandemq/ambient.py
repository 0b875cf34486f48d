"""Time and chance, which every process takes from its surroundings; a simulation puts its own in their place.

Nothing else in the product reads a clock of the machine or draws a random number that could change what happens.
Measuring how long something took is not meant: that changes nothing.
"""

from __future__ import annotations

import random
import time
from typing import Protocol


class Ambient(Protocol):
    """Where time and chance come from."""

    def monotonic_ns(self) -> int:
        """Boot-time clock: never steps back, goes on while the machine sleeps."""
        ...

    def wall_ns(self) -> int:
        """Since 1970; may step in either direction at any time."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """For names that nobody else may have."""
        ...

    def fraction(self) -> float:
        """From [0, 1), for jitter."""
        ...


class _Machine:
    """The real ones."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def monotonic_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_ns(self) -> int:
        return time.time_ns()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def fraction(self) -> float:
        return random.random()


MACHINE: Ambient = _Machine()
_current: Ambient = MACHINE


def install(ambient: Ambient) -> None:
    """From now on, for the whole process."""
    global _current  # noqa: PLW0603  # one process has one world
    _current = ambient


def monotonic_ms() -> int:
    """Milliseconds of the boot-time clock."""
    return _current.monotonic_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds of the same clock, as fine as it is; a loop's own time may stand still within one callback."""
    return _current.monotonic_ns() / 1e9


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return _current.wall_ns() // 1_000_000


def random_bytes(count: int) -> bytes:
    """A name that nobody else has."""
    return _current.random_bytes(count)


def fraction() -> float:
    """From [0, 1), for jitter."""
    return _current.fraction()
