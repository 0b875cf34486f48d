"""What every authority promises, over the shipped double, a real witness and a real etcd, with real disks and gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from failover.authority import CasDone, CasRefused, CasUnknown, MemoryAuthority, Unreachable
from failover.register import Register, add_member, claim
from tests.support.authorities import (
    WAIT_S,
    A,
    B,
    World,
    done,
    etcd_world,
    formed,
    memory_world,
    read_until,
    simulated_world,
    witness_world,
)


@pytest.fixture(
    params=[memory_world, simulated_world, witness_world, etcd_world], ids=["memory", "simulated", "witness", "etcd"]
)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async for each in request.param(tmp_path):
        yield each


async def test_a_register_that_nobody_set_is_new(world: World) -> None:
    assert await world.a.get("main") == Register()
    assert world.a.connected


async def test_claim_commit_add_are_seen_by_both_members(world: World) -> None:
    committed = await formed(world.a)
    assert await world.b.get("main") == committed
    both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    assert await world.b.get("main") == both
    assert both.eligible_set == {A, B}


async def test_domains_are_apart(world: World) -> None:
    await formed(world.a)
    assert await world.a.get("other") == Register()


async def test_a_refusal_is_an_answer_and_changes_nothing(world: World) -> None:
    committed = await formed(world.a)
    stranger = claim(committed, member=B, epoch=2, members=frozenset({B}), nonce=b"x")
    outcome = await world.b.compare_and_set("main", committed, stranger)
    assert isinstance(outcome, CasRefused)
    assert outcome.register == committed
    assert "committed set" in outcome.why
    assert await world.a.get("main") == committed


async def test_the_whole_record_is_compared(world: World) -> None:
    """P1: equal in version, epoch, holder and sets is not enough."""
    committed = await formed(world.a)
    desired = add_member(committed, member_added=B, nonce=b"3")
    outcome = await world.a.compare_and_set("main", replace(committed, nonce=b"other"), desired)
    assert isinstance(outcome, CasRefused)
    assert await world.a.get("main") == committed


async def test_of_two_claims_on_one_record_one_is_done(world: World) -> None:
    committed = await formed(world.a)
    both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    claims = {
        name: claim(both, member=name, epoch=2, members=frozenset({name}), nonce=name.encode()) for name in (A, B)
    }
    outcomes = await asyncio.gather(
        world.a.compare_and_set("main", both, claims[A]), world.b.compare_and_set("main", both, claims[B])
    )
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, CasDone)]
    (loser,) = [outcome for outcome in outcomes if isinstance(outcome, CasRefused)]
    assert loser.register == winner.register == await world.a.get("main")


async def test_repeating_the_set_that_is_in_force_is_done(world: World) -> None:
    """A caller whose answer was lost may send the same record again; the nonce says that it is the same attempt."""
    committed = await formed(world.a)
    desired = add_member(committed, member_added=B, nonce=b"3")
    await done(world.a, committed, desired)
    await done(world.a, committed, desired)
    assert await world.a.get("main") == desired


async def test_an_authority_that_is_away_gives_unreachable_and_unknown_and_comes_back(world: World) -> None:
    committed = await formed(world.a)
    await world.cut()
    assert isinstance(await read_until(world.a, Unreachable), Unreachable)
    desired = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await world.a.compare_and_set("main", committed, desired), CasUnknown)
    assert not world.a.connected
    await world.heal()
    assert await read_until(world.a, Register) == committed
    assert world.a.connected


async def test_a_malformed_set_is_unknown_and_changes_nothing(world: World) -> None:
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"")
    assert isinstance(await world.a.compare_and_set("main", Register(), first), CasUnknown)
    assert await world.a.get("main") == Register()


async def test_a_watch_tells_the_register_now_its_changes_and_again_after_an_outage(world: World) -> None:
    watch = world.b.watch("main")
    async with asyncio.timeout(WAIT_S):
        assert await anext(watch) == Register()
        committed = await formed(world.a)
        while await anext(watch) != committed:
            pass
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await world.cut()
        await world.heal()
        assert await waiting == committed  # told again although nothing changed (P7 reads at each reconnection)
        desired = add_member(committed, member_added=B, nonce=b"3")
        await read_until(world.a, Register)
        await done(world.a, committed, desired)
        while await anext(watch) != desired:
            pass
    await watch.aclose()  # type: ignore[attr-defined]


# ---- the double's knobs


async def test_memory_lands_a_set_late_unless_another_came_first() -> None:
    """P1: unknown is cancelled only by another successful set."""
    authority = MemoryAuthority(member=A)
    committed = await formed(authority)
    authority.lose_next = True
    added = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await authority.compare_and_set("main", committed, added), CasUnknown)
    assert await authority.get("main") == committed
    assert authority.land_late() == [CasDone(added)]
    assert await authority.get("main") == added

    authority.lose_next = True
    claimed = claim(added, member=A, epoch=2, members=frozenset({A}), nonce=b"4")
    await authority.compare_and_set("main", added, claimed)
    other = await done(authority, added, claim(added, member=B, epoch=2, members=frozenset({B}), nonce=b"5"))
    (late,) = authority.land_late()
    assert isinstance(late, CasRefused)
    assert await authority.get("main") == other
    assert authority.late == []


async def test_memory_refuses_once() -> None:
    authority = MemoryAuthority(member=A)
    authority.refuse_once = "because"
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    assert await authority.compare_and_set("main", Register(), first) == CasRefused(Register(), "because")
    await done(authority, Register(), first)
