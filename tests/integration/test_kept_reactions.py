"""Reactions that are kept, over real gRPC and real disks: the rest of a group that has not been sent yet, over kill -9
of the master; and what an operator sees of them (V11 to V14).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.completion import Final
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, Change, MoveTo, Outcome
from tandemq.errors import InvalidRequest, LeaseLost, Refused
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY_ACK, QueueConfig
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, roles, stopped_at_end
from tests.integration.test_reactions import payloads, reactive
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

SOON = timedelta(minutes=10)


@pytest.mark.requirement("R197", "R198")
async def test_v11_a_timer_that_comes_after_its_cancelling(client: aio.Client) -> None:
    timers, replies = await reactive(client, queue_type=QUEUE_TYPE_ONE_WAY_ACK), new_name()
    await client.create_queue(replies)
    asked = Where(correlation_id="order-17")
    done = await client.react(timers, asked, Cancel(), sticky=SOON, report_to=replies, correlation_id="my call")
    assert (done.outcome, done.applied, done.kept) == (Outcome.STORED, 0, True)
    handle = await client.send(timers, b"call back", correlation_id="order-17")
    ended = await handle.wait(OUTER_S)
    assert (ended.final, ended.succeeded) == (Final.REACTED, False)
    assert await payloads(client, timers) == []
    reports = [each async for each in client.browse(replies)]
    assert [(each.attributes["correlation_id"], each.properties["tq_outcome"]) for each in reports] == [
        ("my call", "STORED"),
        ("my call", "APPLIED"),
    ]
    await client.send(timers, b"another one", correlation_id="order-17")
    assert await payloads(client, timers) == [b"another one"], "the first one has used it up"


@pytest.mark.requirement("R199")
async def test_v11_what_is_kept_is_browsed_and_touched_by_nobody_else(pair: Cluster, client: aio.Client) -> None:
    orders = await reactive(client)
    kept = f"SYSTEM.REACTIVE/{orders}"

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, root, [*words, "--target", pair.target])

    done = await run("msg", "react", orders, "--group-id", "g", "--all", "--delete", "--sticky", "10m", "-o", "json")
    assert (json.loads(done.stdout)["outcome"], json.loads(done.stdout)["kept"]) == ("STORED", True)
    (row,) = [each async for each in client.browse(kept)]
    assert row.attributes["content_type"].endswith("tandemq.v1.Reaction")
    with pytest.raises(Refused, match="ENQUEUE_DISABLED"):
        await client.send(kept, b"mine")
    with pytest.raises(Refused, match="DEQUEUE_DISABLED"):
        await client.dequeue(kept)
    with pytest.raises(InvalidRequest, match=r"BAD_REQUEST.*reaction.ttl"):
        await client.react(orders, Where(group_id="h"), Cancel(), sticky=timedelta(hours=2))
    brief = await client.react(orders, Where(group_id="h"), Cancel(), sticky=timedelta(microseconds=400))
    assert brief.outcome is Outcome.STORED, "for a moment, not for an hour"

    async def one_is_left() -> bool:
        return len([each async for each in client.browse(kept)]) == 1

    await until(one_is_left, "the brief one ends")
    info = await run("queue", "info", kept, "-o", "json")
    assert info.exit_code == 0, info.output
    await client.send(orders, b"1", group_id="g")
    assert await payloads(client, orders) == []
    for config in (
        QueueConfig(enqueue_enabled=True),
        QueueConfig(max_length=1),
        QueueConfig(persistence="PERSISTENCE_VOLATILE"),
    ):
        with pytest.raises(InvalidRequest, match=f"READ_ONLY.*is kept for {orders}.*purge or delete it"):
            await client.update_queue(kept, config, [field.name for field, _ in config.ListFields()])
    changed = await client.update_queue(kept, QueueConfig(require_two=True), ["require_two"])
    assert changed.config.require_two
    await client.purge_queue(kept)
    await client.send(orders, b"2", group_id="g")
    assert await payloads(client, orders) == [b"2"], "an operator ends what is kept"
    for left, text in (([b"2", b"3"], "and so does who deletes it"), ([b"2"], "the next one makes it anew")):
        await client.react(orders, Where(group_id="i"), Cancel(), everything=True, sticky=SOON)
        if len(left) == 2:
            await client.delete_queue(kept)
        await client.send(orders, b"3", group_id="i")
        assert await payloads(client, orders) == left, text


async def test_v12_what_arrives_is_changed_or_put_elsewhere(client: aio.Client) -> None:
    orders, review = await reactive(client), new_name()
    await client.create_queue(review)
    await client.react(orders, "boxes > 3", Change(properties={"large": True}), everything=True, sticky=SOON)
    await client.react(orders, Where(group_id="c7"), MoveTo(review), everything=True, sticky=SOON)
    await client.send(orders, b"1", properties={"boxes": 4})
    await client.send(orders, b"2", properties={"boxes": 5}, group_id="c7")
    await client.send(orders, b"3", properties={"boxes": 1})
    here = [(each.payload, each.properties.get("large")) async for each in client.browse(orders)]
    there = [(each.payload, each.properties.get("large")) async for each in client.browse(review)]
    assert sorted(here) == [(b"1", True), (b"3", None)]
    assert there == [(b"2", True)]


@pytest.mark.requirement("R200", "R202")
async def test_v13_what_a_unit_rolls_back_is_cancelled(client: aio.Client) -> None:
    orders = await reactive(client)
    await client.send(orders, b"1", correlation_id="c")

    async def failing() -> None:
        async with client.unit() as unit:
            assert len(await unit.dequeue(orders)) == 1
            done = await client.react(orders, Where(correlation_id="c"), Cancel(), sticky=SOON)
            assert (done.outcome, done.locked, done.kept) == (Outcome.STORED, 1, True)
            raise LookupError

    with pytest.raises(LookupError):
        await failing()
    assert await payloads(client, orders) == []
    assert not await client.dequeue(orders)


def test_the_blocking_client_keeps_them_too(pair: Cluster) -> None:
    with tandemq.connect(pair.target) as client:
        name = new_name()
        client.create_queue(name, QueueConfig(reactions_enabled=True))
        assert client.react(name, Where(group_id="g"), Cancel(), sticky=SOON).outcome is Outcome.STORED


@pytest.mark.promise
@pytest.mark.requirement("R200", "R201", "R205", "R215")
async def test_r215_nobody_gets_any_of_a_cancelled_group_over_kills(tmp_path: Path) -> None:
    """Worked example 7 at scale: half of each group is there when it is cancelled, some of it with consumers that give
    it back; masters are killed between, and the other half is sent. Each other message is delivered.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders = await reactive(client)
            count = 60
            cancelled_groups, others = [f"c{number}" for number in range(10)], [f"o{number}" for number in range(10)]
            every = [(f"{name}/{at}".encode(), name) for at in range(count // 10) for name in cancelled_groups + others]
            half = len(every) // 2
            for payload, name in every[:half]:
                await client.send(orders, payload, group_id=name)
            held = [await client.dequeue(orders) for _ in range(8)]
            locked = 0
            for name in cancelled_groups:
                done = await client.react(orders, Where(group_id=name), Cancel(), everything=True, sticky=SOON)
                assert done.kept
                locked += done.locked
            assert locked
            got: list[bytes] = []
            over = asyncio.Event()

            async def consume() -> None:
                while taken := await client.dequeue(orders, wait=0.2) or not over.is_set():
                    if taken is True:
                        continue
                    got.append(taken[0].payload)
                    with contextlib.suppress(LeaseLost):
                        await taken.ack()

            for taken in held:
                with contextlib.suppress(LeaseLost):
                    await taken.release()
            consumers = [asyncio.create_task(consume()) for _ in range(2)]
            for at, (payload, name) in enumerate(every[half:]):
                if at % 20 == 5:
                    master, _ = await roles(cluster)
                    cluster.kill(master)
                    await cluster.restart(master)
                await client.send(orders, payload, group_id=name)
            await cluster.wait_ready()
            over.set()
            await asyncio.gather(*consumers)
            assert await payloads(client, orders) == []
            assert not [payload for payload in got if payload.startswith(b"c")]
            assert set(got) == {payload for payload, name in every if name in others}
