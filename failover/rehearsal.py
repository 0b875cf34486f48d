"""Makes plausible events and says what the gate would do with an answer; nothing here is acted upon."""

from __future__ import annotations

import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from failover import gate
from failover.classifier import CONNECTED_KINDS, Answer, Classifier, DomainFacts, Event, EventKind
from failover.marks import DataMark, Role

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig


class Rehearsed(NamedTuple):
    """How an event of one kind looks when somebody tries a classifier."""

    cause: str
    situations: tuple[tuple[Role, DataMark], ...]
    """Role and copy that a member has when it asks about it; the first is the usual one."""


_EITHER = ((Role.REPLICA, DataMark.IN_SYNC), (Role.MASTER, DataMark.IN_SYNC))
_MASTER = ((Role.MASTER, DataMark.IN_SYNC),)
REHEARSED = MappingProxyType(
    {
        EventKind.PEER_LOST: Rehearsed("nothing heard for 1500 ms", _EITHER),
        EventKind.PEER_SLOW: Rehearsed("connected, and its disk has not come along for 10000 ms", _MASTER),
        EventKind.COLD_START_ALONE: Rehearsed(
            "alone since the start", ((Role.PROBE, DataMark.IN_SYNC), (Role.PROBE, DataMark.SOLE))
        ),
        EventKind.HANDOFF_IN_DOUBT: Rehearsed(
            "the connection was reset after the mastership was ceded", ((Role.CEDING, DataMark.IN_SYNC),)
        ),
        EventKind.AUTHORITY_LOST: Rehearsed("nothing heard for 1500 ms, and the authority does not answer", _EITHER),
        EventKind.LOCAL_FAULT: Rehearsed("a write has taken 10000 ms", _MASTER),
        EventKind.DIVERGENCE: Rehearsed("both histories served", ((Role.DIVERGED, DataMark.SOLE),)),
        EventKind.PREFLIGHT: Rehearsed("a rehearsal", _EITHER),
    }
)


def sample(
    kind: EventKind,
    role: Role | None = None,
    data: DataMark | None = None,
    config: ManagerConfig | None = None,
    domains: tuple[str, ...] = (),
) -> Event:
    """An event as a member would ask it; names and addresses from the configuration, if there is one."""
    rehearsed = REHEARSED[kind]
    usual_role, usual_data = rehearsed.situations[0]
    role = usual_role if role is None else role
    data = usual_data if data is None else data
    names = domains or (config.domains if config else ("main",))
    member = config.member if config else "a"
    peer = (config and config.peer_member) or "b"
    connected = kind in CONNECTED_KINDS
    authority = config.authority if config else "none"
    return Event(
        event_id=f"rehearsal-{uuid.uuid4().hex[:12]}",
        kind=kind,
        link_generation=1,
        pair=(config and config.pair) or "orders",
        member=member,
        peer=peer,
        domains=tuple(_facts(name, role, data, (member, peer)) for name in names),
        cause=rehearsed.cause,
        heard_ago_ms=40 if connected else 1_500,
        heard_us_ago_ms=60 if connected else 1_700,
        peer_connected=connected,
        peer_address=(config and config.peer_address) or "127.0.0.1:7611",
        peer_endpoint=(config and config.peer_endpoint) or "127.0.0.1:7610",
        authority=authority,
        authority_reachable=authority != "none" and kind is not EventKind.AUTHORITY_LOST,
        uptime_ms=3_600_000,
        write_stall_ms=10_000 if kind is EventKind.LOCAL_FAULT else 0,
        room_bytes=1 << 30,
        clients=12,
    )


def _facts(name: str, role: Role, data: DataMark, members: tuple[str, str]) -> DomainFacts:
    master = role in gate.MASTERS
    return DomainFacts(
        name=name,
        role=role,
        data=data,
        epoch=7,
        last_index=120_034,
        durable_index=120_034,
        commit_index=120_030,
        peer_index=120_030 if master else 120_034,
        peer_role="REPLICA" if master else "MASTER",
        peer_data="IN_SYNC",
        peer_epoch=7,
        in_sync_set=tuple(sorted(members)),
    )


def ruling(event: Event, answer: Answer, classifier: Classifier, *, accept_unproven: bool) -> gate.Ruling:
    """What the gate says to the answer for each of the event's domains; all have one role."""
    first = event.domains[0]
    situation = gate.Situation(
        kind=event.kind,
        link_generation=event.link_generation,
        role=first.role,
        data=first.data,
        connected=event.peer_connected,
        has_authority=event.authority != "none",
        authority_readable=event.authority_reachable,
        safety=classifier.safety,
        accept_unproven=accept_unproven,
    )
    return gate.rule(answer, situation)
