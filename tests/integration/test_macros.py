"""Macro queues over real gRPC and real disks: the calls and the SDK of any queue, the commands, and kill -9 of the
master under a consumer and a producer.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.cli.view import PairView
from tandemq.client.aio import Final, Reached
from tandemq.client.macros import MacroPolicy, Relationship
from tandemq.errors import AlreadyExists, InvalidRequest, NotFound, Refused, ResourceExhausted
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import macro_service_pb2_grpc
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY_ACK, REPLICATION_NONE, QueueConfig
from tandemq.v1.queue_service_pb2 import CheckCompletionRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_id, new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process


pair = module_pair()
client = module_client()


async def made(
    client: aio.Client, relationship: Relationship, policy: MacroPolicy | None = None, **priorities: int
) -> tuple[str, list[str]]:
    """A new macro queue, and its members."""
    name = new_name("macro")
    await client.create_macro(name, relationship=relationship, policy=policy)
    members = {f"{name}-{stem}": priority for stem, priority in priorities.items()}
    for queue, priority in members.items():
        await client.create_queue(queue)
        await client.add_macro_member(name, queue, priority=priority)
    return name, list(members)


@pytest.mark.requirement("R038", "R039", "R073", "R075")
async def test_it_is_shown_as_it_was_made_by_either_member(pair: Cluster, client: aio.Client) -> None:
    name, (low, high) = await made(client, Relationship.CONSUMER, low=1, high=9)
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one:
            shown = await one.get_macro(name)
            assert (shown.relationship, shown.policy, shown.version) == ("CONSUMER", "PRIORITIZED", 3)
            assert [(each.queue, each.priority) for each in shown.members] == [(low, 1), (high, 9)]
            assert shown in await one.list_macros()
    with pytest.raises(Refused, match="VERSION_MISMATCH"):
        await client.remove_macro_member(name, low, expected_version=2)
    left = await client.remove_macro_member(name, low, expected_version=3)
    assert [each.queue for each in left.members] == [high]
    await client.delete_queue(high)
    assert (await client.get_macro(name)).members == ()
    await client.delete_macro(name)
    with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
        await client.get_macro(name)


async def test_a_name_is_free_in_all_domains_or_in_none(client: aio.Client) -> None:
    """M1: one that two objects have is found by nobody who means the other one."""
    name, local = new_name("name"), QueueConfig(replication=REPLICATION_NONE)
    await client.create_queue(name)
    with pytest.raises(AlreadyExists, match=r"QUEUE_EXISTS.*in domain main"):
        await client.create_macro(name, domain="local")
    other = new_name("name")
    await client.create_macro(other)
    with pytest.raises(AlreadyExists, match=r"QUEUE_EXISTS.*in domain main"):
        await client.create_queue(other, local)


@pytest.mark.requirement("R071", "R088", "R089")
async def test_the_calls_of_any_queue_send_to_it(pair: Cluster, client: aio.Client) -> None:
    """R089: by a unary call, and by a producer's stream at either member."""
    name, queues = await made(client, Relationship.PRODUCER, MacroPolicy.ROUND_ROBIN, one=0, two=0, three=0)
    request_id = new_id()
    first = await client.enqueue(name, [b"1"], request_id=request_id)
    again = await client.enqueue(name, [b"1"], request_id=request_id)
    assert (again[0].id, again[0].index, again[0].duplicate) == (first[0].id, first[0].index, True)
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one, one.producer(name) as producer:
            await producer.send(b"2")
    assert [(await client.dequeue(queue)).payloads for queue in queues] == [[b"1"], [b"2"], [b"2"]]
    with pytest.raises(Refused, match=r"RELATIONSHIP_MISMATCH.*is a PRODUCER"):
        await client.dequeue(name)


async def test_each_choice_by_response_is_counted_and_shown(pair: Cluster, client: aio.Client) -> None:
    """M8, R091: by either member, and by the command line; the figures are the master's."""
    name, queues = await made(client, Relationship.PRODUCER, MacroPolicy.FASTEST_RESPONSE, one=0, two=0)
    for _ in queues:
        await client.enqueue(name, [b"1"])
    assert [(await client.get_queue(queue)).length for queue in queues] == [1, 1], "nothing is known of either"
    for queue in queues:
        await (await client.dequeue(queue)).ack()
    await client.enqueue(name, [b"2"] * 3)
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one:
            found = await one.get_macro(name)
        counts = dict(found.choices)
        assert (counts.pop("NO_FIGURE"), sum(counts.values())) == (2, 1)
        assert all(member.mean_response is not None for member in found.members)
    words = ["macro", "info", name, "--target", pair.target, "-o", "json"]
    shown = json.loads((await asyncio.to_thread(CliRunner().invoke, root, words)).stdout)
    assert shown["choices"] == dict(found.choices)
    assert all(member["mean_response_ms"] >= 0 for member in shown["members"])
    shown = (await asyncio.to_thread(CliRunner().invoke, root, words[:-2])).stdout
    assert "NO_FIGURE" in shown


