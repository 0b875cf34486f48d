"""Messages for another manager: they enter a transmission queue here, and are there once and in order, whatever dies
(X1-X7). Two real pairs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

import tandemq
from tandemq import aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, Outcome
from tandemq.errors import LeaseLost, NotFound, TandemqError
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.batch_service_pb2 import GetBatchesRequest
from tandemq.v1.batch_service_pb2_grpc import BatchServiceStub
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, REPLICATION_NONE, QueueConfig
from tandemq.v1.queue_service_pb2 import (
    OUTCOME_RELEASE,
    EnqueueRequest,
    SettleRequest,
)
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tandemq.v1.reaction_service_pb2 import REACTION_OUTCOME_DISCARDED, ReactRequest
from tandemq.v1.reaction_service_pb2_grpc import ReactionServiceStub
from tandemq.v1.stage_service_pb2 import GetWriterRequest
from tandemq.v1.stage_service_pb2_grpc import StageServiceStub
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.support import gone, http_get, new_id, new_name, payloads, raw_to, refused, roles, stopped_at_end
from tests.integration.two_pairs import BILLING, XMIT, Pairs, client_of, is_empty, made, there, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

DEAD = "SYSTEM.DEAD"

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def test_x2_what_is_put_to_another_manager_goes_through_a_transmission_queue(
    east: aio.Client, west: aio.Client
) -> None:
    inbox, orders = new_name(), new_name()
    await east.create_queue(inbox)
    await west.create_queue(orders)
    await east.enqueue(inbox, [b"1"])
    taken = await east.dequeue(inbox)
    message = tandemq.Outgoing(b"a", {"priority": 7, "properties": {"k": 1}, "dedup_id": "d"})

    done = await east.transact([taken], {f"//west/{orders}": [message, b"b"]})

    (receipts,) = done.values()
    assert len(receipts) == 2
    assert receipts[0].copies == 2
    assert await payloads(east, inbox) == []
    got = await there(west, orders, 2)
    assert [each.payload for each in got] == [b"a", b"b"]
    properties = dict(got[0].properties)
    assert properties == {"k": 1, "tq_hops": 1, "tq_source_id": receipts[0].id, "tq_source": "east/main"}
    assert (await east.get_queue(XMIT)).config.replication
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    again = await east.transact([], {f"//west/{orders}": [message]}, forward=True)
    assert len(again) == 1
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    assert len(await payloads(west, orders)) == 2, "its dedup id is remembered where it is for"


async def test_x2_a_client_without_the_sdk_hears_by_which_queue_it_goes(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """R179."""
    orders = new_name()
    await west.create_queue(orders)
    async with raw_to(pairs.east.endpoint("a"), pairs.east.endpoint("b")) as members:
        for number, member in enumerate(members):
            request = EnqueueRequest(
                queue=f"//west/{orders}", request_id=new_id(), messages=[{"payload": b"%d" % number}]
            )
            answer = await QueueServiceStub(member.channel).Enqueue(request, timeout=OUTER_S)
            assert (answer.forwarded, answer.header.copies, len(answer.results)) == (XMIT, 2, 1)
        assert sorted(each.payload for each in await there(west, orders, 2)) == [b"0", b"1"]
        own = EnqueueRequest(queue=f"//east/{new_name()}", request_id=new_id(), messages=[{"payload": b"x"}])
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND):
            await QueueServiceStub(members[0].channel).Enqueue(own, timeout=OUTER_S)
        nowhere = EnqueueRequest(queue="//nobody/q", request_id=new_id(), messages=[{"payload": b"x"}])
        with refused("MANAGER_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nobody"):
            await QueueServiceStub(members[1].channel).Enqueue(nowhere, timeout=OUTER_S)
        forged = EnqueueRequest(queue=f"//west/{orders}", request_id=new_id(), messages=[{"payload": b"x"}])
        forged.messages[0].properties["tq_hops"].integer = 1
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, "are the manager's"):
            await QueueServiceStub(members[0].channel).Enqueue(forged, timeout=OUTER_S)
    with pytest.raises(TandemqError, match="QUEUE_NOT_FOUND"):
        await east.get_queue("SYSTEM.XMIT/nobody")


async def test_x5_what_the_target_refuses_for_ever_is_among_its_dead_letters(
    east: aio.Client, west: aio.Client
) -> None:
    orders, small, absent = new_name(), new_name(), new_name()
    await west.create_queue(orders)
    await west.create_queue(small, QueueConfig(max_message_bytes=4))
    before = len(await there(west, DEAD, 0)) if await _has(west, DEAD) else 0
    puts = {f"//west/{absent}": [b"1", b"2"], f"//west/{small}": [b"tiny", b"too large"], f"//west/{orders}": [b"3"]}
    await east.transact([], puts, forward=True)
    assert [each.payload for each in await there(west, orders, 1)] == [b"3"]
    assert await payloads(west, small) == [b"tiny"]
    dead = (await there(west, DEAD, before + 3))[before:]
    assert [(each.payload, each.properties["tq_dead_letter_reason"]) for each in dead] == [
        (b"1", "QUEUE_NOT_FOUND"),
        (b"2", "QUEUE_NOT_FOUND"),
        (b"too large", "MESSAGE_TOO_LARGE"),
    ]
    assert dead[0].properties["tq_origin_queue"] == absent


async def _has(client: aio.Client, queue: str) -> bool:
    try:
        await client.get_queue(queue)
    except NotFound:
        return False
    return True


async def test_x5_a_full_queue_is_waited_for_and_the_order_is_kept(east: aio.Client, west: aio.Client) -> None:
    small = new_name()
    await west.create_queue(small, QueueConfig(max_length=1))
    for payload in (b"1", b"2", b"3"):
        await east.transact([], {f"//west/{small}": [payload]}, forward=True)
    got = []
    while len(got) < 3:
        batch = await west.dequeue(small, wait=OUTER_S)
        got += [message.payload for message in batch]
        await batch.ack()
    assert got == [b"1", b"2", b"3"]


async def test_x5_a_message_that_came_through_eight_managers_goes_no_further(pairs: Pairs, east: aio.Client) -> None:
    async with raw_to(pairs.east.endpoint("a")) as (member,):
        request = pb.TransactRequest(
            request_id=new_id(),
            puts=[{"queue": "//west/orders", "messages": [{"payload": b"round"}]}],
            forwarder="somebody",
        )
        request.puts[0].messages[0].properties["tq_hops"].integer = 8
        answer = await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S)
        assert answer.puts[0].forwarded == DEAD
    (dead,) = await there(east, DEAD, 1)
    assert dead.properties["tq_dead_letter_reason"] == "LOOP_LIMIT"
    assert dead.properties["tq_origin_queue"] == "//west/orders"


async def test_x5_v17_a_reaction_that_came_through_eight_managers_goes_no_further(pairs: Pairs) -> None:
    """Whoever carried it has it as a dead letter then. One that has arrived acts, whatever it came through."""
    orders = new_name()
    async with raw_to(pairs.east.endpoint("a")) as (member,), aio.connect(pairs.east.target) as east:
        await east.create_queue(orders, QueueConfig(reactions_enabled=True))
        request = ReactRequest(queue="//west/orders", source="somebody", hops=8, request_id=new_id())
        request.reaction.target.correlation_id = "round"
        request.reaction.delete.SetInParent()
        stub = ReactionServiceStub(member.channel)
        with refused("LOOP_LIMIT", grpc.StatusCode.FAILED_PRECONDITION, "through 8 managers"):
            await stub.React(request, timeout=OUTER_S)
        request.queue, request.request_id = orders, new_id()
        assert (await stub.React(request, timeout=OUTER_S)).outcome == REACTION_OUTCOME_DISCARDED


@pytest.mark.promise
@pytest.mark.requirement("R183")
async def test_messages_go_across_once_whatever_dies(tmp_path: Path) -> None:
    """Example 5: units at east acknowledge one message each and put one for west. West is away at first, then both
    pairs lose their masters by kill -9 again and again: west has each message once, in order.
    """
    east, west = made(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with stopped_at_end(east), stopped_at_end(west):
        async with aio.connect(west.target, timeout=OUTER_S) as client:
            await client.create_queue("orders")
        await gone(west, "a", "b")
        wanted = [b"%d" % number for number in range(60)]
        async with aio.connect(east.target, timeout=OUTER_S) as client:
            await client.create_queue("inbox")
            await client.enqueue("inbox", wanted)
            for _ in range(20):
                await _one(client)
            assert (await client.get_queue(XMIT)).length == 20, "west is away, and nobody waits for it"
            master, _ = await roles(east)
            port = int(east.config(master).listen_http.rpartition(":")[2])
            _, scraped = await http_get(port, "/metrics")
            assert 'tandemq_xmit_waiting{domain="main",target="west"} 20.0' in scraped
            east.kill(master)  # the batch that is leased goes on at the next master
            await _one(client)
            await east.restart(master)
            for name in ("a", "b"):
                west.spawn(name)
            await west.wait_ready()
            for number in range(21, len(wanted)):
                if number in (25, 40, 55):
                    cluster = east if number == 40 else west
                    master, _ = await roles(cluster)
                    cluster.kill(master)
                    await _one(client)
                    await cluster.restart(master)
                else:
                    await _one(client)
            await until(lambda: is_empty(client, XMIT), "everything is acknowledged")
        async with aio.connect(west.target, timeout=OUTER_S) as client:
            assert await payloads(client, "orders") == wanted


@pytest.mark.promise
@pytest.mark.requirement("R195", "R203")
async def test_v17_a_reaction_on_its_way_acts_once_whoever_dies(tmp_path: Path) -> None:
    """It follows a message that the link has; both masters of its way are killed, and of two that fit one is gone."""
    east, west = made(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with stopped_at_end(east), stopped_at_end(west):
        clients = aio.connect(west.target, timeout=OUTER_S), aio.connect(east.target, timeout=OUTER_S)
        async with clients[0] as there, clients[1] as here:
            await there.create_queue("orders", QueueConfig(enqueue_enabled=False, reactions_enabled=True))
            one, other = (tandemq.Outgoing(text, {"correlation_id": "order-17"}) for text in (b"1", b"2"))
            await here.transact([], {"//west/orders": [one, other]}, forward=True)
            await until(lambda: _is_leased(here), "the link has them")
            wanted = Where(correlation_id="order-17")
            done = await here.react("//west/orders", wanted, Cancel(), forward=True)
            assert (done.outcome, done.locked, done.forwarded) == (Outcome.STORED, 2, XMIT)
            await here.transact([], {"//west/orders": [one]}, forward=True)
            master, _ = await roles(east)
            east.kill(master)
            await until(lambda: _is_leased(here), "the next master has the batch")
            opened = QueueConfig(enqueue_enabled=True)
            await there.update_queue("orders", opened, ["enqueue_enabled"])
            master, _ = await roles(west)
            west.kill(master)
            await until(lambda: is_empty(here, XMIT), "everything is acknowledged")
            assert await payloads(there, "orders") == [b"2", b"1"]


async def test_x7_a_volatile_message_dies_with_both_members_alone_and_is_never_doubled(tmp_path: Path) -> None:
    """A batch of a volatile and a persistent message is under way whenever somebody dies."""
    east, west = made(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with stopped_at_end(east), stopped_at_end(west):
        shut, opened = QueueConfig(enqueue_enabled=False), QueueConfig(enqueue_enabled=True)
        clients = aio.connect(west.target, timeout=OUTER_S), aio.connect(east.target, timeout=OUTER_S)
        async with clients[0] as there, clients[1] as here:
            await there.create_queue("orders", shut)
            await _two(here, b"1")
            master, _ = await roles(east)
            east.kill(master)
            await until(lambda: _is_leased(here), "the next master has the batch")
            await there.update_queue("orders", opened, ["enqueue_enabled"])
            await until(lambda: is_empty(here, XMIT), "everything is acknowledged")
            assert await payloads(there, "orders") == [b"volatile 1", b"persistent 1"], "the other member has it"
            await east.restart(master)
            await east.wait_ready()  # what a member gets from its peer after its next start would be no loss
            await there.update_queue("orders", shut, ["enqueue_enabled"])
            await _two(here, b"2")
            await gone(east, "a", "b")
            for name in ("a", "b"):
                east.spawn(name)
            await east.wait_ready()
            await there.update_queue("orders", opened, ["enqueue_enabled"])
            await until(lambda: is_empty(here, XMIT), "everything is acknowledged")
            assert await payloads(there, "orders") == [b"volatile 1", b"persistent 1", b"persistent 2"]


async def _two(client: aio.Client, mark: bytes) -> None:
    """In one batch, that the target does not let in."""
    messages = [
        tandemq.Outgoing(b"volatile " + mark, {"persistent": False}),
        tandemq.Outgoing(b"persistent " + mark, {"persistent": True}),
    ]
    await client.transact([], {"//west/orders": messages}, forward=True)
    await until(lambda: _is_leased(client), "the batch is leased")


async def _is_leased(client: aio.Client) -> bool:
    found = await client.get_batches(XMIT, "xmit")
    return [each.messages for each in found.batches] == [2]


async def _one(client: aio.Client) -> None:
    """The next message of the inbox leads to one for west."""
    while True:
        taken = await client.dequeue("inbox", wait=OUTER_S)
        try:
            await client.transact([taken], {"//west/orders": [taken[0].payload]})
        except LeaseLost:
            continue
        return


async def test_x5_a_message_that_its_queue_never_takes_holds_up_no_other_and_takes_none_along(
    east: aio.Client, west: aio.Client
) -> None:
    """Some refusals name no queue: what is refused is found by taking fewer at a time."""
    orders, others = new_name(), new_name()
    await west.create_queue(orders, QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))
    await west.create_queue(others)
    own_answer = tandemq.Outgoing(b"bad", {"reply_to": orders})
    puts = {f"//west/{orders}": [b"1", own_answer, b"2"], f"//west/{others}": [b"3"]}
    await east.transact([], puts, forward=True)
    assert [each.payload for each in await there(west, others, 1)] == [b"3"]
    assert [each.payload for each in await there(west, orders, 2)] == [b"1", b"2"]
    dead = [each for each in await there(west, DEAD, 1) if each.properties["tq_origin_queue"] == orders]
    assert [each.payload for each in dead] == [b"bad"]


async def test_what_a_manager_adds_makes_no_message_one_of_too_many_properties(
    east: aio.Client, west: aio.Client
) -> None:
    orders, absent = new_name(), new_name()
    await west.create_queue(orders)
    most = {f"p{number}": number for number in range(256)}
    message = tandemq.Outgoing(b"x", {"properties": most, "dedup_id": "d"})
    await east.transact([], {f"//west/{orders}": [message], f"//west/{absent}": [message]}, forward=True)
    (got,) = await there(west, orders, 1)
    assert {name: value for name, value in got.properties.items() if not name.startswith("tq_")} == most
    await until(lambda: is_empty(east, XMIT), "the dead letter has gone, too")


async def test_the_largest_message_that_enters_finds_room_at_its_target(east: aio.Client, west: aio.Client) -> None:
    """What managers add would make a larger one too large for the target, and for the dead letters there."""
    orders, absent, most = new_name(), new_name(), (4 << 20) - 1_024
    await west.create_queue(orders, QueueConfig(max_message_bytes=4 << 20))
    with pytest.raises(TandemqError, match="managers add some"):
        await east.transact([], {f"//west/{orders}": [b"x" * most]}, forward=True)
    for queue in (orders, absent):
        await east.transact([], {f"//west/{queue}": [b"x" * (most - 8)]}, forward=True)
    await until(lambda: is_empty(east, XMIT), "both have gone")
    assert [len(each.payload) for each in await there(west, orders, 1)] == [most - 8]


async def test_x3_properties_count_for_what_goes_at_once(east: aio.Client, west: aio.Client) -> None:
    """A batch is taken by its payloads; with these properties it would be larger than gRPC takes."""
    orders = new_name()
    await west.create_queue(orders, QueueConfig(enqueue_enabled=False))
    for _ in range(7):
        message = tandemq.Outgoing(b"x", {"properties": {"p": "x" * 900_000}})
        await east.transact([], {f"//west/{orders}": [message] * 4}, forward=True)
    await west.update_queue(orders, QueueConfig(enqueue_enabled=True), ["enqueue_enabled"])
    assert len(await there(west, orders, 28)) == 28


async def test_a_queue_that_is_named_by_an_alias_too_takes_both(east: aio.Client, west: aio.Client) -> None:
    """A unit names a queue once; whoever sends by either name knows nothing of that."""
    orders, alias = new_name(), new_name()
    await west.create_queue(orders)
    await west.create_alias(alias, orders)
    await east.transact([], {f"//west/{orders}": [b"1"], f"//west/{alias}": [b"2"]}, forward=True)
    assert [each.payload for each in await there(west, orders, 2)] == [b"1", b"2"]


async def test_x4_what_an_operator_releases_after_it_was_sent_does_not_go_again(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    full, orders = new_name(), new_name()
    await west.create_queue(full, QueueConfig(max_length=1))
    await west.create_queue(orders)
    await east.transact([], {f"//west/{full}": [b"1"]}, forward=True)
    await there(west, full, 1)
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    await east.transact([], {f"//west/{full}": [b"2"]}, forward=True)
    async with raw_to(pairs.east.endpoint("a"), pairs.west.endpoint("a")) as (at_east, at_west):
        batches = BatchServiceStub(at_east.channel)
        request = GetBatchesRequest(queue=XMIT, consumer="xmit")

        async def taken() -> bool:
            return bool((await batches.GetBatches(request, timeout=OUTER_S)).batches)

        await until(taken, "the agent has it")
        (batch,) = (await batches.GetBatches(request, timeout=OUTER_S)).batches
        name = "xmit/east/main/west"
        known = await StageServiceStub(at_west.channel).GetWriter(GetWriterRequest(writer=name), timeout=OUTER_S)
        # As if a call had arrived of whose answer nobody heard: by another queue, so that it has room.
        sent = pb.TransactRequest(
            request_id=new_id(), writer=name, query_id=known.query_id, number=batch.number, after=known.batch
        )
        sent.puts.add(queue=orders, messages=[{"payload": b"2"}])
        await TransactionServiceStub(at_west.channel).Transact(sent, timeout=OUTER_S)
        (place,) = [message async for message in east.browse(XMIT)]
        release = {"lease_id": batch.lease_id, "outcome": OUTCOME_RELEASE}
        settle = SettleRequest(queue=XMIT, request_id=new_id(), settlements=[release])
        settle.settlements[0].ranges.add(first=place.index, count=1)
        await QueueServiceStub(at_east.channel).Settle(settle, timeout=OUTER_S)
    taken_out = await west.dequeue(full)
    await taken_out.ack()
    await east.transact([], {f"//west/{full}": [b"3"]}, forward=True)
    assert [each.payload for each in await there(west, full, 1)] == [b"3"]


async def test_a_queue_of_another_domain_of_the_target_takes_no_other_along(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    orders, local = new_name(), new_name()
    await west.create_queue(orders)
    await west.create_queue(local, QueueConfig(replication=REPLICATION_NONE))
    await east.transact([], {f"//west/{local}": [b"1"], f"//west/{orders}": [b"2"]}, forward=True)
    assert [each.payload for each in await there(west, orders, 1)] == [b"2"]
    dead = [each for each in await there(west, DEAD, 1) if each.properties["tq_origin_queue"] == local]
    assert [(each.payload, each.properties["tq_dead_letter_reason"]) for each in dead] == [(b"1", "CROSS_DOMAIN")]
    assert "a member's own, to which no other manager sends on" in str(dead[0].properties["tq_reject_reason"])


async def test_a_dead_letter_of_another_domain_says_by_which_name_it_would_arrive(
    east: aio.Client, west: aio.Client
) -> None:
    bills = new_name()
    await west.create_queue(bills, QueueConfig(domain=BILLING))
    await east.transact([], {f"//west/{bills}": [b"1"]}, forward=True)
    await there(west, DEAD, 1)
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    (dead,) = [each async for each in west.browse(DEAD) if each.properties["tq_origin_queue"] == bills]
    assert dead.properties["tq_dead_letter_reason"] == "CROSS_DOMAIN"
    assert f"send on to it by //west:{BILLING}/{bills}" in str(dead.properties["tq_reject_reason"])


async def test_x1_a_transmission_queue_for_nobody_is_not_made_by_its_name(pairs: Pairs) -> None:
    async with raw_to(pairs.east.endpoint("a")) as (member,):
        request = pb.TransactRequest(
            request_id=new_id(), puts=[{"queue": "SYSTEM.XMIT/nobody", "messages": [{"payload": b"x"}]}]
        )
        with refused("MANAGER_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nobody"):
            await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S)


async def test_x3_what_each_member_has_for_itself_goes_by_a_writer_of_its_own(pairs: Pairs, west: aio.Client) -> None:
    orders = new_name()
    await west.create_queue(orders)
    async with raw_to(pairs.east.endpoint("a"), pairs.east.endpoint("b")) as members:
        for number, member in enumerate(members):
            own = new_name()
            await member.create(own, replication=REPLICATION_NONE)
            request = pb.TransactRequest(
                request_id=new_id(),
                puts=[
                    {"queue": own, "messages": [{"payload": b"kept"}]},
                    {"queue": f"//west/{orders}", "messages": [{"payload": b"%d" % number}]},
                ],
            )
            await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S)
        assert sorted(each.payload for each in await there(west, orders, 2)) == [b"0", b"1"]
