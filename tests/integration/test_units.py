"""Units of work over real gRPC and real disks: all of it or nothing, over kill -9, through either member (U1-U17)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import grpc
import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.identity import new_request_id
from tandemq.errors import InvalidRequest, LeaseLost, NotFound, Refused, ResourceExhausted, from_rpc_error
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.pair_service_pb2 import ListEventsRequest, PairEvent, PairEventKind
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import (
    gone,
    http_get,
    new_id,
    new_name,
    payloads,
    queues,
    raw_to,
    refused,
    roles,
    stopped_at_end,
)
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()


async def test_u2_what_was_taken_goes_and_what_was_made_of_it_comes(client: aio.Client) -> None:
    orders, legs, ledger = await queues(client)
    await client.enqueue(orders, [b"1"])
    taken = await client.dequeue(orders)

    done = await client.transact(
        [taken], {legs: [b"1a", tandemq.Outgoing(b"1b", {"priority": 9, "properties": {"k": 1}})], ledger: [b"1!"]}
    )

    assert [(queue, len(receipts)) for queue, receipts in done.items()] == [(legs, 2), (ledger, 1)]
    assert [receipt.index for receipt in done[legs]] == [1, 2]
    assert done[ledger][0].copies == 2
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"1a", b"1b"])
    got = await client.dequeue(legs, 10)
    assert [(each.payload, dict(each.properties)) for each in got] == [(b"1b", {"k": 1}), (b"1a", {})]
    assert [each.id for each in got] == [done[legs][1].id, done[legs][0].id], "an id names its place in the record"
    assert [each.payload for each in await client.dequeue(ledger)] == [b"1!"]


async def test_u8_a_repetition_gets_the_first_answer(client: aio.Client) -> None:
    orders, legs, ledger = await queues(client)
    await client.enqueue(orders, [b"1"])
    taken, request_id = await client.dequeue(orders), new_request_id()
    puts = {legs: [b"a"], ledger: [b"b", b"c"]}
    first = await client.transact([taken], puts, request_id=request_id)
    again = await client.transact([taken], puts, request_id=request_id)
    assert not any(receipt.duplicate for receipts in first.values() for receipt in receipts)
    assert all(receipt.duplicate for receipts in again.values() for receipt in receipts)
    for queue, receipts in first.items():
        assert [each.id for each in receipts] == [each.id for each in again[queue]]
    assert (await payloads(client, legs), await payloads(client, ledger)) == ([b"a"], [b"b", b"c"])
    with pytest.raises(InvalidRequest, match="REQUEST_MISMATCH"):
        await client.transact([taken], {legs: [b"other"]}, request_id=request_id)
    with pytest.raises(InvalidRequest, match="REQUEST_MISMATCH"):  # the same messages, shared out otherwise
        await client.transact([taken], {legs: [b"a", b"b"], ledger: [b"c"]}, request_id=request_id)


async def test_refusals_do_nothing_and_name_their_reason(client: aio.Client) -> None:
    orders, legs, ledger = await queues(client)
    small = new_name()
    await client.create_queue(small, QueueConfig(max_length=1))
    await client.enqueue(orders, [b"1", b"2"])
    taken, other = await client.dequeue(orders), await client.dequeue(orders)
    with pytest.raises(ResourceExhausted, match=r"QUEUE_FULL.*message 1 for queue"):
        await client.transact([taken], {legs: [b"a"], small: [b"b", b"c"]})
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.transact([taken], {legs: [b"a"], "no-such-queue": [b"b"]})
    with pytest.raises(InvalidRequest, match=r"TXN_TOO_LARGE.*10001 messages"):
        await client.transact([taken], {legs: [b""] * 5_001, ledger: [b""] * 5_000})
    with pytest.raises(InvalidRequest, match=r"TXN_TOO_LARGE.*10001 messages"):  # so long that it is weighed first
        await client.transact([taken], {legs: [bytes(100)] * 5_001, ledger: [bytes(100)] * 5_000})
    for size in (3 << 20, (2 << 20) + 1_000):  # more than a call may have, and more than a body
        with pytest.raises(InvalidRequest, match=r"TXN_TOO_LARGE.*bytes"):
            await client.transact([taken], {legs: [bytes(size // 2)] * 2, ledger: [bytes(size // 2)] * 2})
    await other.release()
    with pytest.raises(LeaseLost, match=r"1 of 1 messages are not held"):
        await client.transact([other], {legs: [b"a"]})
    assert (await payloads(client, legs), await payloads(client, small)) == ([], [])
    assert await client.transact([taken], {small: [b"b"]})
    assert await client.transact() == {}


async def test_the_receipts_name_each_queue_that_was_named(client: aio.Client) -> None:
    legs, ledger, _ = await queues(client)
    for puts in ({legs: [b"a"], ledger: []}, {legs: []}):
        done = await client.transact([], puts)
        assert {queue: len(receipts) for queue, receipts in done.items()} == {
            queue: len(messages) for queue, messages in puts.items()
        }


async def test_a_client_without_the_sdk_through_the_replica(pair: Cluster) -> None:
    """What is sent on keeps its identity: the same call at the other member has no second effect."""
    orders, legs = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for name in (orders, legs):
            await members[0].create(name)
        await members[0].send(orders, b"1")
        got = await members[0].receive(orders)
        settlement = {
            "lease_id": got.lease_id,
            "ranges": [{"first": got.messages[0].index, "count": 1}],
            "outcome": "OUTCOME_ACK",
        }
        request = pb.TransactRequest(
            request_id=new_id(),
            settles=[{"queue": orders, "settlements": [settlement]}],
            puts=[{"queue": legs, "messages": [{"payload": b"x"}]}],
        )
        answers = [
            await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S) for member in members
        ]  # fmt: skip
        assert [answer.duplicate for answer in answers] == [False, True]
        assert [[each.index for put in answer.puts for each in put.results] for answer in answers] == [[1], [1]]
        for wrong, words in ((pb.TransactRequest(request_id=new_id()), "name at least one"), (b"\xff", "")):
            with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, words):
                data = wrong if isinstance(wrong, bytes) else wrong.SerializeToString()
                await members[0].bytes_call("/tandemq.v1.TransactionService/Transact", data)
        many = pb.TransactRequest(request_id=new_id(), puts=[request.puts[0]] * 101)
        idle = pb.TransactRequest(
            request_id=new_id(), settles=[{"queue": orders, "settlements": [{"lease_id": 1}] * 10_001}]
        )
        for large, words in ((many, "101 queues"), (idle, "10001 settlements")):  # before anything walks over them
            with refused("TXN_TOO_LARGE", grpc.StatusCode.INVALID_ARGUMENT, words):
                await TransactionServiceStub(members[1].channel).Transact(large, timeout=OUTER_S)
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "request_id"):
            short = pb.TransactRequest(request_id=b"short", puts=request.puts)
            await TransactionServiceStub(members[1].channel).Transact(short, timeout=OUTER_S)


async def test_u1_a_unit_has_one_domain(pair: Cluster) -> None:
    local, main = new_name(), new_name()
    async with raw_to(pair.endpoint("a")) as (member,):
        await member.create(local, domain="local")
        await member.create(main)
        request = pb.TransactRequest(
            request_id=new_id(),
            puts=[
                {"queue": local, "messages": [{"payload": b"x"}]},
                {"queue": main, "messages": [{"payload": b"y"}]},
            ],
        )
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "a unit of work has one domain"):
            await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S)
        nowhere = pb.TransactRequest(request_id=new_id(), puts=[request.puts[1], request.puts[0]])
        nowhere.puts[0].queue = new_name()
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, nowhere.puts[0].queue):
            await TransactionServiceStub(member.channel).Transact(nowhere, timeout=OUTER_S)


async def test_u15_a_number_is_executed_once_for_as_long_as_its_writer_is_known(client: aio.Client) -> None:
    orders, legs, _ = await queues(client)
    writer = new_name()
    await client.enqueue(orders, [b"1", b"2"])
    taken, other = await client.dequeue(orders), await client.dequeue(orders)
    first = await client.transact([taken], {legs: [b"a"]}, writer=writer, number=3, query_id="q")
    assert (first.duplicate, first.differs, first[legs][0].index) == (False, False, 1)
    again = await client.transact([other], {legs: [b"a"]}, writer=writer, number=3, query_id="q")
    assert (again.duplicate, again.differs, len(again[legs])) == (True, False, 0)
    wrong = await client.transact([other], {legs: [b"b"]}, writer=writer, number=2, after=1, query_id="q")
    assert (wrong.duplicate, wrong.differs) == (True, False), "passed over"
    wrong = await client.transact([other], {legs: [b"b"]}, writer=writer, number=3, query_id="q")
    assert (wrong.duplicate, wrong.differs) == (True, True)
    with pytest.raises(Refused, match=r"SEQUENCE_GAP.*the last one here is 3"):
        await client.transact([other], {legs: [b"b"]}, writer=writer, number=5, after=4, query_id="q")
    with pytest.raises(Refused, match="WRITER_TAKEN"):
        await client.transact([other], {legs: [b"b"]}, writer=writer, number=4, after=3, query_id="another")
    assert await payloads(client, legs) == [b"a"]
    await client.transact([other], {legs: [b"b"]}, writer=writer, number=4, after=3, query_id="q")
    assert await payloads(client, orders) == []
    state = await client.writer_state(writer)
    assert state is not None
    assert (state.query_id, state.batch) == ("q", 4)
    assert await client.release_writer(writer)
    await client.transact([], {legs: [b"c"]}, writer=writer, number=1, query_id="another")


async def _said_of(pair: Cluster, writer: str) -> list[PairEvent]:
    """By both members."""
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        found = [await each.pair.ListEvents(ListEventsRequest(limit=1_000), timeout=OUTER_S) for each in members]
    return [event for each in found for event in each.events if writer in event.text]


async def _divergences(pair: Cluster) -> float:
    """Of both members, since they began."""
    ports = [int(pair.config(member).listen_http.rsplit(":", 1)[1]) for member in ("a", "b")]
    shown = "".join([(await http_get(port, "/metrics"))[1] for port in ports])
    name = 'tandemq_divergences_total{between="outputs",domain="main"} '
    return sum(float(line.removeprefix(name)) for line in shown.splitlines() if line.startswith(name))


async def test_k8_units_that_are_cut_at_other_places_are_compared_where_they_meet(
    client: aio.Client, pair: Cluster
) -> None:
    """Two processes of one name send the same row of messages, and each says what it has sent in all so far."""
    _, legs, _ = await queues(client)
    writer, before = new_name(), await _divergences(pair)
    await client.transact([], {legs: [b"1", b"2"]}, writer=writer, number=2, digest=22)
    with pytest.raises(Refused, match="SEQUENCE_GAP") as caught:
        await client.transact([], {legs: [b"1", b"2", b"3"]}, writer=writer, number=3, digest=33)
    assert caught.value.metadata["last_number"] == "2"
    assert int(caught.value.metadata["last_digest"], 16) == 22
    third = await client.transact([], {legs: [b"3"]}, writer=writer, number=3, after=2, digest=33)
    assert (third.duplicate, third.last_number) == (False, 3)
    again = await client.transact([], {legs: [b"1", b"2", b"3"]}, writer=writer, number=3, digest=33)
    assert (again.duplicate, again.differs, again.last_number) == (True, False, 3)
    passed_over = await client.transact([], {legs: [b"1"]}, writer=writer, number=1, digest=99)
    assert (passed_over.duplicate, passed_over.known_digest, passed_over.last_number) == (True, None, 3)
    for _ in range(2):
        other = await client.transact([], {legs: [b"x"]}, writer=writer, number=3, digest=77)
        assert (other.differs, other.digest, other.known_digest) == (True, 77, 33)
    assert await payloads(client, legs) == [b"1", b"2", b"3"]
    state = await client.writer_state(writer, digests=True)
    assert state is not None
    assert (state.batch, state.digests) == (3, {2: 22, 3: 33})
    assert (await client.writer_state(writer)) == state._replace(position=ANY, digests={})

    async def heard() -> list[PairEvent]:
        return await _said_of(pair, writer)

    said = await until(heard, "operators hear of it")
    assert [event.kind for event in said] == [PairEventKind.PAIR_EVENT_KIND_DIVERGENCE], "said once"
    assert "000000000000004d, and the first one was 0000000000000021" in said[0].text

    async def counted() -> bool:
        return await _divergences(pair) == before + 2

    await until(counted, "what is shown is as new")


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"number": 1}, "are a writer's"),
        ({"query_id": "q"}, "are a writer's"),
        ({"writer": "w"}, "does not follow"),
        ({"writer": "w", "number": 2, "after": 2}, "does not follow"),
        ({"writer": "w" * 256, "number": 1}, "255 bytes"),
        ({"writer": "w", "number": 1, "query_id": "q" * 256}, "255 bytes"),
    ],
)
async def test_u15_an_identity_that_is_none_is_refused(
    client: aio.Client, identity: dict[str, Any], words: str
) -> None:  # fmt: skip
    with pytest.raises(InvalidRequest, match=words):
        await client.transact([], {"any": [b"x"]}, **identity)
    with pytest.raises(InvalidRequest, match="settles and sends nothing"):
        await client.transact(writer="w", number=1)


async def following(client: aio.Client, start: aio.JournalPosition) -> AsyncIterator[aio.JournalRow]:
    """The journal from there on, up to the first acknowledgement."""
    while True:  # a replica's journal is a moment behind
        async for page in client.read_journal(start=start):
            for row in page.rows():
                yield row
                if row.kind is aio.JournalKind.ACKED:
                    return
            start = page.next


async def test_u17_the_journal_has_a_row_for_each_message_and_settlement(client: aio.Client) -> None:
    orders, legs, ledger = await queues(client)
    await client.enqueue(orders, [b"1"])
    taken = await client.dequeue(orders)
    start = (await client.journal_head()).next
    done = await client.transact([taken], {legs: [b"a", b"b"], ledger: [b"c"]})
    rows = [row async for row in following(client, start) if row.queue in (orders, legs, ledger)]
    rows = rows[-4:]  # before them perhaps the lease
    assert [(row.kind.name, row.queue, row.first, row.payload) for row in rows] == [
        ("ENQUEUED", legs, 1, b"a"),
        ("ENQUEUED", legs, 2, b"b"),
        ("ENQUEUED", ledger, 1, b"c"),
        ("ACKED", orders, 1, None),
    ]
    assert [row.id for row in rows[:3]] == [each.id for queue in (legs, ledger) for each in done[queue]]
    end = rows[-1].log_index + 1
    pages = client.read_journal([ledger], start=aio.JournalStart(1), until_log_index=end)
    later = [row async for page in pages for row in page.rows()]
    assert [row.payload for row in later] == [b"c"], "a reader of one queue has its share of the record"


def test_the_blocking_client_has_the_same_call(pair: Cluster) -> None:
    orders, legs = new_name(), new_name()
    with tandemq.connect(pair.target) as client:
        for name in (orders, legs):
            client.create_queue(name)
        client.enqueue(orders, [b"1"])
        done = client.transact([client.dequeue(orders)], {legs: [b"x"]})
        assert [receipt.index for receipt in done[legs]] == [1]
        assert not client.dequeue(orders)


@pytest.mark.promise
async def test_the_master_dies_again_and_again_while_units_are_worked_off(tmp_path: Path) -> None:
    """Example 1: each message is taken by a unit that puts one into each of two queues, over kill -9 of whoever is
    master: at the end both have each of them once, in one order, and a copy that is made anew has the same.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders, legs, ledger = await queues(client)
            wanted = [b"%d" % number for number in range(60)]
            await client.enqueue(orders, wanted)
            for number in range(len(wanted)):
                if number in (10, 30, 50):
                    master, _ = await roles(cluster)
                    work = asyncio.create_task(_work(client, number, orders, legs, ledger))
                    await asyncio.sleep(0)
                    cluster.kill(master)
                    await work
                    await cluster.restart(master)
                else:
                    await _work(client, number, orders, legs, ledger)
            assert await payloads(client, orders) == []
            assert sorted(await payloads(client, legs), key=int) == wanted
            assert await payloads(client, ledger) == await payloads(client, legs)
        await gone(cluster, "a", "b")  # both begin anew from their disks
        for name in ("a", "b"):
            cluster.spawn(name)
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            half = await client.dequeue(legs, 100)
            await half.ack()  # the other queue's messages stand in the same records
        master, replica = await roles(cluster)
        await gone(cluster, replica)
        shutil.rmtree(cluster.config(replica).data_dir)
        cluster.spawn(replica)  # it is sent everything anew
        await cluster.wait_ready()
        cluster.kill(master)
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            assert await payloads(client, legs) == []
            assert sorted([each.payload for each in await client.dequeue(ledger, 100)], key=int) == wanted


