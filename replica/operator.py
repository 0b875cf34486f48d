"""What an operator of this member sees and has ordered: turns what happens into events. Decides nothing about
mastership.

Everything that the cores, the link and the manager report goes through `note`; other modules call it too, with the kind
of event that they are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Role
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.domain import Domain
    from replica.effects import Note, RoleChanged
    from replica.events import EventLog
    from replica.members import Members

K = PairEventKind


class Operator:
    """One member's reports to whoever runs it."""

    def __init__(self, events: EventLog, members: Members) -> None:
        self.events = events
        self.members = members
        self._roles: dict[str, Role] = {}

    def note(
        self, kind: PairEventKind | int, text: str, domain: Domain | None = None, facts: Mapping[str, str] | None = None
    ) -> int:
        """Something happened, in a domain or in all of them; returns the event's number."""
        if domain is None:
            return self.events.add(kind, text, facts=facts)
        shared = domain.shared
        epoch, role = shared.state.epoch, shared.role.value
        return self.events.add(kind, text, domain=shared.name, epoch=epoch, role=role, facts=facts)

    def on_note(self, domain: Domain, note: Note) -> None:
        """A core or a shell of a domain has something to say."""
        self.note(note.kind, note.text, domain, note.facts)

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        """A role has changed."""
        shared = domain.shared
        role, before = Role(change.role), self._roles.get(shared.name, Role.INIT)
        self._roles[shared.name] = role
        facts = {
            "from": before.name,
            "to": role.name,
            "reason": change.reason,
            "data": shared.state.data.name,
            "log_index": str(shared.log.last_index),
            "in_sync_set": ",".join(sorted(domain.replication.required or shared.state.in_sync_set)),
        }
        text = f"{before.name} to {role.name} in epoch {change.epoch}: {change.reason}"
        self.events.add(
            K.PAIR_EVENT_KIND_ROLE, text, domain=shared.name, epoch=change.epoch, role=role.value, facts=facts
        )

    def on_link(self, text: str, facts: Mapping[str, str] | None = None) -> None:
        """The connection to the peer began or ended, or the peer counts as lost."""
        self.note(K.PAIR_EVENT_KIND_LINK, text, None, facts)
