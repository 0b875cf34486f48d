"""The identity of a domain's history: kept by whatever keeps the history, another one once it is begun anew."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import WITNESS
from replica.offline.restoring import restore
from tandemq import aio
from tandemq.client.aio import JournalPosition, JournalStart
from tandemq.client.backup import take_backup
from tandemq.client.staging import Published, new_stage_id
from tandemq.errors import Refused
from tests.integration.support import new_name, roles
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process


async def history_of(client: aio.Client, *, this_member: bool = False) -> str:
    return (await client.journal_head(this_member=this_member)).next.history_id


async def read(client: aio.Client, start: JournalPosition | JournalStart, *queues: str) -> list[bytes | None]:
    pages = client.read_journal(queues, start)
    return [row.payload async for page in pages for row in page.rows() if row.payload is not None]


@contextlib.contextmanager
def refused(done: str = "read") -> Iterator[None]:
    with pytest.raises(Refused, match=r"another pair, or one that was begun anew") as caught:
        yield
    assert caught.value.reason == "PAIR_CHANGED"
    assert caught.value.metadata["history_id"] != caught.value.metadata[f"{done}_history_id"]


async def published(client: aio.Client, batch: int, **known: Any) -> Published:
    """One row, under the writer's name."""
    stage = new_stage_id()
    await client.stage("q", [b"%d" % batch], stage_id=stage, seen=known.get("seen"))
    return await client.publish("w", "query", batch, [stage], **known)


async def length(client: aio.Client) -> int:
    return (await client.get_queue("q")).length


