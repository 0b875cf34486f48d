"""The alert: once for each loss, with the command to type; and nobody is promoted by it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from failover.classifier import DomainFacts, Event, EventKind, SafetyClass, Verdict
from failover.marks import DataMark, Role
from failover.operator import OperatorAlert

PART = DomainFacts(
    "main", Role.MASTER, DataMark.IN_SYNC, 3, last_index=5, durable_index=5, commit_index=4, peer_index=4
)
EVENT = Event("ev-7", EventKind.PEER_LOST, 1, "orders", "a", "b", (PART,))


def test_one_alert_for_each_loss_with_the_command(caplog: pytest.LogCaptureFixture) -> None:
    operator = OperatorAlert("10.0.0.1:7600")
    with caplog.at_level(logging.ERROR):
        again = replace(EVENT, event_id="ev-8", link_generation=2)
        for event in (EVENT, replace(EVENT, attempt=2), replace(EVENT, event_id="ev-7.2"), again):
            answer = asyncio.run(operator.classify(event))
            assert answer.verdict is Verdict.WAIT
            assert (answer.event_id, answer.by) == (event.event_id, "operator")
    first, second = (record.getMessage() for record in caplog.records)
    assert "Make sure that b is down" in first
    assert 'tandemq pair decide continue --event ev-7 --reason "..." --target 10.0.0.1:7600' in first
    assert "--event ev-8" in second


@pytest.mark.parametrize(
    ("role", "data", "words"),
    [
        (Role.MASTER_SUSPENDED, DataMark.IN_SYNC, "decide continue "),
        (Role.PROBE, DataMark.IN_SYNC, "decide assume "),
        (Role.PROBE, DataMark.STALE, "is not promoted; bring b back"),
    ],
)
def test_it_asks_for_the_verdict_that_fits(role: Role, data: DataMark, words: str) -> None:
    event = replace(EVENT, domains=(replace(PART, role=role, data=data),))
    assert words in OperatorAlert().text(event)


def test_it_is_as_good_as_the_human() -> None:
    assert OperatorAlert().safety is SafetyClass.C
