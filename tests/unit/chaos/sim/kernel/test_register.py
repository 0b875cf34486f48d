"""The simulated witness: every way in which a call can end, and what is in force afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest

from chaos.sim.kernel.register import Route, SimAuthority, SimRegister
from failover.authority import CasDone, CasOutcome, CasRefused, CasUnknown, Unreachable
from failover.register import Register, add_member, claim, commit
from tests.support.virtual_time import run, until

A, B = frozenset({"a"}), frozenset({"b"})
CLAIMED = claim(Register(), member="a", epoch=1, members=A, nonce=b"1")
COMMITTED = commit(CLAIMED, nonce=b"2")
BOTH = add_member(COMMITTED, member_added="b", nonce=b"3")
DAY_S = 86_400.0


class Pair:
    """Both members' routes to one register, which a has claimed and committed."""

    def __init__(self, seed: int = 1, *, delay_s: float = 0.0005) -> None:
        self.register = SimRegister(random.Random(f"{seed}/register"))
        self.register.set("main", Register(), CLAIMED)
        self.register.set("main", CLAIMED, COMMITTED)
        self.a, self.b = (
            Route(name, self.register, random.Random(f"{seed}/register/{name}"), delay_s=delay_s) for name in "ab"
        )

    @property
    def now(self) -> Register:
        return self.register.get("main")


def add_b(route: Route) -> Coroutine[None, None, CasOutcome]:
    return SimAuthority(route).compare_and_set("main", COMMITTED, BOTH)


def get(route: Route) -> Coroutine[None, None, Register | Unreachable]:
    return SimAuthority(route).get("main")


def test_a_call_takes_time_both_ways() -> None:
    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        assert await add_b(pair.a) == CasDone(BOTH)
        took_s = loop.time()
        assert 0 < took_s < 1
        assert await get(pair.b) == BOTH
        assert loop.time() > took_s

    run(story())


def test_delays_have_a_tail_beyond_what_a_caller_waits() -> None:
    route = Pair().a
    delays = sorted(route.draw_delay_s() for _ in range(10_000))
    assert 0.0002 < delays[5_000] < 0.0006
    assert delays[-1] > 1.0
    route.slow_factor = 1000
    assert sorted(route.draw_delay_s() for _ in range(99))[50] > 0.1


def test_equal_streams_tell_equal_stories() -> None:
    async def story(seed: int) -> list[object]:
        pair, heard = Pair(seed), list[object]()
        for epoch in range(2, 30):
            forced = await SimAuthority(pair.a).force("main", pair.now.version, epoch, "a", "because")
            heard += [forced, asyncio.get_running_loop().time()]
        return heard

    assert run(story(1)) == run(story(1)) != run(story(2))


def cut(pair: Pair) -> None:
    pair.a.cut()


def cut_requests(pair: Pair) -> None:
    pair.a.cut(answers=False)


def refuse(pair: Pair) -> None:
    pair.a.cut(requests=False, answers=False, refused=True)


@pytest.mark.parametrize(("fault", "wait_s"), [(cut, 1.0), (cut_requests, 1.0), (refuse, 0.1)])
def test_one_member_alone_may_be_cut_off(fault: Callable[[Pair], None], wait_s: float) -> None:
    """Split view: b goes on."""

    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        fault(pair)
        authority = SimAuthority(pair.a)
        assert isinstance(await authority.compare_and_set("main", COMMITTED, BOTH), CasUnknown)
        assert loop.time() <= wait_s
        assert isinstance(await authority.get("main"), Unreachable)
        assert not authority.connected
        assert (pair.now, await get(pair.b)) == (COMMITTED, COMMITTED)
        pair.a.heal()
        assert await authority.get("main") == COMMITTED
        assert authority.connected

    run(story())


def test_what_is_cut_off_on_its_way_back_was_made() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.cut(requests=False)
        assert isinstance(await add_b(pair.a), CasUnknown)
        assert pair.now == BOTH

    run(story())


def test_a_lost_answer_is_unknown_and_the_set_is_made() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.lose_answers()
        assert await get(pair.a) == COMMITTED  # only sets count
        assert isinstance(await add_b(pair.a), CasUnknown)
        assert asyncio.get_running_loop().time() >= 1.0
        assert pair.now == BOTH
        assert await add_b(pair.a) == CasDone(BOTH)  # asked again, it is the same attempt

    run(story())


def test_a_late_set_is_made_a_day_after_its_caller_gave_up() -> None:
    async def story() -> None:
        pair = Pair()
        pair.a.delay_set(DAY_S)
        assert isinstance(await add_b(pair.a), CasUnknown)
        await until(DAY_S - 1)
        assert pair.now == COMMITTED
        await until(DAY_S + 2)
        assert pair.now == BOTH
        assert pair.register.land_late() == 0

    run(story())


