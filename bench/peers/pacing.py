"""When each message of an open loop is due, and how late it was sent. Pure: it is told the time.

A message is due at a moment that no answer moves, and the time that it took is counted from then. So a system that
stops for a second is seen by every message that was due in that second, not by the one that happened to be under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.peers.figures import percentile

TICK_S = 0.0002  # what is due within it is sent together
LOOK_S = 0.05  # nobody sleeps for longer, so that an end is noticed


@dataclass(slots=True)
class Pace:
    """So many messages a second, from `began` on; the first `warm_s` of them are not measured."""

    rate: float
    warm_s: float
    seconds: float
    began: float = 0.0  # 0: not yet
    late: list[float] = field(default_factory=list)  # of sends that waited for nothing but the clock
    _idle: bool = False  # somebody has found nothing due and looks again by himself

    @property
    def count(self) -> int:
        """All messages that there will be."""
        return round(self.rate * (self.warm_s + self.seconds))

    def due(self, number: int) -> float:
        return self.began + number / self.rate

    def ready(self, now: float, sent: int) -> int:
        """How many more are due."""
        return max(0, min(self.count, int((now - self.began) * self.rate) + 1) - sent)

    def wait_s(self, now: float, sent: int) -> float:
        """Until something is due that is not sent yet."""
        return min(LOOK_S, max(TICK_S, self.due(sent) - now))

    def looked(self, now: float, sent: int, taken: int) -> None:
        """Somebody looked when `sent` were sent and took so many. Who found nothing before and now something was held
        up by nothing but the clock and the machine: that is the load's own lateness."""
        if not taken:
            self._idle = True
        elif self._idle:
            self._idle = False
            self.late.append(now - self.due(sent))

    def took(self, due: float, count: int, now: float) -> list[float]:
        """From when they were due, of so many messages in a row of which the first was due then; only measured ones."""
        measured_from, step = self.began + self.warm_s - 1e-9, 1 / self.rate
        return [now - at for place in range(count) if (at := due + place * step) >= measured_from]


@dataclass(slots=True)
class Arrivals:
    """How long after it was due each message of an open loop came to its consumer; not of the warm-up."""

    rate: float
    warm_s: float
    took: list[float] = field(default_factory=list)

    def came(self, numbers: Iterable[int], began: float, now: float) -> None:
        """`began`: when the first of all was due, by the clock of `now`."""
        first, step, age = self.rate * self.warm_s, 1 / self.rate, now - began
        self.took += [age - number * step for number in numbers if number >= first]

    def times(self) -> dict[str, float]:
        """Milliseconds; nothing where none came."""
        shares = (("50", 0.5), ("99", 0.99)) if self.took else ()
        return {f"received_p{name}_ms": round(percentile(self.took, share) * 1e3, 4) for name, share in shares}


def lateness(late: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    return {
        f"late_p{name}_ms": round(percentile(late, share) * 1e3, 4)
        for name, share in (("50", 0.5), ("99", 0.99), ("100", 1.0))
    }
