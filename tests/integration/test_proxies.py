"""Proxies (M11): a name at one pair that leads to a queue of another one, by the calls of any queue. Two real pairs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.classic import Queue_Type, QueueManager
from tandemq.cli import root
from tandemq.client.macros import Relationship
from tandemq.client.proxies import ProxyState
from tandemq.errors import AlreadyExists, Denied, InvalidRequest, NotFound, Refused, TandemqError, Unavailable
from tandemq.v1.queue_admin_service_pb2 import (
    QUEUE_TYPE_ONE_WAY,
    QUEUE_TYPE_ONE_WAY_QUEUED_ACK,
    QUEUE_TYPE_TWO_WAY,
    QueueConfig,
    RedriveQueueRequest,
)
from tandemq.v1.queue_admin_service_pb2_grpc import QueueAdminServiceStub
from tandemq.v1.queue_service_pb2 import EnqueueRequest, WatchQueuesRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.integration.support import gone, new_id, new_name, payloads, raw_to, refused, roles, stopped_at_end
from tests.integration.two_pairs import LATE, Pairs, client_of, made, two_pairs
from tests.integration.two_pairs import there as arrived
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SECOND_NS = 1_000_000_000

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def until_state(client: aio.Client, name: str, state: ProxyState) -> aio.Proxy:
    async def is_so() -> bool:
        return (await client.get_proxy(name)).state is state

    await until(is_so, f"{name} is {state}")
    return await client.get_proxy(name)


async def proxied(east: aio.Client, west: aio.Client, config: QueueConfig | None = None) -> tuple[str, str]:
    """A queue of west, and its proxy at east."""
    orders, proxy = new_name("orders"), new_name("proxy")
    await west.create_queue(orders, config)
    await east.create_proxy(proxy, f"//west/{orders}")
    return proxy, orders


@pytest.mark.requirement("R001", "R036", "R054", "R058", "R061")
async def test_the_calls_of_any_queue_reach_the_other_manager_from_either_member(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    proxy, orders = await proxied(east, west)
    for number, endpoint in enumerate(pairs.east.endpoints):
        async with aio.connect(endpoint, follow_master=False) as one:
            request_id = new_id()
            (first,) = await one.enqueue(proxy, [b"%d" % number], request_id=request_id)
            (again,) = await one.enqueue(proxy, [b"%d" % number], request_id=request_id)
            assert (first.index, first.copies, again.duplicate, again.id) == (number + 1, 2, True, first.id)
    assert await payloads(west, orders) == [b"0", b"1"]
    for endpoint in pairs.east.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one:
            assert await payloads(one, proxy) == [b"0", b"1"]
            shown = await one.get_queue(proxy)
            assert (shown.name, shown.length) == (proxy, 2)
            got = await one.dequeue(proxy, 1)
            assert got.payloads == [b"0"]
            await got.release()
    got = await east.dequeue(proxy, 2)
    assert got.payloads == [b"0", b"1"]
    assert (await west.get_queue(orders)).leased == 2
    await got.ack()
    assert (await west.get_queue(orders)).length == 0
    waiting = asyncio.create_task(east.dequeue(proxy, wait=OUTER_S))
    await west.enqueue(orders, [b"late"])
    assert (await waiting).payloads == [b"late"]
    await east.create_queue(plain := new_name())
    await east.enqueue(plain, [b"epochs of west are not those of east"])


@pytest.mark.requirement("R054")
async def test_producers_and_consumers_have_streams_through_it_at_either_member(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    proxy, orders = await proxied(east, west)
    for number, endpoint in enumerate(pairs.east.endpoints):
        async with (
            aio.connect(endpoint, follow_master=False) as one,
            one.producer(proxy) as producer,
            one.consumer(proxy) as consumer,
        ):
            receipts = [await producer.send(b"%d" % each) for each in range(3)]
            assert [each.index for each in receipts] == [3 * number + each for each in (1, 2, 3)]
            assert [each.id for each in receipts] == [each.id async for each in west.browse(orders)]
            for wanted in (b"0", b"1", b"2"):
                delivery = await anext(consumer)
                assert (delivery.payload, delivery.queue) == (wanted, proxy)
                delivery.ack()
    assert (await west.get_queue(orders)).length == 0
    async with aio.connect(pairs.east.target) as one, one.producer(new_name()) as producer:
        with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
            await producer.send(b"a name that nobody knows")
    into = new_name()
    await east.create_proxy(into, f"//west/{orders}", relationship=Relationship.PRODUCER)
    async with east.consumer(into) as consumer:
        with pytest.raises(Refused, match="RELATIONSHIP_MISMATCH"):
            await anext(consumer)


async def test_streams_end_with_the_proxy_though_others_lead_to_that_manager(
    east: aio.Client, west: aio.Client
) -> None:
    proxy, orders = await proxied(east, west)
    await east.create_proxy(new_name("other"), f"//west/{orders}")
    async with east.consumer(proxy) as consumer:
        await west.enqueue(orders, [b"1"])
        (await anext(consumer)).ack()
        await east.delete_proxy(proxy)
        with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
            await anext(consumer)


@pytest.mark.requirement("R059", "R068", "R069")
async def test_many_lead_to_one_queue_and_each_ends_alone(east: aio.Client, west: aio.Client) -> None:
    """Whoever uses that queue by another name, or by its own one, notices nothing; the name is free at once."""
    proxy, orders = await proxied(east, west)
    others = [new_name("proxy") for _ in range(2)]
    for each in others:
        await east.create_proxy(each, f"//west/{orders}")
    async with east.consumer(proxy) as ending, east.producer(others[0]) as left, west.producer(orders) as own:
        for producer in (left, own):
            await producer.send(b"before")
        for _ in range(2):
            (await anext(ending)).ack()
        await east.delete_proxy(proxy)
        with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
            await anext(ending)
        for producer in (left, own):
            await producer.send(b"after")
    assert (await east.dequeue(others[1], 2)).payloads == [b"after"] * 2
    await east.create_queue(proxy)
    assert await payloads(east, proxy) == []


@pytest.mark.requirement("R060")
async def test_what_is_sent_has_its_index_there_and_one_way_none(east: aio.Client, west: aio.Client) -> None:
    proxy, _ = await proxied(east, west)
    assert [each.index for each in await east.enqueue(proxy, [b"1", b"2"])] == [1, 2]
    proxy, orders = await proxied(east, west, QueueConfig(queue_type=QUEUE_TYPE_ONE_WAY))
    (receipt,) = await east.enqueue(proxy, [b"nobody waits for it"])
    assert (receipt.index, receipt.handle) == (0, b"")
    assert [message.payload for message in await arrived(west, orders, 1)] == [b"nobody waits for it"]


@pytest.mark.requirement("R064")
async def test_answers_that_come_in_another_order_reach_whoever_asked(east: aio.Client, west: aio.Client) -> None:
    """All calls wait at the other manager, over one connection, and are answered from the last one to the first."""
    made = [await proxied(east, west) for _ in range(4)]
    waiting = [asyncio.create_task(east.dequeue(proxy, wait=OUTER_S)) for proxy, _ in made]
    while made:
        (proxy, orders), last = made.pop(), waiting.pop()
        await west.enqueue(orders, [orders.encode()])
        got = await last
        assert (got.queue, got.payloads) == (proxy, [orders.encode()])
        assert not any(each.done() for each in waiting)


@pytest.mark.requirement("R034", "R036")
async def test_the_calls_of_the_first_design_use_one(pairs: Pairs, east: aio.Client, west: aio.Client) -> None:
    proxy, _ = await proxied(east, west)
    await east.create_queue(plain := new_name())

    def used() -> None:
        with QueueManager(pairs.east.endpoints[0]) as manager:
            manager.QueueConfigure()
            manager.QueueOpen()
            assert manager.BindToQueue(plain).GetQueueType() is Queue_Type.Actual
            bound = manager.BindToQueue(proxy)
            assert bound.GetQueueType() is Queue_Type.Remote_Proxy
            assert bound.GetQueueReplication() is True
            bound.EnqueueMsg(b"1", 0)
            message = bound.DequeueMsg(SECOND_NS)
            assert message is not None
            assert message.Data == b"1"

    await asyncio.to_thread(used)


@pytest.mark.requirement("R066")
async def test_it_is_shown_with_how_it_is_reached(pairs: Pairs, east: aio.Client, west: aio.Client) -> None:
    proxy, orders = await proxied(east, west)
    shown = await until_state(east, proxy, ProxyState.OPEN)
    assert (shown.target, shown.relationship, shown.why, shown.reopened) == (f"//west/{orders}", "", "", 0)
    assert shown.reached in ("a", "b")
    await east.enqueue(proxy, [b"1"])
    assert (await east.get_proxy(proxy)).calls == 1
    assert proxy in [each.name for each in await east.list_proxies()]
    await east.delete_proxy(proxy)
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await east.enqueue(proxy, [b"2"])
    assert (await west.get_queue(orders)).length == 1


async def test_the_commands_make_and_show_them(pairs: Pairs, west: aio.Client) -> None:
    orders, proxy = new_name("orders"), new_name("proxy")
    await west.create_queue(orders)

    def done(*words: str) -> dict[str, object]:
        result = CliRunner().invoke(root, [*words, "--target", pairs.east.target, "-o", "json"])
        assert result.exit_code == 0, result.output
        found: dict[str, object] = json.loads(result.output)
        return found

    def commands() -> None:
        shown = done("proxy", "create", proxy, f"//west/{orders}", "--producer", "--type", "ONE_WAY_QUEUED_ACK")
        assert (shown["target"], shown["relationship"]) == (f"//west/{orders}", "PRODUCER")
        assert done("proxy", "info", proxy)["handle"] == shown["handle"]
        listed = done("proxy", "ls")["proxies"]
        assert isinstance(listed, list)
        assert proxy in [each["name"] for each in listed]
        assert done("proxy", "rm", proxy, "--yes")["removed"] is True

    await asyncio.to_thread(commands)


async def test_a_name_has_one_meaning(east: aio.Client, west: aio.Client) -> None:
    """M1."""
    proxy, orders = await proxied(east, west)
    with pytest.raises(AlreadyExists, match=r"QUEUE_EXISTS.*is a proxy of"):
        await east.create_queue(proxy)
    with pytest.raises(AlreadyExists, match="QUEUE_EXISTS"):
        await east.create_macro(proxy)
    with pytest.raises(AlreadyExists, match="QUEUE_EXISTS"):
        await east.create_proxy(proxy, f"//west/{orders}")
    await east.create_queue(own := new_name())
    with pytest.raises(AlreadyExists, match="QUEUE_EXISTS"):
        await east.create_proxy(own, f"//west/{orders}")
    with pytest.raises(InvalidRequest, match=r"is a proxy of //west/.*connect to that manager"):
        await east.purge_queue(proxy)


async def test_calls_that_go_through_none_are_refused_by_name(pairs: Pairs, east: aio.Client, west: aio.Client) -> None:
    proxy, _ = await proxied(east, west)
    async with raw_to(pairs.east.endpoint((await roles(pairs.east))[0])) as (member,):
        queues, admin = QueueServiceStub(member.channel), QueueAdminServiceStub(member.channel)
        depths = WatchQueuesRequest(watches=[{"queue": proxy, "depth": 1}])
        for call in (
            to_end(queues.WatchQueues(depths, timeout=OUTER_S)),
            admin.RedriveQueue(RedriveQueueRequest(name=proxy, request_id=new_id()), timeout=OUTER_S),
        ):
            with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "is a proxy of //west/"):
                await call


async def to_end(stream: AsyncIterable[object]) -> None:
    """Raises what it is refused with."""
    async for _ in stream:
        pass


async def test_what_leads_nowhere_is_refused_when_it_is_made(east: aio.Client) -> None:
    for target, reason in (
        ("orders", "BAD_NAME"),
        ("///orders", "BAD_NAME"),
        ("//west", "BAD_NAME"),
        ("//west:billing/orders", "BAD_NAME"),
        ("//nobody/orders", "MANAGER_NOT_FOUND"),
        ("//east/orders", "CONFIG_ERROR"),
    ):
        with pytest.raises(TandemqError, match=reason):
            await east.create_proxy(new_name(), target)


@pytest.mark.requirement("R030")
async def test_a_call_that_the_relationship_does_not_have_is_refused(east: aio.Client, west: aio.Client) -> None:
    """M12."""
    await west.create_queue(orders := new_name())
    into, out = new_name(), new_name()
    await east.create_proxy(into, f"//west/{orders}", relationship=Relationship.PRODUCER)
    await east.create_proxy(out, f"//west/{orders}", relationship=Relationship.CONSUMER)
    await east.enqueue(into, [b"1"])
    with pytest.raises(Refused, match=r"RELATIONSHIP_MISMATCH.*is a PRODUCER"):
        await east.dequeue(into)
    with pytest.raises(Refused, match=r"RELATIONSHIP_MISMATCH.*is a CONSUMER"):
        await east.enqueue(out, [b"2"])
    assert (await east.dequeue(out)).payloads == [b"1"]


async def test_the_other_managers_refusal_is_the_callers(east: aio.Client, west: aio.Client) -> None:
    proxy, _ = await proxied(east, west, QueueConfig(max_message_bytes=4, remote_clients_allowed=False))
    with pytest.raises(Denied, match="REMOTE_NOT_ALLOWED"):
        await east.enqueue(proxy, [b"1"])
    with pytest.raises(Denied, match="REMOTE_NOT_ALLOWED"):
        await east.dequeue(proxy)
    proxy, _ = await proxied(east, west, QueueConfig(max_length=1))
    await east.enqueue(proxy, [b"1"])
    with pytest.raises(TandemqError, match="QUEUE_FULL"):
        await east.enqueue(proxy, [b"2"])


@pytest.mark.requirement("R021", "R059", "R066", "R067")
async def test_a_queue_that_is_not_as_expected_fails_the_proxy_until_it_is(east: aio.Client, west: aio.Client) -> None:
    """Type and parameters are looked at when it is opened; it opens by itself."""
    orders, proxy = new_name("orders"), new_name("proxy")
    expected = QueueConfig(queue_type=QUEUE_TYPE_ONE_WAY_QUEUED_ACK)
    await east.create_proxy(proxy, f"//west/{orders}", expected=expected)
    shown = await until_state(east, proxy, ProxyState.FAILED)
    assert shown.why.startswith("QUEUE_NOT_FOUND")
    await west.create_queue(orders, QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))

    async def mismatches() -> bool:
        return "CONFIG_MISMATCH" in (await east.get_proxy(proxy)).why

    await until(mismatches, "its type is looked at")
    assert "QUEUE_TYPE_TWO_WAY" in (await east.get_proxy(proxy)).why
    await west.delete_queue(orders)
    await west.create_queue(orders)
    shown = await until_state(east, proxy, ProxyState.OPEN)
    assert (shown.reopened, shown.why) == (1, "")
    await east.enqueue(proxy, [b"1"])


async def test_a_macro_queue_is_no_queue_that_one_leads_to(east: aio.Client, west: aio.Client) -> None:
    await west.create_macro(macro := new_name("macro"))
    await east.create_proxy(proxy := new_name("proxy"), f"//west/{macro}")
    shown = await until_state(east, proxy, ProxyState.FAILED)
    assert shown.why.startswith("QUEUE_NOT_FOUND")
    assert f"{macro} is a macro queue" in shown.why


@pytest.mark.requirement("R059")
async def test_another_manager_at_the_address_is_refused_by_name(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """`late` leads to west, which says so; what is meant for another one enters no queue of west."""
    await west.create_queue(orders := new_name())
    await east.create_proxy(proxy := new_name(), f"//{LATE}/{orders}")
    shown = await until_state(east, proxy, ProxyState.FAILED)
    assert "WRONG_PAIR" in shown.why
    assert "this is west" in shown.why
    async with raw_to(pairs.west.endpoint("a")) as (member,):
        request = EnqueueRequest(queue=orders, request_id=new_id(), messages=[{"payload": b"x"}])
        with refused("WRONG_PAIR", grpc.StatusCode.FAILED_PRECONDITION, "late"):
            meant = (("x-tandemq-proxied", "1 late"),)
            await QueueServiceStub(member.channel).Enqueue(request, timeout=OUTER_S, metadata=meant)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT):
            bad = (("x-tandemq-proxied", "west"),)
            await QueueServiceStub(member.channel).Enqueue(request, timeout=OUTER_S, metadata=bad)
    assert (await west.get_queue(orders)).length == 0


async def test_a_call_that_came_through_eight_proxies_goes_no_further(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    proxy, orders = await proxied(east, west)
    for member in pairs.east.endpoints:
        async with raw_to(member) as (raw,):
            for hops, ends in (("7 east", ""), ("8 east", "LOOP_LIMIT")):
                request = EnqueueRequest(queue=proxy, request_id=new_id(), messages=[{"payload": b"x"}])
                sent = QueueServiceStub(raw.channel).Enqueue(
                    request, timeout=OUTER_S, metadata=(("x-tandemq-proxied", hops),)
                )
                if not ends:
                    await sent
                    continue
                with refused(ends, grpc.StatusCode.FAILED_PRECONDITION, "circle"):
                    await sent
    assert (await west.get_queue(orders)).length == 2


@pytest.mark.requirement("R094")
async def test_once_over_both_pairs_failovers(tmp_path: Path) -> None:
    """Masters of both pairs are killed in turn under what is sent and received by the proxy: each message is there
    once, in order; then the whole other pair is away, and the proxy is FAILED and opens by itself.
    """
    here, there = made(tmp_path)
    await asyncio.gather(here.start(), there.start())
    async with stopped_at_end(here), stopped_at_end(there):
        clients = aio.connect(here.target, timeout=OUTER_S), aio.connect(there.target, timeout=OUTER_S)
        async with clients[0] as near, clients[1] as far:
            await far.create_queue("orders")
            await near.create_proxy("proxy", "//west/orders")
            wanted = [b"%d" % number for number in range(24)]
            for number, payload in enumerate(wanted):
                cluster = (here, there)[number // 6 % 2]
                master = (await roles(cluster))[0] if number % 6 == 3 else ""
                sent = asyncio.create_task(near.enqueue("proxy", [payload]))
                if master:
                    cluster.kill(master)
                await sent
                if master:
                    await cluster.restart(master)
            assert await payloads(far, "orders") == wanted
            got = []
            for number in range(len(wanted)):
                cluster = (here, there)[number // 6 % 2]
                master = (await roles(cluster))[0] if number % 6 == 3 else ""
                batch = await near.dequeue("proxy", 1)
                got += batch.payloads
                settled = asyncio.create_task(batch.ack())
                if master:
                    cluster.kill(master)
                await settled
                if master:
                    await cluster.restart(master)
            assert got == wanted
            assert await payloads(far, "orders") == []
            await _stream_over_failovers(near, here, there)
            await gone(there, "a", "b")
            with pytest.raises(Unavailable, match="MANAGER_UNREACHABLE"):
                async with aio.connect(here.target, timeout=7.0) as hurried:
                    await hurried.enqueue("proxy", [b"nobody"])
            await until_state(near, "proxy", ProxyState.FAILED)
            for name in ("a", "b"):
                there.spawn(name)
            await there.wait_ready()
            shown = await until_state(near, "proxy", ProxyState.OPEN)
            assert shown.reopened >= 1
            await near.enqueue("proxy", [b"again"])
            assert b"again" in await payloads(far, "orders")


async def _stream_over_failovers(client: aio.Client, here: Cluster, there: Cluster) -> None:
    """Of a producer and a consumer by the proxy, while the master of each pair is killed in turn."""
    wanted, got = [b"%d" % number for number in range(20)], []
    async with client.producer("proxy") as producer, client.consumer("proxy") as consumer:
        for number, payload in enumerate(wanted):
            cluster = (here, there)[number // 10]
            master = (await roles(cluster))[0] if number % 10 == 5 else ""
            if master:
                cluster.kill(master)
            await producer.send(payload)
            if master:
                await cluster.restart(master)
        while len(set(got)) < len(wanted):
            delivery = await anext(consumer)
            got.append(delivery.payload)
            delivery.ack()
    assert list(dict.fromkeys(got)) == wanted, "what was delivered and not settled in time may come again"
