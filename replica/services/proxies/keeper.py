"""Sees to it that each proxy of a domain is kept open by its serving master, and by nobody else. Carries no call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from replica.machine.features.proxies import target_of
from replica.services.proxies.far_heads import FarMembers
from replica.services.proxies.far_settling import FarSettling
from replica.services.proxies.kept import KeptProxy
from replica.services.proxies.standing import ProxyStanding
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.machine.state.proxies import Proxies, Proxy
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from replica.services.proxies.far_acks import AckGatherer
    from replica.services.proxies.far_manager import FarManager
    from tandemq.finding.resolver import Resolver


class _OfDomain:
    """What is kept in one epoch of one domain."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.managers: dict[str, FarManager] = {}
        self.kept: dict[int, KeptProxy] = {}
        self.seen: tuple[Proxies | None, int] = (None, 0)


class Keeper:
    """Of one member."""

    def __init__(self, members: Members, reports: Reports, linked: Callable[[], Resolver]) -> None:
        """`linked`: who knows the managers of the configuration."""
        self.members, self.reports, self.linked = members, reports, linked
        self._domains: dict[int, _OfDomain] = {}
        self.far = {name: FarMembers(members, domain, self) for name, domain in members.by_name.items()}
        """For the macro queues of each domain, by its name."""
        self.settling = FarSettling(members, self)
        members.node.on_tick.append(self.look)

    def proxy(self, name: str) -> Proxy | None:
        """As far as it is known here."""
        for domain in self.members.by_name.values():
            machine = domain.shared.machine
            if machine is not None and (found := machine.state.proxies.by_name.get(name)) is not None:
                return found
        return None

    def gatherer(self, domain: Domain, macro: str, proxy: str) -> AckGatherer | None:
        """See FarMembers."""
        return self.far[domain.shared.name].gatherer(macro, proxy)

    @property
    def any(self) -> bool:
        """Whether there is a proxy in a domain here."""
        for domain in self.members.by_name.values():
            machine = domain.shared.machine
            if machine is not None and machine.state.proxies.by_name:
                return True
        return False

    def of(self, domain: Domain, name: str) -> KeptProxy | None:
        """At its serving master; None: there is none of that name."""
        self._see_to(domain)
        machine, kept = domain.shared.machine, self._domains.get(domain.shared.domain)
        proxy = machine.state.proxies.by_name.get(name) if machine is not None else None
        return kept.kept.get(proxy.queue_id) if proxy is not None and kept is not None else None

    def look(self, now_ms: int) -> None:
        """At each tick."""
        for domain in self.members.by_name.values():
            self._see_to(domain)
        for far in self.far.values():
            far.look(now_ms)

    def _see_to(self, domain: Domain) -> None:
        shared = domain.shared
        known = self._domains.get(shared.domain)
        serves = shared.serving and shared.machine is not None
        if known is not None and not (serves and known.epoch == shared.state.epoch):
            # Who serves now keeps them: what a demoted master still has under way ends without an answer.
            for manager in known.managers.values():
                manager.close()
            del self._domains[shared.domain]
            known = None
        if not serves or shared.machine is None:
            return
        proxies = shared.machine.state.proxies
        if known is None:
            if not proxies.by_id:
                return
            known = self._domains[shared.domain] = _OfDomain(shared.state.epoch)
        if known.seen != (proxies, proxies.changes):
            known.seen = proxies, proxies.changes
            self._follow(domain, known, proxies)

    def _follow(self, domain: Domain, known: _OfDomain, proxies: Proxies) -> None:
        for proxy_id in [each for each in known.kept if each not in proxies.by_id]:
            kept = known.kept.pop(proxy_id)
            kept.manager.drop(proxy_id)
            kept.removed.set_result(None)
        for name, manager in list(known.managers.items()):
            if not manager.proxies:
                manager.close()
                del known.managers[name]
        for proxy_id, proxy in proxies.by_id.items():
            if proxy_id not in known.kept:
                manager = self._manager(domain, known, target_of(proxy).manager)
                removed = asyncio.get_running_loop().create_future()
                known.kept[proxy_id] = KeptProxy(manager, ProxyStanding(proxy, monotonic_ms()), removed)
                manager.add(known.kept[proxy_id].standing)

    def _manager(self, domain: Domain, known: _OfDomain, name: str) -> FarManager:
        found = known.managers.get(name)
        if found is None:
            from replica.services.proxies.far_manager import FarManager  # and a client, which most members never need

            found = known.managers[name] = FarManager(self.members, self.reports, domain, name, [self.linked()])
            found.start()
        return found