async def test_a_history_keeps_its_id_over_takeover_restart_and_full_transfer(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        await client.producer("q").send(b"1")
        place = (await client.journal_head()).next
        before = place.history_id
        assert len(bytes.fromhex(before)) == 16
        killed, _ = await roles(cluster)
        cluster.kill(killed)
        await client.producer("q").send(b"2")
        shutil.rmtree(tmp_path / killed)
        await cluster.restart(killed)
        await roles(cluster)
        for name in cluster.members:
            async with aio.connect(cluster.endpoint(name)) as single:

                async def known(single: aio.Client = single) -> bool:
                    return await history_of(single, this_member=True) == before

                await until(known, f"{name} has the id of the history")
        assert (await read(client, place))[-1] == b"2"


async def test_a_place_of_a_pair_that_was_begun_anew_is_refused_by_name(tmp_path: Path) -> None:
    cluster = patient(tmp_path)
    async with cluster.running(), aio.connect(cluster.target) as client:
        await client.create_queue("q")
        await client.producer("q").send_many([b"old"] * 5)
        place = (await client.journal_head()).next
        await client.register_reader("lake", place)
    for name in (*cluster.members, WITNESS):
        shutil.rmtree(tmp_path / name)
    async with cluster.running(), aio.connect(cluster.target) as client:
        await client.create_queue("q")
        producer = client.producer("q")
        for _ in range(10):  # a record each
            await producer.send_many([b"new"] * 5)
        now = (await client.journal_head()).next
        assert (now.epoch, now.log_index > place.log_index) == (place.epoch, True), "the numbers alone fit"
        assert now.history_id not in ("", place.history_id)
        for start, queues in ((place, ()), (JournalStart(3, history_id=place.history_id), ("q",))):
            with refused():
                await read(client, start, *queues)
        with refused():
            await client.register_reader("lake", place)
        await client.register_reader("lake")
        for behind in (place, JournalPosition(1, history_id=place.history_id)):
            with refused():
                await client.advance_reader("lake", behind)
        for name in cluster.members:
            async with aio.connect(cluster.endpoint(name)) as single:
                with refused():
                    await read(single, place)
        assert await read(client, JournalPosition(1, history_id=now.history_id)) == [b"new"] * 50


async def test_a_writer_and_a_numbered_consumer_do_not_go_on_in_a_pair_that_was_begun_anew(tmp_path: Path) -> None:
    """Neither would notice: the new pair has never heard of them, and takes what comes for the first of it."""
    cluster = patient(tmp_path)
    async with cluster.running(), aio.connect(cluster.target) as client:
        await client.create_queue("q")
        for batch in range(3):
            last = await published(client, batch)
        taken = await client.lease_batch("q", "spark", 57, max_messages=1)
        assert taken is not None
        assert taken.position is not None
        again = await published(client, 3, seen=last.position, previous_batch=2)
        assert not again.duplicate
        assert await client.get_batches("q", "spark", seen=taken.position)
        state = await client.writer_state("w")
        assert state is not None
        assert state.position.history_id == taken.position.history_id == last.position.history_id
    for name in (*cluster.members, WITNESS):
        shutil.rmtree(tmp_path / name)
    async with cluster.running(), aio.connect(cluster.target) as client:
        await client.create_queue("q")
        await client.producer("q").send_many([b"new"] * 20)
        before = await length(client)
        for known in ({"seen": last.position}, {"seen": last.position, "previous_batch": 2}):
            with refused("seen"):
                await published(client, 3, **known)
        with pytest.raises(Refused, match=r"PAIR_CHANGED.*has published before, and it is not known here"):
            await published(client, 3, previous_batch=0)
        with refused("seen"):
            await client.release_writer("w", seen=last.position)
        assert taken.position is not None
        seen = taken.position
        for call in (
            client.lease_batch("q", "spark", 58, seen=seen),
            client.get_batches("q", "spark", seen=seen),
            client.ack_batch("q", "spark", 57, seen=seen),
            anext(client.read_batch("q", "spark", 57, seen=seen)),
        ):
            with refused("seen"):
                await call
        assert (await length(client), (await client.get_batches("q", "spark")).last_number) == (before, 0)
        assert await client.writer_state("w") is None
        assert not (await published(client, 3)).duplicate, "who says nothing is served as before"
        assert await client.lease_batch("q", "spark", 58) is not None


async def test_who_goes_on_in_a_restored_member_is_told_that_it_went_back(tmp_path: Path) -> None:
    """It is the same history: what the backup holds is known, what came after it was given up."""
    backup, cluster = tmp_path / "a.tqb", patient(tmp_path / "c", members=("a",))
    async with cluster.running(), aio.connect(cluster.target) as client:
        await client.create_queue("q")
        kept = await published(client, 0)
        with backup.open("wb") as file:
            await take_backup(cluster.endpoint("a"), file.write)
        for _ in range(5):
            await client.producer("q").send(b"lost")
        lost = await published(client, 1, seen=kept.position, previous_batch=0)
        taken = await client.lease_batch("q", "spark", 57, max_messages=1)
        place = (await client.journal_head(["q"])).next
        assert taken is not None
    shutil.rmtree(cluster.data_dir / "a")
    await asyncio.to_thread(restore, backup, cluster.data_dir / "a")
    async with cluster.running(), aio.connect(cluster.target) as client:
        assert (await client.journal_head(["q"])).next.history_id == place.history_id == kept.position.history_id
        for grown in (False, True):  # the place is beyond the end; then records of another epoch are there
            with pytest.raises(Refused, match="EPOCH_DIVERGED"):
                await published(client, 2, seen=lost.position)
            with pytest.raises(Refused, match="EPOCH_DIVERGED"):
                await client.lease_batch("q", "spark", 58, seen=taken.position)
            with pytest.raises(Refused, match="EPOCH_DIVERGED"):
                await read(client, place, "q")
            with pytest.raises(Refused, match=r"EPOCH_DIVERGED.*has published batch 1, and its last batch here is 0"):
                await published(client, 2, previous_batch=1)
            assert await length(client) == 1 + 20 * grown
            if not grown:
                for _ in range(20):  # a record each
                    await client.producer("q").send(b"later")
        assert not (await published(client, 1, seen=kept.position, previous_batch=0)).duplicate


async def test_each_domain_has_a_history_of_its_own(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue(new_name())
        local = (await client.journal_head(domain="local")).next.history_id
        assert local not in ("", await history_of(client))
