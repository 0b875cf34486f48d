"""What a manager says that it is, of what its domains are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from failover.marks import DataMark, Role
from replica.machine import Refused
from replica.operations.manager_stats import state_of
from tandemq.v1 import manager_admin_service_pb2 as pb
from tests.support.pair import Member, Pair

OPEN, OPENING, FAILED = pb.MANAGER_STATE_OPEN, pb.MANAGER_STATE_OPENING, pb.MANAGER_STATE_FAILED


@pytest.fixture
def pair() -> Pair:
    return Pair().start()


def state(member: Member, *others: Member) -> int:
    members: Any = SimpleNamespace(by_name={each.name: each.core for each in (member, *others)})
    return state_of(members)


@pytest.mark.requirement("R094")
def test_with_its_peer_lost_a_manager_opens_until_it_is_known_who_lives(pair: Pair) -> None:
    assert (state(pair.a), state(pair.b)) == (OPEN, OPEN)
    pair.crash(pair.a)
    assert state(pair.b) == OPENING
    pair.b.lost(refused=True)
    pair.settle(1_000)
    assert (pair.b.role, state(pair.b)) == (Role.MASTER, OPEN)


@pytest.mark.requirement("R094")
def test_one_domain_that_has_failed_fails_its_manager(pair: Pair) -> None:
    pair.b.core.mastership.role.become_failed("test")
    assert (state(pair.b), state(pair.a, pair.b), state(pair.a)) == (FAILED, FAILED, OPEN)


@pytest.mark.requirement("R094")
def test_two_histories_or_a_damaged_copy_fail_it_as_well(pair: Pair) -> None:
    pair.b.core.mastership.role.become_diverged("test", 0)
    assert state(pair.b) == FAILED
    pair.a.shared.mark(DataMark.DAMAGED)
    assert state(pair.a) == FAILED


@pytest.mark.requirement("R094")
def test_a_store_that_takes_no_more_fails_it_until_there_is_room(pair: Pair) -> None:
    orders = pair.a.core.orders
    orders.on_room(10, 100)
    orders.check_space(10, all_volatile=False)
    assert state(pair.a) == OPEN
    with pytest.raises(Refused):
        orders.check_space(11, all_volatile=False)
    assert state(pair.a) == FAILED
    orders.on_room(100, 100)
    assert state(pair.a) == FAILED, "sending is allowed again above that"
    orders.on_room(101, 100)
    assert state(pair.a) == OPEN
