"""Reactions over real gRPC and real disks: what they act on and what they leave alone, over kill -9, through either
member (V1-V14).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
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
from tandemq.client.completion import Final
from tandemq.client.filtering import Where
from tandemq.client.identity import new_request_id
from tandemq.client.reactions import Cancel, Change, Exceptions, MoveTo, Outcome
from tandemq.errors import InvalidRequest, LeaseLost, NotFound, Refused, ResourceExhausted, TandemqError
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.message_pb2 import Message, PropertyValue
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY_ACK, QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tandemq.v1.reaction_service_pb2_grpc import ReactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_id, new_name, payloads, raw_to, refused, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

NOON = timedelta(hours=1)


async def reactive(client: aio.Client, **attributes: Any) -> str:
    name = new_name()
    await client.create_queue(name, QueueConfig(reactions_enabled=True, **attributes))
    return name


@pytest.mark.requirement("R198")
@pytest.mark.requirement("R196")
async def test_v4_a_timer_is_cancelled_before_its_time(client: aio.Client) -> None:
    """Worked example 6, first half: delayed to noon, cancelled at 11:59; its handle ends, and nobody gets it."""
    timers = await reactive(client, queue_type=QUEUE_TYPE_ONE_WAY_ACK)
    handle = await client.send(timers, b"call back", delay=NOON, correlation_id="order-17")
    done = await client.react(timers, Where(ids=(handle.id,)), Cancel())
    assert (done.outcome, done.applied, done.locked, done.kept) == (Outcome.APPLIED, 1, 0, False)
    ended = await handle.wait(OUTER_S)
    assert (ended.final, ended.completed, ended.succeeded) == (Final.REACTED, True, False)
    assert await payloads(client, timers) == []
    late = await client.react(timers, Where(correlation_id="order-17"), Cancel())
    assert late.outcome is Outcome.DISCARDED
    await client.send(timers, b"taken", correlation_id="order-18")
    taken = await client.dequeue(timers)
    locked = await client.react(timers, Where(correlation_id="order-18"), Cancel())
    assert (locked.outcome, locked.locked) == (Outcome.LOCKED, 1)
    await taken.ack()


async def test_v9_they_move_at_once_and_the_journal_says_so(client: aio.Client) -> None:
    orders, review = await reactive(client), new_name()
    await client.create_queue(review)
    for text in (b"1", b"2"):
        await client.send(orders, text, group_id="customer-7", properties={"k": 1})
    await client.send(orders, b"3", group_id="customer-8")
    await client.send(orders, b"4", group_id="customer-7", inert=True)
    start = (await client.journal_head()).next
    done = await client.react(orders, Where(group_id="customer-7"), MoveTo(review), everything=True)
    assert (done.outcome, done.applied, done.inert) == (Outcome.APPLIED, 2, 1)
    assert (await payloads(client, orders), await payloads(client, review)) == ([b"3", b"4"], [b"1", b"2"])
    got = await client.dequeue(review, 10)
    assert [dict(each.properties) for each in got] == [{"k": 1}] * 2
    await client.react(orders, Where(group_id="customer-8"), Cancel())
    rows = [row async for row in _following(client, start) if row.queue in (orders, review)]
    rows = [row for row in rows if row.kind is not aio.JournalKind.LEASED][-4:]  # before them perhaps the last sending
    assert [(row.kind.name, row.queue, row.first, row.messages) for row in rows] == [
        ("ENQUEUED", review, 1, 1),
        ("ENQUEUED", review, 2, 1),
        ("MOVED", orders, 1, 2),
        ("REMOVED", orders, 3, 1),
    ]


async def _following(client: aio.Client, start: aio.JournalPosition) -> AsyncIterator[aio.JournalRow]:
    while True:  # a replica's journal is a moment behind
        async for page in client.read_journal(start=start):
            for row in page.rows():
                yield row
                if row.kind is aio.JournalKind.REMOVED:
                    return
            start = page.next


async def test_v8_an_order_is_corrected_and_its_sender_hears_of_its_end(client: aio.Client) -> None:
    orders, replies = await reactive(client, queue_type=QUEUE_TYPE_ONE_WAY_ACK), new_name()
    await client.create_queue(replies)
    handle = await client.send(orders, b"3 boxes", correlation_id="order-17", properties={"boxes": 3, "old": True})
    change = Change(b"2 boxes", properties={"boxes": 2}, without=["old"], content_type="text", priority=9)
    done = await client.react(
        orders, Where(ids=(handle.id,)), change, report_to=replies, correlation_id="my call"
    )  # fmt: skip
    assert done.outcome is Outcome.APPLIED
    (report,) = await client.dequeue(replies)
    assert (report.attributes.get("correlation_id"), report.properties["tq_outcome"]) == ("my call", "APPLIED")
    later = Change(delay=timedelta(0), ttl=timedelta(hours=1))
    assert (await client.react(orders, Where(ids=(handle.id,)), later)).applied == 1
    taken = await client.dequeue(orders)
    (message,) = taken
    assert (message.payload, message.index, message.attributes.get("priority")) == (b"2 boxes", 3, 9)
    assert message.properties == {"boxes": 2, "tq_first_id": handle.id, "tq_version": 3}
    assert not (await handle.check()).completed
    await taken.ack()
    assert (await handle.wait(OUTER_S)).final is Final.CONSUMED


async def test_v7_the_sender_of_a_cancelled_request_is_told(client: aio.Client) -> None:
    orders, replies = await reactive(client), new_name()
    await client.create_queue(replies)
    sent = await client.send(orders, b"1", correlation_id="c", reply_to=replies)
    await client.send(orders, b"2", correlation_id="c", reply_to=new_name())
    done = await client.react(
        orders, Where(correlation_id="c"), Cancel(), everything=True, exceptions=Exceptions.FULL
    )  # fmt: skip
    assert (done.applied, done.unreported) == (2, 1)
    (report,) = await client.dequeue(replies, 9)
    assert (report.payload, report.attributes.get("correlation_id")) == (b"1", "c")
    assert (report.properties["tq_report"], report.properties["tq_origin_id"]) == ("reacted", sent.id)


@pytest.mark.requirement("R190", "R191")
@pytest.mark.parametrize("at", ["master", "replica"])
async def test_v2_a_reactive_message_is_sent_by_enqueue(at: str, client: aio.Client, pair: Cluster) -> None:
    """As a client of any language does that knows Enqueue."""
    orders, tells = await reactive(client), new_name()
    await client.create_queue(tells)
    await client.send(orders, b"3 boxes", correlation_id="c", properties={"boxes": 3})
    change = pb.Reaction(target={"correlation_id": "c"}, update={}, report_to=tells)
    cancel = pb.Reaction(target={"correlation_id": "another"}, delete={})
    message = Message(payload=b"2 boxes", properties={"boxes": PropertyValue(integer=2)}, correlation_id="mine")
    request = EnqueueRequest(queue=orders, request_id=new_id(), messages=[message], reaction=change)
    master, replica = await roles(pair)
    async with grpc.aio.insecure_channel(pair.endpoint(master if at == "master" else replica)) as channel:
        stub = QueueServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        done = await stub.Enqueue(request)
        assert (done.reacted.outcome, done.reacted.applied, list(done.results)) == (pb.REACTION_OUTCOME_APPLIED, 1, [])
        assert (await stub.Enqueue(request)).reacted.duplicate
        for wrong, why in (
            ({"messages": [message, message]}, "stands alone"),
            ({"messages": [Message(payload=b"x", priority=9)]}, "has no priority"),
            ({"messages": [message], "wait": {"seconds": 1}}, "leave out wait"),
            ({"messages": [message], "reaction": cancel}, "reaction.delete takes no payload, properties"),
            ({"reaction": None}, "0 messages in a batch"),  # as a member of a version that knows no reaction says
        ):
            again = EnqueueRequest(queue=orders, request_id=new_id(), **{"reaction": change, **wrong})
            with pytest.raises(grpc.aio.AioRpcError, match=why):
                await stub.Enqueue(again)
        alone = EnqueueRequest(queue=orders, request_id=new_id(), reaction=cancel)
        assert (await stub.Enqueue(alone)).reacted.outcome == pb.REACTION_OUTCOME_DISCARDED
    taken = await client.dequeue(orders, 9)
    assert [(each.payload, each.properties["boxes"], each.index) for each in taken] == [(b"2 boxes", 2, 2)]
    (report,) = await client.dequeue(tells)
    assert report.attributes.get("correlation_id") == "mine"


@pytest.mark.requirement("R216")
async def test_v18_several_queues_are_acted_on_at_one_moment(client: aio.Client, pair: Cluster) -> None:
    orders, timers, review = await reactive(client), await reactive(client), new_name()
    await client.create_queue(review)
    for queue in (orders, timers):
        await client.send(queue, queue.encode(), correlation_id="c")
    await client.send(timers, b"another", correlation_id="d")
    done = await client.react(
        [orders, timers], Where(correlation_id="c"), MoveTo(review), request_id=(again := new_id())
    )
    assert (done.outcome, done.applied) == (Outcome.APPLIED, 2)
    assert [(home.queue, home.outcome, home.applied) for home in done.homes] == [
        (orders, Outcome.APPLIED, 1),
        (timers, Outcome.APPLIED, 1),
    ]
    repeated = await client.react([orders, timers], Where(correlation_id="c"), MoveTo(review), request_id=again)
    assert repeated == done._replace(duplicate=True)
    with pytest.raises(TandemqError, match="REQUEST_MISMATCH"):
        await client.react([orders], Where(correlation_id="c"), MoveTo(review), request_id=again)
    assert await payloads(client, review) == [orders.encode(), timers.encode()]
    arguments = ["msg", "react", orders, timers, "--correlation-id", "d", "--delete", "--output", "json"]
    result = await asyncio.to_thread(CliRunner().invoke, root, [*arguments, "--target", pair.target])
    assert result.exit_code == 0, result.output
    assert [home["outcome"] for home in json.loads(result.stdout)["homes"]] == ["DISCARDED", "APPLIED"]


async def test_refusals_do_nothing_and_name_their_reason(client: aio.Client) -> None:
    orders, small, off = await reactive(client), new_name(), new_name()
    await client.create_queue(small, QueueConfig(max_length=1))
    await client.create_queue(off)
    await client.enqueue(orders, [b"1", b"2"])
    everything = "tq_index > 0"
    with pytest.raises(Refused, match=r"REACTION_DISABLED.*--reactions"):
        await client.react(off, everything, Cancel())
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.react(new_name(), everything, Cancel())
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.react(orders, everything, MoveTo(new_name()))
    with pytest.raises(ResourceExhausted, match="QUEUE_FULL"):
        await client.react(orders, everything, MoveTo(small), everything=True)
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*already"):
        await client.react(orders, everything, MoveTo(orders))
    with pytest.raises(InvalidRequest, match="BAD_SELECTOR"):
        await client.react(orders, "price >", Cancel())
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*target is empty"):
        await client.react(orders, Where(), Cancel())
    assert await payloads(client, orders) == [b"1", b"2"]
    await client.enqueue(orders, [b""] * 9_999)
    with pytest.raises(InvalidRequest, match=r"TXN_TOO_LARGE.*10001 messages"):
        await client.react(orders, everything, Cancel(), everything=True)
    assert (await client.react(orders, everything, Cancel())).applied == 1
    assert (await client.react(orders, everything, Cancel(), everything=True)).applied == 10_000


async def test_a_client_without_the_sdk_through_either_member(pair: Cluster) -> None:
    """What is sent on keeps its identity: the same call at the other member has no second effect."""
    queue, local = new_name(), new_name()
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        await members[0].create(queue, reactions_enabled=True)
        await members[0].create(local, domain="local")
        await members[0].send(queue, b"1", b"2")
        request = pb.ReactRequest(
            request_id=new_id(), queue=queue, reaction={"target": {"selector": "tq_index < 9"}, "delete": {}}
        )
        answers = [await ReactionServiceStub(member.channel).React(request, timeout=OUTER_S) for member in members]
        assert [(each.outcome, each.applied, each.duplicate) for each in answers] == [
            (pb.REACTION_OUTCOME_APPLIED, 1, False),
            (pb.REACTION_OUTCOME_APPLIED, 1, True),
        ]
        assert answers[0].header.copies == 2
        path = "/tandemq.v1.ReactionService/React"
        for change, words in (
            ({"request_id": b"short"}, "request_id"),
            ({"reaction": {"target": {"selector": "tq_index < 9"}}}, "no action"),
            ({"reaction": {"target": {"selector": "tq_index < 9"}, "move": {}}}, "reaction.move.queue"),
            ({"reaction": {"target": {"ids": [b"short"]}, "delete": {}}}, "16"),
            ({"reaction": {"target": {"selector": "a = 1"}, "delete": {}, "scope": 9}}, "scope 9"),
            ({"reaction": {"target": {"selector": "a = 1"}, "update": {}}}, "changes nothing"),
            ({"reaction": {"target": {"selector": "a = 1"}, "update": {"remove_properties": ["tq_k"]}}}, "tq_"),
            (
                {"reaction": {"target": {"selector": "a = 1"}, "update": {"set_properties": {"tq_k": {"flag": True}}}}},
                "tq_",
            ),
            (
                {"reaction": {"target": {"selector": "a = 1"}, "move": {"queue": "r"}, "exception_report": 2}},
                "goes with delete",
            ),
        ):
            fields = {"request_id": new_id(), "queue": queue, "reaction": request.reaction, **change}
            for member in members:
                with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, words):
                    await member.bytes_call(path, pb.ReactRequest(**fields).SerializeToString())
        with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT):
            request.reaction.scope = pb.REACTION_SCOPE_ALL
            await ReactionServiceStub(members[1].channel).React(request, timeout=OUTER_S)
        request.request_id, request.reaction.move.queue = new_id(), local
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, "one domain"):
            await ReactionServiceStub(members[0].channel).React(request, timeout=OUTER_S)


async def test_the_commands_switch_them_on_and_act(pair: Cluster, client: aio.Client) -> None:
    timers, other = new_name(), new_name()

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, root, [*words, "--target", pair.target])

    for name in (timers, other):
        await client.create_queue(name)
    off = await run("msg", "react", timers, "--where", "tq_index > 0", "--delete")
    assert (off.exit_code, "REACTION_DISABLED" in off.output) == (1, True)
    assert (await run("queue", "update", timers, "--reactions")).exit_code == 0
    for words in (("a", "--correlation-id", "c"), ("b", "--group-id", "g"), ("c", "--group-id", "g", "--inert")):
        assert (await run("msg", "send", timers, *words)).exit_code == 0
    done = await run("msg", "react", timers, "--correlation-id", "c", "--delete", "-o", "json")
    assert json.loads(done.stdout) == {
        "schema_version": 1,
        "queue": timers, "outcome": "APPLIED", "applied": 1, "locked": 0, "inert": 0, "dying": 0,
        "refused": 0, "unreported": 0, "kept": False, "forwarded": "", "duplicate": False,
    }  # fmt: skip
    moved = await run("msg", "react", timers, "--group-id", "g", "--all", "--move-to", other, "-o", "json")
    assert (json.loads(moved.stdout)["applied"], json.loads(moved.stdout)["inert"]) == (1, 1)
    assert (await payloads(client, timers), await payloads(client, other)) == ([b"c"], [b"b"])
    changed = await run(
        "msg", "react", timers, "--where", "tq_index > 0", "--set-body", "d", "--set-property", "k:=1", "-o", "json"
    )  # fmt: skip
    assert (json.loads(changed.stdout)["outcome"], json.loads(changed.stdout)["inert"]) == ("DISCARDED", 1)
    assert (await run("msg", "send", timers, "e", "--property", "old=1")).exit_code == 0
    changed = await run(
        "msg", "react", timers, "--where", "tq_index = 4", "--set-body", "d", "--set-property", "k:=1",
        "--drop-property", "old", "--set-priority", "0", "--report-to", other, "--report-id", "x", "-o", "json",
    )  # fmt: skip
    assert json.loads(changed.stdout)["applied"] == 1
    got = [each async for each in client.browse(timers)]
    assert [(each.payload, each.properties.get("k")) for each in got] == [(b"c", None), (b"d", 1)]
    assert "old" not in got[1].properties
    for wrong in (("--delete",), ("--group-id", "g"), ("--group-id", "g", "--delete", "--move-to", other)):
        assert (await run("msg", "react", timers, *wrong)).exit_code == 2


def test_the_blocking_client_has_the_same_call(pair: Cluster) -> None:
    with tandemq.connect(pair.target) as client:
        name = new_name()
        client.create_queue(name, QueueConfig(reactions_enabled=True))
        client.send(name, b"1", correlation_id="c")
        request_id = new_request_id()
        first = client.react(name, Where(correlation_id="c"), Cancel(), request_id=request_id)
        again = client.react(name, Where(correlation_id="c"), Cancel(), request_id=request_id)
        assert [(each.outcome, each.applied, each.duplicate) for each in (first, again)] == [
            (Outcome.APPLIED, 1, False),
            (Outcome.APPLIED, 1, True),
        ]


@pytest.mark.promise
@pytest.mark.requirement("R214")
async def test_r214_each_timer_fires_or_is_cancelled_over_kills(tmp_path: Path) -> None:
    """Worked example 9: of each message either its consumer has it or its sender is answered APPLIED, never both and
    never neither, while consumers race with the reactions and two masters are killed.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            timers = await reactive(client)
            count = 300
            names = [str(number) for number in range(count)]
            for name in names:
                await client.send(timers, name.encode(), correlation_id=name)
            fired: set[bytes] = set()

            async def fire() -> None:
                while taken := await client.dequeue(timers):
                    with contextlib.suppress(
                        LeaseLost
                    ):  # its lease was not on the new master, and a reaction was first
                        await taken.ack()
                        fired.add(taken[0].payload)

            cancelled: set[bytes] = set()

            async def cancel(own: list[str]) -> None:
                for name in own:
                    done = await client.react(timers, Where(correlation_id=name), Cancel())
                    if done.outcome is Outcome.APPLIED:
                        cancelled.add(name.encode())

            work = [asyncio.create_task(cancel(list(reversed(names))[at::3])) for at in range(3)]
            for _ in range(2):
                work.append(asyncio.create_task(fire()))
                await asyncio.sleep(0)
                master, _ = await roles(cluster)
                cluster.kill(master)
                await cluster.restart(master)
                await cluster.wait_ready()
            await asyncio.gather(*work)
            await fire()
            assert await payloads(client, timers) == []
            assert not fired & cancelled
            assert len(fired | cancelled) == count
