"""Several units of work by one call: each is decided by itself, once, over real gRPC and kill -9 (TransactMany)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import Raw, new_id, new_name, payloads, raw_to, refused, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()


def unit(queue: str, *payloads: bytes) -> pb.TransactRequest:
    messages = [{"payload": each} for each in payloads]
    return pb.TransactRequest(request_id=new_id(), puts=[{"queue": queue, "messages": messages}])


async def call(member: Raw, units: Sequence[pb.TransactRequest]) -> list[pb.TransactAnswer]:
    stub = TransactionServiceStub(member.channel)
    return list((await stub.TransactMany(pb.TransactManyRequest(units=units), timeout=OUTER_S)).answers)


async def test_each_unit_happens_or_is_refused_by_itself_in_order(pair: Cluster, client: aio.Client) -> None:
    full, legs = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (master, replica):
        await master.create(full, max_length=2)
        await master.create(legs)
        units = [
            unit(legs, b"1"),
            unit(full, b"a", b"b", b"c"),  # one too many: none enters
            unit(new_name(), b"x"),
            unit(full, b"a", b"b"),
            pb.TransactRequest(request_id=b"short", puts=unit(legs, b"y").puts),
            unit(legs, b"2", b"3"),
        ]
        answers = await call(replica, units)
        reasons = [Reason.Name(each.refused.reason)[7:] if each.HasField("refused") else "" for each in answers]
        assert reasons == ["", "QUEUE_FULL", "QUEUE_NOT_FOUND", "", "BAD_REQUEST", ""]
        indexes = [[each.index for put in answer.done.puts for each in put.results] for answer in answers]
        assert indexes == [[1], [], [], [1, 2], [], [2, 3]]
        assert {each.done.header.copies for each in answers if each.HasField("done")} == {2}
        assert (await payloads(client, legs), await payloads(client, full)) == ([b"1", b"2", b"3"], [b"a", b"b"])


async def test_a_unit_is_known_by_its_own_id_whichever_call_it_comes_by(pair: Cluster, client: aio.Client) -> None:
    legs = new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (master, replica):
        await master.create(legs)
        first, second = unit(legs, b"1"), unit(legs, b"2")
        done = await TransactionServiceStub(replica.channel).Transact(first, timeout=OUTER_S)
        answers = await call(master, [first, second, first])
        assert [each.done.duplicate for each in answers] == [True, False, True]
        assert answers[0].done.puts == done.puts
        again = await TransactionServiceStub(master.channel).Transact(second, timeout=OUTER_S)
        assert again.duplicate
        assert again.puts == answers[1].done.puts
        other = pb.TransactRequest(request_id=second.request_id, puts=unit(legs, b"other").puts)
        [mismatch] = await call(master, [other])
        assert mismatch.refused.reason == Reason.REASON_REQUEST_MISMATCH
        assert await payloads(client, legs) == [b"1", b"2"]


async def test_a_call_that_is_too_large_does_nothing(pair: Cluster, client: aio.Client) -> None:
    legs = new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (master, replica):
        await master.create(legs)
        one = unit(legs, b"x")
        idle = pb.TransactRequest(request_id=new_id(), settles=[{"queue": legs, "settlements": [{"lease_id": 1}] * 50}])
        for units, words in (
            ([one] * 1_001, "1001 units"),
            ([unit(legs, *[b"x"] * 101)] * 100, "10100 messages"),
            ([idle] * 201, "10050 settlements"),
            ([pb.TransactRequest(request_id=new_id(), settles=[{}] * 1_000_000)], "1000000 settles"),
            ([pb.TransactRequest(request_id=new_id(), puts=[{}] * 60_000)], "60000 puts"),
        ):
            with refused("TXN_TOO_LARGE", grpc.StatusCode.INVALID_ARGUMENT, words):
                await call(replica, units)
        with refused("TXN_TOO_LARGE", grpc.StatusCode.INVALID_ARGUMENT, "bytes"):
            await call(master, [unit(legs, b"x" * (2 << 20))] * 3)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "at least one"):
            await call(master, [])
        assert await payloads(client, legs) == []


async def test_all_units_of_a_call_are_in_one_domain(pair: Cluster, client: aio.Client) -> None:
    main, local = new_name(), new_name()
    async with raw_to(pair.endpoint("a")) as (member,):
        await member.create(main)
        await member.create(local, domain="local")
        answers = await call(member, [unit(main, b"1"), unit(local, b"2"), unit(main, b"3")])
        assert [each.WhichOneof("answer") for each in answers] == ["done", "refused", "done"]
        assert answers[1].refused.reason == Reason.REASON_CROSS_DOMAIN
        assert await payloads(client, main) == [b"1", b"3"]
        await asyncio.gather(*(client.transact((), {queue: [b"4"]}) for queue in (main, local) * 10))
        assert len(await payloads(client, main)) == 12


async def test_a_queue_of_the_member_that_is_called_is_not_looked_for_at_the_master(
    pair: Cluster, client: aio.Client
) -> None:
    """Each member has a domain of its own, of which the other one knows nothing."""
    main, own = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (master, replica):
        await master.create(main)
        await replica.create(own, domain="local")
        answers = await call(replica, [unit(new_name(), b"0"), unit(main, b"1"), unit(own, b"2"), unit(main, b"3")])
        reasons = [Reason.Name(each.refused.reason)[7:] if each.HasField("refused") else "" for each in answers]
        assert reasons == ["QUEUE_NOT_FOUND", "", "CROSS_DOMAIN", ""]
        assert [each.done.puts[0].results[0].index for each in answers if each.HasField("done")] == [1, 2]
        answers = await call(replica, [unit(own, b"2"), unit(main, b"4")])
        assert [each.WhichOneof("answer") for each in answers] == ["done", "refused"]
        assert await payloads(client, main) == [b"1", b"3"]


@pytest.mark.promise
async def test_units_of_many_tasks_are_done_once_while_masters_die(tmp_path: Path) -> None:
    """Example 1 by fifty tasks at once: each message is taken by a unit that puts one into each of two queues."""
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders, legs, ledger = (new_name() for _ in range(3))
            for name in (orders, legs, ledger):
                await client.create_queue(name)
            wanted = [b"%d" % number for number in range(600)]
            for number in range(3):
                await client.enqueue(orders, wanted[number::3])
                parts = [await client.dequeue(orders, 4) for _ in range(50)]
                master, _ = await roles(cluster)
                work = [
                    asyncio.create_task(client.transact([part], {legs: part.payloads, ledger: part.payloads}))
                    for part in parts
                ]
                await work[0]  # the others are under way
                cluster.kill(master)
                await asyncio.gather(*work)
                await cluster.restart(master)
            assert await payloads(client, orders) == []
            assert sorted(await payloads(client, legs), key=int) == wanted
            assert await payloads(client, ledger) == await payloads(client, legs)
