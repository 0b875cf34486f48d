"""Messages moved, moved back and removed by an administrator, through real members and the death of the master."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from tandemq import Outgoing, aio
from tandemq.cli.view import PairView
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.pair_service_pb2 import GetPairStatusRequest
from tests.integration.support import Raw, gone, new_id, new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]
MANY = 20_000
BATCH = 1_000
STATE = grpc.StatusCode.FAILED_PRECONDITION


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One for all tests of this file; those that hurt it put it right again."""
    async with patient(tmp_path_factory.mktemp("pair")).running() as cluster:
        yield cluster


def payloads(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


async def fill(client: aio.Client, queue: str, count: int) -> None:
    for first in range(0, count, BATCH):
        await client.enqueue(queue, payloads(count)[first : first + BATCH])


async def bodies(client: aio.Client, queue: str) -> list[bytes]:
    return [message.payload async for message in client.browse(queue)]


@pytest.mark.parametrize("asked_of", ["master", "replica"])
async def test_a_large_move_outlives_its_master(pair: Cluster, asked_of: str) -> None:
    """Killed in the middle: each message is in one of the two queues, once; the repetition tells the same totals."""
    master, replica = await roles(pair)
    source, to, request_id = new_name(), new_name("r"), new_id()
    first = master if asked_of == "master" else replica
    target = f"{pair.endpoint(first)},{pair.endpoint(master if first == replica else replica)}"
    async with aio.connect(target, timeout=OUTER_S, follow_master=False) as client, aio.connect(pair.target) as other:
        await client.create_queue(source)
        await client.create_queue(to)
        await fill(client, source, MANY)
        held = await other.dequeue(source, 5)
        moving = asyncio.ensure_future(client.move_messages(source, to, request_id=request_id))

        async def under_way() -> bool:
            return (await other.get_queue(to)).length > 0

        await until(under_way, "some have moved")
        assert not moving.done(), "to be killed in the middle of it"
        await gone(pair, master)
        done = await asyncio.wait_for(moving, OUTER_S)
        assert (done.moved, done.left, done.leased) == (MANY - 5, 0, 5)
        assert done.header.member == replica
        again = await client.move_messages(source, to, request_id=request_id)
        assert (again.moved, again.left, again.leased, again.duplicate) == (MANY - 5, 0, 5, True)
        assert await bodies(client, to) == payloads(MANY)[5:]
        assert sorted(await bodies(client, source)) == payloads(5)
        del held
    await pair.restart(master)
    await pair.wait_for(PairView.equal, "both members hold the same")


async def test_what_is_moved_keeps_what_it_was_sent_with(pair: Cluster) -> None:
    source, to = new_name(), new_name("r")
    async with aio.connect(pair.target) as client:
        await client.create_queue(source)
        await client.create_queue(to)
        rows = [
            Outgoing(b"%d" % n, {"priority": n, "correlation_id": f"c{n}", "properties": {"n": n}}) for n in range(6)
        ]
        sent = await client.enqueue(source, rows)
        done = await client.move_messages(source, to, "n >= 2", max_messages=3)
        assert (done.moved, done.left, list(done.behind)) == (3, 0, [])
        found = [message async for message in client.browse(to)]
        assert [(m.payload, m.attributes["priority"], m.properties) for m in found] == [
            (b"%d" % n, n, {"n": n}) for n in (2, 3, 4)
        ]
        assert {m.id for m in found}.isdisjoint({receipt.id for receipt in sent})
        removed = await client.delete_messages(source, "tq_correlation_id = 'c5'")
        assert (removed.removed, removed.leased) == (1, 0)
        assert await bodies(client, source) == [b"0", b"1"]


async def test_what_cannot_be_done_is_refused_with_words(pair: Cluster) -> None:
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            await _is_refused(member)


async def _is_refused(member: Raw) -> None:
    source, to, local = new_name(), new_name("r"), new_name("own")
    await member.create(source)
    await member.create(to, max_length=1, max_message_bytes=100)
    await member.create(local, replication=admin.REPLICATION_NONE)
    await member.send(source, b"1", b"2", b"3")

    async def move(name: str, where: Any = None, **fields: Any) -> admin.MoveMessagesResponse:
        asked = {"request_id": new_id(), "to": to, **fields}
        request = admin.MoveMessagesRequest(name=name, filter=where, **asked)
        return await member.admin.MoveMessages(request, timeout=OUTER_S)

    with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "'none'"):
        await move("none")
    with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "'none'"):
        await move(source, to="none")
    with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "`to` is empty"):
        await move(source, to="")
    with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "where the messages are already"):
        await move(source, to=source)
    with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "request_id"):
        await move(source, request_id=b"short")
    with refused("BAD_SELECTOR", grpc.StatusCode.INVALID_ARGUMENT):
        await move(source, {"selector": "n >"})
    if await _is_master(member):  # its own unreplicated queues are known to itself alone
        with refused("CROSS_DOMAIN", STATE, "within one domain"):
            await move(source, to=local)
    remove = admin.DeleteMessagesRequest(name=source, request_id=new_id())
    with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "filter is empty", "PurgeQueue"):
        await member.admin.DeleteMessages(remove, timeout=OUTER_S)

    request_id = new_id()
    some = await move(source, request_id=request_id)
    assert (some.moved, some.left, some.behind[0].count, some.behind[0].queue) == (1, 2, 2, to)
    with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT, request_id.hex()):
        await move(source, request_id=request_id, max_messages=7)
    with refused("QUEUE_FULL", grpc.StatusCode.RESOURCE_EXHAUSTED, f"queue {to} is full"):
        await move(source)
    update = admin.UpdateQueueRequest(
        name=to,
        request_id=new_id(),
        config=admin.QueueConfig(enqueue_enabled=False),
        update_mask={"paths": ["enqueue_enabled"]},
    )
    await member.admin.UpdateQueue(update, timeout=OUTER_S)
    with refused("ENQUEUE_DISABLED", STATE, to):
        await move(source)
    close = admin.CloseQueueRequest(name=to, request_id=new_id())
    await member.admin.CloseQueue(close, timeout=OUTER_S)
    with refused("INVALID_STATE", STATE, f"queue {to} is not open"):
        await move(source)
    info = await member.admin.GetQueue(admin.GetQueueRequest(name=source), timeout=OUTER_S)
    assert (info.queue.length, info.queue.purged_total) == (2, 1), "nothing was half done"


