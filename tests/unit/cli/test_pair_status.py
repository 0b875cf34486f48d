"""What `pair status` ends with: whether the pair is whole, and why it is not."""

from __future__ import annotations

import pytest
from msgspec import structs

from tandemq.cli.view import DomainView, MemberView, PairView


def domain(name: str, role: str, data: str = "IN_SYNC") -> DomainView:
    numbers = {"epoch": 1, "log_index": 1, "durable_index": 1, "commit_index": 1, "applied_index": 1}
    texts = {"link_state": "PAIRED", "digest": "", "state_digest": ""}
    return DomainView(name=name, role=role, data_state=data, in_sync_set=(), **numbers, **texts)


def member(name: str, *domains: DomainView, reachable: bool = True) -> MemberView:
    return MemberView(name=name, endpoint=f"{name}:1", reachable=reachable, domains=domains)


A = member("a", domain("main", "MASTER"), domain("local", "MASTER", "SOLE"))
B = member("b", domain("main", "REPLICA"), domain("local", "MASTER", "SOLE"))
BEHIND = member("b", domain("main", "REPLICA", "SYNCING"))
LEFT = member("b", domain("main", "MAINTENANCE"))
AWAY = member("b", reachable=False)
OTHER = "extra"


@pytest.mark.parametrize(
    ("members", "lacking"),
    [
        ((A, B), []),
        ((A, AWAY), ["b does not answer"]),
        ((A, structs.replace(AWAY, name="")), ["b:1 does not answer"]),
        ((A, BEHIND), ["domain main is not in sync, or has no master"]),
        ((A, LEFT), ["domain main is not in sync, or has no master"]),
        ((B, structs.replace(B, name="c")), ["domain main is not in sync, or has no master"]),
        ((A,), ["one member alone is known"]),
        (
            (structs.replace(A, domains=(*A.domains, domain(OTHER, "MASTER"))), B),
            ["domain extra is not in sync, or has no master"],
        ),
    ],
)
def test_a_pair_says_what_lacks(members: tuple[MemberView, ...], lacking: list[str]) -> None:
    assert PairView(pair="p", members=members).lacks() == lacking


def test_a_manager_without_a_peer_lacks_nothing() -> None:
    alone = member("a", domain("main", "MASTER", "SOLE"))
    assert PairView(pair="", members=(alone,)).lacks() == []
    assert PairView(pair="", members=(AWAY,)).lacks() == ["b does not answer"]
