"""Bounds how much of a member's loop goes into looking through messages: half of it, in short turns; looks at nothing.

All who look share one pace. What counts is time, not messages: a message may be large, and a selector long.
"""

from __future__ import annotations

from collections.abc import Callable

TURN_S = 0.01
"""How long everybody else waits for those who look, one message more at most."""
REST_S_MAX = 1.0
"""A process that was frozen in a turn did not look for as long as it was."""


class Pace:
    """A bucket of TURN_S that looking empties, and that fills again in as much time as looking took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds, and fine enough to see a millisecond pass."""
        self._clock = clock
        self._spent_s = 0.0
        self._at_s = clock()
        """When a turn began, or the last one ended."""

    def begin(self) -> bool:
        """Whether there is time for a turn now; the turn has begun then."""
        now_s = self._clock()
        self._spent_s = max(0.0, self._spent_s - (now_s - self._at_s))
        self._at_s = now_s
        return self._spent_s < TURN_S

    def is_over(self) -> bool:
        """Within a turn: whether it has been long enough."""
        return self._spent_s + self._clock() - self._at_s >= TURN_S

    def end(self) -> None:
        """Of a turn that had begun."""
        now_s = self._clock()
        self._spent_s = min(self._spent_s + now_s - self._at_s, REST_S_MAX)
        self._at_s = now_s

    def rest_s(self) -> float:
        """How long whoever has more to look at lets everybody else be first."""
        return max(0.0, self._spent_s - (self._clock() - self._at_s))