async def test_a_producer_goes_on_behind_what_found_its_members_full(client: aio.Client) -> None:
    """Each message is refused by itself; those that were sent behind it without waiting follow it."""
    name, (queue,) = await made(client, Relationship.PRODUCER, one=0)
    await client.update_queue(queue, QueueConfig(max_length=1), ["max_length"])
    async with client.producer(name, max_batch_messages=1) as producer:
        sent = [producer.send_nowait(b"%d" % number) for number in range(20)]
        came = await asyncio.gather(*sent, return_exceptions=True)
        refused_ones = [each for each in came if isinstance(each, ResourceExhausted) and each.reason == "QUEUE_FULL"]
        assert (len(came) - len(refused_ones), isinstance(came[0], aio.Receipt)) == (1, True)
        assert (await client.dequeue(queue, mode="immediate")).payloads == [b"0"]
        await producer.send(b"after")


async def test_each_group_goes_to_one_member_by_every_way_to_send(pair: Cluster, client: aio.Client) -> None:
    """M13: receipts, ids and answers are those of the members."""
    name, queues = await made(client, Relationship.PRODUCER, MacroPolicy.BY_GROUP, one=0, two=0, three=0)
    groups = [f"g{number}" for number in range(12)]
    receipts = list(await client.enqueue(name, [aio.Outgoing(group.encode(), {"group_id": group}) for group in groups]))
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one, one.producer(name) as producer:
            sent = [producer.send_nowait(group.encode(), group_id=group) for group in groups]
            receipts += await asyncio.gather(*sent)
    found: dict[bytes, tuple[str, int]] = {}
    groups_at: dict[str, list[str]] = {}
    for queue in queues:
        got = await client.dequeue(queue, 100)
        found |= {message.id: (queue, message.index) for message in got}
        groups_at[queue] = [message.payload.decode() for message in got]
    assert {each.id: each.index for each in receipts} == {each: index for each, (_, index) in found.items()}
    assert sorted({group for each in groups_at.values() for group in set(each)}) == sorted(groups)
    assert sum(len(set(each)) for each in groups_at.values()) == len(groups), "a group is at two members"
    assert all(each.count(group) == 3 for each in groups_at.values() for group in each)


async def test_each_member_gets_a_copy_by_every_way_to_send(pair: Cluster, client: aio.Client) -> None:
    """M4: and the index of a receipt is that of the first member."""
    name, queues = await made(client, Relationship.PRODUCER, MacroPolicy.DUPLICATE, one=0, two=9)
    receipts = list(await client.enqueue(name, [b"unary", b"unary too"]))
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one, one.producer(name) as producer:
            receipts.append(await producer.send(b"stream"))
    assert [each.index for each in receipts] == [1, 2, 3, 4]
    for queue in queues:
        got = await client.dequeue(queue, 100)
        assert got.payloads == [b"unary", b"unary too", b"stream", b"stream"]
        assert [message.id for message in got] == [each.id for each in receipts]
    await client.close_queue(queues[0])
    with pytest.raises(Refused, match=r"ENQUEUE_DISABLED.*nothing was sent to any"):
        await client.enqueue(name, [b"x"])
    assert (await client.get_queue(queues[1])).length == 4


