"""R012, R144, R145: whose word counts, for how long, and what holds while a resolver is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from tandemq.errors import NotFound, Refused, TandemqError, Unavailable
from tandemq.finding.directory import ALIAS_STEPS_MAX, NAMES_MAX, Directory
from tandemq.finding.resolver import Answer, BadEntry, Exported, Manager, Resolver, ResolverAway
from tandemq.finding.resolvers import StaticResolver


class Told(Resolver):
    """A plug-in that says what it is told to, and counts how often it is asked."""

    def __init__(self, source: str, answer: Answer | Exported | BaseException | None = None) -> None:
        self.source, self.answer = source, answer
        self.asked = 0
        self.gate: asyncio.Event | None = None
        self.closed = False

    async def resolve(self, name: str) -> Answer | None:  # noqa: ARG002 - the interface
        answer = await self._say()
        assert answer is None or isinstance(answer, Answer)
        return answer

    async def resolve_queue(self, queue: str) -> Exported | None:  # noqa: ARG002 - the interface
        answer = await self._say()
        assert answer is None or isinstance(answer, Exported)
        return answer

    async def _say(self) -> Answer | Exported | None:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.closed = True


class Clock:
    now = 0.0


def directory(*resolvers: Resolver, clock: Clock | None = None, timeout_s: float = 3.0) -> Directory:
    def asked() -> Sequence[Resolver]:
        return resolvers

    return Directory(asked, now_s=(lambda: clock.now) if clock else None, timeout_s=timeout_s)


def at(name: str, *endpoints: str, ttl_s: float | None = None) -> Answer:
    return Answer((Manager(name, endpoints or (f"{name}:1",)),), ttl_s=ttl_s)


@pytest.mark.requirement("R145")
async def test_the_first_that_knows_a_name_decides() -> None:
    silent, knows, other = Told("one"), Told("two", at("orders")), Told("three", at("orders", "wrong:1"))
    found = await directory(silent, knows, other).find("orders")
    assert (found.source, found.answer.managers[0].endpoints) == ("two", ("orders:1",))
    assert (silent.asked, knows.asked, other.asked) == (1, 1, 0)


@pytest.mark.requirement("R144")
async def test_an_alias_leads_on_through_all_resolvers() -> None:
    """A user's link to a manager, in a file of the user, and the manager itself in another one."""
    links = StaticResolver({"my_qmgr": "//osf-qmgr1"})
    site = StaticResolver({"osf-qmgr1": "a:1,b:2"})
    found = await directory(links, site).find("my_qmgr")
    assert found.way == ("my_qmgr", "osf-qmgr1")
    assert found.answer.managers == (Manager("osf-qmgr1", ("a:1", "b:2")),)


async def test_aliases_that_lead_nowhere_are_named() -> None:
    ring = StaticResolver({"a": "//b", "b": "//c", "c": "//a"})
    with pytest.raises(Refused, match="CONFIG_ERROR: aliases lead nowhere: a -> b -> c -> a"):
        await directory(ring).find("a")
    chain = {f"a{place}": f"//a{place + 1}" for place in range(ALIAS_STEPS_MAX + 1)}
    with pytest.raises(Refused, match="aliases lead nowhere"):
        await directory(StaticResolver(chain)).find("a0")
    with pytest.raises(NotFound, match=r"no resolver knows manager 'gone' \(through link -> gone\)"):
        await directory(StaticResolver({"link": "//gone"})).find("link")


async def test_nobody_knows_it() -> None:
    with pytest.raises(NotFound) as caught:
        await directory(Told("one"), Told("two")).find("orders")
    assert (caught.value.reason, caught.value.definite, caught.value.retryable) == ("MANAGER_NOT_FOUND", True, False)
    assert "asked: one; two; enter it there, or connect to host:port" in caught.value.message
    with pytest.raises(NotFound, match="asked: nobody: no file and no resolver is set up"):
        await directory().find("orders")


async def test_an_answer_holds_for_its_time_and_no_longer() -> None:
    clock, knows = Clock(), Told("one", at("orders", ttl_s=30.0))
    asked = directory(knows, clock=clock)
    for now, times in ((0.0, 1), (29.9, 1), (30.0, 2), (59.9, 2), (60.0, 3)):
        clock.now = now
        assert (await asked.find("orders")).ttl_s == 30.0
        assert knows.asked == times
    knows.answer, clock.now = at("orders", "moved:1", ttl_s=1e9), 90.0
    assert (await asked.find("orders")).answer.managers[0].endpoints == ("moved:1",)
    clock.now += 3600.0  # whatever it says of itself
    await asked.find("orders")
    assert knows.asked == 5


