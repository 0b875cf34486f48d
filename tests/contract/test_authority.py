"""What every authority promises, over the shipped double, a real witness and a real etcd, with real disks and gRPC."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from failover.authority import CasDone, CasRefused, CasUnknown, MemoryAuthority, Unreachable, WitnessAuthority
from failover.local_authority import LocalAuthority
from failover.register import Register, add_member, claim, commit
from failover.wire import BadRegisterError, to_message
from tests.support.authorities import (
    A,
    B,
    LocalCopy,
    World,
    done,
    formed,
    met,
    read_until,
)
from tests.support.until import OUTER_S


async def test_a_register_that_nobody_set_is_new(world: World) -> None:
    assert await world.a.get("main") == Register()
    assert world.a.connected


async def test_claim_commit_add_are_seen_by_both_members(world: World) -> None:
    committed = await formed(world.a)
    assert await world.b.get("main") == committed
    both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    assert world.a.connected
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


async def test_of_two_claims_on_one_record_one_is_done(apart: World) -> None:
    committed = await formed(apart.a)
    both = await done(apart.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    claims = {
        name: claim(both, member=name, epoch=2, members=frozenset({name}), nonce=name.encode()) for name in (A, B)
    }
    outcomes = await asyncio.gather(
        apart.a.compare_and_set("main", both, claims[A]), apart.b.compare_and_set("main", both, claims[B])
    )
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, CasDone)]
    (loser,) = [outcome for outcome in outcomes if isinstance(outcome, CasRefused)]
    assert loser.register == winner.register == await apart.a.get("main")


async def test_repeating_the_set_that_is_in_force_is_done(world: World) -> None:
    """A caller whose answer was lost may send the same record again; the nonce says that it is the same attempt."""
    committed = await formed(world.a)
    desired = add_member(committed, member_added=B, nonce=b"3")
    await done(world.a, committed, desired)
    await done(world.a, committed, desired)
    assert await world.a.get("main") == desired


async def test_an_authority_that_is_away_gives_unreachable_and_unknown_and_comes_back(apart: World) -> None:
    committed = await formed(apart.a)
    await apart.cut()
    assert isinstance(await read_until(apart.a, Unreachable), Unreachable)
    assert not apart.a.connected
    desired = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await apart.a.compare_and_set("main", committed, desired), CasUnknown)
    assert not apart.a.connected
    await apart.heal()
    assert await read_until(apart.a, Register) == committed
    assert apart.a.connected


async def test_a_malformed_set_is_unknown_and_changes_nothing(world: World) -> None:
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"")
    assert isinstance(await world.a.compare_and_set("main", Register(), first), CasUnknown)
    assert await world.a.get("main") == Register()


async def test_a_watch_tells_the_register_now_and_its_changes(world: World) -> None:
    watch = world.b.watch("main")
    async with asyncio.timeout(OUTER_S):
        assert await anext(watch) == Register()
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        assert not waiting.done(), "nothing has changed"
        committed = await formed(world.a)
        while await waiting != committed:
            waiting = asyncio.ensure_future(anext(watch))
        both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
        assert await anext(watch) == both, "and nothing twice"
    await watch.aclose()  # type: ignore[attr-defined]


async def test_a_watch_of_a_members_own_copy_rests_between_two_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = LocalCopy(A).authority
    await formed(authority)
    looks: list[Register] = []
    now = authority.now

    def counted(domain: str) -> Register:
        assert len(looks) < 10, "it goes round without waiting"
        looks.append(now(domain))
        return looks[-1]

    monkeypatch.setattr(LocalAuthority, "now", lambda _self, domain: counted(domain))
    watch = authority.watch("main")
    assert await anext(watch) == now("main")
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (waiting.done(), len(looks)) == (False, 2)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_watch_tells_the_register_again_after_an_outage(apart: World) -> None:
    watch = apart.b.watch("main")
    async with asyncio.timeout(OUTER_S):
        assert await anext(watch) == Register()
        committed = await formed(apart.a)
        while await anext(watch) != committed:
            pass
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await apart.cut()
        await apart.heal()
        assert await waiting == committed  # told again although nothing changed (P7 reads at each reconnection)
        desired = add_member(committed, member_added=B, nonce=b"3")
        await read_until(apart.a, Register)
        await done(apart.a, committed, desired)
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


# ---- copies at the members themselves


async def test_a_copy_is_read_again_after_a_restart() -> None:
    copy = LocalCopy(A)
    committed = await formed(copy.authority)
    assert await copy.restarted().get("main") == committed
    assert copy.authority.as_bytes("main") == copy.disk["register/main"]
    assert await copy.authority.get("other") == Register()


async def test_members_that_meet_take_over_the_copy_that_is_further() -> None:
    """At once, though it may not be durable yet: what is asked next must not be answered by the older one."""
    a, b = LocalCopy(A), LocalCopy(B)
    committed = await formed(a.authority)
    data, writing = a.authority.as_bytes("main"), b.authority.adopt("main", a.authority.as_bytes("main"))
    assert writing is not None
    assert (b.authority.now("main"), b.disk) == (committed, {})
    await writing
    assert b.disk == {"register/main": data}
    assert b.authority.adopt("main", data) is None, "it is here already"
    first = claim(committed, member=A, epoch=2, members=frozenset({A}), nonce=b"3")
    await done(a.authority, committed, first)
    assert a.authority.adopt("main", data) is None, "the peer's is behind"
    assert a.authority.now("main") == first
    met(a, b)
    assert await b.authority.get("main") == first


async def test_of_two_lone_claims_each_stands_at_its_own_member_until_one_is_further() -> None:
    """Nothing here makes a lone claim safe: both members are told that it is done. One number that both have taken is
    for the core to notice (decision 0005), so neither copy is put in the place of the other.
    """
    a, b = LocalCopy(A), LocalCopy(B)
    met(a, b)
    committed = await formed(a.authority)
    both = await done(a.authority, committed, add_member(committed, member_added=B, nonce=b"3"))
    a.peer = b.peer = None
    own = {
        copy: await done(
            copy.authority, both, claim(both, member=name, epoch=2, members=frozenset({name}), nonce=name.encode())
        )
        for name, copy in ((A, a), (B, b))
    }
    met(a, b)
    assert (a.authority.now("main"), b.authority.now("main")) == (own[a], own[b])
    a.peer = b.peer = None
    further = await done(b.authority, own[b], commit(own[b], nonce=b"4"))
    met(a, b)
    assert (a.authority.now("main"), b.authority.now("main")) == (further, further)


async def test_a_higher_epoch_is_further_whatever_was_written_since_in_the_lower_one() -> None:
    """Versions count what one member wrote: alone in its epoch it may have written more than the one that went on."""
    a, b = LocalCopy(A), LocalCopy(B)
    older, newer = Register(9, 2, A, frozenset({A}), frozenset({A}), nonce=b"1"), Register(4, 3, B, nonce=b"2")
    for copy, known in ((a, older), (b, newer)):
        writing = copy.authority.adopt("main", to_message(known).SerializeToString())
        assert writing is not None
        await writing
    assert b.authority.adopt("main", a.authority.as_bytes("main")) is None
    met(a, b)
    assert (a.authority.now("main"), b.authority.now("main")) == (newer, newer)


@pytest.mark.parametrize("offered", [b"\xff", to_message(Register(version=1, nonce=b"x" * 65)).SerializeToString()])
async def test_a_copy_that_is_no_register_is_not_taken_over(offered: bytes) -> None:
    copy = LocalCopy(A)
    committed = await formed(copy.authority)
    with pytest.raises(BadRegisterError):
        copy.authority.adopt("main", offered)
    assert copy.authority.now("main") == committed


async def test_a_record_that_was_forced_at_one_member_is_taken_over_whatever_that_is_called() -> None:
    a, b = LocalCopy("a" * 64), LocalCopy(B)
    met(a, b)
    forced = await a.authority.force("main", 0, 5, "a" * 64, "the other one is lost")
    assert forced == CasDone(await b.authority.get("main"))


def test_a_witness_that_was_never_asked_is_not_connected() -> None:
    assert not WitnessAuthority("127.0.0.1:1", "pair", "a").connected
