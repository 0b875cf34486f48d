"""Bits turn over under a running master that keeps little in memory: what is in them comes from the other member, late,
and all else goes on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.sim.clients.drains import Drain
from chaos.sim.draw.profiles import PROFILES, draw
from chaos.sim.pair.plan import Call, ClientPlan, Fault, Outcome, Plan, Value
from chaos.sim.tools.product import run, silence
from chaos.sim.world.world import World

pytestmark = pytest.mark.slow
HANDED_OVER = "handed over because of damage"
SMALL: dict[str, Value] = {"checkpoint_bytes": 500, "ring_bytes": 3_000}
ROT_MS = 1_300
"""When the messages lie below a checkpoint of both members, which look once a second."""


def plan(settings: dict[str, Value], *, who: str = "master", takes: int = 0) -> Plan:
    """Forty messages that nobody wants before three of them are struck."""
    sends = tuple(Call(10 * number, "send", {"count": 1}) for number in range(40))
    how: dict[str, Value] = {"max": 10, "wait_ms": 0, "again": "", "then": "ack", "hold_ms": 1}
    taken = tuple(Call(ROT_MS + 200 + 50 * number, "take", how) for number in range(takes))
    clients = (
        ClientPlan("p0", "producer", sends, {"number": 0}),
        ClientPlan("t0", "taker", taken, {"lease_ms": 5_000}),
    )
    fault = Fault(ROT_MS, "bit_rot", "ab", {"who": who, "part": "body", "count": 3})
    return Plan(1, "given", settings, (fault,), clients, safety_ms=2_500)


def struck(outcome: Outcome) -> int:
    return outcome.counters.get("fault.bit_rot", 0)


def test_whoever_drains_hands_the_mastership_over_and_has_it_from_the_other_member() -> None:
    outcome = run(plan(SMALL))
    assert outcome.violations == []
    assert (struck(outcome), outcome.coverage.get(HANDED_OVER)) == (1, 1)


def test_who_does_not_hand_over_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(self: Drain, client: object) -> None:
        """The operator does not read what he is told."""

    monkeypatch.setattr(Drain, "_mend", wait)
    stuck = run(plan(SMALL)).violations[0]
    assert stuck.startswith("stuck: the queues are not drained")


def test_all_else_is_delivered_meanwhile() -> None:
    world = World(plan(SMALL, takes=5))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    book = world.pair.run.books["q"]
    before = [each.index for each in book.history.delivered if each.consumer == "t0"]
    assert before == [index for index in range(1, 41) if index not in book.damaged]
    assert len(book.damaged) == 3


def test_what_is_damaged_at_a_replica_is_not_met() -> None:
    outcome = run(plan(SMALL, who="replica"))
    assert outcome.violations == []
    assert (struck(outcome), HANDED_OVER in outcome.coverage) == (1, False)


@pytest.mark.parametrize("seed", range(1, 7))
def test_the_upkeep_goes_round_whatever_has_turned_over(seed: int) -> None:
    """The journal is trimmed over it. A master whose upkeep met a damaged head stopped, and so did its next start."""
    given = plan(SMALL | {"journal_bytes": 500})
    producer, *others = given.clients
    more = tuple(Call(ROT_MS + 300 + 10 * number, "send", {"count": 1}) for number in range(20))
    heads = replace(given.faults[0], args=given.faults[0].args | {"part": "head"})
    clients = (replace(producer, calls=producer.calls + more), *others)
    outcome = run(replace(given, seed=seed, faults=(heads,), clients=clients, safety_ms=4_000))
    assert outcome.violations == []
    assert struck(outcome) == 1
    assert outcome.counters.get("ended", 0) == 0, "no process has ended by itself"


@pytest.mark.parametrize("without", SMALL)
def test_there_is_nothing_to_strike_where_all_is_in_memory_or_looked_at_by_the_next_start(without: str) -> None:
    outcome = run(plan({name: value for name, value in SMALL.items() if name != without}))
    assert outcome.violations == []
    assert struck(outcome) == 0


def test_no_record_is_damaged_at_both_members() -> None:
    found = 0
    for seed in range(1, 13):
        world = World(draw("rot", seed))
        with silence():
            world.run()
        one, other = (set(member.machine.disk._flipped) for member in world.pair.members.values())
        assert not one & other
        found += bool(one and other)
    assert found, "but different ones may be"


def test_one_profile_alone_draws_it() -> None:
    drawn = {name for name in PROFILES for seed in range(30) if _has_rot(draw(name, seed))}
    assert drawn == {"rot"}


def _has_rot(drawn: Plan) -> bool:
    return any(fault.kind == "bit_rot" for fault in drawn.faults)


@pytest.mark.parametrize("bug", ["delivers-damaged", "damaged-is-leased"])
def test_a_check_that_is_missing_shows(bug: str) -> None:
    outcome = run(replace(plan(SMALL, takes=5), bug=bug))
    assert any(line.startswith("nothing damaged is delivered") for line in outcome.violations)
