"""The simulated classifier: every mood, behind the product's runner, and that a right one never names two masters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace

import pytest

from chaos.sim.kernel.judging import MOODS, SLOW_S_MAX, Judging, Oracle
from failover.classifier import Answer, DomainFacts, Event, EventKind, Verdict
from failover.entry_points import why_no_classifier
from failover.marks import DataMark, Role
from failover.runner import OVERRUN_S, Runner
from tests.support.virtual_time import run

CALL_MS = 5_000


def facts(role: Role, *, epoch: int = 4, data: DataMark = DataMark.IN_SYNC, name: str = "main") -> DomainFacts:
    return DomainFacts(name, role, data, epoch, 9, 9, 9, 9, in_sync_set=("a", "b"))


def event(member: str, role: Role, *, epoch: int = 4, data: DataMark = DataMark.IN_SYNC, number: int = 1) -> Event:
    domain = facts(role, epoch=epoch, data=data)
    peer = "b" if member == "a" else "a"
    return Event(f"{member}.{number}", EventKind.PEER_LOST, 1, "sim", member, peer, (domain,))


MASTER, REPLICA = event("a", Role.MASTER), event("b", Role.REPLICA)


class Pair:
    def __init__(self, seed: int = 1) -> None:
        self.up = {"a": True, "b": True}
        self.oracle = Oracle(lambda member: self.up[member])
        self.a, self.b = (Judging(self.oracle, random.Random(f"{seed}/classifier/{name}")) for name in "ab")

    def asks(self, about: Event) -> Verdict:
        return self.oracle.verdict(about)


def ask(judging: Judging, about: Event, attempts: int = 1) -> Coroutine[None, None, Answer]:
    return Runner(judging.classifier(), None, CALL_MS, attempts, 4 * CALL_MS).ask(about)


# ---- what is right


def test_of_two_that_are_cut_off_from_each_other_the_master_goes_on() -> None:
    pair = Pair()
    assert pair.asks(REPLICA) is Verdict.PEER_ALIVE
    assert pair.asks(MASTER) is Verdict.CONTINUE_AS_MASTER
    assert pair.asks(REPLICA) is Verdict.WAIT
    assert pair.asks(MASTER) is Verdict.CONTINUE_AS_MASTER  # asked again


def test_a_replica_takes_over_from_a_dead_master_which_then_waits() -> None:
    pair = Pair()
    pair.up["a"] = False
    assert pair.asks(REPLICA) is Verdict.ASSUME_MASTERSHIP
    pair.up["a"] = True
    assert pair.asks(MASTER) is Verdict.WAIT
    assert pair.asks(event("a", Role.PROBE, data=DataMark.IN_SYNC)) is Verdict.WAIT


def test_who_did_not_see_what_the_other_did_alone_waits_until_it_has_seen_it() -> None:
    pair = Pair()
    assert pair.asks(MASTER) is Verdict.CONTINUE_AS_MASTER  # alone in epoch 5 from here on
    pair.up["a"] = False
    assert pair.asks(REPLICA) is Verdict.WAIT
    assert pair.asks(event("b", Role.REPLICA, epoch=5, data=DataMark.SYNCING)) is Verdict.WAIT
    assert pair.asks(event("b", Role.REPLICA, epoch=5)) is Verdict.ASSUME_MASTERSHIP


def test_an_older_copy_of_the_one_that_went_on_waits() -> None:
    pair = Pair()
    assert pair.asks(MASTER) is Verdict.CONTINUE_AS_MASTER
    assert pair.asks(event("a", Role.PROBE, epoch=3)) is Verdict.WAIT


def test_who_has_ceded_waits_for_the_one_that_may_have_taken_over() -> None:
    pair = Pair()
    pair.up["b"] = False
    assert pair.asks(event("a", Role.CEDING)) is Verdict.WAIT
    assert pair.asks(event("b", Role.MASTER, epoch=5)) is Verdict.CONTINUE_AS_MASTER


def test_where_an_authority_decides_both_may_ask_it() -> None:
    pair = Pair()
    for about, verdict in ((MASTER, Verdict.CONTINUE_AS_MASTER), (REPLICA, Verdict.ASSUME_MASTERSHIP)):
        assert pair.asks(replace(about, authority="witness")) is verdict


def test_a_member_with_a_fault_of_its_own_gives_way_to_a_peer_that_is_there() -> None:
    pair = Pair()
    about = replace(MASTER, kind=EventKind.LOCAL_FAULT)
    assert pair.asks(about) is Verdict.WAIT
    assert pair.asks(replace(about, peer_connected=True)) is Verdict.FAILED_INSTANCE


# ---- moods, behind the product's runner


def test_it_has_what_an_entry_point_must_have() -> None:
    assert why_no_classifier(Pair().a.classifier()) is None


def test_right_is_quick() -> None:
    async def story() -> None:
        pair = Pair()
        answer = await ask(pair.a, MASTER)
        assert answer.verdict is Verdict.CONTINUE_AS_MASTER
        assert 0 < asyncio.get_running_loop().time() < 1
        assert answer.duration_ms == round(asyncio.get_running_loop().time() * 1000)

    run(story())


def test_slow_is_right_when_it_comes_in_time() -> None:
    async def took_s(seed: int) -> tuple[Verdict | None, float]:
        pair = Pair(seed)
        pair.a.strike("slow")
        return (await ask(pair.a, MASTER)).verdict, asyncio.get_running_loop().time()

    found = [run(took_s(seed)) for seed in range(40)]
    assert {verdict for verdict, _ in found} == {None, Verdict.CONTINUE_AS_MASTER}
    assert all((verdict is None) == (seconds > CALL_MS / 1000 + OVERRUN_S - 0.001) for verdict, seconds in found)
    assert max(seconds for _, seconds in found) < SLOW_S_MAX


def test_wrong_takes_the_dead_for_live_and_the_live_for_dead() -> None:
    async def story() -> None:
        pair = Pair()
        for judging in (pair.a, pair.b):
            judging.strike("wrong")
        assert (await ask(pair.b, REPLICA)).verdict is Verdict.ASSUME_MASTERSHIP
        stops = {(await ask(pair.a, MASTER)).verdict for _ in range(20)}
        assert stops == {Verdict.WAIT, Verdict.PEER_ALIVE, Verdict.FAILED_INSTANCE}
        pair.b.heal()
        assert (await ask(pair.b, REPLICA)).verdict is Verdict.PEER_ALIVE  # what was wrong counts for nothing

    run(story())


def test_flapping_is_wrong_and_right_in_turn() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.strike("flapping")
        said = [(await ask(pair.a, MASTER)).verdict for _ in range(8)]
        assert [verdict is Verdict.CONTINUE_AS_MASTER for verdict in said] == [False, True] * 4

    run(story())


def test_silent_ends_with_no_answer_at_the_limit() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.strike("silent")
        answer = await ask(pair.a, MASTER)
        assert answer.verdict is None
        assert asyncio.get_running_loop().time() == pytest.approx(CALL_MS / 1000 + OVERRUN_S, abs=0.01)
        pair.a.heal()
        assert (await ask(pair.a, MASTER)).verdict is Verdict.CONTINUE_AS_MASTER

    run(story())


def test_contradicting_says_anything_of_one_event() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.strike("contradicting")
        assert {(await ask(pair.a, MASTER)).verdict for _ in range(60)} == set(Verdict)

    run(story())


def test_a_mood_that_there_is_not_says_which_there_are() -> None:
    with pytest.raises(ValueError, match="knows no mood 'blue'; it knows right"):
        Pair().a.strike("blue")
    assert len(MOODS) == 6