@pytest.mark.requirement("R039", "R071", "R088", "R089")
async def test_the_calls_of_any_queue_receive_from_it(pair: Cluster, client: aio.Client) -> None:
    name, (low, high) = await made(client, Relationship.CONSUMER, low=1, high=9)
    await client.enqueue(low, [b"low", b"low"])
    await client.enqueue(high, [b"high"])
    got = await client.dequeue(name, 5)
    assert (got.payloads, got[0].queue) == ([b"high"], high)
    await got.ack()
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one, one.consumer(name) as consumer:
            delivery = await anext(consumer)
            assert (delivery.payload, delivery.queue) == (b"low", low)
            await delivery.ack_async()
    for queue, payload in ((low, b"left"), (high, b"deleted")):
        await client.enqueue(queue, [payload])
        got = await client.dequeue(name)
        if queue == low:
            await client.remove_macro_member(name, queue)
        else:
            await client.delete_macro(name)
        await got.ack()
        assert (got.payloads, (await client.get_queue(queue)).length) == ([payload], 0)
    await client.create_macro(name)
    with pytest.raises(InvalidRequest, match="macro queue"):
        await client.dequeue(name, where="priority > 3")
    with pytest.raises(InvalidRequest, match="macro queue"):
        [message async for message in client.browse(name)]
    with pytest.raises(Refused, match=r"RELATIONSHIP_MISMATCH.*is a CONSUMER"):
        await client.enqueue(name, [b"x"])


@pytest.mark.requirement("R054")
async def test_what_became_of_a_message_is_asked_by_the_name_that_it_was_sent_to(
    pair: Cluster, client: aio.Client
) -> None:
    """Of messages at one member by a call; of those at several ones each member has its own."""
    await client.create_macro(name := new_name("macro"), relationship=Relationship.PRODUCER)
    queues = [f"{name}-one", f"{name}-two"]
    for queue in queues:
        await client.create_queue(queue, QueueConfig(queue_type=QUEUE_TYPE_ONE_WAY_ACK, max_length=1))
        await client.add_macro_member(name, queue)
    handles = [(await client.enqueue(name, [b"x"]))[0].handle for _ in queues]
    await (await client.dequeue(queues[1])).ack()
    found = [await client.handle(name, handle).check() for handle in handles]
    assert [(each.reached, each.final) for each in found] == [
        (Reached.STORED, Final.NONE),
        (Reached.RECEIVED, Final.CONSUMED),
    ]
    async with raw_to(pair.endpoint("b")) as (member,):
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "ask for those of each by itself"):
            request = CheckCompletionRequest(queue=name, handles=handles)
            await QueueServiceStub(member.channel).CheckCompletion(request, timeout=OUTER_S)


@pytest.mark.requirement("R010")
async def test_a_queue_becomes_many_under_its_name_and_its_clients_see_nothing_of_it(client: aio.Client) -> None:
    """The same code sends and receives before and after; the members have priorities."""
    arrivals, orders = new_name("arrivals"), new_name("orders")

    async def sent(payload: bytes) -> None:
        async with client.producer(arrivals) as producer:
            await producer.send(payload)

    async def received() -> bytes:
        async with client.consumer(orders) as consumer:
            delivery = await anext(consumer)
            await delivery.ack_async()
            return delivery.payload

    for queue in (arrivals, orders):
        await client.create_queue(queue)
    await sent(b"before")
    await (await client.dequeue(arrivals)).ack()
    await client.enqueue(orders, [b"before"])
    assert await received() == b"before"
    for queue, relationship in ((arrivals, Relationship.PRODUCER), (orders, Relationship.CONSUMER)):
        await client.delete_queue(queue, if_empty=True)
        await client.create_macro(queue, relationship=relationship)
        for name, priority in (("low", 1), ("high", 9)):
            await client.create_queue(f"{queue}.{name}")
            await client.add_macro_member(queue, f"{queue}.{name}", priority=priority)
    await sent(b"after")
    assert (await client.dequeue(f"{arrivals}.high")).payloads == [b"after"]
    await client.enqueue(f"{orders}.low", [b"second"])
    await client.enqueue(f"{orders}.high", [b"first"])
    assert [await received(), await received()] == [b"first", b"second"]


