"""Puts of a unit of work that come with its commit, at a real pair (U4, U7, U11)."""

from __future__ import annotations

import asyncio

import grpc
import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.carrying import Carrier
from tandemq.client.open_units import HELD_BYTES_MAX
from tandemq.client.reactions import Cancel
from tandemq.errors import NotFound, ResourceExhausted
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueRequest
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import Raw, new_id, new_name, raw_to, refused
from tests.integration.test_open_units import begun, payloads, put, queues
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()


def of(queue: str, *payloads: bytes, **more: object) -> EnqueueRequest:
    """A call that nobody has heard of yet."""
    fields = {"request_id": new_id(), "messages": [{"payload": each} for each in payloads], **more}
    return EnqueueRequest(queue=queue, **fields)


async def committed(member: Raw, unit_id: bytes, *puts: EnqueueRequest) -> pb.CommitResponse:
    request = pb.CommitRequest(unit_id=unit_id, puts=puts)
    answer: pb.CommitResponse = await TransactionServiceStub(member.channel).Commit(request, timeout=OUTER_S)
    return answer


async def test_u4_what_is_held_goes_with_the_commit_and_beyond_a_limit_before_it(client: aio.Client) -> None:
    orders, legs, bills = await queues(client)
    await client.enqueue(orders, [b"1"])
    async with client.unit(puts_at_commit=True) as unit:
        await unit.dequeue(orders)
        await unit.enqueue(legs, [b"a", b"b"])
        await unit.enqueue(bills, [b"c"])
        await unit.enqueue(legs, [b"d"])
        (shown,) = [each for each in await client.list_units() if each.id == unit.id]
        assert (shown.messages_locked, shown.messages_put) == (1, 0)
    assert [receipt.index for receipt in unit.receipts[legs]] == [1, 2, 3]
    assert [receipt.index for receipt in unit.receipts[bills]] == [1]
    assert (await payloads(client, legs), await payloads(client, orders)) == ([b"a", b"b", b"d"], [])
    async with client.unit(puts_at_commit=True) as unit:
        for size in (HELD_BYTES_MAX // 2, HELD_BYTES_MAX // 2, 1):
            await unit.enqueue(bills, [bytes(size)])
        (shown,) = [each for each in await client.list_units() if each.id == unit.id]
        assert (shown.messages_put, len(unit.held)) == (2, 1)
    assert [len(each) for each in await payloads(client, bills)] == [1, HELD_BYTES_MAX // 2, HELD_BYTES_MAX // 2, 1]


@pytest.mark.parametrize("at_commit", [True, False])
async def test_puts_of_several_tasks_at_once_are_all_sent(client: aio.Client, at_commit: bool) -> None:
    """Each task began a unit of its own, of which one was committed. And all found the same put held first, and each
    took one out when it was there: another one was never sent.
    """
    legs = new_name()
    await client.create_queue(legs)
    sizes = [HELD_BYTES_MAX // 2 + number for number in range(6)]
    async with client.unit(puts_at_commit=at_commit) as unit:
        await asyncio.gather(*(unit.enqueue(legs, [bytes(size)]) for size in sizes))
    assert sorted(len(each) for each in await payloads(client, legs)) == sizes


async def test_a_member_that_knows_no_puts_at_a_commit_gets_them_before_it(
    client: aio.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an older version would commit without them."""
    begin = Carrier.begin

    async def older(carrier: Carrier, request: pb.BeginRequest) -> pb.BeginResponse | None:
        answer = await begin(carrier, request)
        if answer is not None:
            answer.ClearField("puts_at_commit")
        return answer

    monkeypatch.setattr(Carrier, "begin", older)
    legs = new_name()
    await client.create_queue(legs)
    async with client.unit(puts_at_commit=True) as unit:
        await unit.enqueue(legs, [b"a"])
        assert not unit.held
    assert await payloads(client, legs) == [b"a"]


async def test_u7_a_refused_put_refuses_the_commit_and_is_put_once(client: aio.Client) -> None:
    orders, legs, narrow = new_name(), new_name(), new_name()
    for name, config in ((orders, None), (legs, None), (narrow, QueueConfig(max_length=1))):
        await client.create_queue(name, config)
    await client.enqueue(orders, [b"1"])
    (kept,) = await client.enqueue(narrow, [b"in the way"])
    unit = client.unit(puts_at_commit=True)
    await unit.dequeue(orders)
    await unit.enqueue(legs, [b"a"])
    await unit.enqueue(narrow, [b"b"])
    for _ in range(2):
        with pytest.raises(ResourceExhausted, match="full") as full:
            await unit.commit()
        assert full.value.reason == "QUEUE_FULL"
    assert kept.index == 1
    await (await client.dequeue(narrow)).ack()
    done = await unit.commit()
    assert {name: len(receipts) for name, receipts in done.items()} == {legs: 1, narrow: 1}
    assert (await payloads(client, legs), await payloads(client, narrow)) == ([b"a"], [b"b"])
    missing = client.unit(puts_at_commit=True)
    await missing.enqueue(legs, [b"x"])
    await missing.enqueue("no-such-queue", [b"y"])
    for _ in range(2):
        with pytest.raises(NotFound, match="no-such-queue"):
            await missing.commit()
    await missing.rollback()
    assert await payloads(client, legs) == [b"a"]


async def test_a_reaction_and_a_put_are_refused_in_their_own_order(client: aio.Client) -> None:
    """What is held is put before the reaction is asked, so that the second of the two is the one refused."""
    legs = new_name()
    await client.create_queue(legs, QueueConfig(reactions_enabled=True))
    async with client.unit(puts_at_commit=True) as unit:
        await unit.enqueue(legs, [b"a"])
        assert (await unit.react(legs, "correlation_id = 'none'", Cancel())).held == 0
        assert not unit.held
    assert await payloads(client, legs) == [b"a"]


async def test_a_commit_with_puts_is_repeated_through_either_member(pair: Cluster) -> None:
    """U11: one effect and one answer, in the order of the calls, whoever is asked."""
    legs = new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        one, other = members
        await one.create(legs)
        unit_id = await begun(other, legs)
        await put(one, unit_id, legs, b"1")
        puts = [of(legs, b"2", b"3"), of(legs, b"4", unit_id=unit_id)]
        answers = [await committed(member, unit_id, *puts) for member in (other, one, other)]
        for another in (of(legs, b"another"), of("//nowhere/orders", b"x"), of(legs)):
            with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT):
                await committed(one, unit_id, another)
        answers.append(await committed(one, unit_id))
        assert [answer.duplicate for answer in answers] == [False, *[True] * 3]
        assert {tuple(each.index for each in answer.puts[0].results) for answer in answers} == {(1, 2, 3, 4)}
        assert [each.message.payload for each in (await one.receive(legs, 10)).messages] == [b"1", b"2", b"3", b"4"]


async def test_a_put_that_came_with_a_refused_commit_is_a_part_of_the_unit(pair: Cluster) -> None:
    legs = new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (one, other):
        await one.create(legs)
        unit_id = await begun(one, legs)
        first = of(legs, b"1")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no-such-queue"):
            await committed(other, unit_id, first, of("no-such-queue", b"2"))
        with refused("MANAGER_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nowhere"):
            await committed(other, unit_id, of("//nowhere/orders", b"2"))
        second = await begun(other, legs)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, ""):
            await committed(one, second, of(legs, b"0"), of(legs))
        assert [len(each.results) for each in (await committed(other, second)).puts] == [1]
        changed = EnqueueRequest()
        changed.CopyFrom(first)
        changed.messages[0].payload = b"another"
        with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT, "different request"):
            await committed(one, unit_id, changed)
        done = await committed(one, unit_id, first)
        assert [len(each.results) for each in done.puts] == [1]
        assert [each.message.payload for each in (await one.receive(legs, 10)).messages] == [b"0", b"1"]


async def test_bad_puts_of_a_commit_are_refused_and_nothing_is_done(pair: Cluster) -> None:
    legs, local = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (one, other):
        await one.create(legs)
        await one.create(local, domain="local")
        unit_id, strange = await begun(one, legs), await begun(one, legs)
        bad = grpc.StatusCode.INVALID_ARGUMENT
        for member in (one, other):
            for wrong, reason, status, text in (
                (of(legs, b"1", request_id=b""), "BAD_REQUEST", bad, "request_id"),
                (of(legs, b"1", unit_id=strange), "BAD_REQUEST", bad, "another unit"),
                (of(legs), "BAD_REQUEST", bad, ""),
                (of(legs, b"1", messages=[{"ttl": {"seconds": -1}}]), "BAD_ATTRIBUTE", bad, "ttl"),
            ):
                with refused(reason, status, text):
                    await committed(member, unit_id, wrong)
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "one domain"):
            await committed(one, unit_id, of(local, b"1"))
        many = [of(legs, b"1")] * 10_001
        with refused("TXN_TOO_LARGE", grpc.StatusCode.INVALID_ARGUMENT, "10001 calls"):
            await committed(one, unit_id, *many)
        with refused("TXN_TOO_LARGE", grpc.StatusCode.INVALID_ARGUMENT, "bytes; it may have 4194304"):
            await committed(one, unit_id, *[of(legs, bytes(1 << 20))] * 5)
        assert not (await committed(one, unit_id)).puts
        assert not (await one.receive(legs)).messages


def test_the_blocking_client_holds_puts_too(pair: Cluster) -> None:
    orders, legs = new_name(), new_name()
    with tandemq.connect(pair.target) as client:
        for name in (orders, legs):
            client.create_queue(name)
        client.enqueue(orders, [b"1"])
        with client.unit(puts_at_commit=True) as unit:
            unit.dequeue(orders)
            unit.enqueue(legs, [b"a"])
        assert [receipt.index for receipt in unit.receipts[legs]] == [1]
        client.in_unit(lambda unit: unit.enqueue(legs, [b"b"]), puts_at_commit=True)
        assert [each.payload for each in client.browse(legs)] == [b"a", b"b"]
        assert not client.dequeue(orders)


async def test_u11_a_commit_that_is_repeated_with_other_puts_is_refused_by_name(
    pair: Cluster, client: aio.Client
) -> None:
    """Without puts it says what came of it, and with its own; the other ones are nowhere."""
    orders, legs, narrow = new_name(), new_name(), new_name()
    for name, config in ((orders, None), (legs, None), (narrow, QueueConfig(max_length=1))):
        await client.create_queue(name, config)
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (member, other):
        unit = await begun(member, orders)
        own, longer = of(legs, b"1"), of(legs, b"2")
        first = await committed(member, unit, own)
        again = EnqueueRequest()
        again.CopyFrom(own)
        again.messages[0].payload = b"changed"
        for at in (member, other):
            for puts in ((own, longer), (longer,), (again,)):
                with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT, "committed with other puts"):
                    await committed(at, unit, *puts)
            for puts in ((own,), ()):
                repeated = await committed(at, unit, *puts)
                assert (repeated.duplicate, repeated.puts[0].results[0].index) == (
                    True,
                    first.puts[0].results[0].index,
                )
        assert await payloads(client, legs) == [b"1"]
        # What an earlier commit brought, which was refused, is the unit's: without puts it is committed, and repeated
        # with those it is the same.
        await client.enqueue(narrow, [b"in the way"])
        unit, full = await begun(member, orders), of(narrow, b"3")
        with refused("QUEUE_FULL", grpc.StatusCode.RESOURCE_EXHAUSTED):
            await committed(member, unit, full)
        await (await client.dequeue(narrow)).ack()
        assert not (await committed(member, unit)).duplicate
        assert (await committed(member, unit, full)).duplicate
        bare = await begun(member, orders)
        await put(member, bare, legs, b"4")
        await committed(member, bare)
        with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT):
            await committed(member, bare, of(legs, b"5"))
    assert await payloads(client, legs) == [b"1", b"4"]
