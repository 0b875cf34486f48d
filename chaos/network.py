"""The wires of a pair: a relay for each member's way to its peer's port and to the witness; it decides no fault.

Two members have two ways, because either may dial the other's port: a cut is both, a one-way loss is one direction of
both. Clients, and calls that a replica forwards, go to the members' client ports and are not relayed: a second path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chaos.relay import Relay, Relays, Way


class Wire(NamedTuple):
    """Who dials whom."""

    dialler: str
    target: str


class Network:
    """Relays by wire. Made from where each listens and where it leads; starts healthy when `start` is called."""

    def __init__(self, routes: Mapping[Wire, tuple[str, str]]) -> None:
        self._routes = routes
        self._relays: Relays | None = None
        self.wires: dict[Wire, Relay] = {}

    def start(self) -> None:
        """Listens on every wire. May be repeated. Raises OSError when a port is taken."""
        if self._relays is None:
            self._relays = Relays()
            self._relays.start()
            self.wires = {wire: self._relays.open(*route) for wire, route in self._routes.items()}

    def close(self) -> None:
        """Ends every relay. May be repeated."""
        if self._relays is not None:
            self._relays.close()
            self._relays, self.wires = None, {}

    def between(self, one: str, other: str) -> list[Relay]:
        """Every wire between two processes, whoever dials."""
        return [relay for wire, relay in self.wires.items() if {*wire} == {one, other}]

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Nothing arrives either way, and nobody is told: a dead switch."""
        for relay in self.between(one, other):
            relay.silence()

    def break_off(self, one: str, other: str) -> None:
        """What is open is reset and nobody listens any more, although both processes live: a wrong firewall rule."""
        for relay in self.between(one, other):
            relay.refuse()

    def lose(self, sender: str, receiver: str) -> None:
        """What `sender` says does not reach `receiver`; the other way it does."""
        for wire, relay in self.wires.items():
            if {*wire} == {sender, receiver}:
                relay.silence(Way.TO_TARGET if wire.dialler == sender else Way.FROM_TARGET)

    def isolate(self, name: str) -> None:
        """Cuts every wire of one process."""
        for wire, relay in self.wires.items():
            if name in wire:
                relay.silence()

    def delay(self, one: str, other: str, delay_s: float) -> None:
        """Everything between the two arrives so much later."""
        for relay in self.between(one, other):
            relay.delay(delay_s)

    def throttle(self, one: str, other: str, bytes_per_s: float) -> None:
        """No connection between the two carries more than this, each way."""
        for relay in self.between(one, other):
            relay.throttle(bytes_per_s)

    def heal(self, wires: Iterable[Wire] | None = None) -> None:
        """Takes every fault back, everywhere or on some wires."""
        for wire in self.wires if wires is None else wires:
            self.wires[wire].heal()
