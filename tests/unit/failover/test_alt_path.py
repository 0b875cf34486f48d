"""What probes over another network mean: every pair of sights; blind is unknown, not no."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from failover.alt_path import AltPath, judge
from failover.classifier import DomainFacts, Event, EventKind, SafetyClass, Verdict
from failover.marks import DataMark, Role
from failover.probe import Seen, Sight

ANSWERS, REFUSES, SILENT, CUT_OFF, BLIND = Sight


def event(role: Role = Role.MASTER, data: DataMark = DataMark.IN_SYNC, kind: EventKind = EventKind.PEER_LOST) -> Event:
    part = DomainFacts("main", role, data, epoch=3, last_index=5, durable_index=5, commit_index=4, peer_index=4)
    return Event("e", kind, 1, "orders", "a", "b", (part,))


def verdict(peer: Sight, *references: Sight, asked: Event | None = None) -> int | None:
    found, reason = judge(
        asked or event(), Seen("p:1", peer), [Seen(f"r{n}:1", each) for n, each in enumerate(references)]
    )
    assert reason
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("peer", "references", "expected"),
    [
        (ANSWERS, (SILENT, SILENT), 24),
        (ANSWERS, (ANSWERS, BLIND), 24),
        (SILENT, (ANSWERS, SILENT), 20),
        (REFUSES, (ANSWERS, ANSWERS), 20),
        (SILENT, (REFUSES, BLIND), 20),  # a refusal came over the network: this member has one
        (SILENT, (SILENT, SILENT), 22),
        (SILENT, (CUT_OFF, CUT_OFF), 22),
        (SILENT, (SILENT, BLIND), None),
        (SILENT, (BLIND, BLIND), None),
        (SILENT, (), None),
        (BLIND, (ANSWERS, ANSWERS), None),
        (BLIND, (SILENT, SILENT), None),
        (CUT_OFF, (ANSWERS, ANSWERS), None),  # our own second network is down: nothing was seen of the peer
    ],
)
def test_the_table(peer: Sight, references: tuple[Sight, ...], expected: int | None) -> None:
    assert verdict(peer, *references) == expected


def test_blind_is_unknown_not_no() -> None:
    """Over all sights: turning silence into blindness never makes a verdict that promotes or stops a member."""
    for peer, first, second in product(Sight, repeat=3):
        if peer is BLIND:
            assert verdict(peer, first, second) is None
        if BLIND in (first, second) and verdict(peer, first, second) is not None:
            # decided by what was seen: the same whatever hides behind the blind probe
            for hidden in (ANSWERS, REFUSES, SILENT, CUT_OFF):
                shown = [hidden if each is BLIND else each for each in (first, second)]
                assert verdict(peer, *shown) == verdict(peer, first, second)


@pytest.mark.parametrize(("role", "data"), list(product(Role, DataMark)))
def test_a_silent_peer_promotes_only_who_may_be_promoted(role: Role, data: DataMark) -> None:
    if role in (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING):
        expected = 20
    elif role in (Role.REPLICA, Role.PROBE) and data.is_good:
        expected = 21
    else:
        expected = 23
    assert verdict(SILENT, ANSWERS, ANSWERS, asked=event(role, data)) == expected


@pytest.mark.parametrize("kind", [EventKind.LOCAL_FAULT, EventKind.DIVERGENCE])
def test_what_is_not_about_the_network_waits(kind: EventKind) -> None:
    assert verdict(SILENT, SILENT, SILENT, asked=replace(event(), kind=kind)) == Verdict.WAIT.value


def test_it_says_that_it_proves_nothing() -> None:
    assert AltPath("p:1", ["r:1", "s:1"]).safety is SafetyClass.B
