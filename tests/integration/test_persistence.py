"""R153 on a pair of real processes: when a change of the persistence is answered, both may be killed at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from functools import partial
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.errors import ResourceExhausted
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import gone, new_name, sdk, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

MIB = 1 << 20
TOTAL, PAGE = 40, 8
PERSISTENT = admin.QueueConfig(persistence=admin.PERSISTENCE_PERSISTENT)
VOLATILE = admin.QueueConfig(persistence=admin.PERSISTENCE_VOLATILE)


async def both_restart(pair: Cluster) -> None:
    for name in pair.members:
        pair.spawn(name)
    await pair.wait_ready()


async def contents(client: aio.Client, queue: str) -> list[bytes]:
    """All of it, a page after the other: they are large."""
    found: list[bytes] = []
    at = 1
    while page := [message async for message in client.browse(queue, from_index=at, max_messages=PAGE)]:
        found += [message.payload for message in page]
        at = page[-1].index + 1
    return found


class Load:
    """Somebody who sends one message after the other, and knows what was acknowledged."""

    def __init__(self, client: aio.Client, queue: str) -> None:
        self.client, self.queue = client, queue
        self.acked: list[bytes] = []

    async def send(self) -> None:
        """Until it is cancelled."""
        for number in range(1_000_000):
            payload = b"%d" % number
            await self.client.enqueue(self.queue, [payload])
            self.acked.append(payload)

    async def has(self, count: int) -> bool:
        return len(self.acked) >= count


@pytest.mark.promise
@pytest.mark.requirement("R153")
async def test_r153_changed_under_load_and_both_killed_right_after_the_answer(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair) as client, sdk(pair, "b") as other:
        await client.create_queue(name, VOLATILE)
        load = Load(other, name)
        sending = asyncio.create_task(load.send())
        await until(lambda: load.has(100), "messages are there")
        info = await client.update_queue(name, PERSISTENT, ["persistence"])
        acked = list(load.acked)
        await gone(pair, "a", "b")
        sending.cancel()
        assert not info.saving
        assert info.volatile_length == 0
        await both_restart(pair)
        found = await contents(client, name)
        assert found[: len(acked)] == acked
        assert (await client.get_queue(name)).volatile_lost_total == 0


@pytest.mark.requirement("R153")
async def test_r153_the_master_dies_in_the_middle_and_the_next_one_ends_it(pair: Cluster) -> None:
    """40 MiB take twenty parts. The call of the SDK is repeated at the other member, under its request id."""
    name = new_name()
    async with sdk(pair, timeout=OUTER_S) as client:
        await client.create_queue(name, VOLATILE)
        sent = [b"%d " % number + bytes(MIB - 10) for number in range(TOTAL)]
        for at in range(0, TOTAL, 2):
            await client.enqueue(name, sent[at : at + 2])
        changing = asyncio.create_task(client.update_queue(name, PERSISTENT, ["persistence"]))

        async def is_begun() -> bool:
            return (await client.get_queue(name)).volatile_length < TOTAL

        await until(is_begun, "some of them are saved")
        [master] = (await pair.status()).masters()
        await gone(pair, master)
        info = await changing
        assert (info.version, info.volatile_length, info.saving) == (2, 0, False)
        [survivor] = {"a", "b"} - {master}
        await gone(pair, survivor)
        await both_restart(pair)
        assert await contents(client, name) == sent
        again = await client.update_queue(name, VOLATILE, ["persistence"])
        assert (again.version, again.length, again.volatile_length) == (3, TOTAL, 0), "what is stored stays stored"
        await gone(pair, "a", "b")
        await both_restart(pair)
        assert await contents(client, name) == sent


@pytest.mark.requirement("R153")
async def test_r153_a_store_without_room_refuses_the_change(tmp_path: Path) -> None:
    """With a reason, and nothing is changed; consuming makes room, as the text says."""
    async with stopped_at_end(patient(tmp_path, limits=Limits(map_bytes=24 * MIB))) as pair:
        await pair.start()
        name = new_name()
        async with sdk(pair) as client:
            await client.create_queue(name, VOLATILE)
            for number in range(24):  # what was taken counts as written until the store is looked at again
                await until(partial(_sent, client, name, b"%d " % number + bytes(MIB - 10)), "it is taken")
            with pytest.raises(ResourceExhausted) as refused:
                await client.update_queue(name, PERSISTENT, ["persistence"])
            assert refused.value.reason == "STORAGE_FULL"
            assert "Nothing is changed" in str(refused.value)
            info = await client.get_queue(name)
            assert (info.version, info.config.persistence) == (1, admin.PERSISTENCE_VOLATILE)

            async def is_changed() -> bool:
                await (await client.dequeue(name, PAGE)).ack()
                with contextlib.suppress(ResourceExhausted):
                    return not (await client.update_queue(name, PERSISTENT, ["persistence"])).volatile_length
                return False

            await until(is_changed, "there is room")


async def _sent(client: aio.Client, queue: str, payload: bytes) -> bool:
    with contextlib.suppress(ResourceExhausted):
        await client.enqueue(queue, [payload])
        return True
    return False


async def test_the_command_line_changes_it_and_tells_what_is_volatile(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair) as client:
        await client.create_queue(name, VOLATILE)
        await client.enqueue(name, [b"1", b"2"])

    words = ["queue", "update", name, "--persistence", "persistent", "--target", pair.target, "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tandemq", *words), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(out)
    assert (told["persistence"], told["volatile_length"], told["saving"]) == ("PERSISTENT", 0, False)
