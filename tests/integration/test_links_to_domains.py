"""Messages for another domain of another manager: a transmission queue, a writer and an order of its own (X1, X3). Two
real pairs, of which both have a domain beside main.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.doctor.asking import ask
from tandemq.cli.view import PairView
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, Outcome
from tandemq.client.target import NoTarget
from tandemq.client.transmissions import Going
from tandemq.config import to_toml
from tandemq.errors import InvalidRequest, TandemqError
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.reaction_service_pb2 import Reaction
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.support import gone, new_id, new_name, payloads, raw_to, roles, stopped_at_end
from tests.integration.two_pairs import BILLING, LATE, Pairs, client_of, is_empty, made, there, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

XMIT = f"SYSTEM.XMIT/west:{BILLING}"
DEAD = f"SYSTEM.DEAD/{BILLING}"
IN_BILLING = QueueConfig(domain=BILLING)

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def test_x1_what_is_put_to_a_domain_goes_through_a_queue_of_its_own(east: aio.Client, west: aio.Client) -> None:
    inbox, bills, orders = new_name(), new_name(), new_name()
    await east.create_queue(inbox)
    await west.create_queue(bills, IN_BILLING)
    await west.create_queue(orders)
    await east.enqueue(inbox, [b"1"])
    taken = await east.dequeue(inbox)
    to_bills = f"//west:{BILLING}/{bills}"

    done = await east.transact([taken], {to_bills: [b"a", b"b"], f"//west/{orders}": [b"c"]})

    assert await payloads(east, inbox) == []
    got = await there(west, bills, 2)
    assert [each.payload for each in got] == [b"a", b"b"]
    assert dict(got[0].properties) == {
        "tq_hops": 1,
        "tq_source_id": done[to_bills][0].id,
        "tq_source": "east/main",
    }
    assert [each.payload for each in await there(west, orders, 1)] == [b"c"]
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    writer = f"xmit/east/main/west:{BILLING}"
    known = await west.writer_state(writer, domain=BILLING)
    assert known is not None
    assert known.batch >= 1
    assert await west.writer_state(writer) is None, "it is a writer of that domain alone"


async def _letters(west: aio.Client) -> list[tuple[str, bytes, str]]:
    """In the dead letters of that domain: the queue that each was for, its payload and the reason."""
    return [
        (str(each.properties["tq_origin_queue"]), each.payload, str(each.properties["tq_dead_letter_reason"]))
        async for each in west.browse(DEAD)
    ]


async def test_x5_dead_letters_are_those_of_the_domain(east: aio.Client, west: aio.Client) -> None:
    bills, orders, absent = new_name(), new_name(), new_name()
    await west.create_queue(bills, IN_BILLING)
    await west.create_queue(orders)
    puts = {f"//west:{BILLING}/{queue}": [queue.encode()] for queue in (absent, orders, bills)}
    await east.transact([], puts)
    await east.transact([], {f"//west/{absent}": [b"main"]}, forward=True)
    assert [each.payload for each in await there(west, bills, 1)] == [bills.encode()]
    await there(west, DEAD, 2)
    assert await _letters(west) == [
        (absent, absent.encode(), "QUEUE_NOT_FOUND"),
        (orders, orders.encode(), "CROSS_DOMAIN"),
    ]
    assert (await west.get_queue(DEAD)).config.domain == BILLING
    (said,) = [each async for each in west.browse(DEAD) if each.properties["tq_origin_queue"] == orders]
    assert f"by //west:main/{orders}" in str(said.properties["tq_reject_reason"])
    assert [each.payload for each in await there(west, "SYSTEM.DEAD", 1)] == [b"main"]
    assert (await west.get_queue("SYSTEM.DEAD")).config.domain == "main"


async def test_x2_streams_and_open_units_send_on_to_a_domain(east: aio.Client, west: aio.Client) -> None:
    bills = new_name()
    await west.create_queue(bills, IN_BILLING)
    to_bills = f"//west:{BILLING}/{bills}"
    async with east.producer(to_bills, forward=True) as producer:
        await producer.send_many([b"1", b"2"])
    inbox = new_name()
    await east.create_queue(inbox)
    await east.enqueue(inbox, [b"x"])
    async with east.unit() as unit:
        await unit.dequeue(inbox)
        await unit.enqueue(to_bills, [b"3"])
    assert list(unit.receipts) == [XMIT]
    assert [each.payload for each in await there(west, bills, 3)] == [b"1", b"2", b"3"]


async def test_x1_what_came_through_others_keeps_where_it_was_first_put(pairs: Pairs, west: aio.Client) -> None:
    """Several hops: east is one on the way."""
    bills = new_name()
    await west.create_queue(bills, IN_BILLING)
    async with raw_to(pairs.east.endpoint("a")) as (member,):
        request = pb.TransactRequest(
            request_id=new_id(),
            puts=[{"queue": f"//west:{BILLING}/{bills}", "messages": [{"payload": b"far"}]}],
            forwarder="north",
        )
        properties = request.puts[0].messages[0].properties
        properties["tq_hops"].integer, properties["tq_source"].text = 1, "north/main"
        properties["tq_source_id"].data = b"first"
        answer = await TransactionServiceStub(member.channel).Transact(request, timeout=OUTER_S)
        assert answer.puts[0].forwarded == XMIT
    (got,) = await there(west, bills, 1)
    assert dict(got.properties) == {"tq_hops": 2, "tq_source": "north/main", "tq_source_id": b"first"}


async def test_v17_a_reaction_follows_to_the_domain(east: aio.Client, west: aio.Client) -> None:
    bills = new_name()
    shut = QueueConfig(domain=BILLING, reactions_enabled=True, enqueue_enabled=False)
    await west.create_queue(bills, shut)
    to_bills, wanted = f"//west:{BILLING}/{bills}", Where(correlation_id="order-17")
    message = tandemq.Outgoing(b"1", {"correlation_id": "order-17"})
    await east.transact([], {to_bills: [message]})
    await until(lambda: _taken(east, 1), "the link has it")
    done = await east.react(f"//west/{bills}", wanted, Cancel(), forward=True)
    assert (done.applied, done.locked) == (0, 0), "that is another way"
    done = await east.react(to_bills, wanted, Cancel(), forward=True)
    assert (done.outcome, done.locked, done.forwarded) == (Outcome.STORED, 1, XMIT)
    await east.transact([], {to_bills: [message]})
    await west.update_queue(bills, QueueConfig(enqueue_enabled=True), ["enqueue_enabled"])
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    assert len(await payloads(west, bills)) == 1, "it acted on the first one alone"


async def test_v17_a_report_that_is_for_another_domain_than_main_says_so(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """What is sent from there enters a transmission queue there, and so does the reaction."""
    inbox, replies, bills = new_name(), new_name(), new_name()
    through = f"SYSTEM.XMIT/{LATE}:{BILLING}"
    for name in (inbox, replies):
        await east.create_queue(name, IN_BILLING)
    await west.create_queue(bills, QueueConfig(domain=BILLING, enqueue_enabled=False))
    to_bills, wanted = f"//{LATE}:{BILLING}/{bills}", Where(correlation_id="order-17")
    await east.enqueue(inbox, [b"1"])
    await east.transact([await east.dequeue(inbox)], {to_bills: [b"1"]})
    assert (await east.get_queue(through)).config.domain == BILLING
    await east.react(to_bills, wanted, Cancel(), report_to=replies, forward=True, domain=BILLING)
    asked = await ask(pairs.east.endpoints, (), (), OUTER_S)
    found = {(each.domain, each.link.target): each.link.messages for each in asked.transmissions}
    assert found[BILLING, f"{LATE}:{BILLING}"] == 2, "the doctor sees what waits in each domain"
    assert found["", f"west:{BILLING}"] == 0
    *_, kept = [each async for each in east.browse(through)]
    assert Reaction.FromString(kept.payload).report_to == f"//east:{BILLING}/{replies}"
    await west.update_queue(bills, QueueConfig(enqueue_enabled=True), ["enqueue_enabled"])
    assert [each.payload for each in await there(west, bills, 1)] == [b"1"]


async def _taken(east: aio.Client, count: int) -> bool:
    found = await east.get_batches(XMIT, "xmit")
    return sum(each.messages for each in found.batches) == count


async def test_a_domain_is_a_part_of_the_way_alone(east: aio.Client, west: aio.Client) -> None:
    """Whoever speaks with the manager itself leaves it out; its own queues it takes by their domain."""
    bills = new_name()
    await west.create_queue(bills, IN_BILLING)
    to_bills = f"//west:{BILLING}/{bills}"
    with pytest.raises(InvalidRequest, match=f"finds the queue by //west/{bills}"):
        await east.enqueue(to_bills, [b"1"])
    with pytest.raises(InvalidRequest, match="BAD_NAME"):
        await east.get_queue(to_bills)
    with pytest.raises(NoTarget, match="which has all of its domains: //west"):
        aio.connect(f"//west:{BILLING}")
    done = await west.transact([], {to_bills: [b"1"]}, forward=True)
    assert (done[to_bills][0].index, await payloads(west, bills)) == (1, [b"1"]), "it is here"
    for name, reason in (
        (f"//west:main/{bills}", f"CROSS_DOMAIN.*is in domain {BILLING}; leave main out"),
        (f"//west:absent/{bills}", f"CONFIG_ERROR.*no domain 'absent' here, only {BILLING}, local, main"),
        (f"//west:local/{bills}", "BAD_NAME.*write //west/queue"),
    ):
        with pytest.raises(TandemqError, match=reason):
            await west.transact([], {name: [b"1"]}, forward=True)
    assert await payloads(west, bills) == [b"1"]


async def test_x3_the_domains_master_may_be_another_member_than_that_of_main(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """The last one of this module's pairs: who asks the master of main right after a queue was made at the other one
    may hear that it is not there.
    """
    bills = new_name()
    await west.create_queue(bills, IN_BILLING)
    master, other = await roles(pairs.west)
    assert (await west.handoff(BILLING, to=other)).done
    sent = [b"%d" % number for number in range(3)]
    await east.transact([], {f"//west:{BILLING}/{bills}": sent})
    assert [each.payload for each in await there(west, bills, 3)] == sent
    await until(lambda: is_empty(east, XMIT), "everything is acknowledged")
    assert (await roles(pairs.west))[0] == master, "main stays where it is"


@pytest.mark.promise
@pytest.mark.requirement("R183")
async def test_a_domain_that_is_not_there_yet_is_waited_for_and_each_message_is_there_once(tmp_path: Path) -> None:
    """West comes back without it, and then with it; then its masters, of the domain and of main, are two members, and
    each is killed.
    """
    east, west = made(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with stopped_at_end(east), stopped_at_end(west):
        to_bills, wanted = f"//west:{BILLING}/bills", [b"%d" % number for number in range(12)]
        clients = aio.connect(west.target, timeout=OUTER_S), aio.connect(east.target, timeout=OUTER_S)
        async with clients[0] as there_, clients[1] as here:
            await there_.create_queue("bills", IN_BILLING)
            whole = west.settings
            await _begun_anew(west, {})
            for payload in wanted[:4]:
                await here.transact([], {to_bills: [payload]})

            async def waits() -> str:
                (link,) = await here.list_transmissions()
                return link.why if link.target == f"west:{BILLING}" and link.state is Going.WAITING else ""

            assert f"there is no domain '{BILLING}' here" in await until(waits, "the link stands still")
            await _begun_anew(west, whole)
            await until(lambda: is_empty(here, XMIT), "everything is acknowledged")
            await west.wait_for(_in_step, "both members have the domain")
            master, other = await roles(west)
            assert (await there_.handoff(BILLING, to=other)).done
            for place, name in ((4, other), (8, master)):
                west.kill(name)
                for payload in wanted[place : place + 4]:
                    await here.transact([], {to_bills: [payload]})
                await until(lambda: is_empty(here, XMIT), "everything is acknowledged")
                await west.restart(name)
                await west.wait_for(_in_step, "both members have the domain")
            assert await payloads(there_, "bills") == wanted
            assert not await _letters_of_anybody(there_)


async def _begun_anew(cluster: Cluster, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Both members, with other settings."""
    await gone(cluster, "a", "b")
    cluster.settings = settings
    for name in ("a", "b"):
        cluster.config_file(name).write_text(to_toml(cluster.config(name)), encoding="utf-8")
        cluster.spawn(name)
    await cluster.wait_ready()


def _in_step(view: PairView) -> bool:
    return view.whole() and view.whole(BILLING)


async def _letters_of_anybody(west: aio.Client) -> list[str]:
    return [each.name for each in await west.list_queues("SYSTEM.DEAD")]
