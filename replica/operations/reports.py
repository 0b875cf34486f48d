"""Turns what happens at this member into events and counts; decides nothing, and knows none of those who report.

Everything that the cores, the loop, the link and the manager report goes through `note`; other modules call it too,
with the kind of event that they are about.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import deque
from typing import TYPE_CHECKING

from failover.marks import Role
from tandemq.ambient import wall_ms
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.core.domain import Domain
    from replica.core.state.effects import Note, RoleChanged
    from replica.operations.events import EventLog

RECENT_MAX = 16
RECENT_CHARS_MAX = 500
"""Of one line of `recent`, which a classifier is given."""
_RULES = re.compile(r" \((?:see )?[PR]\d+(?:, [PR]\d+)*\)")
"""Numbers of rules help whoever reads the code, not whoever was woken up."""


class Reports:
    """One member's reports to whoever runs it."""

    def __init__(self, events: EventLog) -> None:
        self.events = events
        self.transitions: dict[tuple[str, str], int] = {}
        """(domain, role): how often the role was taken since the start."""
        self.verdicts: dict[tuple[str, str], int] = {}
        """(verdict, effect): how often."""
        self.handoffs: dict[tuple[str, str], int] = {}
        """(domain, outcome): how many ended here."""
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)
        self._roles: dict[str, Role] = {}

    @property
    def recent(self) -> tuple[str, ...]:
        """The last changes of role and verdicts of paired domains since the start, newest last, at most RECENT_MAX.

        Each is UTC time, domain, what happened, in at most RECENT_CHARS_MAX characters.
        """
        return tuple(self._recent)

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
        if note.kind == PairEventKind.PAIR_EVENT_KIND_VERDICT and note.facts:
            key = (note.facts.get("verdict", ""), note.facts.get("effect", ""))
            self.verdicts[key] = self.verdicts.get(key, 0) + 1
        if note.kind == PairEventKind.PAIR_EVENT_KIND_HANDOFF and note.facts:
            self._count_handoff(domain, note.facts)
        text = _RULES.sub("", note.text)
        if note.kind == PairEventKind.PAIR_EVENT_KIND_VERDICT and note.facts and note.facts.get("verdict") != "none":
            self._remember(domain, text)
        self.note(note.kind, text, domain, note.facts)

    def _count_handoff(self, domain: Domain, facts: Mapping[str, str]) -> None:
        event = facts.get("event", "")
        if facts.get("state") not in ("MASTER", "REPLICA"):
            return
        done = event in ("SERVING", "SYNC") and not facts.get("reasons")
        outcome = "done" if done else "dry run" if "DRY" in event else "refused"
        key = (domain.shared.name, outcome)
        self.handoffs[key] = self.handoffs.get(key, 0) + 1

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        """A role has changed."""
        shared = domain.shared
        role, before = Role(change.role), self._roles.get(shared.name, Role.INIT)
        self._roles[shared.name] = role
        key = (shared.name, role.name)
        self.transitions[key] = self.transitions.get(key, 0) + 1
        facts = {
            "from": before.name,
            "to": role.name,
            "reason": change.reason,
            "data": shared.state.data.name,
            "log_index": str(shared.log.last_index),
            "in_sync_set": ",".join(sorted(domain.mastership.view.in_sync_set)),
        }
        text = f"{shared.member} is {role.name} now: {change.reason}"
        self._remember(domain, text)
        self.events.add(
            PairEventKind.PAIR_EVENT_KIND_ROLE,
            text,
            domain=shared.name,
            epoch=change.epoch,
            role=role.value,
            facts=facts,
        )

    def _remember(self, domain: Domain, text: str) -> None:
        if not domain.shared.peer:
            return
        now = dt.datetime.fromtimestamp(wall_ms() / 1000, dt.UTC)
        self._recent.append(f"{now:%Y-%m-%dT%H:%M:%SZ} {domain.shared.name}: {text}"[:RECENT_CHARS_MAX])

    def on_link(self, text: str, facts: Mapping[str, str] | None = None) -> None:
        """The connection to the peer began or ended, or the peer counts as lost."""
        self.note(PairEventKind.PAIR_EVENT_KIND_LINK, text, None, facts)

    def on_fault(self, text: str) -> None:
        """Something is wrong with this member itself."""
        self.note(PairEventKind.PAIR_EVENT_KIND_FAULT, text)
