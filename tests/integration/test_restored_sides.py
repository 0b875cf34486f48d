"""Queues with sides put back from a backup: one queue, and a pair of which nothing else is left. Nobody is given less
than is there, and what had been selected stays in its order (K1, K3, K4, K6; R155).
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import MappingProxyType

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.errors import AlreadyExists
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import gone, roles
from tests.integration.test_backup import done
from tests.integration.test_restore_queue import back_up
from tests.integration.test_selected_queues import is_master_by_force
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SENT = 6
IN_ORDER = MappingProxyType(
    {
        admin.LOCKSTEP_PLAIN: [b"1", b"2", b"3", b"4", b"5", b"6"],
        admin.LOCKSTEP_SELECTED: [b"2", b"5", b"1", b"4", b"3", b"6"],
    }
)
"""What a side is given of six messages, the second and fifth of which have the highest priority where it counts."""
QUEUES = MappingProxyType({"plain": admin.LOCKSTEP_PLAIN, "chosen": admin.LOCKSTEP_SELECTED})


def at(cluster: Cluster, name: str) -> aio.Client:
    return aio.connect(cluster.endpoint(name), timeout=OUTER_S, follow_master=False)


async def made(client: aio.Client) -> None:
    for name, lockstep in QUEUES.items():
        config = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=lockstep)
        await client.create_queue(name, config)
        has_priorities = lockstep == admin.LOCKSTEP_SELECTED
        for number in range(1, SENT + 1):
            priority = {2: 8, 0: 3, 1: 5}[number % 3] if has_priorities else 4
            await client.enqueue(name, [aio.Outgoing(b"%d" % number, {"priority": priority})])


async def given(client: aio.Client, queue: str, count: int) -> list[tuple[int, bytes]]:
    """The next ones of that member's side, settled; what comes behind them goes back."""
    found: list[tuple[int, bytes]] = []
    async with asyncio.timeout(OUTER_S), client.consumer(queue) as consumer:
        while len(found) < count:
            delivery = await anext(consumer)
            found.append((delivery.index, delivery.payload))
            delivery.ack()
        await consumer.settled()
    return found


def numbered(queue: str, first: int, last: int) -> list[tuple[int, bytes]]:
    return [(number, IN_ORDER[QUEUES[queue]][number - 1]) for number in range(first, last + 1)]


@pytest.mark.requirement("R155")
async def test_one_queue_that_is_put_back_has_its_sides_again(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        master, replica = await roles(cluster)
        async with at(cluster, master) as near, at(cluster, replica) as far:
            await made(client)
            configs = {name: (await client.get_queue(name)).config for name in QUEUES}
            for name in QUEUES:  # one side is ahead: what it has passed is in the backup for the other one
                assert await given(near, name, 2) == numbered(name, 1, 2)
            await back_up(cluster, replica)
            for name, config in configs.items():
                await client.delete_queue(name)
                put_back = await client.restore_queue(name, "q.tqb")
                assert (put_back.restored, put_back.queue.config, len(put_back.queue.sides)) == (SENT, config, 2)
                await client.open_queue(name)
                await cluster.wait_for(PairView.equal, "the other member knows that it is open")
                # It is another queue: both begin with all of it, and in one order.
                assert await given(near, name, SENT) == numbered(name, 1, SENT)
                assert await given(far, name, SENT) == numbered(name, 1, SENT)


@pytest.mark.requirement("R154")
async def test_k6_each_side_goes_on_behind_its_own_mark_when_nothing_but_a_backup_is_left(tmp_path: Path) -> None:
    """It is of the member whose side was ahead, and restored as the other one: the cursor in its own domain is not that
    one's, who would miss what lies between.
    """
    file, ahead, behind = str(tmp_path / "pair.tqb"), SENT - 1, 2
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target, timeout=OUTER_S) as client:
        master, replica = await roles(cluster)
        async with at(cluster, master) as near, at(cluster, replica) as far:
            await made(client)
            for name in QUEUES:
                assert await given(near, name, behind) == numbered(name, 1, behind)
                assert await given(far, name, ahead) == numbered(name, 1, ahead)

            async def is_noted() -> bool:
                marks = [{side.member: side.passed for side in (await client.get_queue(name)).sides} for name in QUEUES]
                return marks == [{master: behind, replica: ahead}] * len(QUEUES)

            await until(is_noted, "the pair's log says how far both are")
        taken = await done("backup", "create", file, "--target", cluster.target)
        assert taken["member"] == replica
        await gone(cluster, master, replica)
        for name in cluster.members:
            shutil.rmtree(cluster.config(name).data_dir)
        await done("backup", "restore", file, "--data-dir", cluster.config(master).data_dir, "--member", master)
        cluster.spawn(master)
        await cluster.wait_answers(master)
        await until(lambda: is_master_by_force(cluster, master), "an operator has it serve")
        async with at(cluster, master) as near:
            for name in QUEUES:
                async with near.consumer(name) as consumer:
                    assert (await anext(consumer)).index == behind + 1
                    async with at(cluster, master) as another:
                        with pytest.raises(AlreadyExists, match="TWIN_TAKEN"):
                            await anext(another.consumer(name))
                assert await given(near, name, SENT - behind) == numbered(name, behind + 1, SENT)
            cluster.spawn(replica)
            await cluster.wait_for(PairView.whole, "the other member begins anew from it")
            await client.enqueue("chosen", [aio.Outgoing(b"7", {"priority": 9})])
            async with at(cluster, replica) as far:
                assert await given(far, "plain", SENT - ahead) == numbered("plain", ahead + 1, SENT)
                rest = [*numbered("chosen", ahead + 1, SENT), (SENT + 1, b"7")]
                assert await given(far, "chosen", len(rest)) == rest, "overtaken by nothing"
            assert await given(near, "chosen", 1) == rest[-1:]

            async def is_empty() -> bool:
                return all([(await client.get_queue(name)).length == 0 for name in QUEUES])

            await until(is_empty, "both sides have passed everything")
