"""Which selected messages sides could hand out now, here and at the peer, and has the master select them (K3). Between
cores of one member: it orders what `plan_select` decides.

A question is the number up to which a side's consumer has credit. It stays the same question when it is repeated, late
or lost, so that nothing is selected twice for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from replica.machine.plan.selecting import SELECTED_MAX, plan_select
from tandemq.peer.v1.peer_service_pb2 import SideAsk

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from replica.core.domain import Domain
    from replica.machine import QueueState
    from replica.machine.state.lockstep import SideOf

ASKED_MAX = SELECTED_MAX
"""Messages that wait at a side that asks, with those that it asks for, at most: as many as one record of the pair, and
fewer where its consumer has less credit.
"""
BEAT_ASKS_MAX = 1_000
"""In one heartbeat; a side that is left out is served less at once, and asks again."""


class Dispatching(Protocol):
    """The loop of a member, as far as this needs it."""

    domains: dict[int, Domain]
    beat_wake: asyncio.Event
    """Set: the next heartbeat leaves at once."""

    def paired(self) -> list[Domain]:
        """The domains that the peer has too."""

    def dispatch(self, domain: Domain) -> None:
        """Carry out what a core asked for."""


class Asks:
    """Of one member."""

    def __init__(self, node: Dispatching) -> None:
        self._node = node
        self.own: dict[tuple[int, int], int] = {}
        """By domain and queue: up to which number the own side asks, while it is served."""
        self.peer: dict[tuple[int, int], int] = {}
        """The same of the peer's, as its last heartbeat says."""
        self.for_peer = 0
        """Records that the own side had not asked for."""
        self._said: dict[tuple[int, int], int] = {}
        """What the peer has heard of the own ones."""

    def note(self, of: SideOf, queue: QueueState, side: QueueState, credit: int) -> None:
        """A side is served, and its consumer has so much credit."""
        if queue.selection is None:
            return
        key = of.domain, of.queue_id
        until = self.own[key] = side.next_index - 1 + max(0, min(credit, ASKED_MAX) - side.ready_count)
        # The master is the other member, and cannot select more for what it has heard.
        is_elsewhere = not self._node.domains[of.domain].shared.serving
        if is_elsewhere and self._said.get(key, 0) < queue.selection.following <= until:
            self._node.beat_wake.set()

    def drop(self, of: SideOf) -> None:
        """It is served no more."""
        self.own.pop((of.domain, of.queue_id), None)

    def beat(self, domain: Domain) -> list[SideAsk]:
        """What the peer is to select for this member's sides, if it is master."""
        number = domain.shared.domain
        asks = [(key, until) for key, until in self.own.items() if key[0] == number][:BEAT_ASKS_MAX]
        self._said.update(asks)
        return [SideAsk(queue_id=queue_id, until=until) for (_, queue_id), until in asks]

    def on_beat(self, domain: int, asks: Iterable[SideAsk]) -> None:
        """What the peer asks for its own sides, and nothing else any more."""
        for key in [key for key in self.peer if key[0] == domain]:
            del self.peer[key]
        for each in asks:
            self.peer[domain, each.queue_id] = each.until
        self.select()

    def forget_peer(self) -> None:
        """Another session."""
        self.peer.clear()
        self._said.clear()

    def select(self) -> None:
        """What either side has asked for, where this member is master."""
        if not self.own and not self.peer:
            return
        for domain in self._node.paired():
            if domain.shared.serving and not domain.shared.draining and domain.mastership.commit.can_commit:
                self._select_in(domain)

    def _select_in(self, domain: Domain) -> None:
        state, orders = domain.orders.machine.state, domain.orders
        number = domain.shared.domain
        for key in sorted({key for asks in (self.own, self.peer) for key in asks if key[0] == number}):
            queue = state.sided.get(key[1])
            if queue is None or not queue.has_ready():
                continue
            until = max(self.own.get(key, 0), self.peer.get(key, 0))
            wanted = orders.parts.kept.past(queue.queue_id, None) if state.kept else None
            header = plan_select(state, orders.time_ms, queue, until, wanted)
            if header is not None:
                self.for_peer += self.own.get(key, 0) < header.select.first
                orders.order(header)
                self._node.dispatch(domain)
