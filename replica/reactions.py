"""What the parts of a manager do when its loop reports something: the `Listener` of a manager. Decides nothing about
mastership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from replica.node.members import MAIN

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.effects import AskVerdict, Note, RoleChanged
    from replica.listen.ports import Ports
    from replica.node.loop import Node
    from replica.node.maintenance import Maintenance
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from replica.peer.greeter import Greeter
    from replica.peer.identity.duplicates import PeerInfo
    from replica.peer.judge import Judge


class Health:
    """Whether this member serves clients, as its HTTP port and the health service say it."""

    def __init__(self, node: Node, members: Members, ports: Ports) -> None:
        self._node, self._members, self._ports = node, members, ports
        self._reported: bool | None = None

    @property
    def _main(self) -> Domain:
        return self._members.by_name[MAIN]

    @property
    def is_ready(self) -> bool:
        """As master, or as a replica whose copy is synchronised."""
        return self._main.shared.serving or self._main.target.opened

    def facts(self) -> tuple[bool, dict[str, Any]]:
        """For whoever asks over HTTP."""
        shared = self._main.shared
        facts = {"member": self._members.member, "role": shared.role.name, "epoch": shared.state.epoch}
        return self.is_ready, facts

    def look(self, _now_ms: int) -> None:
        """Called at each tick: a replica becomes readable when its copy is synchronised, which is no change of role."""
        ready = self.is_ready
        if ready is not self._reported:
            self._reported = ready
            self._node.spawn(self.report())

    def on_role(self) -> None:
        """The role in the main domain has changed."""
        self._node.spawn(self.report())

    async def report(self) -> None:
        """As things stand now."""
        await self._ports.report_health(master=self._main.shared.serving, readable=self.is_ready)


class Parts(NamedTuple):
    """What reacts; without a peer there is no judge."""

    reports: Reports
    members: Members
    upkeeps: list[Maintenance]
    greeter: Greeter
    health: Health
    judge: Judge | None
    peer: PeerInfo | None


class Reactions:
    """Of one manager. The loop is there before the parts that need it, and until `connect` no domain has started."""

    def __init__(self) -> None:
        self._connected: Parts | None = None

    def connect(self, parts: Parts) -> None:
        """All parts are there; before the first domain starts."""
        self._connected = parts

    @property
    def _parts(self) -> Parts:
        assert self._connected is not None, "a domain has started before the manager's parts were there"
        return self._connected

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        """Reported, counted, said to the peer and to whoever waits for a master."""
        parts = self._parts
        parts.reports.on_role(domain, change)
        if parts.judge is not None:
            parts.judge.on_role(domain, change)
        if parts.peer is not None and parts.peer.endpoint:
            parts.members.peer_endpoint = parts.peer.endpoint
        parts.members.on_change()
        parts.greeter.say()
        if domain.shared.name == MAIN:
            parts.health.on_role()

    def on_note(self, domain: Domain, note: Note) -> None:
        """An event."""
        self._parts.reports.on_note(domain, note)

    def on_ask(self, domain: Domain, ask: AskVerdict) -> None:
        """The classifier is asked."""
        judge = self._parts.judge
        if judge is not None:
            judge.on_ask(domain, ask)

    def on_fault(self, text: str) -> None:
        """An event; a start that finds no room has its line in the log."""
        if self._connected is not None:
            self._connected.reports.on_fault(text)

    def on_mark(self) -> None:
        """Upkeep notes where the log stands."""
        for upkeep in self._parts.upkeeps:
            upkeep.mark()


__all__ = ["Health", "Parts", "Reactions"]
