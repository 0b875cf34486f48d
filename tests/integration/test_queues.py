"""What a queue promises on a pair: what survives which loss, and where its instances are open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq.cli import root
from tandemq.cli.view import PairView
from tandemq.errors import from_rpc_error
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import Raw, gone, new_id, new_name, raw_to, refused
from tests.support.clusters import quick
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

STATE, EXISTS, MISSING = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.NOT_FOUND,
)
DOWNGRADED = common_pb2.WARNING_PERSISTENCE_DOWNGRADED
NO_WARNING = common_pb2.WARNING_UNSPECIFIED


@pytest.fixture
async def members(pair: Cluster) -> AsyncIterator[list[Raw]]:
    async with raw_to(*pair.endpoints) as raws:
        yield raws


async def _send_marked(member: Raw, queue: str, *marks: bool | None) -> service.EnqueueResponse:
    messages = [{"payload": b"%d" % place, "persistent": mark} for place, mark in enumerate(marks)]
    request = service.EnqueueRequest(queue=queue, request_id=new_id(), messages=messages)
    return await member.queue.Enqueue(request, timeout=OUTER_S)


async def _browse(member: Raw, queue: str) -> list[bytes]:
    page = await member.queue.BrowsePage(service.BrowsePageRequest(queue=queue, max_messages=1000), timeout=OUTER_S)
    return [message.message.payload for message in page.messages]


async def _info(member: Raw, queue: str) -> admin.QueueInfo:
    return (await member.admin.GetQueue(admin.GetQueueRequest(name=queue), timeout=OUTER_S)).queue


async def _both_restart(pair: Cluster) -> None:
    await gone(pair, *pair.members)
    for name in pair.members:
        pair.spawn(name)
    await pair.wait_ready()


# -- persistence -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R150")
async def test_volatile_messages_survive_one_loss_and_not_two(pair: Cluster, members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name, persistence=admin.PERSISTENCE_VOLATILE)
    sent = await members[1].send(name, b"1", b"2")
    assert (sent.header.level, sent.header.copies) == (common_pb2.LEVEL_PAIR_RECV, 2)
    await gone(pair, "a")
    assert (await members[1].send(name, b"3")).header.copies == 1
    assert await _browse(members[1], name) == [b"1", b"2", b"3"], "the replica held them in memory"
    await pair.restart("a")
    await pair.wait_ready()
    await gone(pair, "b")
    assert await _browse(members[0], name) == [b"1", b"2", b"3"], "the transfer brought them to the one that came back"
    await pair.restart("b")
    await pair.wait_ready()

    await _both_restart(pair)
    info = await _info(members[1], name)
    assert (info.length, info.volatile_lost_total, info.last_index) == (0, 3, 3)
    assert (await members[0].send(name, b"4")).results[0].index == 4, "an index is never given twice"
    assert await members[1].take(name, 10) == [b"4"]
    await pair.wait_for(PairView.equal, "equal members")


@pytest.mark.requirement("R152")
async def test_a_conditional_queue_keeps_what_is_marked(pair: Cluster, members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name, persistence=admin.PERSISTENCE_CONDITIONAL)
    sent = await _send_marked(members[1], name, True, False, True, False, None)
    assert [result.index for result in sent.results] == [1, 2, 3, 4, 5]
    assert {result.warning for result in sent.results} == {NO_WARNING}
    await gone(pair, "a")
    assert await _browse(members[1], name) == [b"0", b"1", b"2", b"3", b"4"], "one member is left: all is here"
    await pair.restart("a")
    await pair.wait_ready()
    await _both_restart(pair)
    kept = await _browse(members[0], name)
    assert [payload for payload in kept if payload in (b"0", b"2")] == [b"0", b"2"]
    assert not {b"1", b"3"} & set(kept), "volatile messages of a mixed batch ended with the last member that held them"
    info = await _info(members[0], name)
    assert info.length + info.volatile_lost_total == 5
    await pair.wait_for(PairView.equal, "equal members")


@pytest.mark.requirement("R150")
async def test_a_persistent_queue_keeps_all(pair: Cluster, members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name)
    await _send_marked(members[0], name, True, False, None)
    await _both_restart(pair)
    assert await _browse(members[1], name) == [b"0", b"1", b"2"]


@pytest.mark.requirement("R151")
async def test_a_persistent_message_in_a_volatile_queue_is_warned_of(members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name, persistence=admin.PERSISTENCE_VOLATILE)
    for member in members:
        sent = await _send_marked(member, name, True, False, None)
        assert [result.warning for result in sent.results] == [DOWNGRADED, NO_WARNING, NO_WARNING]
    call = members[1].queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": name}))
    await call.read()
    for sequence, mark, warning in ((1, 2, DOWNGRADED), (2, 1, NO_WARNING)):
        batch = {"queue": name, "first_sequence": sequence, "messages": {"payloads": [b"x"], "persistence": [mark]}}
        await call.write(service.ProduceRequest(batch=batch))
        assert (await call.read()).ack.warning == warning
    call.cancel()


@pytest.mark.requirement("R151")
async def test_a_repetition_is_warned_of_again(members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name, persistence=admin.PERSISTENCE_VOLATILE)
    messages = [{"payload": b"x", "persistent": True}]
    request = service.EnqueueRequest(queue=name, request_id=new_id(), messages=messages)
    first = await members[0].queue.Enqueue(request, timeout=OUTER_S)
    again = await members[0].queue.Enqueue(request, timeout=OUTER_S)
    assert again.duplicate
    assert (again.results, again.header.level) == (first.results, first.header.level)


@pytest.mark.parametrize("pair", [quick], indirect=True)
async def test_a_refusal_that_is_certain_means_that_nothing_was_stored(pair: Cluster, members: list[Raw]) -> None:
    name = new_name()
    await members[0].create(name)
    pair.pause("b")
    request = service.EnqueueRequest(queue=name, request_id=new_id(), messages=[{"payload": b"x"}], min_copies=2)
    with pytest.raises(grpc.aio.AioRpcError) as info:
        await members[0].queue.Enqueue(request, timeout=OUTER_S)
    pair.resume("b")
    await pair.wait_ready()
    assert not (from_rpc_error(info.value).definite and await _browse(members[0], name))


# -- instances ---------------------------------------------------------------------------------------------------------


async def _open(member: Raw, name: str, **fields: Any) -> admin.QueueInfo:
    request = admin.OpenReplicatedQueueRequest(name=name, request_id=new_id(), **fields)
    return (await member.admin.OpenReplicatedQueue(request, timeout=OUTER_S)).queue


async def _close(member: Raw, name: str) -> admin.QueueInfo:
    request = admin.CloseReplicatedQueueRequest(name=name, request_id=new_id())
    return (await member.admin.CloseReplicatedQueue(request, timeout=OUTER_S)).queue


async def _destroy(member: Raw, name: str, **fields: Any) -> bool:
    request = admin.DestroyReplicatedQueueRequest(name=name, request_id=new_id(), **fields)
    return (await member.admin.DestroyReplicatedQueue(request, timeout=OUTER_S)).deleted


async def _created(member: Raw, **config: Any) -> str:
    name = new_name()
    request = admin.CreateReplicatedQueueRequest(name=name, request_id=new_id(), config=config)
    queue = (await member.admin.CreateReplicatedQueue(request, timeout=OUTER_S)).queue
    assert (queue.state, list(queue.open_members)) == (admin.QUEUE_STATE_CONFIGURED, [])
    return name


@pytest.mark.requirement("R009", "R044", "R124")
async def test_an_instance_serves_its_own_member_once_it_is_open(members: list[Raw]) -> None:
    name = await _created(members[1])
    for member in members:
        with refused("INVALID_STATE", STATE, name, "not open"):
            await member.send(name, b"early")
        with refused("INVALID_STATE", STATE, name, "not open"):
            await member.receive(name)
    assert list((await _open(members[1], name)).open_members) == ["b"]
    assert (await members[1].send(name, b"1")).header.copies == 2
    for call in (lambda: members[0].send(name, b"x"), lambda: members[0].receive(name)):
        with refused("INVALID_STATE", STATE, name, "not open at a"):
            await call()
    with refused("INVALID_STATE", STATE, "open at b already"):
        await _open(members[1], name)
    assert list((await _open(members[0], name)).open_members) == ["a", "b"]
    assert await members[0].take(name) == [b"1"]


@pytest.mark.requirement("R109")
async def test_who_must_be_master_is_told_who_is(pair: Cluster, members: list[Raw]) -> None:
    name = await _created(members[0])
    with refused("E_MASTER_EXISTS", EXISTS, "a is master", "MASTER_REQUIRED") as caught:
        await _open(members[1], name, master_required=True)
    facts = caught.error.metadata
    assert (facts["holder"], facts["epoch"], facts["endpoint"]) == ("a", "1", pair.endpoint("a"))
    assert list((await _open(members[0], name, master_required=True)).open_members) == ["a"]
    assert list((await _open(members[1], name)).open_members) == ["a", "b"], "without the demand it joins as replica"
    await gone(pair, "a")
    name = await _created(members[1])
    assert list((await _open(members[1], name, master_required=True)).open_members) == ["b"], "it is master by now"


@pytest.mark.requirement("R042", "R125")
async def test_closing_the_last_instance_drops_volatile_messages(members: list[Raw]) -> None:
    name = await _created(members[0], persistence=admin.PERSISTENCE_CONDITIONAL)
    for member in members:
        await _open(member, name)
    await _send_marked(members[0], name, True)
    await _send_marked(members[1], name, False)
    assert list((await _close(members[0], name)).open_members) == ["b"]
    assert await _browse(members[1], name) == [b"0", b"0"], "one instance is left: all is kept"
    with refused("INVALID_STATE", STATE, "not open at a"):
        await members[0].send(name, b"x")
    with refused("INVALID_STATE", STATE, "not open at a"):
        await _close(members[0], name)
    closed = await _close(members[1], name)
    assert (closed.state, closed.length) == (admin.QUEUE_STATE_CLOSED, 1)
    await _open(members[0], name)
    assert await members[0].take(name, 10) == [b"0"]


@pytest.mark.requirement("R045")
async def test_destroying_the_last_instance_deletes_the_queue(pair: Cluster, members: list[Raw]) -> None:
    name = await _created(members[0])
    for member in members:
        await _open(member, name)
    await members[0].send(name, b"1")
    assert not await _destroy(members[0], name)
    with refused("INVALID_STATE", STATE, name):
        await members[0].send(name, b"x")
    assert await members[1].take(name) == [b"1"]
    assert await _destroy(members[1], name)
    for member in members:
        with refused("QUEUE_NOT_FOUND", MISSING, name):
            await _info(member, name)
    name = await _created(members[0])
    assert await _destroy(members[1], name, both_members=True)
    name = await _created(members[0])
    for place, deleted in ((1, False), (0, True)):
        words = ["queue", "rm", name, "--instance", "--yes", "-o", "json", "--target", pair.endpoints[place]]
        result = await asyncio.to_thread(CliRunner().invoke, root, words)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["deleted"] is deleted
        if not deleted:
            with refused("INVALID_STATE", STATE, name, "holds no instance"):
                await _open(members[place], name)

    async def equal() -> bool:
        return (await pair.status()).equal()

    await until(equal, "equal members")
