"""What the peer's answers to being outdated mean; nothing but its own "done" is evidence."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from failover.classifier import DomainFacts, Event, EventKind, Evidence, SafetyClass, Verdict
from failover.marks import DataMark, Role
from failover.peer_outdate import PeerOutdate, judge
from tandemq.v1.common_pb2 import (
    ROLE_CEDING,
    ROLE_DIVERGED,
    ROLE_MASTER,
    ROLE_MASTER_SUSPENDED,
    ROLE_PROBE,
    ROLE_REPLICA,
)
from tandemq.v1.pair_service_pb2 import OutdateResponse

PART = DomainFacts(
    "main", Role.MASTER, DataMark.IN_SYNC, 3, last_index=5, durable_index=5, commit_index=4, peer_index=4
)
MASTER = Event("e", EventKind.PEER_LOST, 1, "orders", "a", "b", (PART,))
REPLICA = replace(MASTER, domains=(replace(PART, role=Role.PROBE),))
STALE = replace(MASTER, domains=(replace(PART, role=Role.PROBE, data=DataMark.STALE),))
DONE = OutdateResponse(done=True, role=ROLE_PROBE, epoch=3)


def refusal(role: int, epoch: int = 3, text: str = "its own words") -> OutdateResponse:
    return OutdateResponse(done=False, role=role, epoch=epoch, text=text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "reply", "expected", "evidence"),
    [
        (MASTER, DONE, 20, Evidence.PEER_OUTDATED),
        (REPLICA, DONE, 21, Evidence.PEER_OUTDATED),
        (STALE, DONE, 23, Evidence.NONE),
        (MASTER, refusal(ROLE_MASTER), 24, Evidence.NONE),
        (MASTER, refusal(ROLE_MASTER_SUSPENDED), 24, Evidence.NONE),
        (MASTER, refusal(ROLE_CEDING), 24, Evidence.NONE),
        (MASTER, refusal(ROLE_REPLICA, epoch=4), 24, Evidence.NONE),
        (MASTER, refusal(ROLE_REPLICA), 23, Evidence.NONE),
        (MASTER, refusal(ROLE_DIVERGED), 23, Evidence.NONE),
    ],
)
def test_the_table(event: Event, reply: OutdateResponse, expected: int, evidence: Evidence) -> None:
    verdict, reason, given = judge(event, [reply])
    assert (verdict.value, given) == (expected, evidence)
    if not reply.done:
        assert "its own words" in reason


def test_every_domain_of_the_event_must_be_outdated() -> None:
    two = replace(MASTER, domains=(PART, replace(PART, name="other")))
    assert judge(two, [DONE, DONE])[0] is Verdict.CONTINUE_AS_MASTER
    verdict, reason, evidence = judge(two, [DONE, refusal(ROLE_REPLICA)])
    assert (verdict, evidence) == (Verdict.WAIT, Evidence.NONE)
    assert "other: its own words" in reason
    assert judge(two, [DONE, refusal(ROLE_MASTER)])[0] is Verdict.PEER_ALIVE


@pytest.mark.parametrize(
    "event",
    [
        STALE,
        *(replace(MASTER, kind=kind) for kind in (EventKind.LOCAL_FAULT, EventKind.DIVERGENCE, EventKind.PREFLIGHT)),
    ],
    ids=lambda event: f"{event.kind} {event.domains[0].data.name}",
)
def test_nobody_is_outdated_for_nothing(event: Event) -> None:
    """No port is named that could be called: it answers before it would."""
    answer = asyncio.run(PeerOutdate("nowhere.invalid:1").classify(event))
    assert answer.verdict is Verdict.WAIT
    assert answer.evidence is Evidence.NONE


def test_its_class_is_that_of_proof() -> None:
    assert PeerOutdate("b:1").safety is SafetyClass.A
