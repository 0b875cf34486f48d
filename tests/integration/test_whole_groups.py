"""A queue with group_mode COMPLETE on a real pair (V19): whichever way members are sent, and over a kill -9."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tandemq import aio
from tandemq.client.aio import PartlyRefused
from tandemq.client.reactions import Change
from tandemq.errors import Refused
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.sending import WAYS
from tests.integration.support import new_name, roles, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.requirement("R194")]

pair = module_pair()
client = module_client()


def member(sequence: int, *, last: bool = False, group: str = "g") -> aio.Attributes:
    found = aio.Attributes(group_id=group, group_sequence=sequence)
    if last:
        found["last_in_group"] = True
    return found


async def made(client: aio.Client, **attributes: object) -> str:
    queue = new_name()
    await client.create_queue(queue, admin.QueueConfig(group_mode=admin.GROUP_MODE_COMPLETE, **attributes))  # type: ignore[arg-type]  # of the test's rows
    return queue


@pytest.mark.parametrize("way", WAYS)
async def test_v19_each_way_of_sending_brings_members(client: aio.Client, way: Callable[..., Awaitable[None]]) -> None:
    queue = await made(client)
    await way(client, queue, b"2", member(2, last=True))
    info = await client.get_queue(queue)
    assert (info.blocked, info.groups_gathering, info.ready) == (1, 1, 0)
    assert list(await client.dequeue(queue)) == []
    for wrong in (member(2), member(3), aio.Attributes(group_id="g")):
        with pytest.raises((Refused, PartlyRefused), match="GROUP_MISMATCH"):
            await way(client, queue, b"wrong", wrong)
    await way(client, queue, b"1", member(1))
    for payload in (b"1", b"2"):
        taken = await client.dequeue(queue, 2, wait=OUTER_S)
        assert [each.payload for each in taken] == [payload]
        assert taken[0].attributes["group_sequence"] == int(payload)
        await taken.ack()


async def test_v19_a_reaction_changes_and_cancels_members_that_wait(client: aio.Client) -> None:
    queue = await made(client, reactions_enabled=True)
    await client.enqueue(queue, [aio.Outgoing(b"1", member(1)), aio.Outgoing(b"3", member(3, last=True))])
    await client.react(queue, "tq_index = 1", Change(b"one"))
    await client.enqueue(queue, [aio.Outgoing(b"2", member(2))])
    taken = await client.dequeue(queue, 3, wait=OUTER_S)
    assert [each.payload for each in taken] == [b"one"]


async def test_v19_a_group_that_is_not_whole_in_time_is_dead_letters(client: aio.Client) -> None:
    queue = await made(client, group_timeout={"seconds": 1})
    await client.enqueue(queue, [aio.Outgoing(b"1", member(1)), aio.Outgoing(b"2", member(2))])
    dead = f"{queue}.dead"

    async def moved() -> list[aio.ReceivedMessage]:
        if not [each for each in await client.list_queues(dead) if each.name == dead]:
            return []
        found = [message async for message in client.browse(dead)]
        return found if len(found) == 2 else []

    letters = await until(moved, "both are dead letters")
    assert [each.properties["tq_dead_letter_reason"] for each in letters] == ["GROUP_TIMEOUT"] * 2


async def test_v19_a_group_is_whole_or_waits_over_kill_9(tmp_path: Path) -> None:
    async with stopped_at_end(patient(tmp_path)) as cluster:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            queue = await made(client, lease_duration={"seconds": 60})
            await client.enqueue(queue, [aio.Outgoing(b"3", member(3, last=True)), aio.Outgoing(b"1", member(1))])
            master, _ = await roles(cluster)
            cluster.kill(master)
            assert list(await client.dequeue(queue, wait=timedelta())) == []
            await client.enqueue(queue, [aio.Outgoing(b"2", member(2))])
            await cluster.restart(master)
            master, _ = await roles(cluster)
            found = []
            for _ in range(3):
                taken = await client.dequeue(queue, 3, wait=OUTER_S)
                found += [each.payload for each in taken]
                await taken.ack()
                if len(found) == 1:
                    cluster.kill(master)
            assert found == [b"1", b"2", b"3"]
