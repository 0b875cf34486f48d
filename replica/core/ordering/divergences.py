"""Counts what two who do the same sent differently, and says which of it operators have not heard of (K8, K11); reports
nothing itself, and decides nothing.
"""

from __future__ import annotations

from enum import Enum

NAMES_MAX = 1_000
"""Writers and queues of which an operator hears once that they differ."""


class Between(Enum):
    """What differs."""

    OUTPUTS = "outputs"
    """Units of work with one number of one writer."""
    ANSWERS = "answers"
    """To one request of a queue with sides."""


class Divergences:
    """Of one domain at one member, since its process began."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Between, 0)
        """Units and answers that came second, and not as the first ones."""
        self._reported: set[tuple[Between, str]] = set()

    def add(self, between: Between, name: str) -> bool:
        """Of that writer, or queue. Whether an operator is to hear of it: once a name and mastership, for what goes on
        after a difference may differ each time.
        """
        self.counts[between] += 1
        if (between, name) in self._reported:
            return False
        if len(self._reported) >= NAMES_MAX:  # names may have been released since
            self._reported.clear()
        self._reported.add((between, name))
        return True

    def on_following(self) -> None:
        """Another member serves, and reports anew."""
        self._reported.clear()
