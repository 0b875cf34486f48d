"""R127, R130: verdicts behind an authority of class A, over every role and mark."""

from __future__ import annotations

from itertools import product

import pytest

from failover.classifier import AuthorityClassifier, LinkLoss, Verdict
from failover.marks import DataMark, Role


def event(role: Role, data: DataMark) -> LinkLoss:
    return LinkLoss(
        event_id="e",
        link_generation=1,
        domain="main",
        member="a",
        peer="b",
        role=role,
        data=data,
        epoch=1,
        last_index=5,
        commit_index=4,
        peer_index=4,
        silent_ms=1_500,
        link_reset_and_refused=False,
    )


@pytest.mark.parametrize(("role", "data"), list(product(Role, DataMark)))
def test_a_verdict_for_every_role_and_mark(role: Role, data: DataMark) -> None:
    if role in (Role.MASTER, Role.MASTER_SUSPENDED):
        expected = 20
    elif role in (Role.REPLICA, Role.PROBE) and data in (DataMark.IN_SYNC, DataMark.SOLE):
        expected = 21
    else:
        expected = 23
    assert AuthorityClassifier().classify(event(role, data)).value == expected


def test_the_values_are_the_exit_codes_of_the_contract() -> None:
    assert [(verdict.value, verdict.name) for verdict in Verdict] == [
        (20, "CONTINUE_AS_MASTER"),
        (21, "ASSUME_MASTERSHIP"),
        (22, "FAILED_INSTANCE"),
        (23, "WAIT"),
        (24, "PEER_ALIVE"),
    ]
