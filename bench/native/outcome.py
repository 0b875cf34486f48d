"""What a load tool says that it did, and when that is not believed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.place import BenchError


class UnreadableError(BenchError):
    """A tool's output does not say what it must say."""


@dataclass(frozen=True, slots=True)
class Outcome:
    messages: int  # in the measured time: acknowledged, or received where there is a consumer
    seconds: float  # of that time
    sent: int  # acknowledged in all, before the measured time too
    received: int = 0  # in all
    untold: int = 0  # may have been received beyond that, before the tool ended

    @property
    def value(self) -> float:
        return round(self.messages / self.seconds, 1) if self.seconds > 0 else 0.0
