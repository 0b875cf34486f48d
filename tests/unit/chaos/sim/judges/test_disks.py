"""What a log is on its disk at the end: asked of a pair at rest, after something was taken from there or changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.sim.judges import disks
from chaos.sim.judges.invariants import NUMBER, STATE
from chaos.sim.pair.plan import Call, ClientPlan, Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World

if TYPE_CHECKING:
    from chaos.sim.kernel.disk import SimStore


@pytest.fixture
def world() -> World:
    """A pair at rest, of which both members hold some records."""
    sends = tuple(Call(at_ms, "send", {"count": 1}) for at_ms in (0, 20, 40))
    made = World(Plan(1, "none", clients=(ClientPlan("p0", "producer", sends, {"number": 0}),), safety_ms=200))
    with silence():
        outcome = made.run()
    assert outcome.violations == []
    return made


def store_of(world: World, member: str) -> SimStore:
    content = world.pair.members[member].machine.disk._content
    assert content is not None
    return content


def last_of(world: World) -> int:
    domain = world.pair.members["b"].domain
    assert domain is not None
    return domain.shared.log.last_index


def test_a_pair_at_rest_has_what_it_says(world: World) -> None:
    assert last_of(world) > 5
    assert list(disks.broken(world.pair, world.memory.invariants)) == []


@pytest.mark.parametrize("from_the_end", [0, 2])
def test_a_record_that_is_not_there(world: World, from_the_end: int) -> None:
    last = last_of(world)
    del store_of(world, "b")._logs[NUMBER].rows[last - from_the_end]
    assert list(disks.broken(world.pair, world.memory.invariants)) == [
        f"b: record {last - from_the_end} of {last} is not there"
    ]


def test_a_record_that_nobody_has_damaged_and_is(world: World) -> None:
    rows = store_of(world, "a")._logs[NUMBER].rows
    rows[3] = rows[3][:-1] + bytes([rows[3][-1] ^ 1])
    assert [each.partition(":")[0] for each in disks.broken(world.pair, world.memory.invariants)] == ["a"]


def test_a_record_in_anothers_place(world: World) -> None:
    rows = store_of(world, "a")._logs[NUMBER].rows
    rows[3] = rows[4]
    assert list(disks.broken(world.pair, world.memory.invariants)) == ["a: record 3 is not the one that was stored"]


def test_a_last_record_that_its_process_does_not_have(world: World) -> None:
    domain, last = world.pair.members["b"].domain, last_of(world)
    assert domain is not None
    domain.shared.log.digest = b"another"
    assert list(disks.broken(world.pair, world.memory.invariants)) == [
        f"b: its last record, {last}, is not the one that its process has"
    ]


def test_what_a_fault_has_damaged_is_not_asked(world: World) -> None:
    world.pair.members["a"].machine.disk.strike("corrupt", "record")
    assert world.pair.members["a"].machine.disk.is_damaged
    assert list(disks.broken(world.pair, world.memory.invariants)) == []


def test_a_directory_that_says_nothing_of_itself(world: World) -> None:
    del store_of(world, "b")._meta.rows[STATE]
    assert list(disks.broken(world.pair, world.memory.invariants)) == ["b: nothing says what it holds"]
