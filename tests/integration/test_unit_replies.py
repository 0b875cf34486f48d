"""Answers as a part of a unit of work at a real pair (U16), over handoffs and a kill in the middle of units (U10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import AlreadyExists, LeaseLost, Refused
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, payloads, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

TWO_WAY = QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY)


async def questions(client: aio.Client) -> tuple[str, str]:
    """A queue of requests, and a ledger."""
    asked, ledger = new_name(), new_name()
    await client.create_queue(asked, TWO_WAY)
    await client.create_queue(ledger)
    return asked, ledger


async def test_u16_the_commit_answers_and_nobody_sees_it_before(client: aio.Client) -> None:
    queue, ledger = await questions(client)
    handle = await client.send(queue, b"how much?")
    async with client.unit() as unit:
        taken = await unit.dequeue(queue, wait=OUTER_S)
        await unit.reply(queue, taken.lease_id, taken[0].index, b"7", content_type="text/plain", properties={"k": 1})
        await unit.enqueue(ledger, [b"billed 7"])
        (known,) = await client.check_completions(queue, [handle.value])
        assert (known.reply, known.completed) == (None, False)
    (known,) = await client.check_completions(queue, [handle.value])
    assert known.reply is not None
    assert (known.reply.payload, known.reply.attributes["content_type"]) == (b"7", "text/plain")
    assert known.reply.properties == {"k": 1}
    assert (await payloads(client, queue), await payloads(client, ledger)) == ([], [b"billed 7"])


async def test_u16_a_request_without_an_answer_refuses_the_commit_by_name(client: aio.Client) -> None:
    queue, ledger = await questions(client)
    await client.send(queue, b"how much?")
    unit = client.unit()
    taken = await unit.dequeue(queue, wait=OUTER_S)
    await unit.enqueue(ledger, [b"billed"])
    with pytest.raises(Refused, match=r"REPLY_REQUIRED.*request 1") as refused:
        await unit.commit()
    assert refused.value.definite
    await unit.reply(queue, taken.lease_id, taken[0].index, b"7")
    with pytest.raises(AlreadyExists, match="ALREADY_REPLIED"):
        await unit.reply(queue, taken.lease_id, taken[0].index, b"8")
    with pytest.raises(Refused, match="NOT_TWO_WAY"):
        await unit.reply(ledger, taken.lease_id, 1, b"8")
    with pytest.raises(LeaseLost):
        await unit.reply(queue, taken.lease_id, 2, b"8")
    await unit.commit()
    async with client.unit() as released:
        await client.send(queue, b"and now?")
        await released.release(await released.dequeue(queue, wait=OUTER_S))
    assert (await payloads(client, queue), await payloads(client, ledger)) == ([b"and now?"], [b"billed"])


def test_the_blocking_unit_answers_too(pair: Cluster) -> None:
    queue = new_name()
    with tandemq.connect(pair.target) as client:
        client.create_queue(queue, TWO_WAY)
        handle = client.send(queue, b"how much?")
        with client.unit() as unit:
            taken = unit.dequeue(queue, wait=OUTER_S)
            unit.reply(queue, taken.lease_id, taken[0].index, b"7")
        answer = handle.wait(OUTER_S).reply
        assert answer is not None
        assert answer.payload == b"7"


@pytest.mark.promise
async def test_u10_requests_are_answered_once_over_handoffs_and_a_kill(tmp_path: Path) -> None:
    """Two workers answer 60 requests by units, each with an entry in the ledger, while the role goes over twice and its
    master is killed: each requester has its answer, the ledger has each once, and no delivery was counted twice.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            queue, ledger = await questions(client)
            wanted = [b"%d" % number for number in range(60)]
            handles = [await client.send(queue, payload) for payload in wanted]
            counts: list[int] = []

            async def answer(unit: aio.Unit) -> int:
                taken = await unit.dequeue(queue)
                for each in taken:
                    counts.append(each.delivery_count)
                    await unit.reply(queue, taken.lease_id, each.index, b"answer to " + each.payload)
                    await unit.enqueue(ledger, [each.payload])
                return len(taken)

            async def work() -> None:
                while len(await payloads(client, ledger)) < len(wanted):
                    await client.in_unit(answer, retries=100)

            async def so_many(count: int) -> None:
                async def there() -> bool:
                    return len(await payloads(client, ledger)) >= count

                await until(there, f"{count} entries in the ledger")

            working = [asyncio.create_task(work()) for _ in range(2)]
            for count in (10, 20):
                await so_many(count)
                master, _ = await roles(cluster)
                async with aio.connect(cluster.endpoint(master)) as there:
                    done = await there.handoff(reason="U10")
                assert done.done, done.reasons
            await so_many(30)
            master, _ = await roles(cluster)
            cluster.kill(master)
            await asyncio.wait_for(asyncio.gather(*working), OUTER_S)
            found = await client.check_completions(queue, [handle.value for handle in handles])
            answers = [each.reply.payload if each.reply is not None else b"" for each in found]
            assert answers == [b"answer to " + payload for payload in wanted]
            assert sorted(await payloads(client, ledger), key=int) == wanted
            assert set(counts) == {1}, "neither a takeover nor a handoff counts as a delivery"
            await cluster.restart(master)
            await cluster.wait_ready()
