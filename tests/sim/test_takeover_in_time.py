"""After one plain fault of a member producers are answered again in time: not only at some time, as any run demands.

A loaded machine plays no part: time is virtual, and the bounds are twice what DESIGN section 6 and the suspect times
leave. Nothing else is wrong: the other member, the register and all clients' networks work.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaos.sim.pair.plan import Call, ClientPlan, Fault, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from replica.core.mastership.mastership import Mastership

AT_MS, FOR_MS, SAFETY_MS, EVERY_MS = 1_000, 40_000, 12_000, 50
LATE_MS = 30_000
KILLED_S, FROZEN_S, CUT_S = 1.0, 3.0, 3.0


def longest_silence_s(seed: int, kind: str, member: str) -> float:
    """Between two answers to a producer, with that fault of a member: master or replica."""
    calls = tuple(Call(at_ms, "enqueue", {"count": 1}) for at_ms in range(0, SAFETY_MS, EVERY_MS))
    clients = (ClientPlan("caller0", "caller", calls, {"number": 0, "first": "a"}),)
    world = World(Plan(seed, "given", {}, faults_of(kind, member), clients, SAFETY_MS))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    answers = [ack.at_s for ack in world.pair.run.books.acked]
    assert len(answers) == len(calls)
    return max(later - earlier for earlier, later in pairwise(answers))


def faults_of(kind: str, member: str) -> tuple[Fault, ...]:
    if kind == "kill":
        return (Fault(AT_MS, "crash", member, {"down_ms": FOR_MS, "power": False}),)
    if kind == "freeze":
        return (Fault(AT_MS, "pause", member, {"for_ms": FOR_MS}),)
    return tuple(Fault(AT_MS, "cut", each, {"for_ms": FOR_MS}) for each in ("a>b", "b>a"))


BOUNDS_S = {"kill": KILLED_S, "freeze": FROZEN_S, "cut": CUT_S}


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("member", ["a", "b"])
@pytest.mark.parametrize("kind", BOUNDS_S)
def test_producers_are_answered_again_in_time(kind: str, member: str, seed: int) -> None:
    assert longest_silence_s(seed, kind, member) <= 2 * BOUNDS_S[kind]


@pytest.mark.parametrize("kind", BOUNDS_S)
def test_a_takeover_that_comes_late_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Mastership.decide

    def decide(self: Mastership, now_ms: int) -> None:
        if self.peer.lost_at_ms is None or now_ms >= self.peer.lost_at_ms + LATE_MS:
            original(self, now_ms)

    monkeypatch.setattr(Mastership, "decide", decide)
    assert max(longest_silence_s(1, kind, member) for member in ("a", "b")) > 2 * BOUNDS_S[kind]
