"""A member's own domain beside the one that it shares, step by step: what its sides of queues with PRODUCER replication
are given, and lease. Stands in for the part of `replica.node.loop` that has two domains; its disk writes at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from replica.core.state.effects import Deliver, Reply
from replica.machine.plan.sides import SideLimits
from replica.node.members import LOCAL, domain_number
from replica.node.recovery import open_shared, recover
from replica.node.sides import Sides
from replica.node.steps import Steps
from tests.support.domains import domain_over
from tests.support.member import NUMBER, drive

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from tandemq.peer.v1.peer_service_pb2 import SideAsk, SidePassed
    from tests.support.member import Member


class OwnDomain:
    """Of one start of a member's process; what it has written is on the member's disk."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.beat_wake = asyncio.Event()
        self.sides = Sides(self)
        self._steps = Steps()
        number = domain_number(LOCAL)
        shared = open_shared(member.store, number, LOCAL, member.name, "", member.incarnation, member.pair.limits)
        self.core = domain_over(member.store, shared, self.sides.is_whole)
        shared.machine = drive(recover(member.store, shared))
        self.domains: dict[int, Domain] = {NUMBER: member.core, number: self.core}
        self.sides.connect(self.core, SideLimits())

    def start(self) -> None:
        self.core.start(self.member.pair.now_ms, self.member.pair.wall_ms)
        self.dispatch(self.core)

    def paired(self) -> list[Domain]:
        return [self.member.core]

    def dispatch(self, domain: Domain) -> None:
        if domain is not self.core:
            self.member.dispatch(domain)
            return
        while effects := domain.take():
            for effect in effects:
                self._carry_out(self._steps.on_effect(domain, effect))
        while self._steps.begin() is not None:
            self._written()
        if self.sides.served:
            self.sides.on_step(domain)

    def _carry_out(self, order: Any) -> None:
        match order:
            case Reply(waiter, result):
                waiter.answer(result)
            case Deliver(consumer, done):
                consumer.waiter.deliver(done)

    def _written(self) -> None:
        group = self._steps.writing
        assert group is not None
        self.member.store.commit(group.batch)
        for domain, durable in self._steps.end():
            domain.on_persisted(*durable)
            self.dispatch(domain)

    # -- what the loop and the session say -------------------------------------------------------------------------

    def on_step(self) -> None:
        """The shared domain has taken a step."""
        if self.sides.served or self.sides.asks.peer:
            self.sides.on_step(self.member.core)

    def on_session(self) -> None:
        """Another one with the peer."""
        self.sides.forget_peer()

    def tick(self) -> None:
        pair = self.member.pair
        self.core.on_tick(pair.now_ms, pair.wall_ms)
        self.dispatch(self.core)
        self.sides.look(pair.now_ms)

    def said(self) -> tuple[list[SidePassed], list[SideAsk]]:
        """What its heartbeat has of sides."""
        core = self.member.core
        return self.sides.beat(core), self.sides.asks.beat(core)

    def heard(self, said: tuple[list[SidePassed], list[SideAsk]]) -> None:
        """In a heartbeat of the peer."""
        passed, asks = said
        self.sides.on_beat(NUMBER, passed)
        self.sides.asks.on_beat(NUMBER, asks)
