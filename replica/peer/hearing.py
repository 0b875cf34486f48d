"""Hands on what the peer says to whoever it is for; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.peer.beats import Beats
    from replica.peer.greeter import Greeter
    from replica.peer.local_register import KeptRegister
    from replica.peer.verify import Verifier
    from tandemq.peer.v1.peer_service_pb2 import DomainHello, HeartbeatFrame, PeerFrame


class Hearing:
    """Of one member: the `SessionListener` of a manager."""

    def __init__(self, greeter: Greeter, beats: Beats, verifier: Verifier, register: KeptRegister | None) -> None:
        self._greeter, self._beats, self._verifier, self._register = greeter, beats, verifier, register

    def on_domain_hello(self, domain: Domain, hello: DomainHello) -> None:
        """Where no third voice keeps the register, a HELLO carries the peer's."""
        if self._register is not None:
            self._register.on_hello(domain, hello)

    def on_beat(self, frame: HeartbeatFrame) -> None:
        """A heartbeat."""
        self._beats.on_beat(frame)

    def on_stale(self, _domain: Domain) -> None:
        """A frame of a lower epoch is answered with a HELLO (P13)."""
        self._greeter.say()

    def on_verify(self, domain: Domain, frame: PeerFrame) -> None:
        """A frame of a comparison."""
        self._verifier.on_frame(domain, frame)
