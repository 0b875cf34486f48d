"""Notices that this member cannot take clients, and hands its domains over while the peer is well: a crowd at one
port must not stop the pair. It asks as a stranger would: a new connection, and a first word of HTTP/2 on it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from replica.node.loop import Node
    from replica.node.network import Network
    from replica.peer.link import PeerLink

log = logging.getLogger("tandemq.reach")

LOOK_S = 0.5
UNREACHABLE_MS = 3_000
"""Without any new client taken for so long: hand over. A silent connection lasts no longer, so a short wave passes."""
AGAIN_MS = 60_000
"""Between two such handoffs: two members that are both beset must not play ball."""


class Reach:
    """The client port of one manager, as clients find it."""

    def __init__(self, node: Node, link: PeerLink, network: Network, address: str) -> None:
        self.node = node
        self.link = link
        self.network = network
        self.address = address
        """Where this process reaches its own client port."""
        self.taken_ms = monotonic_ms()
        """When one was last."""
        self._moved_ms = -AGAIN_MS

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if await self.network.takes_clients(self.address):
                self.taken_ms = monotonic_ms()
            else:
                self.maybe_hand_over(monotonic_ms())
            await asyncio.sleep(LOOK_S)

    def maybe_hand_over(self, now: int) -> None:
        """After a look in which no client was taken."""
        missed_ms = now - self.taken_ms
        if missed_ms < UNREACHABLE_MS or self.link.session is None or now < self._moved_ms + AGAIN_MS:
            return
        for domain in self.node.paired():
            if not domain.shared.serving or not domain.handoff.is_paired:
                continue
            self._moved_ms = now
            text = f"no client was taken here for {missed_ms} ms, and the peer is connected"
            log.warning("domain %s: %s: handing off", domain.shared.name, text, extra=domain.shared.tags)
            domain.start_handoff(self.node.clock.now_ms(), text, automatic=True)
            self.node.dispatch(domain)


__all__ = ["Reach"]
