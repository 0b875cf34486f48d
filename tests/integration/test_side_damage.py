"""A bit that turned over on the disk of a member whose side is served, under a message beyond its memory: its process
is given nothing from there on and hears why, its twin is given everything, and a copy that is taken anew serves on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import replica.core.state.log
from chaos.cluster import Cluster
from replica.manager import Manager
from replica.node.members import LOCAL, MAIN
from storage.store import Append, WriteBatch
from tandemq import aio
from tandemq.embedded import open_manager
from tandemq.errors import ServerFault, TandemqError
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import LOCKSTEP_PLAIN, LOCKSTEP_SELECTED, REPLICATION_PRODUCER, QueueConfig
from tests.integration.support import raw_to
from tests.integration.test_verify import flip, pair_with, whole
from tests.support.clusters import QUICK
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

COUNT, HURT = 200, 101


def at(cluster: Cluster, name: str) -> aio.Client:
    return aio.connect(cluster.config(name).endpoint, timeout=OUTER_S, follow_master=False)


async def taken(client: aio.Client, found: dict[int, bytes], upto: int = COUNT) -> None:
    """By that member's side, into `found`; each is settled."""
    async with client.consumer("q", credit_messages=10) as consumer:
        async for batch in consumer.batches():
            found |= {row.index: bytes(row.payload) for row in batch}
            batch.ack()
            if max(found) >= upto:
                await consumer.settled()
                return


@pytest.mark.promise
@pytest.mark.parametrize("lockstep", [LOCKSTEP_PLAIN, LOCKSTEP_SELECTED])
async def test_a_side_ends_at_what_it_cannot_read_and_goes_on_from_a_copy_that_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lockstep: int
) -> None:
    monkeypatch.setattr(replica.core.state.log, "RING_BYTES_MAX", 1)
    config = QueueConfig(replication=REPLICATION_PRODUCER, lockstep=lockstep)  # type: ignore[arg-type]
    async with (
        pair_with(tmp_path, "b", config) as (cluster, manager, client),
        at(cluster, "a") as at_a,
        at(cluster, "b") as at_b,
    ):
        await flip(manager, where(manager, HURT))
        sent = {index: b"%d" % ((index - 1) // 10) for index in range(1, COUNT + 1)}
        mine, other = dict[int, bytes](), dict[int, bytes]()
        with pytest.raises(TandemqError) as damaged:
            await taken(at_b, mine)
        assert damaged.value.reason == "CORRUPT_STORE"
        assert "resync this member in full" in damaged.value.message
        assert mine.items() <= sent.items()
        assert len(mine) < HURT, "nothing behind it"
        await taken(at_a, other)
        assert other == sent, "its twin is given everything"

        async with raw_to(cluster.config("b").endpoint) as (b,):
            members = manager._members
            assert members is not None
            progress = members.by_name[MAIN].shared.progress
            generation = progress.generation
            assert (await b.pair.Resync(pb.ResyncRequest(full=True, reason="damage"), timeout=OUTER_S)).done

            async def anew() -> bool:
                return progress.generation > generation and await whole(client)

            await until(anew, "b took everything")
        await taken(at_b, mine)
        assert mine == sent

        async def is_empty() -> bool:
            return (await client.get_queue("q")).length == 0

        await until(is_empty, "both have passed everything")


def where(manager: Manager, index: int) -> int:
    """The record of that message."""
    members = manager._members
    assert members is not None
    machine = members.by_name[MAIN].shared.machine
    assert machine is not None
    queue_id = machine.queue_id("q")
    assert queue_id is not None
    parts = machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False)
    found = next(part for part in parts if part.first_index <= index < part.first_index + part.count)
    assert members.by_name[MAIN].shared.log.get(found.log_index) is None, "it is beyond memory"
    return found.log_index


async def test_a_side_whose_own_domain_is_damaged_begins_behind_its_mark_on_an_empty_disk(tmp_path: Path) -> None:
    """What says how far the side is cannot be read: its member does not begin, rather than leave something out. With an
    empty directory, as it says, it takes a copy, and gives again what its side had settled since its last mark.
    """
    mine, other, again = dict[int, bytes](), dict[int, bytes](), dict[int, bytes]()
    config = QueueConfig(replication=REPLICATION_PRODUCER)
    async with pair_with(tmp_path, "b", config, QUICK) as (cluster, manager, client), at(cluster, "a") as at_a:
        async with at(cluster, "b") as at_b:
            await taken(at_b, mine, 50)

        async def is_marked() -> bool:
            return any(side.member == "b" and side.passed >= 50 for side in (await client.get_queue("q")).sides)

        await until(is_marked, "the pair knows how far it is")
        await flip_own(manager)
        await manager.stop()
        with pytest.raises(ServerFault, match=r"CORRUPT_STORE: .*restart with an empty one and let the member rejoin"):
            async with open_manager(cluster.config("b")):
                pytest.fail("it began")
        await taken(at_a, other)
        move_away(Path(cluster.config("b").data_dir))
        cluster.spawn("b")
        await until(lambda: whole(client), "b took everything")
        async with at(cluster, "b") as at_b:
            await taken(at_b, again)
        assert min(again) > 50, "what it has passed for certain does not come again"
        assert mine | again == other
        assert all(mine.get(index, payload) == payload for index, payload in again.items())


def move_away(directory: Path) -> None:
    directory.rename(directory.with_suffix(".damaged"))


async def flip_own(manager: Manager) -> None:
    """One bit of a record of the member's own domain that no snapshot covers."""
    members, store, node = manager._members, manager._store, manager._node
    assert members is not None
    assert store is not None
    assert node is not None
    shared = members.by_name[LOCAL].shared
    record = store.read(shared.domain, shared.log.last_index - 1)
    assert record is not None
    damaged = bytearray(record)
    damaged[-1] ^= 1

    def fill(into: WriteBatch) -> None:
        into.inserts.append(Append(shared.domain, shared.log.last_index - 1, bytes(damaged)))

    await node.write(fill)
