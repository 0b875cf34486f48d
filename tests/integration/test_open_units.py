"""Units of work that are open over several calls, at a real pair: commit, rollback, deadline, kill -9 (U1-U12)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.errors import LeaseLost, NotFound, ResourceExhausted, UnitAborted
from tandemq.v1 import queue_service_pb2 as queue_pb2
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import Raw, new_id, new_name, payloads, queues, raw_to, refused, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()


HASTY_S = 0.1
"""In which a client gives up an attempt: a few of them are less than what ends a connection to a frozen member."""


class WorkFailedError(Exception):
    """Of a handler."""


@pytest.mark.requirement("R187")
async def test_u12_the_end_of_the_block_commits(client: aio.Client) -> None:
    orders, legs, ledger = await queues(client)
    await client.enqueue(orders, [b"1", b"2"])
    async with client.unit() as unit:
        taken = await unit.dequeue(orders)
        await unit.enqueue(legs, [b"a", tandemq.Outgoing(b"b", {"priority": 9})])
        await unit.enqueue(ledger, [b"!"])
        await unit.enqueue(legs, [b"c"])
        info = await client.get_queue(orders)
        assert (info.length, info.leased, info.locked) == (2, 1, 1), "locked, and counted (U5)"
        assert await payloads(client, legs) == [], "nobody sees it (U4)"
        assert [each.payload for each in await client.dequeue(orders)] == [b"2"]
    assert [each.payload for each in taken] == [b"1"]
    assert {queue: [each.index for each in receipts] for queue, receipts in unit.receipts.items()} == {
        legs: [1, 2, 3],
        ledger: [1],
    }
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"2"], [b"a", b"b", b"c"])
    got = await client.dequeue(legs, 10)
    assert [(each.payload, each.id) for each in got] == [
        (b"b", unit.receipts[legs][1].id),
        (b"a", unit.receipts[legs][0].id),
        (b"c", unit.receipts[legs][2].id),
    ]


@pytest.mark.requirement("R187")
async def test_u9_an_exception_rolls_back_and_the_delivery_counts(client: aio.Client) -> None:
    """Example 2, its first half: three failures, and the dead-letter queue has it."""
    (legs,) = await queues(client, 1)
    orders = new_name()
    await client.create_queue(orders, QueueConfig(max_deliveries=3))
    await client.create_queue(orders + ".dead")
    await client.enqueue(orders, [b"poison"])

    async def fail(count: int) -> None:
        async with client.unit() as unit:
            taken = await unit.dequeue(orders)
            assert [each.delivery_count for each in taken] == [count]
            await unit.enqueue(legs, [b"never"])
            raise WorkFailedError

    for count in (1, 2, 3):
        with pytest.raises(WorkFailedError):
            await fail(count)
    dead = await client.dequeue(orders + ".dead", wait=OUTER_S)
    assert [each.payload for each in dead] == [b"poison"]
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [])


async def test_a_unit_of_which_a_call_was_cut_off_is_not_committed(client: aio.Client) -> None:
    """What that call took would be acknowledged, and its caller has never seen it."""
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1"])
    unit = client.unit()
    await unit.enqueue(legs, [b"a"])
    cut_off = asyncio.create_task(unit.dequeue(orders))
    await asyncio.sleep(0)  # it has begun, and is not answered
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off
    with pytest.raises(UnitAborted, match="cut off"):
        await unit.commit()
    with pytest.raises(UnitAborted):
        await unit.enqueue(legs, [b"b"])
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"1"], [])
    async with client.unit() as idle:
        cut_off = asyncio.create_task(idle.dequeue(orders))
        await asyncio.sleep(0)
        cut_off.cancel()
    assert [each.payload for each in await client.dequeue(orders, wait=OUTER_S)] == [b"1"]


async def test_who_is_cancelled_takes_no_other_unit_along(client: aio.Client) -> None:
    """All units of a client are begun over one stream, whose end rolls them back."""
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1"])
    async with client.unit() as unit:
        assert [each.payload for each in await unit.dequeue(orders)] == [b"1"]
        for _ in range(3):
            cut_off = asyncio.create_task(client.unit().enqueue(legs, [b"x"]))
            for _ in range(10):
                await asyncio.sleep(0)  # it begins
            cut_off.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cut_off
        await unit.enqueue(legs, [b"a"])
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"a"])


async def test_a_begin_that_is_not_answered_takes_no_other_unit_along(pair: Cluster, client: aio.Client) -> None:
    """Its caller does not wait for ever; the stream that carries the others stays."""
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1"])
    master, _ = await roles(pair)
    async with aio.connect(pair.target, timeout=OUTER_S, attempt_timeout=HASTY_S) as hasty:
        unit, late = hasty.unit(), hasty.unit()
        await unit.dequeue(orders)
        pair.pause(master)
        try:
            beginning = asyncio.create_task(late.enqueue(legs, [b"b"]))
            done, _ = await asyncio.wait({beginning}, timeout=3 * HASTY_S)
            assert not done, "a frozen master has answered"
        finally:
            pair.resume(master)
        await beginning
        await unit.enqueue(legs, [b"a"])
        await unit.commit()
        await late.commit()
        async with hasty.unit() as third:  # over the same stream again, perhaps
            await third.enqueue(legs, [b"c"])
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"a", b"b", b"c"])


async def test_u7_a_refused_commit_leaves_the_unit_open(client: aio.Client) -> None:
    """Example 3."""
    small = new_name()
    await client.create_queue(small, QueueConfig(max_length=1))
    await client.enqueue(small, [b"1"])
    async with client.unit() as unit:  # one out, one in
        await unit.dequeue(small)
        await unit.enqueue(small, [b"2"])
    unit = client.unit()
    await unit.enqueue(small, [b"3"])
    with pytest.raises(ResourceExhausted, match=r"QUEUE_FULL.*message 0"):
        await unit.commit()
    await (await client.dequeue(small)).ack()
    receipts = await unit.commit()
    assert [each.index for each in receipts[small]] == [3]
    assert await payloads(client, small) == [b"3"]
    with pytest.raises(UnitAborted):
        await unit.enqueue(small, [b"4"])


async def test_u6_what_was_taken_outside_is_settled_in_a_unit(client: aio.Client) -> None:
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1", b"2", b"3"])
    dead = orders + ".dead"
    await client.create_queue(dead)
    outside, lost = await client.dequeue(orders), await client.dequeue(orders)
    async with client.unit() as unit:
        bad = await unit.dequeue(orders)
        await unit.ack(outside)
        await unit.reject(bad, "no such product")
        await unit.enqueue(legs, [b"a"])
        await lost.release()
        with pytest.raises(LeaseLost):
            await unit.ack(lost)
    assert [each.payload for each in await client.dequeue(dead, wait=OUTER_S)] == [b"3"]
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"2"], [b"a"])
    async with client.unit() as unit:
        taken = await client.dequeue(orders)
        await unit.ack(taken)
        await taken.release()
        with pytest.raises(LeaseLost):
            await unit.commit()
    assert await payloads(client, orders) == [b"2"]


async def test_u9_the_deadline_ends_a_unit_whose_client_has_gone(client: aio.Client) -> None:
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1"])
    unit = client.unit(timeout=timedelta(milliseconds=300))
    await unit.dequeue(orders)
    await unit.enqueue(legs, [b"a"])
    again = await client.dequeue(orders, wait=OUTER_S)
    assert [each.delivery_count for each in again] == [2]
    with pytest.raises(UnitAborted, match="nothing of it happened") as aborted:
        await unit.commit()
    assert aborted.value.definite
    assert await payloads(client, legs) == []


async def test_an_empty_unit_is_no_error(client: aio.Client) -> None:
    (orders,) = await queues(client, 1)
    async with client.unit() as unit:
        assert not await unit.dequeue(orders)
    assert unit.receipts == {}
    async with client.unit() as unit:
        pass
    assert unit.id == b""
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.unit().dequeue("no-such-queue")


@pytest.mark.parametrize("through", ["a", "b"])
async def test_u9_a_client_that_goes_away_gives_back_what_it_had_at_once(
    pair: Cluster, client: aio.Client, through: str
) -> None:
    """However long its units may be open, and over the member between too."""
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1", b"2"])
    leaver = aio.connect(pair.endpoint(through), follow_master=False)
    units = [leaver.unit(timeout=timedelta(hours=1)) for _ in range(2)]
    for unit in units:
        await unit.dequeue(orders)
        await unit.enqueue(legs, [b"a"])
    await units[1].commit()
    await leaver.close()
    again = await client.dequeue(orders, wait=OUTER_S)
    assert [(each.payload, each.delivery_count) for each in again] == [(b"1", 2)]
    assert await payloads(client, legs) == [b"a"]


async def test_open_units_are_listed(pair: Cluster, client: aio.Client) -> None:
    orders, legs, _ = await queues(client)
    await client.enqueue(orders, [b"1", b"2"])
    unit = client.unit(client_id="the biller")
    await unit.dequeue(orders, 2)
    await unit.enqueue(legs, [b"a"])
    (found,) = [each for each in await client.list_units() if each.id == unit.id]
    assert (found.client_id, found.messages_locked, found.messages_put) == (b"the biller", 2, 1)
    assert (set(found.queues), found.left <= timedelta(seconds=30)) == ({orders, legs}, True)

    async def shown() -> list[dict[str, Any]]:
        words = ["unit", "ls", "-o", "json", "--target", pair.target]
        done = await asyncio.to_thread(CliRunner().invoke, root, words)
        assert done.exit_code == 0, done.output
        return [each for each in json.loads(done.stdout)["units"] if each["id"] == unit.id.hex()]

    (row,) = await shown()
    assert (row["client"], row["locked"], row["puts"], row["queues"]) == ("the biller", 2, 1, sorted((orders, legs)))
    assert await unit.rollback() == 2
    assert await shown() == []


def test_the_blocking_client_has_the_same_unit(pair: Cluster) -> None:
    orders, legs = new_name(), new_name()
    with tandemq.connect(pair.target) as client:
        for name in (orders, legs):
            client.create_queue(name)
        client.enqueue(orders, [b"1"])

        def fail() -> None:
            with client.unit() as unit:
                unit.dequeue(orders)
                raise WorkFailedError

        with pytest.raises(WorkFailedError):
            fail()
        with client.unit() as unit:
            taken = unit.dequeue(orders)
            unit.enqueue(legs, [b"leg of " + taken[0].payload])
        assert [receipt.index for receipt in unit.receipts[legs]] == [1]
        assert not client.dequeue(orders)


async def begun(member: Raw, queue: str, **more: Any) -> bytes:
    request = pb.BeginRequest(queue=queue, request_id=new_id(), **more)
    answer = await TransactionServiceStub(member.channel).Begin(request, timeout=OUTER_S)
    unit_id: bytes = answer.unit_id
    return unit_id


async def queue_call(member: Raw, method: str, request: Any, answer: Any) -> Any:
    data = await member.bytes_call(f"/tandemq.v1.QueueService/{method}", request.SerializeToString())
    return answer.FromString(data)


async def put(member: Raw, unit_id: bytes, queue: str, *sent: bytes) -> queue_pb2.EnqueueResponse:
    messages = [{"payload": payload} for payload in sent]
    request = queue_pb2.EnqueueRequest(queue=queue, request_id=new_id(), messages=messages, unit_id=unit_id)
    made: queue_pb2.EnqueueResponse = await queue_call(member, "Enqueue", request, queue_pb2.EnqueueResponse)
    return made


async def get(member: Raw, unit_id: bytes, queue: str, **more: Any) -> queue_pb2.DequeueResponse:
    request = queue_pb2.DequeueRequest(queue=queue, request_id=new_id(), unit_id=unit_id, **more)
    made: queue_pb2.DequeueResponse = await queue_call(member, "Dequeue", request, queue_pb2.DequeueResponse)
    return made


async def test_a_client_without_the_sdk_through_either_member(pair: Cluster) -> None:
    """Each call of one unit goes to another member, and the commit is repeated at both (U11)."""
    orders, legs = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        one, other = members
        for name in (orders, legs):
            await one.create(name)
        await one.send(orders, b"1")
        unit_id = await begun(other, orders)
        got = await get(one, unit_id, orders)
        kept = await put(other, unit_id, legs, b"x", b"y")
        assert [(each.completion, each.index, each.id) for each in kept.results] == [(1, 0, b"")] * 2
        commit = pb.CommitRequest(unit_id=unit_id)
        answers = [
            await TransactionServiceStub(member.channel).Commit(commit, timeout=OUTER_S) for member in (one, other, one)
        ]  # fmt: skip
        assert [answer.duplicate for answer in answers] == [False, True, True]
        for answer in answers:
            assert [(each.queue, [entry.index for entry in each.results]) for each in answer.puts] == [(legs, [1, 2])]
        assert len({answer.puts[0].results[1].id for answer in answers}) == 1
        assert got.messages[0].message.payload == b"1"
        with refused("INVALID_STATE", grpc.StatusCode.FAILED_PRECONDITION, "is committed"):
            await TransactionServiceStub(other.channel).Rollback(pb.RollbackRequest(unit_id=unit_id), timeout=OUTER_S)
        second = await begun(one, legs)
        got = await get(other, second, legs, max_messages=2)
        settlement = {"lease_id": got.lease_id, "ranges": [{"first": 1, "count": 1}], "outcome": "OUTCOME_RELEASE"}
        request = queue_pb2.SettleRequest(
            queue=legs, request_id=new_id(), settlements=[settlement], unit_id=second
        )  # fmt: skip
        settled = await queue_call(one, "Settle", request, queue_pb2.SettleResponse)
        assert [each.settled for each in settled.results] == [1]
        done = await TransactionServiceStub(other.channel).Commit(pb.CommitRequest(unit_id=second), timeout=OUTER_S)
        assert not done.puts
        assert [each.message.payload for each in (await one.receive(legs)).messages] == [b"x"]
        third = await begun(other, orders)
        await one.send(orders, b"2")
        await get(one, third, orders)
        stub = TransactionServiceStub(one.channel)
        for returned in (1, 0):
            answer = await stub.Rollback(pb.RollbackRequest(unit_id=third), timeout=OUTER_S)
            assert answer.returned == returned
        with refused("TXN_ABORTED", grpc.StatusCode.ABORTED, third.hex()):
            await stub.Commit(pb.CommitRequest(unit_id=third), timeout=OUTER_S)


async def test_bad_input_is_refused_by_name_and_the_unit_stays_as_it_was(pair: Cluster) -> None:
    local, main = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (member, other):
        await member.create(local, domain="local")
        await member.create(main)
        unit_id = await begun(member, main)
        await put(member, unit_id, main, b"a")
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "a unit of work has one domain"):
            await put(member, unit_id, local, b"b")
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "a unit of work has one domain"):
            await get(member, unit_id, local)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "IMMEDIATE"):
            await get(member, unit_id, main, settle_mode="SETTLE_MODE_IMMEDIATE")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no-such-queue"):
            await put(member, unit_id, "no-such-queue", b"b")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no-such-queue"):
            await begun(member, "no-such-queue")
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "3600 s"):
            await begun(member, main, timeout={"seconds": 3_601})
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "client id"):
            await begun(member, main, client_id=bytes(65))
        for wrong in (b"", b"short", bytes(16), unit_id + b"x"):
            with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "Begin has given"):
                request = pb.CommitRequest(unit_id=wrong)
                await TransactionServiceStub(member.channel).Commit(request, timeout=OUTER_S)
        unknown = unit_id[:12] + bytes(4)
        for call in (put(member, unknown, main, b"b"), get(member, unknown, main)):
            with refused("TXN_ABORTED", grpc.StatusCode.ABORTED, unknown.hex()):
                await call
        own = await begun(member, local)
        await put(member, own, local, b"b")
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "open at that member alone"):
            await TransactionServiceStub(other.channel).Commit(pb.CommitRequest(unit_id=own), timeout=OUTER_S)
        for done, queue in ((own, local), (unit_id, main)):
            answer = await TransactionServiceStub(member.channel).Commit(
                pb.CommitRequest(unit_id=done), timeout=OUTER_S
            )  # fmt: skip
            assert [(each.queue, len(each.results)) for each in answer.puts] == [(queue, 1)]


@pytest.mark.promise
async def test_the_master_dies_again_and_again_in_the_middle_of_open_units(tmp_path: Path) -> None:
    """Examples 1 and 2: whatever a unit had done when its master died by kill -9, all of it is there, or nothing; what
    it got comes back at once, and no delivery is counted.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders, legs, ledger = await queues(client)
            wanted = [b"%d" % number for number in range(40)]
            await client.enqueue(orders, wanted)
            counts: list[int] = []
            killed_after = {5: 1, 12: 2, 20: 3, 28: 4}
            for number in range(len(wanted)):
                await _work_off(cluster, client, (orders, legs, ledger), killed_after.get(number, 0), counts)
            assert await payloads(client, orders) == []
            assert sorted(await payloads(client, legs), key=int) == wanted
            assert await payloads(client, ledger) == await payloads(client, legs)
            assert set(counts) == {1}, "no takeover counts as a delivery"


async def _work_off(
    cluster: Cluster, client: aio.Client, names: tuple[str, str, str], kill_after: int, counts: list[int]
) -> None:
    """One message, by as many units as it takes. `kill_after`: calls of the first one, the commit too; 0: never."""
    orders, legs, ledger = names
    killed: asyncio.Task[None] | None = None

    async def step(number: int) -> None:
        nonlocal killed
        if number == kill_after and killed is None:
            master, _ = await roles(cluster)
            cluster.kill(master)
            killed = asyncio.create_task(cluster.restart(master))

    while True:
        try:
            async with client.unit() as unit:
                taken = await unit.dequeue(orders, wait=OUTER_S)
                counts += [each.delivery_count for each in taken]
                await step(1)
                await unit.enqueue(legs, [taken[0].payload])
                await step(2)
                await unit.enqueue(ledger, [taken[0].payload])
                await step(3)
                committing = asyncio.create_task(unit.commit())
                await asyncio.sleep(0)
                await step(4)
                await committing
            break
        except UnitAborted:
            continue
    if killed is not None:
        await killed
        await cluster.wait_ready()