async def test_bad_input_is_refused_by_name(pair: Cluster) -> None:
    invalid, state = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
    async with raw_to(pair.endpoint("b")) as (member,):
        stub: Any = macro_service_pb2_grpc.MacroServiceStub(member.channel)
        name = new_name("bad")

        async def call(method: str, **fields: Any) -> Any:
            request = getattr(pb, f"{method}Request")(**({"name": name, "request_id": new_id()} | fields))
            return await getattr(stub, method)(request, timeout=OUTER_S)

        request_id = new_id()
        first = await call("CreateMacro", request_id=request_id)
        again = await call("CreateMacro", request_id=request_id)
        assert (first.duplicate, again.duplicate, again.macro) == (False, True, first.macro)
        with refused("QUEUE_EXISTS", grpc.StatusCode.ALREADY_EXISTS, name):
            await call("CreateMacro")
        with refused("CONFIG_ERROR", state, "CONSUMER or PRODUCER"):
            await call("CreateMacro", name="n", relationship=9)
        with refused("BAD_NAME", invalid, "name of a macro queue"):
            await call("CreateMacro", name="a b")
        with refused("BAD_REQUEST", invalid, "no domain 'other'"):
            await call("CreateMacro", name="n", domain="other")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no queue 'gone'"):
            await call("AddMember", queue="gone")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no proxy of this domain leads to //far/q"):
            await call("AddMember", queue="//far/q")
        with refused("CONFIG_ERROR", state, "priority is 0 to 9"):
            await call("AddMember", queue="gone", priority=10)
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no member 'gone'"):
            await call("RemoveMember", queue="gone")
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no macro queue"):
            await call("DeleteMacro", name="none")
        with refused("BAD_REQUEST", invalid, "16 bytes"):
            await call("DeleteMacro", request_id=b"short")
        with refused("BAD_REQUEST", invalid, "CreateMacroRequest"):
            await member.bytes_call("/tandemq.v1.MacroService/CreateMacro", b"\xff\xff")


def test_the_blocking_client_has_the_same_calls(pair: Cluster) -> None:
    name = new_name("blocking")
    with tandemq.connect(pair.target) as client:
        client.create_queue(f"{name}-q")
        assert client.create_macro(name).members == ()
        client.add_macro_member(name, f"{name}-q")
        client.enqueue(f"{name}-q", [b"x"])
        assert client.dequeue(name).payloads == [b"x"]
        assert name in [each.name for each in client.list_macros()]
        client.remove_macro_member(name, f"{name}-q")
        client.delete_macro(name)


@pytest.mark.requirement("R031")
async def test_the_commands_make_change_show_and_remove_them(pair: Cluster, client: aio.Client) -> None:
    name = new_name("shown")
    queue = f"{name}-q"
    await client.create_queue(queue)

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, root, ["macro", *words, "--target", pair.target])

    created = await run("create", name, "--producer", "--policy", "round_robin", "-o", "json")
    assert created.exit_code == 0, created.output
    assert json.loads(created.stdout)["policy"] == "ROUND_ROBIN"
    added = json.loads((await run("add", name, queue, "--priority", "3", "-o", "json")).stdout)
    assert [(each["queue"], each["priority"]) for each in added["members"]] == [(queue, 3)]
    assert queue in (await run("info", name)).stdout
    assert name in (await run("ls")).stdout
    stale = await run("remove", name, queue, "--expected-version", "9")
    assert (stale.exit_code, "VERSION_MISMATCH" in stale.output) == (1, True)
    assert json.loads((await run("remove", name, queue, "-o", "json")).stdout)["members"] == []
    assert (await run("rm", name)).exit_code == 2, "without a terminal it wants --yes"
    assert (await run("rm", name, "--yes")).exit_code == 0
    gone = await run("info", name)
    assert (gone.exit_code, "QUEUE_NOT_FOUND" in gone.output) == (1, True)


@pytest.mark.requirement("R106")
async def test_both_kinds_outlive_kill_9_of_the_master(tmp_path: Path) -> None:
    """All that is acknowledged comes out once by a consumer of the same members, of each in its order; the turn goes
    on, and both copies are the same.
    """
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        spread, queues = await made(client, Relationship.PRODUCER, MacroPolicy.ROUND_ROBIN, one=0, two=0)
        await client.create_macro("all", policy=MacroPolicy.ROUND_ROBIN)
        for queue in queues:
            await client.add_macro_member("all", queue)
        async with client.producer(spread) as producer, client.consumer("all") as consumer:
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(20)))
            master, _ = await roles(cluster)
            cluster.kill(master)
            await asyncio.gather(*(producer.send(b"%d" % number) for number in range(20, 40)))
            got: set[bytes] = set()
            orders: dict[str, list[int]] = {queue: [] for queue in queues}
            while len(got) < 40:
                delivery = await anext(consumer)
                if delivery.payload not in got:  # what was given and not settled when the master died comes again
                    orders[delivery.queue].append(delivery.index)
                got.add(delivery.payload)
                await delivery.ack_async()
            assert list(orders.values()) == [list(range(1, 21))] * 2
        await cluster.restart(master)
        await cluster.wait_for(PairView.equal, "both members hold the same")
        assert [each.queue for each in (await client.get_macro("all")).members] == queues