async def _work(client: aio.Client, number: int, orders: str, legs: str, ledger: str) -> None:
    while True:
        taken = await client.dequeue(orders, wait=OUTER_S)
        try:
            payload = taken[0].payload
            puts = {legs: [payload], ledger: [payload]}
            await client.transact([taken], puts, writer="worker", number=number + 1, after=number)
            if number % 10 == 0:  # U15: whoever is master now, under another request id
                again = await client.transact([taken], puts, writer="worker", number=number + 1, after=number)
                assert (again.duplicate, again.differs) == (True, False)
        except LeaseLost:
            continue  # a takeover gave it to somebody else first: here, to the next turn
        return


async def test_a_call_without_a_deadline_hears_through_the_replica_what_its_master_refuses(pair: Cluster) -> None:
    """A master that has too few copies is not away: nobody else is waited for, with a deadline or without."""
    queue = new_name()
    async with aio.connect(pair.target) as client:
        await client.create_queue(queue)
    _, replica = await roles(pair)
    async with raw_to(pair.endpoint(replica)) as (member,), asyncio.timeout(OUTER_S):
        request = pb.TransactRequest(request_id=new_id(), min_copies=3)
        request.puts.add(queue=queue).messages.add(payload=b"x")
        with pytest.raises(grpc.aio.AioRpcError) as said:
            await TransactionServiceStub(member.channel).Transact(request)
    assert from_rpc_error(said.value).reason == "NOT_ENOUGH_COPIES"
