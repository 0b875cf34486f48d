"""Queues with lockstep SELECTED over real processes: priorities, and one order for both sides, whoever dies."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.client.consumer import Consumer
from tandemq.client.reactions import Cancel
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.pair_service_pb2 import ForceFailoverRequest
from tests.integration.support import gone, member_view, raw_to, roles
from tests.integration.test_backup import done
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SELECTED = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=admin.LOCKSTEP_SELECTED)
HALF, ALL = 500, 1_000
FEW, SOME = 60, 20


class Twin:
    """A process of one side, as far as it is seen: what it has acted on, each number once."""

    def __init__(self, client: aio.Client) -> None:
        self.client = client
        self.acted: list[bytes] = []

    async def act(self, until_number: int) -> None:
        """Up to there. What comes again was settled by nobody, and comes before anything new."""
        consumer: Consumer = self.client.consumer("q", credit_messages=20)
        async with asyncio.timeout(OUTER_S), consumer:
            while len(self.acted) < until_number:
                delivery = await anext(consumer)
                assert delivery.index <= len(self.acted) + 1, f"{delivery.index} after {len(self.acted)}"
                if delivery.index == len(self.acted) + 1:
                    self.acted.append(delivery.payload)
                assert self.acted[delivery.index - 1] == delivery.payload, "the k-th stays the k-th"
                delivery.ack()
            await consumer.settled()


async def test_k5_a_reaction_finds_only_what_is_not_selected(tmp_path: Path) -> None:
    config = admin.QueueConfig(reactions_enabled=True)
    config.MergeFrom(SELECTED)
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        await client.create_queue("q", config)
        await client.enqueue("q", [b"%d" % number for number in range(1, 31)])
        async with at(cluster, "a") as at_a, at_a.consumer("q", credit_messages=1) as consumer:
            assert (await anext(consumer)).payload == b"1"
            found = await client.react("q", "tq_index > 0", Cancel(), everything=True)
        info = await client.get_queue("q")
        assert info.length == info.last_selected == found.locked < 10
        assert found.applied == 30 - found.locked


def at(cluster: Cluster, name: str) -> aio.Client:
    return aio.connect(cluster.endpoint(name), timeout=OUTER_S, follow_master=False)


async def sent(client: aio.Client, first: int, last: int) -> None:
    async with client.producer("q") as producer:
        for number in range(first, last + 1):
            producer.send_nowait(b"%d" % number, priority=number % 10)
        await producer.flush()


async def test_k3_a_restored_copy_goes_on_with_the_same_selection(tmp_path: Path) -> None:
    """Into a living pair: both sides go on as if nothing had happened. When nothing else is left: what had been
    selected by then is the k-th, for processes that have the states of then.
    """
    file = str(tmp_path / "pair.tqb")
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        await client.create_queue("q", SELECTED)
        master, replica = await roles(cluster)
        await sent(client, 1, FEW)
        async with at(cluster, master) as at_master, at(cluster, replica) as at_replica:
            twins = {master: Twin(at_master), replica: Twin(at_replica)}
            for twin in twins.values():
                await twin.act(SOME)
            chosen = (await client.get_queue("q")).last_selected
            assert SOME < chosen < FEW, "more is chosen than both have acted on"
            taken = await done("backup", "create", file, "--target", cluster.target)
            assert taken["member"] == replica
            await sent(client, FEW + 1, FEW + SOME)
            for twin in twins.values():
                await twin.act(2 * SOME)

            await gone(cluster, replica)
            directory = Path(cluster.config(replica).data_dir)
            shutil.rmtree(directory)
            await done("backup", "restore", file, "--data-dir", str(directory))
            cluster.spawn(replica)
            await cluster.wait_for(PairView.whole, "the restored member has caught up")
            for twin in twins.values():
                await twin.act(FEW + SOME)
            assert twins[master].acted == twins[replica].acted
            assert sorted(map(int, twins[master].acted)) == list(range(1, FEW + SOME + 1))

        await gone(cluster, master, replica)
        for name in cluster.members:
            shutil.rmtree(cluster.config(name).data_dir)
        await done("backup", "restore", file, "--data-dir", cluster.config(replica).data_dir)
        cluster.spawn(replica)
        await cluster.wait_answers(replica)
        await until(lambda: is_master_by_force(cluster, replica), "an operator has it serve")
        async with at(cluster, replica) as at_replica:
            of_then = Twin(at_replica)
            of_then.acted = twins[replica].acted[:SOME]
            await of_then.act(FEW)
            assert of_then.acted[:chosen] == twins[replica].acted[:chosen], "the k-th stays the k-th"
            assert sorted(map(int, of_then.acted)) == list(range(1, FEW + 1))


async def is_master_by_force(cluster: Cluster, name: str) -> bool:
    """Asked again until it waits for that."""
    view = await member_view(cluster, name)
    main = view.domain("main") if view is not None else None
    if main is None:
        return False
    async with raw_to(cluster.endpoint(name)) as (member,):
        order = ForceFailoverRequest(reason="both disks are gone", confirmed=True, accept_loss_after=main.log_index)
        try:
            return (await member.pair.ForceFailover(order, timeout=OUTER_S)).done
        except grpc.aio.AioRpcError:
            return False


@pytest.mark.requirement("R104")
async def test_k3_two_sides_act_on_priorities_in_one_order_through_a_takeover(tmp_path: Path) -> None:
    async with (
        patient(tmp_path).running() as cluster,
        aio.connect(cluster.target, timeout=OUTER_S) as client,
        at(cluster, "a") as at_a,
        at(cluster, "b") as at_b,
    ):
        twins = {"a": Twin(at_a), "b": Twin(at_b)}
        await client.create_queue("q", SELECTED)

        master, replica = await roles(cluster)
        await sent(client, 1, HALF)
        acting = {name: asyncio.create_task(twin.act(ALL)) for name, twin in twins.items()}
        sending = asyncio.create_task(sent(client, HALF + 1, ALL))
        await until(lambda: min(len(twin.acted) for twin in twins.values()) >= 100, "both have begun")
        cluster.kill(master)
        await sending
        await acting[replica]
        await cluster.restart(master)
        await acting[master]
        assert twins["a"].acted == twins["b"].acted
        assert sorted(map(int, twins["a"].acted)) == list(range(1, ALL + 1))
        assert twins["a"].acted[0] == b"9", "the highest priority first"
        for priority in range(10):
            of_it = [number for number in map(int, twins["a"].acted) if number % 10 == priority]
            assert of_it == sorted(of_it), "those of one priority in the order in which they were sent"

        async def is_empty() -> bool:
            return (await client.get_queue("q")).length == 0

        await until(is_empty, "what both sides have passed is gone")
