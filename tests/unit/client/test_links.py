"""R142, R145, R147: a client finds managers by name, and speaks of a queue to the manager whose it is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import tandemq
from tandemq import aio, retry
from tandemq.client.links import LINKS_MAX
from tandemq.client.whereabouts import Whereabouts
from tandemq.errors import InvalidRequest, NotFound, ResourceExhausted, TandemqError, Unavailable, error_of
from tandemq.finding.names import FullName
from tandemq.finding.resolver import Answer, Manager, Resolver, ResolverAway
from tandemq.finding.resolvers import StaticResolver
from tandemq.finding.target import Target
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import manager_admin_service_pb2 as manager_admin
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import until
from tests.unit.client.fake import QUEUE, FakeMember, FakeStream, Ledger, refuse, serving

ADMIN = "/tandemq.v1.QueueAdminService/"
MANAGER = "/tandemq.v1.ManagerAdminService/GetManager"


class Named(FakeMember):
    """A manager that keeps what it was asked, and answers with its own name."""

    def __init__(self, pair: str) -> None:
        super().__init__(f"{pair}-a")
        self.pair = pair
        self.seen: list[Any] = []
        self.ledger = Ledger()
        self.produce = [serving(self, self.ledger)]
        self.consume = [self._give]
        self.unary = {
            QUEUE + "Enqueue": self._answer(pb.EnqueueRequest, pb.EnqueueResponse),
            QUEUE + "Dequeue": self._answer(
                pb.DequeueRequest, pb.DequeueResponse, lease_id=5, messages=[{"index": 1, "message": {"payload": b"x"}}]
            ),
            QUEUE + "Settle": self._answer(pb.SettleRequest, pb.SettleResponse, results=[{"settled": 1}]),
            ADMIN + "CreateQueue": self._answer(admin.CreateQueueRequest, admin.CreateQueueResponse),
            ADMIN + "GetQueue": self._answer(admin.GetQueueRequest, admin.GetQueueResponse),
            ADMIN + "MoveMessages": self._answer(admin.MoveMessagesRequest, admin.MoveMessagesResponse),
            MANAGER: self._answer(manager_admin.GetManagerRequest, manager_admin.GetManagerResponse),
        }

    def header(self, epoch: int = 7, master: str = "") -> common.ResponseHeader:
        header = super().header(epoch, master)
        header.pair = self.pair
        return header

    def _answer(self, request: Any, reply: Any, **fields: Any) -> Any:
        async def answer(data: bytes, context: Any) -> bytes:
            self.seen.append(request.FromString(data))
            return reply(header=self.header(), **fields).SerializeToString()

        return answer

    async def _give(self, stream: FakeStream) -> None:
        self.seen.append((await stream.read()).open)
        await stream.write(opened=pb.ConsumeOpened(header=self.header()))
        await stream.over.wait()

    def names(self) -> list[str]:
        """Of queues, as it was asked for them."""
        return [getattr(each, "queue", "") or getattr(each, "name", "") for each in self.seen]


@pytest.fixture(autouse=True)
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TANDEMQ_TARGET", "MOS_DFLT_QUEMGR_NAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path))
    for variable in ("TANDEMQ_HOST_FILE", "TANDEMQ_SITE_FILE"):
        (tmp_path / variable).write_text("")
        monkeypatch.setenv(variable, str(tmp_path / variable))


@pytest.fixture
async def orders() -> AsyncIterator[Named]:
    async with Named("orders") as started:
        yield started


@pytest.fixture
async def billing() -> AsyncIterator[Named]:
    async with Named("billing") as started:
        yield started


@pytest.fixture
def nobody() -> Iterator[str]:
    """An endpoint whose port is taken and answers nothing."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def site(orders: Named, billing: Named) -> StaticResolver:
    return StaticResolver(
        {"orders": orders.endpoint, "billing": billing.endpoint, "my_qmgr": "//orders"}, {"cf/hotline": "billing"}
    )