async def test_who_asks_at_the_same_time_shares_one_answer() -> None:
    knows = Told("one", at("orders"))
    knows.gate = asyncio.Event()
    asked = directory(knows)
    waiting = [asyncio.ensure_future(asked.find("orders")) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    knows.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert len({id(each.answer) for each in answers[1:]}) == 1  # type: ignore[union-attr]
    assert knows.asked == 1


@pytest.mark.parametrize("away", [ResolverAway("hung up"), ConnectionRefusedError(111, "refused"), TimeoutError()])
async def test_the_last_known_answer_holds_while_its_resolver_is_away(
    away: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    clock, knows, later = Clock(), Told("one", at("orders", ttl_s=30.0)), Told("two", at("orders", "wrong:1"))
    asked = directory(knows, later, clock=clock)
    await asked.find("orders")
    knows.answer, clock.now = away, 100.0
    with caplog.at_level(logging.WARNING, logger="tandemq.finding"):
        assert (await asked.find("orders")).answer.managers[0].endpoints == ("orders:1",)
    assert len(caplog.records) == 1
    assert "one is away" in caplog.text
    assert "going on with what it said of 'orders' 100 s ago" in caplog.text
    assert later.asked == 0
    clock.now = 104.9
    await asked.find("orders")
    assert knows.asked == 2  # not for every question
    knows.answer, clock.now = at("orders", "back:1"), 105.0
    assert (await asked.find("orders")).answer.managers[0].endpoints == ("back:1",)


async def test_without_a_last_known_answer_the_others_are_asked_and_then_it_is_an_error_that_names_who_is_away() -> (
    None
):
    away = Told("ldap://x", ResolverAway("connection refused"))
    assert (await directory(away, Told("two", at("orders"))).find("orders")).source == "two"
    with pytest.raises(Unavailable) as caught:
        await directory(away, Told("two")).find("orders")
    assert (caught.value.reason, caught.value.definite, caught.value.retryable) == ("MANAGER_UNREACHABLE", True, True)
    assert "'orders' was not found: ldap://x: connection refused" in caught.value.message


async def test_a_resolver_that_hangs_is_left() -> None:
    hangs = Told("slow", at("orders"))
    hangs.gate = asyncio.Event()
    with pytest.raises(Unavailable, match=r"slow: no answer within 0\.01 s"):
        await directory(hangs, timeout_s=0.01).find("orders")


async def test_an_entry_that_cannot_be_used_is_told_and_not_passed_over() -> None:
    with pytest.raises(Refused, match="CONFIG_ERROR: one: orders: no endpoint"):
        await directory(Told("one", BadEntry("no endpoint")), Told("two", at("orders"))).find("orders")

    def unusable() -> Sequence[Resolver]:
        raise BadEntry("no such kind")

    with pytest.raises(Refused, match="CONFIG_ERROR: no such kind"):
        await Directory(unusable).find("orders")


@pytest.mark.requirement("R012")
async def test_a_queue_that_was_exported_is_found_by_its_name_alone() -> None:
    site = StaticResolver({"orders": "a:1"}, {"cf/hotline": "orders"})
    asked = directory(Told("one"), site)
    exported, source = await asked.find_queue("cf/hotline")
    assert (exported.manager, exported.queue, source) == ("orders", "cf/hotline", "static list")
    with pytest.raises(NotFound, match="no resolver knows an exported queue 'cf/other'"):
        await asked.find_queue("cf/other")


async def test_what_is_remembered_is_bounded() -> None:
    clock, knows = Clock(), Told("one", at("orders"))
    asked = directory(knows, clock=clock)
    for place in range(NAMES_MAX + 1):
        await asked.find(f"m{place}")
    await asked.find("m0")  # forgotten
    await asked.find(f"m{NAMES_MAX}")
    assert knows.asked == NAMES_MAX + 2


async def test_closing_lets_go_of_the_resolvers() -> None:
    one = Told("one")
    asked = directory(one)
    with pytest.raises(TandemqError):
        await asked.find("orders")
    await asked.close()
    assert one.closed


@pytest.mark.parametrize(
    "make",
    [
        lambda: Manager("orders", ()),
        lambda: Manager("or/ders", ("a:1",)),
        lambda: Manager("orders", ("a:1",), -1),
        lambda: Exported("a//b", "orders"),
        lambda: Exported("a", "orders", ("x:y",)),
        Answer,
        lambda: Answer(at("orders").managers, alias_of="x"),
        lambda: Answer(at("orders").managers * 65),
    ],
)
def test_what_is_no_answer_cannot_be_made(make) -> None:
    with pytest.raises(BadEntry):
        make()