def test_a_late_set_is_stopped_by_another_one_and_by_nothing_else() -> None:
    async def story() -> None:
        pair = Pair()
        changes: list[tuple[str, int, int]] = []
        pair.register.on_change = lambda domain, old, new: changes.append((domain, old.version, new.version))
        for _ in range(2):
            pair.a.delay_set(DAY_S)
            assert isinstance(await add_b(pair.a), CasUnknown)
        pair.a.heal()
        other = claim(COMMITTED, member="a", epoch=2, members=A, nonce=b"other")
        assert await SimAuthority(pair.a).compare_and_set("main", COMMITTED, other) == CasDone(other)
        assert pair.register.land_late() == 2
        assert (pair.now, changes) == (other, [("main", 2, 3)])

    run(story())


def test_a_set_under_way_is_made_although_its_caller_was_killed() -> None:
    """It is no longer the caller's: neither its cancellation nor its context takes it back."""

    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        contexts = []
        call_at = loop.call_at

        def noting(*args, context=None):  # type: ignore[no-untyped-def]
            contexts.append(context)
            return call_at(*args, context=context)

        loop.call_at = noting  # type: ignore[method-assign]
        call = asyncio.ensure_future(add_b(pair.a))
        await asyncio.sleep(0)
        call.cancel()
        await until(3)
        assert pair.now == BOTH
        assert not list(contexts[0])

    run(story())


@pytest.mark.parametrize("silent", [False, True])
def test_a_register_that_is_down_answers_nothing_and_comes_back_as_it_was(silent: bool) -> None:
    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        pair.register.down(silent=silent)
        assert isinstance(await add_b(pair.a), CasUnknown)
        assert (loop.time() >= 1.0) == silent
        assert isinstance(await get(pair.b), Unreachable)
        pair.register.up()
        assert await get(pair.b) == COMMITTED

    run(story())


def test_a_register_that_lost_its_disk_knows_nothing() -> None:
    async def story() -> None:
        pair = Pair()
        pair.register.wipe()
        assert await get(pair.a) == Register()
        assert isinstance(await add_b(pair.a), CasRefused)

    run(story())


def test_of_a_refused_set_nobody_is_told() -> None:
    async def story() -> None:
        pair, heard = Pair(), list[str]()
        pair.register.wipe()
        pair.register.on_change = lambda domain, _before, _after: heard.append(domain)
        assert isinstance(await add_b(pair.a), CasRefused)
        assert isinstance(await SimAuthority(pair.a).force("main", 7, 9, "a", "because"), CasRefused)
        assert heard == []
        assert await SimAuthority(pair.a).compare_and_set("main", Register(), CLAIMED) == CasDone(CLAIMED)
        assert heard == ["main"]

    run(story())


def test_a_register_that_was_put_back_refuses_what_rests_on_the_newer_one() -> None:
    async def story() -> None:
        pair = Pair()
        assert not pair.register.restore("old")
        pair.register.snapshot("old")
        assert await add_b(pair.a) == CasDone(BOTH)
        assert pair.register.restore("old")
        assert await get(pair.b) == COMMITTED
        by_b = claim(BOTH, member="b", epoch=2, members=B, nonce=b"b")
        assert isinstance(await SimAuthority(pair.b).compare_and_set("main", BOTH, by_b), CasRefused)
        assert await add_b(pair.a) == CasDone(BOTH)
        assert pair.register.restore("old")  # more than once
        assert pair.now == COMMITTED

    run(story())


def outage(pair: Pair) -> None:
    pair.register.down()
    pair.register.up()


def break_route(pair: Pair) -> None:
    pair.b.cut()
    pair.b.heal()


@pytest.mark.parametrize("fault", [outage, break_route, lambda pair: pair.register.restore("same")])
def test_a_watch_is_told_again_after_it_was_broken(fault: Callable[[Pair], object]) -> None:
    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        pair.register.snapshot("same")
        watch = SimAuthority(pair.b).watch("main")
        assert await anext(watch) == COMMITTED
        waiting = asyncio.ensure_future(anext(watch))
        await until(10)
        assert not waiting.done()
        fault(pair)
        assert await waiting == COMMITTED
        assert 10.0 < loop.time() < 13.0
        pair.register.set("main", COMMITTED, BOTH)
        assert await anext(watch) == BOTH
        await watch.aclose()  # type: ignore[attr-defined]
        assert not pair.register.watches

    run(story())


def test_a_watch_that_is_cut_off_hears_nothing_until_it_is_back() -> None:
    async def story() -> None:
        pair, loop = Pair(), asyncio.get_running_loop()
        watch = SimAuthority(pair.b).watch("main")
        assert await anext(watch) == COMMITTED
        pair.b.cut()
        waiting = asyncio.ensure_future(anext(watch))
        pair.register.set("main", COMMITTED, BOTH)
        await until(60)
        assert not waiting.done()
        pair.b.heal()
        assert await waiting == BOTH
        assert loop.time() < 63

    run(story())
