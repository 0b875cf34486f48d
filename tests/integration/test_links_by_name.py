"""Full names of queues of other managers in streams and in open units (X1, X2), and what a link is set to and shows
(X6). Two real pairs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

import tandemq
from tandemq import aio
from tandemq.errors import TandemqError
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch, ProduceOpen, ProduceRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.integration.support import new_id, new_name, payloads, raw_to, roles
from tests.integration.two_pairs import LATE, XMIT, Pairs, client_of, is_empty, there, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def test_x2_what_a_producer_streams_goes_on_by_either_member(pairs: Pairs, west: aio.Client) -> None:
    """The first batch comes through the replica, which has its master make the transmission queue. The messages of one
    producer are numbered for each queue by themselves, although they enter one.
    """
    orders, others = new_name(), new_name()
    await west.create_queue(orders)
    await west.create_queue(others)
    master, replica = await roles(pairs.east)
    for number, member in enumerate((replica, master)):
        async with aio.connect(pairs.east.endpoint(member), follow_master=False) as client:
            one = client.producer(f"//{LATE}/{orders}", forward=True, client_id="p")
            other = client.producer(f"//{LATE}/{others}", forward=True, client_id="p")
            async with one, other:
                for part in (0, 1):
                    sent = [b"%d%d%d" % (number, part, each) for each in range(3)]
                    first, second = await one.send_many(sent, properties={"k": 1}), await other.send_many(sent)
                    assert (first[0].copies, second[0].copies) == (2, 2)
                    assert second[0].index > first[2].index, "they stand in one queue"
    wanted = [b"%d%d%d" % (number, part, each) for number in (0, 1) for part in (0, 1) for each in range(3)]
    got = await there(west, orders, len(wanted))
    assert [each.payload for each in got] == wanted
    assert {each.properties["k"] for each in got} == {1}
    assert {each.properties["tq_hops"] for each in got} == {1}
    assert [each.payload for each in await there(west, others, len(wanted))] == wanted


@pytest.mark.requirement("R179")
async def test_x2_a_batch_of_a_stream_that_is_repeated_goes_on_once(pairs: Pairs, west: aio.Client) -> None:
    """The answer says by which queue it goes."""
    orders = new_name()
    await west.create_queue(orders)
    open_ = ProduceOpen(client_id=new_id(), queue=f"//west/{orders}")
    batch = EnqueueBatch(queue=open_.queue, first_sequence=1, messages={"payloads": [b"1", b"2"]})
    answers = []
    async with raw_to(pairs.east.endpoint("a"), pairs.east.endpoint("b")) as members:
        for number, member in enumerate((*members, members[0])):
            stream = QueueServiceStub(member.channel).Produce(timeout=OUTER_S)
            await stream.write(ProduceRequest(open=open_))
            assert (await stream.read()).opened.last_sequence == (2 if number else 0)
            await stream.write(ProduceRequest(batch=batch))
            answers.append((await stream.read()).ack)
            await stream.done_writing()
        assert [each.forwarded for each in answers] == [XMIT] * 3
        assert [each.duplicate for each in answers] == [False, True, True]
        assert {(each.queue, each.first_index, each.count) for each in answers} == {
            (open_.queue, answers[0].first_index, 2)
        }
        stream = QueueServiceStub(members[0].channel).Produce(timeout=OUTER_S)
        await stream.write(ProduceRequest(open=ProduceOpen(client_id=open_.client_id, queue=f"{open_.queue}-2")))
        assert (await stream.read()).opened.last_sequence == 0, "another queue there is another row of numbers"
        await stream.done_writing()
        for queue, reason in (("//nobody/q", "MANAGER_NOT_FOUND"), (f"//east/{orders}", "QUEUE_NOT_FOUND")):
            batch.queue = queue
            stream = QueueServiceStub(members[1].channel).Produce(timeout=OUTER_S)
            await stream.write(ProduceRequest(open=open_))
            await stream.read()
            await stream.write(ProduceRequest(batch=batch))
            reject = (await stream.read()).reject
            assert (reject.queue, Reason.Name(reject.error.reason)) == (queue, f"REASON_{reason}")
            await stream.done_writing()
    assert [each.payload for each in await there(west, orders, 2)] == [b"1", b"2"]


async def test_x2_a_stream_reaches_its_own_managers_queue_by_a_full_name(pairs: Pairs, east: aio.Client) -> None:
    orders = new_name()
    await east.create_queue(orders)
    async with east.producer(f"//east/{orders}", forward=True, client_id="p") as producer:
        receipts = await producer.send_many([b"1", b"2"])
        assert [each.index for each in receipts] == [1, 2]
    assert await payloads(east, orders) == [b"1", b"2"]


async def test_x1_what_an_open_unit_sends_on_goes_with_its_commit(east: aio.Client, west: aio.Client) -> None:
    inbox, legs, orders, others = new_name(), new_name(), new_name(), new_name()
    await east.create_queue(inbox)
    await east.create_queue(legs)
    await west.create_queue(orders)
    await west.create_queue(others)
    await east.enqueue(inbox, [b"1", b"2"])
    async with east.unit() as undone:
        await undone.dequeue(inbox)
        await undone.enqueue(f"//west/{orders}", [b"never"])
        await undone.rollback()
    async with east.unit() as unit:
        await unit.dequeue(inbox)
        await unit.enqueue(f"//west/{orders}", [tandemq.Outgoing(b"a", {"properties": {"k": 1}}), b"b"])
        await unit.enqueue(legs, [b"leg"])
        await unit.enqueue(f"//west/{others}", [b"c"])
    assert {queue: len(receipts) for queue, receipts in unit.receipts.items()} == {XMIT: 3, legs: 1}
    assert await payloads(east, legs) == [b"leg"]
    got = await there(west, orders, 2)
    assert [each.payload for each in got] == [b"a", b"b"]
    assert got[0].properties["k"] == 1
    assert got[0].properties["tq_source_id"] == unit.receipts[XMIT][0].id
    assert [each.payload for each in await there(west, others, 1)] == [b"c"]
    async with east.unit() as unit:
        await unit.dequeue(inbox)
        with pytest.raises(TandemqError, match="MANAGER_NOT_FOUND"):
            await unit.enqueue("//nobody/q", [b"x"])
        await unit.rollback()


async def test_what_waits_for_other_managers_is_shown_by_the_command(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    orders = new_name()
    await west.create_queue(orders, QueueConfig(enqueue_enabled=False))
    await east.transact([], {f"//west/{orders}": [b"1", b"2"]}, forward=True)

    async def waiting() -> dict[str, Any] | None:
        given = ("xmit", "ls", "--target", pairs.east.target, "-o", "json")
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tandemq", *given, stdout=asyncio.subprocess.PIPE
        )
        written, _ = await command.communicate()
        assert command.returncode == 0
        rows = {row["manager"]: row for row in json.loads(written)["transmissions"]}
        return rows["west"] if rows["west"]["state"] == "waiting" else None

    row = await until(waiting, "the link stands still")
    assert row is not None
    assert (row["messages"], row["open_messages"], row["queue"]) == (2, 2, XMIT)
    assert "ENQUEUE_DISABLED" in row["why"]
    assert row["addresses"] == list(pairs.west.endpoints)
    await west.update_queue(orders, QueueConfig(enqueue_enabled=True), ["enqueue_enabled"])
    await there(west, orders, 2)


@pytest.mark.requirement("R193")
async def test_x6_a_link_takes_as_many_at_once_as_its_queue_says_and_waits_for_them(
    east: aio.Client, west: aio.Client
) -> None:
    """The numbers of batches rise by as many as there were."""
    orders = new_name()
    await west.create_queue(orders)
    await east.transact([], {f"//west/{orders}": [b"first"]}, forward=True)
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")

    async def last_batch() -> int:
        return next(each.last_batch for each in await east.list_transmissions() if each.target == "west")

    config = QueueConfig(xmit_batch=2)
    await east.update_queue(XMIT, config, ["xmit_batch"])
    before = await last_batch()
    await east.transact([], {f"//west/{orders}": [b"%d" % number for number in range(5)]}, forward=True)
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    assert await last_batch() == before + 3, "of 2, 2 and 1"
    config = QueueConfig(xmit_batch=3)
    config.xmit_linger.FromSeconds(60)
    await east.update_queue(XMIT, config, ["xmit_batch", "xmit_linger"])
    before = await last_batch()
    for number in range(3):
        await east.transact([], {f"//west/{orders}": [b"late %d" % number]}, forward=True)
    await until(lambda: is_empty(east, XMIT), "the third one has not been waited for in vain")
    assert await last_batch() == before + 1, "they went together"
    await east.update_queue(XMIT, QueueConfig(), ["xmit_batch", "xmit_linger"])
    assert len(await payloads(west, orders)) == 9
    wrong = QueueConfig(xmit_batch=10_001, xmit_linger={"seconds": 61})
    for name in ("xmit_batch", "xmit_linger"):
        with pytest.raises(TandemqError, match=f"BAD_ATTRIBUTE: {name} must be"):
            await east.update_queue(XMIT, wrong, [name])
