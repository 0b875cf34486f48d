"""A rehearsed event says what an event of its kind says, whoever asks it; and nothing that only another kind says."""

from __future__ import annotations

import pytest

from failover.classifier import CONNECTED_KINDS, EventKind
from failover.gate import MASTERS
from failover.marks import DataMark, Role
from failover.rehearsal import REHEARSED, sample


@pytest.mark.parametrize("kind", REHEARSED)
def test_an_event_has_what_belongs_to_its_kind(kind: EventKind) -> None:
    event = sample(kind)
    connected = kind in CONNECTED_KINDS
    assert event.kind is kind
    assert event.cause == REHEARSED[kind].cause
    assert (event.member, event.peer, [part.name for part in event.domains]) == ("a", "b", ["main"])
    assert (event.domains[0].role, event.domains[0].data) == REHEARSED[kind].situations[0]
    heard = (event.heard_ago_ms, event.heard_us_ago_ms, event.peer_connected)
    assert heard == ((40, 60, True) if connected else (1_500, 1_700, False))
    assert event.write_stall_ms == (10_000 if kind is EventKind.LOCAL_FAULT else 0)
    assert (event.peer_address, event.peer_endpoint) == ("127.0.0.1:7611", "127.0.0.1:7610")
    assert (event.uptime_ms, event.room_bytes, event.clients) == (3_600_000, 1 << 30, 12)


def test_the_situation_and_the_domains_are_those_that_were_asked_for() -> None:
    event = sample(EventKind.PEER_LOST, Role.MASTER, DataMark.SOLE, domains=("one", "two"))
    assert [(part.name, part.role, part.data) for part in event.domains] == [
        ("one", Role.MASTER, DataMark.SOLE),
        ("two", Role.MASTER, DataMark.SOLE),
    ]


@pytest.mark.parametrize("role", Role)
def test_what_is_said_of_the_peer_fits_the_role(role: Role) -> None:
    """A master knows its replica a little behind; everybody else knows a master, and all that it has."""
    (facts,) = sample(EventKind.PEER_LOST, role).domains
    said = (facts.peer_role, facts.peer_index, facts.last_index, facts.durable_index, facts.commit_index)
    behind, ahead = 120_030, 120_034
    assert said == (("REPLICA", behind) if role in MASTERS else ("MASTER", ahead)) + (ahead, ahead, behind)
    assert (facts.epoch, facts.peer_epoch, facts.peer_data, facts.in_sync_set) == (7, 7, "IN_SYNC", ("a", "b"))