@pytest.mark.requirement("R142", "R145")
async def test_a_full_name_may_stand_wherever_a_relative_one_may(orders: Named, billing: Named) -> None:
    async with aio.connect("//orders/cf/hotline", resolvers=[site(orders, billing)]) as client:
        assert client.queue == "cf/hotline"
        await client.create_queue(client.queue)
        await client.create_queue("//orders/cf/other")
        await client.enqueue("//billing/invoices", [b"a"])
        await client.get_queue("//billing/invoices")
        assert (await client.find_queue("cf/hotline")) == FullName("billing", "cf/hotline")
        await client.get_queue("///cf/hotline")
        async with client.producer("//billing/invoices") as producer:
            await producer.send(b"b")
        async with client.consumer("//billing/invoices") as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            await until(lambda: len(billing.seen) >= 4)  # the opening frame has arrived
            waiting.cancel()
        assert (producer.queue, consumer.queue) == ("invoices", "invoices")
    assert orders.names() == ["cf/hotline", "cf/other"]
    names = billing.names()
    assert names[:4] == ["invoices", "invoices", "cf/hotline", "invoices"]
    assert set(names[4:]) <= {"invoices"}, "a stream that ended is opened again"
    assert billing.ledger.payloads == [b"b"]


@pytest.mark.requirement("R144")
async def test_an_alias_of_a_manager_forms_another_full_name(orders: Named, billing: Named) -> None:
    async with aio.connect("//my_qmgr", resolvers=[site(orders, billing)]) as client:
        await client.get_queue("//my_qmgr/hotline")
        await client.get_queue("//orders/hotline")
    assert orders.names() == ["hotline", "hotline"]
    async with aio.connect(billing.endpoint, resolvers=[site(orders, billing)]) as client:
        await client.get_queue("//my_qmgr/hotline")
    assert orders.names() == ["hotline"] * 3


async def test_what_was_received_by_a_full_name_is_settled_at_the_same_manager(orders: Named, billing: Named) -> None:
    async with aio.connect("//orders", resolvers=[site(orders, billing)]) as client:
        await (await client.dequeue("//billing/invoices")).ack()
        await client.enqueue("//billing/invoices", [b"a"])
    assert [type(each).__name__ for each in billing.seen] == ["DequeueRequest", "SettleRequest", "EnqueueRequest"]
    assert {each.queue for each in billing.seen} == {"invoices"}
    assert [each.epoch for each in billing.seen] == [0, 7, 7]  # the epoch that this manager has told
    assert orders.seen == []


async def test_names_of_two_managers_in_one_request_are_refused(orders: Named, billing: Named) -> None:
    async with aio.connect("//orders", resolvers=[site(orders, billing)]) as client:
        request = admin.MoveMessagesRequest(name="//billing/a", to="//billing/b")
        call = client.links.own.caller.call(
            ADMIN + "MoveMessages", request, admin.MoveMessagesResponse, queue="//billing/a"
        )
        await call
        assert (billing.seen[0].name, billing.seen[0].to) == ("a", "b")
        request.to = "//orders/b"
        with pytest.raises(InvalidRequest, match="//billing/a and //orders/b are at different managers"):
            await client.links.own.caller.call(
                ADMIN + "MoveMessages", request, admin.MoveMessagesResponse, queue="//billing/a"
            )
        for queue in ("//billing", "//billing//a"):
            with pytest.raises(InvalidRequest) as caught:
                await client.get_queue(queue)
            assert caught.value.reason == "BAD_NAME"
            with pytest.raises(InvalidRequest):
                client.producer(queue)
    assert len(billing.seen) == 1


async def test_a_manager_that_nobody_knows_may_be_the_one_that_one_is_connected_to(orders: Named) -> None:
    async with aio.connect(orders.endpoint) as client:
        await client.get_queue("//orders/a")
        await client.get_queue("//orders-a/b")  # the member's own name
        with pytest.raises(NotFound) as caught:
            await client.get_queue("//billing/a")
    assert caught.value.reason == "MANAGER_NOT_FOUND"
    assert "no resolver knows manager 'billing'; asked: user file" in caught.value.message
    assert [name for name in orders.names() if name] == ["a", "b"]


