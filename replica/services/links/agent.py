"""Sees to it that every transmission queue of which this member is the serving master has a carrier. Sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine.state.system_names import target_of
from replica.services.links.far_clients import FarClients

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replica.core.domain import Domain
    from replica.machine import Machine, QueueState
    from replica.machine.state.system_names import Destination
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from replica.services.links.carrier import Carrier
    from tandemq import aio
    from tandemq.finding.resolver import Resolver

CALL_S = 5.0
"""For one call to a target, with its repetitions; then the carrier waits a while."""


class Agent:
    """Of one member."""

    def __init__(self, members: Members, reports: Reports, managers: Mapping[str, Sequence[str]]) -> None:
        self.members, self.reports = members, reports
        self.managers = managers
        self.carriers: dict[tuple[int, int], Carrier] = {}
        """By domain and queue."""
        self._looked: dict[int, tuple[Machine, int]] = {}
        self._queues: dict[int, dict[int, Destination]] = {}
        self._clients = FarClients(self._client_of)

    def _client_of(self, manager: str) -> aio.Client:
        from tandemq import aio, retry  # for who sends to one
        from tandemq.finding.target import Target

        named, policy = Target((), "the transmission queue", manager=manager), retry.Policy(total_s=CALL_S)
        return aio.Client(named, policy, open_channel=self.members.open, resolvers=[self.linked()])

    def linked(self) -> Resolver:
        """Who knows the managers of the configuration."""
        from tandemq.finding.resolvers import StaticResolver  # for who sends to one

        return StaticResolver(self.managers, source="[links] managers")

    def resolvers(self) -> list[Resolver]:
        """Who is asked where a manager is: the configuration, then the files of this machine."""
        from tandemq.finding.resolvers import standard

        return [self.linked(), *standard()]

    def look(self, _now_ms: int) -> None:
        """At each tick. Queue ids only rise, so each is looked at once."""
        for domain in self.members.by_name.values():
            machine, number = domain.shared.machine, domain.shared.domain
            if machine is None:
                continue
            before, start = self._looked.get(number, (machine, 1))
            if before is not machine:
                start = 1
            if start < machine.state.next_queue_id:
                self._find(number, machine, start)
            found = self._queues.get(number, {})
            for queue_id, target in list(found.items()):
                self._see_to(domain, machine, queue_id, target)
                if queue_id not in machine.state.queues and (number, queue_id) not in self.carriers:
                    del found[queue_id]

    def carrier_of(self, domain: Domain, queue: QueueState) -> Carrier | None:
        """None: it has nothing to carry, or is not begun yet."""
        return self.carriers.get((domain.shared.domain, queue.queue_id))

    def _find(self, number: int, machine: Machine, start: int) -> None:
        state, found = machine.state, self._queues.setdefault(number, {})
        if start == 1:
            found.clear()
        for queue_id in range(start, state.next_queue_id):
            queue = state.queues.get(queue_id)
            if queue is not None and (target := target_of(queue.name)):
                found[queue_id] = target
        self._looked[number] = machine, state.next_queue_id

    def _see_to(self, domain: Domain, machine: Machine, queue_id: int, target: Destination) -> None:
        queue, key = machine.state.queues.get(queue_id), (domain.shared.domain, queue_id)
        carrier = self.carriers.get(key)
        if carrier is not None:
            if queue is None or queue.length or not domain.shared.serving:
                carrier.wake.set()
        elif queue is not None and queue.length and domain.shared.serving:
            from replica.services.links.carrier import Carrier  # and a client, which most members never need

            carrier = Carrier(self.members, self.reports, domain, queue, target)
            self.carriers[key] = carrier
            client = self._clients.held(self.members.reached_by(target.manager))
            task = self.members.node.spawn(carrier.run(client))
            task.add_done_callback(lambda _done: self.carriers.pop(key, None))
