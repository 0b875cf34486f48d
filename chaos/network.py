"""The wires of a pair: a relay for each member's way to its peer's port and to the witness; it decides no fault.

The relays are our own (`chaos.relay`) or proxies of Toxiproxy (`chaos.toxic_relays`); here they are the same.
Two members have two ways, because either may dial the other's port: a cut is both, a one-way loss is one direction of
both. Clients, and calls that a replica forwards, go to the members' client ports and are not relayed: a second path.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from chaos.relay import Relays, Way


class AnyRelay(Protocol):
    """What a wire can suffer; see `chaos.relay.Relay`."""

    def silence(self, *ways: Way) -> None: ...
    def delay(self, delay_s: float, *ways: Way) -> None: ...
    def throttle(self, bytes_per_s: float, *ways: Way) -> None: ...
    def reset(self) -> None: ...
    def refuse(self) -> None: ...
    def heal(self) -> None: ...


class AnyRelays(Protocol):
    """What relays live in; see `chaos.relay.Relays`."""

    @property
    def ended(self) -> str: ...
    def start(self) -> None: ...
    def open(self, listen: str, target: str, name: str) -> AnyRelay: ...
    def close(self) -> None: ...


class Wire(NamedTuple):
    """Which member dials which."""

    dialler: str
    target: str

    def __str__(self) -> str:
        return f"{self.dialler}-to-{self.target}"


class Network:
    """Relays by wire. Made from where each listens and where it leads; starts healthy when `start` is called."""

    def __init__(self, routes: Mapping[Wire, tuple[str, str]], make: Callable[[], AnyRelays] = Relays) -> None:
        self._routes, self._make = routes, make
        self._relays: AnyRelays | None = None
        self.wires: dict[Wire, AnyRelay] = {}

    def start(self) -> None:
        """Listens on every wire. May be repeated. Raises OSError or ToxiproxyError when a port is taken."""
        if self._relays is not None or not self._routes:
            return
        with contextlib.ExitStack() as undo:
            relays = self._make()
            relays.start()
            undo.callback(relays.close)
            self.wires = {wire: relays.open(*route, str(wire)) for wire, route in self._routes.items()}
            self._relays = relays
            undo.pop_all()

    def close(self) -> None:
        """Ends every relay. May be repeated."""
        if self._relays is not None:
            self._relays.close()
            self._relays, self.wires = None, {}

    @property
    def ended(self) -> str:
        """That what carries the words is gone, though nobody closed it; empty: it is there, or was never started."""
        return self._relays.ended if self._relays is not None else ""

    def between(self, one: str, other: str) -> list[AnyRelay]:
        """Every wire between two processes, whoever dials."""
        return [self.wires[wire] for wire in self.wires_between(one, other)]

    def wires_between(self, one: str, other: str) -> list[Wire]:
        """Those that can be healed without touching the others."""
        return [wire for wire in self.wires if {*wire} == {one, other}]

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Nothing arrives either way, and nobody hears of it: a dead switch."""
        for relay in self.between(one, other):
            relay.silence()

    def break_off(self, one: str, other: str) -> None:
        """What is open is reset and nobody listens any more, although both processes live: a wrong firewall rule."""
        for relay in self.between(one, other):
            relay.refuse()

    def reset(self, one: str, other: str) -> None:
        """What is open between the two breaks; through Toxiproxy also what is opened until it is healed."""
        for relay in self.between(one, other):
            relay.reset()

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
        """Takes every fault back, everywhere or on some wires; one that cannot be healed keeps no other from it.

        Raises what the last of these raised.
        """
        with contextlib.ExitStack() as all_of_them:
            for wire in reversed(list(self.wires if wires is None else wires)):
                all_of_them.callback(self.wires[wire].heal)
