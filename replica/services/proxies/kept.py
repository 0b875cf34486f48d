"""What a proxy is at its serving master, and where it is found there. Values; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio

    from replica.core.domain import Domain
    from replica.services.proxies.far_acks import AckGatherer
    from replica.services.proxies.far_manager import FarManager
    from replica.services.proxies.standing import ProxyStanding


class KeptProxy(NamedTuple):
    """A proxy, as its serving master keeps it."""

    manager: FarManager
    standing: ProxyStanding
    removed: asyncio.Future[None]
    """Done once there is no such proxy any more: its streams end."""


class KeptProxies(Protocol):
    """Who keeps them."""

    def of(self, domain: Domain, name: str) -> KeptProxy | None:
        """At its serving master; None: there is none of that name."""

    def gatherer(self, domain: Domain, macro: str, proxy: str) -> AckGatherer | None:
        """Of a member of a macro queue, by both names; None: nothing is leased there for that macro queue now."""
