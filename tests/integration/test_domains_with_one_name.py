"""Transmission queues of one name in two domains of a pair (X1): which of them is meant. Two real pairs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tandemq import Outgoing, aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel
from tandemq.errors import InvalidRequest, Refused
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueBatch, ProduceOpen, ProduceOpened, ProduceRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.integration.support import new_name, raw_to, roles
from tests.integration.two_pairs import BILLING, XMIT, Pairs, client_of, there, two_pairs
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

IN_BILLING = QueueConfig(domain=BILLING)

pairs, east, west = two_pairs(), client_of("east"), client_of("west")


async def _from_billing(east: aio.Client, to: str, payload: bytes) -> None:
    """A unit of the second domain sends it, by a transmission queue of its own."""
    bills = new_name()
    await east.create_queue(bills, IN_BILLING)
    async with east.unit() as unit:
        await unit.enqueue(bills, [b"bill"])
        await unit.enqueue(to, [payload])


async def test_x1_a_stream_goes_by_main_whichever_domain_has_such_a_queue(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """Its batches have numbers there: one that is repeated, when main has got such a queue too, meets its first copy.
    The replica is asked, which has its master make that queue.
    """
    orders = new_name()
    await west.create_queue(orders)
    await _from_billing(east, f"//west/{orders}", b"billing")
    assert [each.queue for each in await east.list_transmissions(domain=BILLING)] == [XMIT]
    assert await east.list_transmissions() == [], "main has none yet"
    _, replica = await roles(pairs.east)
    async with aio.connect(pairs.east.endpoint(replica), follow_master=False) as client:
        producer = client.producer(f"//west/{orders}", forward=True)
        async with producer:
            await producer.send_many([b"1", b"2"])
    assert [each.queue for each in await east.list_transmissions()] == [XMIT]
    got = await there(west, orders, 3)
    assert {each.payload: each.properties["tq_source"] for each in got} == {
        b"billing": f"east/{BILLING}",
        b"1": "east/main",
        b"2": "east/main",
    }


async def test_x6_a_call_reaches_the_queue_of_the_domain_it_names_and_is_refused_without(
    east: aio.Client, west: aio.Client
) -> None:
    orders = new_name()
    await west.create_queue(orders)
    await _from_billing(east, f"//west/{orders}", b"1")
    await east.transact([], {f"//west/{orders}": [b"2"]}, forward=True)
    ours = QueueConfig(xmit_batch=7)
    for call in (
        east.update_queue(XMIT, ours, ["xmit_batch"]),
        east.get_queue(XMIT),
        east.purge_queue(XMIT),
        east.delete_queue(XMIT),
        east.delete_queue(XMIT, if_unused=True),
        east.dequeue(XMIT),
        east.delete_messages(XMIT, Where(group_id="g")),
        east.move_messages(XMIT, orders, Where(group_id="g")),
        east.react(XMIT, Where(group_id="g"), Cancel()),
        anext(aiter(east.browse(XMIT))),
    ):
        with pytest.raises(InvalidRequest, match=f"is in each of the domains {BILLING}, main: say which") as refused:
            await call
        assert refused.value.metadata["domains"] == f"{BILLING}, main"
    with pytest.raises(Refused, match="there is no domain 'nowhere' here"):
        await east.update_queue(XMIT, ours, ["xmit_batch"], domain="nowhere")

    changed = await east.update_queue(XMIT, ours, ["xmit_batch"], domain=BILLING)
    assert (changed.config.domain, changed.config.xmit_batch) == (BILLING, 7)
    assert (await east.get_queue(XMIT, domain=BILLING)).config.xmit_batch == 7
    assert (await east.get_queue(XMIT, domain="main")).config.xmit_batch == 0
    await until(lambda: _is_empty_in(east, BILLING), "billing's has nothing left to carry")
    assert await east.purge_queue(XMIT, domain=BILLING) == 0
    assert await east.delete_queue(XMIT, if_empty=True, domain=BILLING) == 0
    assert (await east.get_queue(XMIT)).config.domain == "main", "one is left, and its name is enough"


async def _is_empty_in(east: aio.Client, domain: str) -> bool:
    return (await east.get_queue(XMIT, domain=domain)).length == 0


async def test_x1_an_open_unit_sends_on_by_its_own_domain_also_when_main_has_such_a_queue(
    east: aio.Client, west: aio.Client
) -> None:
    orders, bills = new_name(), new_name()
    await west.create_queue(orders)
    await east.create_queue(bills, IN_BILLING)
    await east.transact([], {f"//west/{orders}": [b"main"]}, forward=True)
    assert (await east.get_queue(XMIT, domain="main")).config.domain == "main"
    async with east.unit() as unit:
        await unit.enqueue(bills, [b"bill"])
        await unit.enqueue(f"//west/{orders}", [b"billing"])
    got = await there(west, orders, 2)
    assert {each.payload: each.properties["tq_source"] for each in got} == {
        b"billing": f"east/{BILLING}",
        b"main": "east/main",
    }


async def test_v17_a_reaction_follows_the_messages_of_main_and_those_of_the_domain_it_names(
    pairs: Pairs, east: aio.Client, west: aio.Client
) -> None:
    """It went by whichever domain had such a queue first. Where main has none it would find nothing, in silence."""
    bills, name = new_name(), "//late/orders"
    through = "SYSTEM.XMIT/late"
    await east.create_queue(bills, IN_BILLING)
    late = Outgoing(b"billing", {"delay": timedelta(hours=1), "correlation_id": "c"})
    async with east.unit() as unit:
        await unit.enqueue(bills, [b"bill"])
        await unit.enqueue(name, [late])
    with pytest.raises(InvalidRequest, match=f"is in domain {BILLING} and not in main: say which") as refused:
        await east.react(name, Where(correlation_id="c"), Cancel(), forward=True)
    assert refused.value.metadata["domains"] == BILLING
    await east.transact([], {name: [Outgoing(b"main", late.attributes)]}, forward=True)

    async def left() -> list[int]:
        return [(await east.get_queue(through, domain=each)).length for each in ("main", BILLING)]

    assert await left() == [1, 1]
    done = await east.react(name, Where(correlation_id="c"), Cancel(), forward=True)
    assert (done.applied, done.forwarded, await left()) == (1, "", [0, 1])
    code, said = await _tandemq(
        *("msg", "react", name, "--correlation-id", "c", "--delete", "--forward", "--domain", BILLING, "-o", "json"),
        *("--target", pairs.east.target),
    )
    assert (code, json.loads(said)["applied"], await left()) == (0, 1, [0, 0]), said


async def test_the_command_names_the_domain(pairs: Pairs, east: aio.Client, west: aio.Client) -> None:
    orders = new_name()
    await west.create_queue(orders)
    await _from_billing(east, f"//west/{orders}", b"1")
    await east.transact([], {f"//west/{orders}": [b"2"]}, forward=True)
    words = ["queue", "update", XMIT, "--xmit-batch", "9", "--target", pairs.east.target]
    code, said = await _tandemq(*words)
    assert (code, "say which one is meant" in said) == (1, True), said
    code, said = await _tandemq(*words, "--domain", BILLING)
    assert code == 0, said
    assert (await east.get_queue(XMIT, domain=BILLING)).config.xmit_batch == 9


async def _tandemq(*words: str) -> tuple[int | None, str]:
    command = [sys.executable, "-m", "tandemq", *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=-2)
    out, _ = await process.communicate()
    return process.returncode, out.decode()


@asynccontextmanager
async def _opened(pairs: Pairs, member: str, queue: str) -> AsyncIterator[tuple[Any, ProduceOpened]]:
    async with raw_to(pairs.east.endpoint(member)) as (raw,):
        stream = QueueServiceStub(raw.channel).Produce(timeout=OUTER_S)
        await stream.write(ProduceRequest(open=ProduceOpen(queue=queue, client_id=b"p")))
        yield stream, (await stream.read()).opened
        stream.cancel()


async def test_a_stream_by_a_full_name_is_one_of_the_queue_that_it_names(pairs: Pairs, east: aio.Client) -> None:
    """Its domain, what the queue takes at once, and that somebody sends to it."""
    bills = new_name()
    await east.create_queue(bills, QueueConfig(domain=BILLING, max_length=5))
    for name in (f"//east/{bills}", f"//east:{BILLING}/{bills}"):
        async with _opened(pairs, "a", name) as (_, opened):
            assert (opened.header.domain, opened.max_batch_messages) == (BILLING, 5)
            assert (await east.get_queue(bills)).producers == 1
            with pytest.raises(Refused, match="1 producers attached"):
                await east.delete_queue(bills, if_unused=True)
        await until(lambda: _producers(east, bills), "it has gone")


async def _producers(east: aio.Client, queue: str) -> bool:
    return (await east.get_queue(queue)).producers == 0


async def test_who_is_sent_away_hears_of_the_domain_of_its_queue(pairs: Pairs, east: aio.Client) -> None:
    """The epoch of another domain would be one that this one has not: a client that took it would be refused."""
    bills = new_name()
    await east.create_queue(bills, IN_BILLING)
    for _ in range(2):
        await east.handoff(reason="main has another epoch than billing")
    master, replica = await roles(pairs.east)
    async with _opened(pairs, replica, bills) as (stream, opened):
        pairs.east.pause("witness")
        pairs.east.kill(master)
        try:
            batch = EnqueueBatch(queue=bills, first_sequence=1, messages={"payloads": [b"x"]})
            await stream.write(ProduceRequest(batch=batch))
            goaway = (await stream.read()).goaway
        finally:
            pairs.east.resume("witness")
            await pairs.east.restart(master)
    assert goaway.error.reason == Reason.REASON_NOT_MASTER
    assert (goaway.epoch, opened.header.domain) == (opened.header.epoch, BILLING)