async def _is_master(member: Raw) -> bool:
    status = await member.pair.GetPairStatus(GetPairStatusRequest(), timeout=OUTER_S)
    return status.header.master_endpoint == member.endpoint


async def test_a_caller_that_goes_away_stops_it_and_the_next_one_goes_on(pair: Cluster) -> None:
    source, to, request_id = new_name(), new_name("r"), new_id()
    async with aio.connect(pair.target) as client:
        await client.create_queue(source)
        await client.create_queue(to)
        await fill(client, source, MANY)
        moving = asyncio.ensure_future(client.move_messages(source, to, request_id=request_id))

        async def under_way() -> bool:
            return (await client.get_queue(to)).length > 0

        await until(under_way, "some have moved")
        moving.cancel()
        seen = -1

        async def at_rest() -> bool:
            nonlocal seen
            before, seen = seen, (await client.get_queue(to)).length
            return before == seen

        await until(at_rest, "it has stopped")
        assert 0 < seen < MANY
        both = [client.move_messages(source, to, request_id=request_id) for _ in range(3)]
        for done in await asyncio.gather(*both):
            assert (done.moved, done.left) == (MANY, 0)
        assert await bodies(client, to) == payloads(MANY)


async def test_others_are_served_meanwhile(pair: Cluster) -> None:
    """One call after another: a move that took the loop for itself let 7 of them through, one that shares it 46."""
    source, to, queue = new_name(), new_name("r"), new_name("other")
    async with aio.connect(pair.target) as client, aio.connect(pair.target) as other:
        for name in (source, to, queue):
            await client.create_queue(name)
        await fill(client, source, MANY)
        moving = asyncio.ensure_future(client.move_messages(source, to))
        answered = 0
        while not moving.done():
            await other.enqueue(queue, [b"x"])
            answered += 1
        assert (await moving).moved == MANY
        assert answered >= MANY // 1_250, "16 of them"


def tandemq(pair: Cluster, *arguments: str, code: int = 0) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tandemq", *arguments, "--target", pair.target, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=OUTER_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


async def test_the_command_line_moves_redrives_and_removes(pair: Cluster) -> None:
    async with aio.connect(pair.target) as client:
        await client.create_queue("orders")
        await client.create_queue("old", admin.QueueConfig(max_length=2))
        await client.enqueue("orders", [Outgoing(b"%d" % n, {"properties": {"n": n}}) for n in range(6)])
        told = await asyncio.to_thread(tandemq, pair, "queue", "move", "orders", "old", "--where", "n > 3")
        assert (told["moved"], told["left"], told["behind"]) == (2, 0, [])
        told = await asyncio.to_thread(tandemq, pair, "queue", "move", "orders", "old", code=1)
        assert "QUEUE_FULL" in told
        told = await asyncio.to_thread(
            tandemq, pair, "queue", "delete-messages", "orders", "--where", "n = 0", "--yes"
        )  # fmt: skip
        assert told["removed"] == 1
        got = await client.dequeue("orders", 3)
        await got.reject("no good")

        async def dead() -> bool:
            return "orders.dead" in [info.name for info in await client.list_queues()] and (
                (await client.get_queue("orders.dead")).length == 3
            )

        await until(dead, "the rejected ones are dead letters")
        told = await asyncio.to_thread(tandemq, pair, "queue", "redrive", "orders.dead", "--max", "2")
        assert (told["moved"], told["left"], told["to"]) == (2, 0, None)
        assert await bodies(client, "orders") == [b"1", b"2"]
        await client.delete_queue("orders")
        told = await asyncio.to_thread(tandemq, pair, "queue", "redrive", "orders.dead", code=1)
        assert [(each["reason"], each["queue"], each["count"]) for each in told["behind"]] == [
            ("QUEUE_NOT_FOUND", "orders", 1)
        ]
        assert await bodies(client, "orders.dead") == [b"3"]
