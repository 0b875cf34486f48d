"""An operator's word to the register: who may claim afterwards, and what keeps a slip from being obeyed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from failover.authority import CasDone, CasRefused, CasUnknown
from failover.register import Register, RegisterState, add_member, claim, commit
from tests.support.authorities import A, B, World


async def solo(world: World) -> Register:
    """a owns epoch 1 alone; b holds less than was acknowledged."""
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    assert await world.a.compare_and_set("main", Register(), first) == CasDone(first)
    committed = commit(first, nonce=b"2")
    assert await world.a.compare_and_set("main", first, committed) == CasDone(committed)
    return committed


async def test_the_named_member_alone_may_claim_afterwards(world: World) -> None:
    before = await solo(world)
    outcome = await world.b.force("main", before.version, 9, B, "a's disk is lost")
    assert isinstance(outcome, CasDone)
    forced = outcome.register
    assert forced.nonce
    alone = frozenset({B})
    expected = Register(before.version + 1, 9, B, alone, alone, RegisterState.CLAIMED, forced.nonce)
    assert forced == expected == await world.a.get("main")

    late = add_member(before, member_added=B, nonce=b"late")
    assert isinstance(await world.a.compare_and_set("main", before, late), CasRefused)
    by_a = claim(forced, member=A, epoch=10, members=frozenset({A}), nonce=b"a")
    refused = await world.a.compare_and_set("main", forced, by_a)
    assert isinstance(refused, CasRefused)
    assert "'a' is not in the committed set {b}" in refused.why

    by_b = claim(forced, member=B, epoch=10, members=alone, nonce=b"b")
    assert await world.b.compare_and_set("main", forced, by_b) == CasDone(by_b)
    in_force = commit(by_b, nonce=b"bb")
    assert await world.b.compare_and_set("main", by_b, in_force) == CasDone(in_force)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expected_version": 1}, "at version 2, the operator has seen 1"),
        ({"expected_version": 3}, "at version 2, the operator has seen 3"),
        ({"epoch": 1}, "epoch 1 does not lie in 2.."),
        ({"epoch": 2**63}, "does not lie in 2.."),
    ],
)
async def test_a_slip_is_refused_and_changes_nothing(world: World, change: dict[str, object], words: str) -> None:
    before = await solo(world)
    order = {"domain": "main", "expected_version": 2, "epoch": 2, "holder": B, "reason": "because", **change}
    outcome = await world.b.force(**order)  # type: ignore[arg-type]
    assert isinstance(outcome, CasRefused)
    assert words in outcome.why
    assert outcome.register == before == await world.a.get("main")


async def test_a_name_that_is_no_member_is_refused_and_the_members_are_named(world: World) -> None:
    before = await solo(world)
    both = add_member(before, member_added=B, nonce=b"3")
    assert await world.a.compare_and_set("main", before, both) == CasDone(both)
    for seen in (both.version, both.version - 1):  # a version that is old as well: the pair went on meanwhile
        outcome = await world.b.force("main", seen, 9, "zz", "a slip of the finger")
        assert isinstance(outcome, CasRefused)
        assert "'zz' is no member of this pair: its members are a and b" in outcome.why
    assert await world.a.get("main") == both


@pytest.mark.parametrize("change", [{"holder": ""}, {"reason": " "}, {"reason": ""}])
async def test_an_order_without_a_holder_or_a_reason_changes_nothing(world: World, change: dict[str, object]) -> None:
    before = await solo(world)
    order = {"domain": "main", "expected_version": 2, "epoch": 2, "holder": B, "reason": "because", **change}
    outcome = await world.b.force(**order)  # type: ignore[arg-type]
    assert isinstance(outcome, CasRefused | CasUnknown)
    assert await world.a.get("main") == before


async def test_a_register_that_nobody_set_may_be_forced(world: World) -> None:
    outcome = await world.b.force("main", 0, 5, B, "etcd was restored empty")
    assert isinstance(outcome, CasDone)
    assert replace(outcome.register, nonce=b"") == Register(
        1, 5, B, frozenset({B}), frozenset({B}), RegisterState.CLAIMED
    )


async def test_an_authority_that_is_away_leaves_it_unknown(apart: World) -> None:
    before = await solo(apart)
    await apart.cut()
    assert isinstance(await apart.b.force("main", before.version, 9, B, "because"), CasUnknown)
    await apart.heal()
