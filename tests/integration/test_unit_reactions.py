"""Reactions in units of work, at a real pair: what the commit acts on, and what every other end leaves, kill -9 too
(V15).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

import tandemq
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.client.filtering import Where
from tandemq.client.reactions import Cancel, Change, MoveTo, Outcome
from tandemq.errors import InvalidRequest, Refused, UnitAborted
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY_ACK, QueueConfig
from tandemq.v1.queue_service_pb2 import EnqueueRequest
from tandemq.v1.reaction_service_pb2 import REACTION_OUTCOME_HELD, Reaction, ReactRequest
from tandemq.v1.reaction_service_pb2_grpc import ReactionServiceStub
from tandemq.v1.transaction_service_pb2 import CommitRequest
from tandemq.v1.transaction_service_pb2_grpc import TransactionServiceStub
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_id, new_name, raw_to, refused, roles, stopped_at_end
from tests.integration.test_open_units import begun
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = [pytest.mark.process, pytest.mark.requirement("R210")]

pair = module_pair()
client = module_client()
NOON = timedelta(hours=1)


class WorkFailedError(Exception):
    """Of a handler."""


async def contents(client: aio.Client, queue: str) -> list[tuple[int, bytes, int]]:
    return [(each.index, each.payload, each.delivery_count) async for each in client.browse(queue)]


async def queues(client: aio.Client, **attributes: Any) -> tuple[str, str]:
    """One with reactions, and one for notes."""
    orders, notes = new_name(), new_name()
    await client.create_queue(orders, QueueConfig(reactions_enabled=True, **attributes))
    await client.create_queue(notes)
    return orders, notes


async def test_v15_example_8_reversal(client: aio.Client) -> None:
    """An exception: T is at its old index with its old body, its count is unchanged, and there is no note. A commit:
    T has a new index, tq_version 2, and its first handle still answers.
    """
    orders, notes = await queues(client, queue_type=QUEUE_TYPE_ONE_WAY_ACK)
    handle = await client.send(orders, b"3 boxes", correlation_id="T", delay=NOON)
    before = await contents(client, orders)

    async def corrected(*, fails: bool) -> None:
        async with client.unit() as unit:
            done = await unit.react(orders, Where(ids=(handle.id,)), Change(b"2 boxes", delay=timedelta(0)))
            assert (done.outcome, done.held, done.applied) == (Outcome.HELD, 1, 0)
            await unit.enqueue(notes, [b"corrected"])
            other = await client.react(orders, Where(correlation_id="T"), Cancel())
            assert (other.outcome, other.locked) == (Outcome.LOCKED, 1)
            assert await contents(client, orders) == before
            (row,) = await client.list_units()
            assert (row.messages_locked, row.reactions, row.queues) == (1, 1, tuple(sorted((orders, notes))))
            if fails:
                raise WorkFailedError

    with pytest.raises(WorkFailedError):
        await corrected(fails=True)
    assert (await contents(client, orders), await contents(client, notes)) == (before, [])
    await corrected(fails=False)
    (taken,) = got = await client.dequeue(orders, wait=OUTER_S)
    assert (taken.index, taken.payload, taken.properties["tq_version"], taken.delivery_count) == (2, b"2 boxes", 2, 1)
    assert [payload for _, payload, _ in await contents(client, notes)] == [b"corrected"]
    await got.ack()
    assert (await handle.wait(OUTER_S)).succeeded


async def test_v15_what_is_refused_leaves_the_unit_as_it_was(client: aio.Client) -> None:
    orders, notes = await queues(client)
    await client.enqueue(orders, [b"1", b"2"])
    await client.enqueue(notes, [b"there"])
    unit = client.unit()
    with pytest.raises(Refused, match="REACTION_DISABLED"):
        await unit.react(notes, "tq_index > 0", Cancel())
    assert (await unit.react(orders, "tq_index = 1", MoveTo(notes))).held == 1
    with pytest.raises(InvalidRequest, match="entered by another call"):
        await unit.enqueue(notes, [b"put"])
    await unit.commit()
    assert [payload for _, payload, _ in await contents(client, notes)] == [b"there", b"1"]
    with pytest.raises(UnitAborted):
        await unit.react(orders, "tq_index > 0", Cancel())
    assert [payload for _, payload, _ in await contents(client, orders)] == [b"2"]


def test_the_blocking_unit_has_the_same_call(pair: Cluster) -> None:
    with tandemq.connect(pair.target) as client:
        name = new_name()
        client.create_queue(name, QueueConfig(reactions_enabled=True))
        client.enqueue(name, [b"1", b"2"])
        with client.unit() as unit:
            done = unit.react(name, "tq_index > 0", Cancel(), everything=True, sticky=timedelta(minutes=1))
            assert (done.outcome, done.held, done.kept) == (Outcome.HELD, 2, True)
        assert client.get_queue(name).length == 0
        client.enqueue(name, [b"3"])
        assert [*client.browse(name)] == []


@pytest.mark.requirement("R190", "R212", "R216")
async def test_v2_v10_v15_v18_what_a_unit_takes_and_what_it_names_as_no_part_of_it(
    client: aio.Client, pair: Cluster
) -> None:
    orders, notes = await queues(client)
    await client.enqueue(orders, [b"1"])
    master, _ = await roles(pair)
    everything = Reaction(delete={}, target={"selector": "tq_index > 0"})
    asking = Reaction(custom={"name": "them"}, target={"selector": "tq_index > 0"})
    reactive = EnqueueRequest(queue=orders, messages=[Message()], reaction=everything)
    async with raw_to(pair.endpoint(master)) as (member,):
        unit_id = await begun(member, orders)
        for wrong in ({"reaction": asking}, {"reaction": everything, "more_queues": [notes]}):
            request = ReactRequest(queue=orders, request_id=new_id(), unit_id=unit_id, **wrong)
            with refused("BAD_REQUEST", StatusCode.INVALID_ARGUMENT, "no part of a unit of work"):
                await ReactionServiceStub(member.channel).React(request)
        put = EnqueueRequest(request_id=new_id())
        put.MergeFrom(reactive)
        with refused("BAD_REQUEST", StatusCode.INVALID_ARGUMENT, "a reactive message"):
            await TransactionServiceStub(member.channel).Commit(CommitRequest(unit_id=unit_id, puts=[put]))
        put.unit_id = unit_id
        done = await member.queue.Enqueue(put)
        assert (done.reacted.outcome, done.reacted.held) == (REACTION_OUTCOME_HELD, 1)
        await TransactionServiceStub(member.channel).Commit(CommitRequest(unit_id=unit_id))
    assert await contents(client, orders) == []


@pytest.mark.promise
async def test_v15_over_kill_9_before_the_commit_and_after_it(tmp_path: Path) -> None:
    """Killed between React and Commit: all is as before, and the commit says that nothing happened. Killed after the
    commit: it is done, and the commit that is repeated says so.
    """
    cluster = patient(tmp_path)
    await cluster.start()
    async with stopped_at_end(cluster):
        await cluster.wait_ready()
        async with aio.connect(cluster.target, timeout=OUTER_S) as client:
            orders, notes = await queues(client)
            await client.send(orders, b"later", delay=NOON)
            await client.send(orders, b"now")
            before = await contents(client, orders)

            async def killed() -> None:
                master, _ = await roles(cluster)
                cluster.kill(master)
                await cluster.restart(master)
                await cluster.wait_ready()

            for commits in (False, True):
                unit = client.unit()
                assert (await unit.react(orders, "tq_index > 0", MoveTo(notes), everything=True)).held == 2
                if commits:
                    await unit.commit()
                await killed()
                if not commits:
                    with pytest.raises(UnitAborted):
                        await unit.commit()
                    info = await client.get_queue(orders)
                    assert (info.ready, info.delayed, info.locked) == (1, 1, 0)
                    assert await contents(client, orders) == before
            assert await contents(client, orders) == []
            assert [payload for _, payload, _ in await contents(client, notes)] == [b"later", b"now"]
            info = await client.get_queue(notes)
            assert (info.ready, info.delayed) == (1, 1)


async def test_a_macro_queue_has_no_part_in_units_and_in_reactions_to_several_queues_and_that_is_said(
    client: aio.Client,
) -> None:
    """Not that there is no such queue: it is there."""
    macro, member = new_name(), new_name()
    await client.create_queue(member, QueueConfig(reactions_enabled=True))
    await client.create_macro(macro)
    await client.add_macro_member(macro, member)
    unit = client.unit()
    for _ in ("it would begin with it", "it is open"):
        for call in (
            unit.dequeue(macro),
            unit.enqueue(macro, [b"x"]),
            unit.react(macro, Where(group_id="g"), Cancel()),
            client.react([member, macro], Where(group_id="g"), Cancel()),
        ):
            with pytest.raises(InvalidRequest, match=f"{macro} is a macro queue"):
                await call
        await unit.enqueue(member, [b"x"])
    await unit.commit()
