"""R127, R130: verdicts behind an authority of class A, over every role and mark."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import product

import pytest

from failover.classifier import AuthorityClassifier, DomainFacts, Event, EventKind, Suspend, Verdict
from failover.marks import DataMark, Role


def event(*parts: tuple[Role, DataMark]) -> Event:
    domains = tuple(
        DomainFacts(
            name=f"d{number}",
            role=role,
            data=data,
            epoch=1,
            last_index=5,
            durable_index=5,
            commit_index=4,
            peer_index=4,
        )
        for number, (role, data) in enumerate(parts)
    )
    return Event("e", EventKind.PEER_LOST, 1, "orders", "a", "b", domains)


@pytest.mark.parametrize(("role", "data"), list(product(Role, DataMark)))
def test_a_verdict_for_every_role_and_mark(role: Role, data: DataMark) -> None:
    if role in (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING):
        expected = 20
    elif role in (Role.REPLICA, Role.PROBE) and data in (DataMark.IN_SYNC, DataMark.SOLE):
        expected = 21
    else:
        expected = 23
    answer = AuthorityClassifier().now(event((role, data)))
    assert answer.verdict is not None
    assert answer.verdict.value == expected
    assert (answer.event_id, answer.link_generation, answer.by) == ("e", 1, "witness")


def test_one_bad_copy_among_the_domains_waits() -> None:
    parts = ((Role.PROBE, DataMark.IN_SYNC), (Role.PROBE, DataMark.STALE))
    assert AuthorityClassifier().now(event(*parts)).verdict is Verdict.WAIT


def test_without_a_classifier_everybody_waits_and_the_reason_says_what_to_do() -> None:
    answer = asyncio.run(Suspend().classify(event((Role.MASTER, DataMark.IN_SYNC))))
    assert answer.verdict is Verdict.WAIT
    assert "tandemq pair decide" in answer.reason


def test_the_values_are_the_exit_codes_of_the_contract() -> None:
    assert [(verdict.value, verdict.name) for verdict in Verdict] == [
        (20, "CONTINUE_AS_MASTER"),
        (21, "ASSUME_MASTERSHIP"),
        (22, "FAILED_INSTANCE"),
        (23, "WAIT"),
        (24, "PEER_ALIVE"),
    ]


@pytest.mark.parametrize(
    ("connected", "sets", "verdict"),
    [
        (True, (("a", "b"),), Verdict.FAILED_INSTANCE),
        (False, (("a", "b"),), Verdict.WAIT),
        (True, (("a",),), Verdict.WAIT),
        (True, (("a", "b"), ("a",)), Verdict.WAIT),
        (True, (("a", "b"), ("a", "b")), Verdict.FAILED_INSTANCE),
    ],
)
def test_with_a_fault_of_its_own_a_member_ends_only_where_the_peer_can_go_on(
    connected: bool, sets: tuple[tuple[str, ...], ...], verdict: Verdict
) -> None:
    asked = event(*((Role.MASTER, DataMark.IN_SYNC) for _ in sets))
    domains = tuple(replace(part, in_sync_set=held) for part, held in zip(asked.domains, sets, strict=True))
    faulty = replace(
        asked, kind=EventKind.LOCAL_FAULT, peer_connected=connected, domains=domains, cause="a write hangs"
    )
    answer = AuthorityClassifier("etcd").now(faulty)
    assert (answer.verdict, answer.reason, answer.by) == (verdict, "a write hangs", "etcd")
    assert AuthorityClassifier().now(replace(faulty, kind=EventKind.PEER_LOST)).reason == "the register decides"
