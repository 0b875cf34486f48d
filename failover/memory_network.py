"""The shipped double of `failover.probe.look`: what stands at an address is said beforehand; it decides nothing.

It costs the loop's own time and no port, so that what is decided over a day is tried in a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from failover.probe import Seen, Sight


class Place(Enum):
    """What stands at an address."""

    UP = "a process that answers"
    MUTE = "a kernel that takes connections for a process that says nothing"
    CLOSED = "a host, and nobody listens"
    GONE = "nothing that answers at all"
    CUT_OFF = "nothing that this host has a network to"


SEEN_AT_ONCE = MappingProxyType({Place.UP: Sight.ANSWERS, Place.CLOSED: Sight.REFUSES, Place.CUT_OFF: Sight.CUT_OFF})


class MemoryNetwork:
    """A `Looking`. Addresses that are not in `places` have no name; who stands where may change at any time."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self.places = dict(places)
        self.looks: list[tuple[float, str]] = []
        """When which address was looked at, by the loop's time."""

    async def __call__(self, address: str, timeout_s: float, *, http: bool = False) -> Seen:
        """See `failover.probe.look`."""
        self.looks.append((asyncio.get_running_loop().time(), address))
        place = self.places.get(address)
        if place is None:
            return Seen(address, Sight.BLIND, "the name is not known")
        if place is Place.MUTE and not http:
            return Seen(address, Sight.ANSWERS)
        if (sight := SEEN_AT_ONCE.get(place)) is not None:
            return Seen(address, sight, "HTTP/1.0 503" if http and place is Place.UP else place.value)
        await asyncio.sleep(timeout_s)
        return Seen(address, Sight.SILENT, "no answer in time")
