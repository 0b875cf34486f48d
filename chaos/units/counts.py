"""Where a running demo of units stands, for the screen and for whoever waits; the account takes nothing from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """For the screen, as it was seen last."""

    sent: int = 0
    legs: int = 0
    waiting: int = 0  # flights, without a leg yet
    here: int = 0  # entries that no unit has posted yet
    onward: int = 0  # posted, and not at the second pair yet
    cancelled: int = 0
    exchanged: int = 0

    @property
    def ended(self) -> int:
        return self.legs + self.cancelled
