"""What a classifier is told of a lost peer, field by field, and when it is asked at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from failover.classifier import DomainFacts, EventKind
from failover.marks import DataMark, Role
from replica.core.mastership.verdicts import Policy
from tests.support.clients import Producer, create
from tests.support.pair import Member, Pair

ASKS = Policy(by_authority=False)


@pytest.fixture
def pair() -> Pair:
    """A pair with a queue, in which both have written and committed three records."""
    made = Pair().start()
    create(made)
    for member in made.up:
        member.core.mastership.verdicts.policy = ASKS
    made.settle(200)
    return made


def asked(member: Member) -> DomainFacts:
    (question,) = member.asked
    assert (question.kind, question.link_generation) == (EventKind.PEER_LOST, 1)
    return question.facts


def lose(pair: Pair, member: Member, cause: str = "") -> None:
    pair.disconnect()
    member.core.on_lost(pair.now_ms, refused=False, cause=cause)
    member.dispatch(member.core)


AT_MASTER = DomainFacts(
    name="main",
    role=Role.MASTER,
    data=DataMark.IN_SYNC,
    epoch=1,
    last_index=2,
    durable_index=2,
    commit_index=2,
    peer_index=2,
    peer_role="REPLICA",
    peer_data="IN_SYNC",
    peer_epoch=1,
    in_sync_set=("a", "b"),
)


def test_a_master_tells_how_far_each_member_is(pair: Pair) -> None:
    x = Producer(pair, "x")
    x.send(pair.a)
    pair.quiesce(disks="b")  # the peer has written it, this member has not
    x.send(pair.a)
    pair.a.pump()
    lose(pair, pair.a)
    told = asked(pair.a)
    assert told == replace(AT_MASTER, last_index=4, peer_index=3, peer_data=told.peer_data)
    assert told.peer_data in ("EMPTY", "SYNCING", "IN_SYNC"), "what it said last, which may be of before it was in step"


def test_a_master_whose_peer_has_written_less_tells_so(pair: Pair) -> None:
    Producer(pair, "x").send(pair.a)
    pair.quiesce(disks="a")
    lose(pair, pair.a)
    told = asked(pair.a)
    assert (told.last_index, told.durable_index, told.commit_index, told.peer_index) == (3, 3, 2, 2)


def test_a_replica_tells_the_role_that_it_had_and_what_its_master_said(pair: Pair) -> None:
    lose(pair, pair.b)
    assert pair.b.role is Role.PROBE
    told = asked(pair.b)
    assert (told.role, told.peer_role, told.peer_epoch) == (Role.REPLICA, "MASTER", 1)
    assert (told.name, told.data, told.epoch) == ("main", DataMark.IN_SYNC, 1)
    assert (told.last_index, told.durable_index, told.commit_index) == (2, 2, 2)


def test_a_replica_tells_the_set_that_was_read_last_and_a_master_the_one_of_its_own_epoch(pair: Pair) -> None:
    facts = pair.b.core.mastership.verdicts.facts
    assert facts().in_sync_set == ("a",), "as it was when the pair was formed"
    pair.settle(1000)
    assert facts().in_sync_set == ("a", "b")
    pair.a.core.mastership.view.on_read(replace(pair.register, in_sync_set=frozenset({"a"})), pair.now_ms)
    assert pair.a.core.mastership.verdicts.facts().in_sync_set == ("a", "b")
    assert pair.a.core.mastership.view.in_sync_set == {"a", "b"}, "as its status, its events and its forecasts say"
    lose(pair, pair.b)
    assert asked(pair.b).in_sync_set == ("a", "b")


def test_who_is_required_and_not_published_yet_is_in_no_set() -> None:
    """P3: until the register names it, or will for certain, the loss of its master leaves it outside."""
    pair = Pair()
    pair.a.start()
    pair.b.start()
    pair.connect()
    pair.quiesce(keep=("add",))
    assert pair.a.core.mastership.commit.required == {"a", "b"}
    assert pair.a.core.mastership.view.in_sync_set == {"a"}
    pair.settle(200)
    assert pair.a.core.mastership.view.in_sync_set == {"a", "b"}


def test_a_replica_that_has_not_read_the_register_tells_the_set_that_it_wrote_down(pair: Pair) -> None:
    pair.b.core.mastership.view.register = None
    lose(pair, pair.b)
    told = asked(pair.b)
    assert told.in_sync_set == ()
    pair.b.shared.state.name_in_sync(frozenset({"a", "b"}))  # as one that was master
    assert pair.b.core.mastership.verdicts.facts().in_sync_set == ("a", "b")


def test_of_a_peer_that_never_spoke_nothing_is_said() -> None:
    pair = Pair()
    pair.a.start()
    pair.a.core.mastership.verdicts.policy = replace(ASKS, cold_start_ms=5_000)
    pair.quiesce()
    pair.a.lost()
    assert pair.a.asked == [], "it may come yet"
    pair.now_ms += 4_999
    pair.a.lost()
    assert pair.a.asked == []
    pair.now_ms += 1
    pair.a.lost()
    (question,) = pair.a.asked
    assert (question.kind, question.link_generation) == (EventKind.COLD_START_ALONE, 0)
    assert (question.facts.peer_role, question.facts.peer_data, question.facts.peer_epoch) == ("", "", 0)


def test_what_a_peer_said_before_it_went_is_told_while_it_stays_away(pair: Pair) -> None:
    """A connection that comes up and breaks before a HELLO says nothing new."""
    pair.disconnect()
    verdicts = pair.b.core.mastership.verdicts
    pair.b.core.on_connected()
    pair.b.core.on_disconnected(pair.now_ms)
    pair.b.dispatch(pair.b.core)
    assert (verdicts.facts().peer_role, verdicts.facts().peer_epoch) == ("MASTER", 1)


def test_of_a_peer_that_is_connected_and_slow_it_is_told_where_it_stands_now(pair: Pair) -> None:
    Producer(pair, "x").send(pair.a)
    pair.quiesce(disks="a")
    facts = pair.a.core.mastership.verdicts.facts()
    assert (facts.role, facts.last_index, facts.durable_index, facts.peer_index) == (Role.MASTER, 3, 3, 2)
    assert (facts.peer_role, facts.peer_epoch) == ("REPLICA", 1)
    pair.quiesce()
    assert pair.a.core.mastership.verdicts.facts().peer_index == 3


@pytest.mark.parametrize("cause", ["", "reset by the peer"])
def test_it_is_asked_once_in_a_generation_and_told_how_the_connection_ended(pair: Pair, cause: str) -> None:
    lose(pair, pair.a, cause)
    pair.a.lost()
    (question,) = pair.a.asked
    assert question.cause == (cause or "silent")
    pair.connect()
    pair.settle(500)
    pair.disconnect()
    pair.a.lost(refused=True)
    assert [(each.link_generation, each.cause) for each in pair.a.asked] == [(1, cause or "silent"), (2, "refused")]


def test_a_master_that_gives_the_role_away_as_its_peer_goes_asks_about_that(pair: Pair) -> None:
    pair.a.core.start_handoff(pair.wall_ms, "test")
    pair.a.dispatch(pair.a.core)
    for _ in range(200):
        if pair.a.role is Role.CEDING:
            break
        pair.one()
    assert pair.a.role is Role.CEDING
    pair.disconnect()
    pair.a.lost()
    (question,) = pair.a.asked
    assert (question.kind, question.facts.role) == (EventKind.HANDOFF_IN_DOUBT, Role.CEDING)
