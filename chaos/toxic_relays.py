"""Wires that lead through Toxiproxy: what `chaos.relay` does with our own relays, done by the real proxy; decides no
fault.

Silence drops bytes, and the connection ends when it is taken back: no stream has a hole. Every method is in force when
it returns, and may be called from any thread.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from chaos.relay import BOTH_WAYS, Way
from chaos.toxics import Bandwidth, Latency, ResetPeer, Stream, Timeout, Toxic, ToxiproxyError
from chaos.toxiproxy import Proxy, Toxiproxy, ToxiproxyServer

STREAM_OF = {Way.TO_TARGET: Stream.UP, Way.FROM_TARGET: Stream.DOWN}
KIB = 1024


class ToxicRelay:
    """One proxy, with the faults of a relay."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.listen, self.target = proxy.listen, proxy.upstream

    def silence(self, *ways: Way) -> None:
        """Carries nothing this way (both when none is named), on old connections and on new ones."""
        self._add(Timeout(), ways)

    def delay(self, delay_s: float, *ways: Way) -> None:
        """Every byte arrives so much later."""
        self._add(Latency(round(delay_s * 1000)), ways)

    def throttle(self, bytes_per_s: float, *ways: Way) -> None:
        """No more than so many bytes a second, each connection for itself."""
        self._add(Bandwidth(max(1, round(bytes_per_s / KIB))), ways)

    def reset(self) -> None:
        """Until it is healed whoever says something here is cut off, by a reset when the connection is new."""
        self._add(ResetPeer(), ())

    def refuse(self) -> None:
        """Ends what is open, and nobody listens here any more."""
        self._proxy.disable()

    def heal(self) -> None:
        """Takes every fault back."""
        self._proxy.heal()

    def hurts(self) -> list[str]:
        """The faults in force, in Toxiproxy's words."""
        return [*self._proxy.toxics(), *([] if self._proxy.enabled else ["disabled"])]

    def _add(self, toxic: Toxic, ways: tuple[Way, ...]) -> None:
        for way in ways or BOTH_WAYS:
            self._proxy.add(toxic, STREAM_OF[way])


class ToxicRelays:
    """A Toxiproxy server of our own and the relays in it."""

    def __init__(self, program: Path, endpoint: str, log: Path) -> None:
        self.server = ToxiproxyServer(program, endpoint, log)

    def start(self) -> None:
        """The server answers. Raises ToxiproxyError."""
        self.server.start()

    def open(self, listen: str, target: str, name: str) -> ToxicRelay:
        """A relay from one host:port to another; listens when it returns. Raises ToxiproxyError."""
        return ToxicRelay(self.server.api.create(name, listen, target))

    @property
    def ended(self) -> str:
        """That the server ended, though nobody closed it."""
        return self.server.ended

    def close(self) -> None:
        """Ends the server and all relays. May be repeated."""
        self.server.close()


class FoundRelays:
    """Relays of a Toxiproxy server that somebody else runs: used and healed, never made or ended."""

    def __init__(self, endpoint: str) -> None:
        self._api = Toxiproxy(endpoint)
        self._found: dict[str, ToxicRelay] = {}

    def start(self) -> None:
        """The server answers. Raises ToxiproxyError."""
        self._api.version()

    def open(self, listen: str, target: str, name: str) -> ToxicRelay:
        """The relay of that name. Raises ToxiproxyError when it is not there or leads elsewhere."""
        proxy = self._api.find(name)
        if (proxy.listen, proxy.upstream) != (listen, target):
            leads = f"leads from {proxy.listen} to {proxy.upstream}"
            raise ToxiproxyError("REFUSED", f"proxy {name} {leads}: not this pair's")
        self._found[name] = ToxicRelay(proxy)
        return self._found[name]

    @property
    def ended(self) -> str:
        """Not known here: whoever runs the server knows. What is asked of one that is gone fails."""
        return ""

    def heal_what_is_left(self) -> dict[str, str]:
        """Takes back what somebody before us did, and says what it was, by relay. Raises ToxiproxyError."""
        healed = {}
        for name, relay in self._found.items():
            if hurts := relay.hurts():
                relay.heal()
                healed[name] = ", ".join(hurts)
        return healed

    def close(self) -> None:
        """Heals what was used. May be repeated."""
        while self._found:
            with contextlib.suppress(ToxiproxyError):  # the server went with its pair
                self._found.popitem()[1].heal()
        self._api.close()