@pytest.mark.requirement("R147")
async def test_the_first_manager_that_can_be_reached_is_used(
    orders: Named, billing: Named, nobody: str, tmp_path: Path
) -> None:
    (tmp_path / "TANDEMQ_SITE_FILE").write_text(
        f'[managers.away]\nendpoints = ["{nobody}"]\npriority = 1\n'
        f'[managers.billing]\nendpoints = ["{billing.endpoint}"]\npriority = 30\n'
        f'[managers.orders]\nendpoints = ["{nobody}", "{orders.endpoint}"]\npriority = 20\n'
    )
    async with aio.connect() as client:
        await client.create_queue("q")
        assert await client.locate() == (nobody, orders.endpoint)
    assert orders.names() == ["", "q"]  # asked for a sign of life, and then for the queue
    assert billing.seen == []


@pytest.mark.requirement("R147")
async def test_no_manager_can_be_reached(nobody: str) -> None:
    away = [Manager("one", (nobody,), 1), Manager("two", (nobody,), 2)]
    client = aio.Client(Target((), "here", candidates=tuple(away)), retry.Policy(total_s=0.3))
    async with client:
        with pytest.raises(Unavailable, match=f"no manager answers: one at {nobody} .priority 1.: .*two at {nobody}"):
            await client.locate()
        with pytest.raises(Unavailable) as caught:
            await client.create_queue("q")
    assert (caught.value.reason, caught.value.definite) == ("MANAGER_UNREACHABLE", True)
    async with aio.Client(Target((), "here", candidates=tuple(away)), retry.Policy(total_s=0.3)) as client:
        producer = client.producer("q")
        with pytest.raises(TandemqError, match="MANAGER_UNREACHABLE"):
            await producer.send(b"x")


async def test_a_name_that_nobody_knows_ends_calls_and_streams_at_once() -> None:
    async with aio.connect("//nobody") as client:
        with pytest.raises(NotFound, match="no resolver knows manager 'nobody'"):
            await client.get_queue("q")
        with pytest.raises(NotFound, match="no resolver knows manager 'nobody'"):
            await client.producer("q").send(b"x")
        with pytest.raises(NotFound, match="no resolver knows manager 'nobody'"):
            await anext(client.consumer("q"))
        with pytest.raises(NotFound):
            await anext(aiter(client.browse("q")))
        with pytest.raises(NotFound):
            await client.pair_status()


class Moving(Resolver):
    """A plug-in whose manager moves."""

    source = "moving"

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, name: str) -> Answer | None:  # noqa: ARG002 - the interface
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def at(endpoint: str, ttl_s: float) -> Answer:
    return Answer((Manager("orders", (endpoint,)),), ttl_s=ttl_s)


async def test_a_resolver_that_is_away_for_a_moment_is_asked_again_within_the_calls_time(orders: Named) -> None:
    moving = Moving(ResolverAway("starting"), ResolverAway("starting"), at(orders.endpoint, 60))
    async with aio.connect("//orders", resolvers=[moving]) as client:
        await client.get_queue("q")
        await client.get_queue("q")
    assert moving.asked == 3


async def test_a_resolver_that_never_answers_ends_with_the_calls_time(orders: Named) -> None:
    class Silent(Moving):
        async def resolve(self, name: str) -> Answer | None:
            self.asked += 1
            if self.asked == 1 and self.answers[0] is not None:
                raise ResolverAway("starting")
            await asyncio.Event().wait()
            raise AssertionError(name)

    async with aio.connect("//orders", resolvers=[Silent(at(orders.endpoint, 60))], timeout=0.5) as client:
        with pytest.raises(TandemqError) as caught:
            await client.get_queue("q")
    assert caught.value.reason == "MANAGER_UNREACHABLE"
    assert "starting" in str(caught.value), "what was heard before stands in it"


async def test_a_manager_that_has_moved_is_looked_up_again(orders: Named, nobody: str) -> None:
    told: list[list[Manager]] = [[Manager("orders", (nobody,))], [Manager("orders", (orders.endpoint,))]]

    async def ask() -> tuple[list[Manager], float]:
        return told.pop(0), 0.0

    async def reached(endpoint: str) -> str:
        return ""

    async with aio.connect(nobody, timeout=5) as client:
        client.links.own.members.named = ()
        client.links.own.members.whereabouts = Whereabouts(ask, reached)
        client.links.own.members.masters.learn("main", 3, nobody)
        await client.get_queue("q")
        assert await client.locate() == (orders.endpoint,)
        assert client.master() == orders.endpoint
        assert client.epoch() == 7
    assert told == []


