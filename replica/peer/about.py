"""What a manager knows of its peer's absence besides the domains' own facts; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.node.loop import Node
    from replica.peer.beats import Beats
    from replica.peer.link import PeerLink


class About:
    """The peer and this process, as a classifier is told of them."""

    def __init__(
        self,
        node: Node,
        link: PeerLink,
        beats: Beats,
        clients: Callable[[], int],
        recent: Callable[[], tuple[str, ...]],
    ) -> None:
        """`clients` says how many have a stream open here, `recent` the last changes of role and verdicts."""
        self._node, self._link, self._beats = node, link, beats
        self._clients, self._recent = clients, recent
        self._started_ms = monotonic_ms()

    def facts(self) -> dict[str, object]:
        """Fields of `failover.classifier.Event`."""
        now, authority = monotonic_ms(), self._node.authority
        began = self._node.write_began_ms
        heard_us_ms, session = self._beats.heard_us_ms, self._link.session
        return {
            "heard_ago_ms": now - (self._link.heard_ms or self._started_ms),
            "heard_us_ago_ms": now - heard_us_ms if heard_us_ms else 0,
            "refused": self._link.refused,
            "peer_connected": session is not None,
            "peer_left": session.peer_left if session is not None else self._link.left,
            "authority_reachable": authority.connected if authority is not None else False,
            "uptime_ms": now - self._started_ms,
            "write_stall_ms": now - began if began else 0,
            "room_bytes": max(0, min((domain.orders.room_bytes for domain in self._node.paired()), default=0)),
            "clients": self._clients(),
            "recent": self._recent(),
        }
