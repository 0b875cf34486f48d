"""Work that is run in a unit, and again where the unit ended without a commit (U10, U11): at a pair, over a kill."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.blocking_units import Unit
from tandemq.errors import InvalidRequest, LeaseLost, UnitAborted
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, payloads, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

SOON = timedelta(milliseconds=200)


async def two_queues(client: aio.Client) -> tuple[str, str]:
    orders, legs = new_name(), new_name()
    for name in (orders, legs):
        await client.create_queue(name)
    return orders, legs


async def back_in(client: aio.Client, queue: str) -> None:
    """Until somebody else could have what a unit had locked."""
    again = await client.dequeue(queue, wait=OUTER_S)
    assert again
    await again.release()


async def test_the_result_of_the_work_is_that_of_the_call(client: aio.Client) -> None:
    orders, legs = await two_queues(client)
    await client.enqueue(orders, [b"1"])

    async def work(unit: aio.Unit) -> bytes:
        taken = await unit.dequeue(orders)
        await unit.enqueue(legs, [b"leg of " + taken[0].payload])
        return taken[0].payload

    assert await client.in_unit(work) == b"1"
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"leg of 1"])


async def test_a_unit_that_was_too_slow_is_worked_off_again(client: aio.Client) -> None:
    orders, legs = await two_queues(client)
    await client.enqueue(orders, [b"1"])
    ids: list[bytes] = []

    async def work(unit: aio.Unit) -> aio.Unit:
        await unit.dequeue(orders, wait=OUTER_S)
        await unit.enqueue(legs, [b"leg"])
        ids.append(unit.id)
        if len(ids) < 3:
            await back_in(client, orders)
        return unit

    unit = await client.in_unit(work, retries=2, timeout=SOON)
    assert len(set(ids)) == 3
    assert [receipt.index for receipt in unit.receipts[legs]] == [1], "and of the last one alone"
    assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"leg"])


async def test_who_is_never_fast_enough_hears_of_it(client: aio.Client) -> None:
    orders, legs = await two_queues(client)
    await client.enqueue(orders, [b"1"])
    runs = 0

    async def work(unit: aio.Unit) -> None:
        nonlocal runs
        runs += 1
        await unit.dequeue(orders, wait=OUTER_S)
        await unit.enqueue(legs, [b"leg"])
        await back_in(client, orders)

    with pytest.raises(UnitAborted):
        await client.in_unit(work, retries=1, timeout=SOON)
    assert runs == 2
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"1"], [])
    with pytest.raises(InvalidRequest, match="retries must be 0 or more"):
        await client.in_unit(work, retries=-1)


async def test_nothing_else_is_a_reason_to_run_it_again(client: aio.Client) -> None:
    """A handler that fails has failed, and a lease that was lost may be somebody else's."""
    orders, legs = await two_queues(client)
    await client.enqueue(orders, [b"1"])
    runs = 0

    async def fails(unit: aio.Unit) -> None:
        nonlocal runs
        runs += 1
        await unit.dequeue(orders)
        raise ValueError

    with pytest.raises(ValueError):
        await client.in_unit(fails)

    async def loses(unit: aio.Unit) -> None:
        nonlocal runs
        runs += 1
        taken = await client.dequeue(orders)
        await unit.ack(taken)
        await unit.enqueue(legs, [b"leg"])
        await taken.release()

    with pytest.raises(LeaseLost):
        await client.in_unit(loses)
    assert runs == 2
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"1"], [])


async def test_what_was_committed_is_never_run_again(client: aio.Client) -> None:
    """Whatever raises UnitAborted afterwards."""
    orders, legs = await two_queues(client)
    await client.enqueue(orders, [b"1", b"2"])

    async def work(unit: aio.Unit) -> None:
        await unit.dequeue(orders)
        await unit.enqueue(legs, [b"leg"])
        await unit.commit()
        await unit.dequeue(orders)

    with pytest.raises(UnitAborted, match="has ended"):
        await client.in_unit(work)
    assert (await payloads(client, orders), await payloads(client, legs)) == ([b"2"], [b"leg"])


def test_the_blocking_client_runs_it_on_the_thread_of_its_caller(pair: Cluster) -> None:
    orders, legs = new_name(), new_name()
    with tandemq.connect(pair.target) as client:
        for name in (orders, legs):
            client.create_queue(name)
        client.enqueue(orders, [b"1"])
        ids: list[bytes] = []

        def work(unit: Unit) -> bytes:
            taken = unit.dequeue(orders, wait=OUTER_S)
            unit.enqueue(legs, [b"leg"])
            ids.append(unit.id)
            if len(ids) == 1:
                again = client.dequeue(orders, wait=OUTER_S)
                again.release()
            return taken[0].payload

        with pytest.raises(UnitAborted):
            client.in_unit(work, retries=0, timeout=SOON)
        ids.clear()
        assert client.in_unit(work, timeout=SOON) == b"1"
        assert (len(set(ids)), [each.payload for each in client.browse(legs)]) == (2, [b"leg"])
        with pytest.raises(InvalidRequest, match="retries must be 0 or more"):
            client.in_unit(work, retries=-1)


@pytest.mark.promise
async def test_work_that_a_kill_interrupted_is_run_again(tmp_path: Path) -> None:
    """Between its get and its commit: nothing of the first run happened, and the second one did all of it, once."""
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders, legs = await two_queues(client)
            await client.enqueue(orders, [b"1"])
            runs: list[tuple[bytes, int]] = []
            killed: list[str] = []

            async def work(unit: aio.Unit) -> bytes:
                taken = await unit.dequeue(orders, wait=OUTER_S)
                await unit.enqueue(legs, [b"leg"])
                runs.append((unit.id, taken[0].delivery_count))
                if not killed:
                    master, _ = await roles(cluster)
                    killed.append(master)
                    cluster.kill(master)
                return taken[0].payload

            assert await client.in_unit(work) == b"1"
            assert [count for _, count in runs] == [1, 1], "a takeover counts as no delivery"
            assert runs[0][0] != runs[1][0]
            assert (await payloads(client, orders), await payloads(client, legs)) == ([], [b"leg"])
            await asyncio.wait_for(cluster.restart(killed[0]), OUTER_S)
            await cluster.wait_ready()