class World:
    """Times and answers for one Whereabouts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[Manager] | TandemqError = [Manager("a", ("a:1",)), Manager("b", ("b:1", "b:2"), 5)]
        self.silent: set[str] = set()
        self.asked = 0
        self.where = Whereabouts(self._ask, self._reached, now_s=lambda: self.now)

    async def _ask(self) -> tuple[list[Manager], float]:
        self.asked += 1
        if isinstance(self.told, TandemqError):
            raise self.told
        return self.told, 60.0

    async def _reached(self, endpoint: str) -> str:
        return "silent" if endpoint in self.silent else ""


async def test_an_answer_is_asked_for_again_only_in_doubt_and_when_it_has_aged() -> None:
    world = World()
    assert await world.where.endpoints() == ("a:1",)
    world.now = 1000.0
    await world.where.endpoints()
    assert world.asked == 1  # nobody doubts it
    world.where.doubt()
    world.now = 59.0
    await world.where.endpoints()
    assert world.asked == 1
    world.now = 60.0
    await world.where.endpoints()
    assert (world.asked, world.where.manager) == (2, "a")


async def test_a_client_stays_with_the_manager_that_it_chose() -> None:
    world = World()
    world.silent = {"a:1"}
    assert await world.where.endpoints() == ("b:1", "b:2")
    world.silent, world.now = {"b:1", "b:2"}, 100.0
    world.where.doubt()
    assert await world.where.endpoints() == ("b:1", "b:2")  # its queues are not a's
    world.told, world.now = [Manager("b", ("b:9",)), Manager("b", ("b:2",), 3)], 200.0
    world.where.doubt()
    assert await world.where.endpoints() == ("b:2",)


async def test_the_last_known_place_holds_while_nobody_can_be_asked(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.where.endpoints()
    world.told, world.now = error_of("MANAGER_UNREACHABLE", "ldap is away"), 100.0
    world.where.doubt()
    assert await world.where.endpoints() == ("a:1",)
    assert "ldap is away: going on with the last known place, a:1" in caplog.text
    world.told, world.now = error_of("MANAGER_NOT_FOUND", "no such manager"), 200.0
    world.where.doubt()
    with pytest.raises(NotFound):
        await world.where.endpoints()


async def test_the_managers_that_one_client_talks_to_are_bounded(orders: Named, billing: Named) -> None:
    async with aio.connect(orders.endpoint) as client:
        for place in range(LINKS_MAX):
            client.links.at(f"//m{place}/q")
        client.links.at("//m0/other")
        with pytest.raises(ResourceExhausted, match="64 other managers already; use another client"):
            await client.get_queue("//one-more/q")


def test_the_blocking_client_finds_as_the_other_one_does(tmp_path: Path) -> None:
    with tandemq.connect(
        "//orders/q", resolvers=[StaticResolver({"orders": "127.0.0.1:1"}, {"x": "orders"})]
    ) as client:
        assert client.queue == "q"
        assert client.locate() == ("127.0.0.1:1",)
        assert str(client.find_queue("x")) == "//orders/x"


async def test_a_refusal_passes_through(orders: Named, billing: Named) -> None:
    async def missing(request: bytes, context: Any) -> bytes:
        await refuse(context, common.REASON_QUEUE_NOT_FOUND, "no queue invoices", name="invoices")
        raise AssertionError

    billing.unary[ADMIN + "GetQueue"] = missing
    async with aio.connect("//orders", resolvers=[site(orders, billing)]) as client:
        with pytest.raises(NotFound, match="no queue invoices"):
            await client.get_queue("//billing/invoices")


async def test_the_own_manager_by_any_of_its_names_is_one_connection(orders: Named, billing: Named) -> None:
    async with aio.connect("//orders", resolvers=[site(orders, billing)]) as client:
        own = client.links.own
        for name in ("q", "//orders/q"):
            assert client.links.at(name) == (own, "q")
        other, relative = client.links.at("//billing/q")
        assert (relative, other is own, client.links.at("//billing/q")[0] is other) == ("q", False, True)
    async with aio.connect("///cf/hotline", resolvers=[site(orders, billing)]) as client:
        assert client.links.at("///cf/hotline") == (client.links.own, "cf/hotline")
        assert client.links.at("///cf/other")[0] is not client.links.own
