"""The identity of a domain's history: kept by whatever keeps the history, another one once it is begun anew."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster import WITNESS, Cluster
from tandemq import aio
from tandemq.client.aio import JournalPosition, JournalStart
from tandemq.errors import Refused
from tests.integration.support import new_name, roles, until

pytestmark = pytest.mark.process


async def history_of(client: aio.Client, *, this_member: bool = False) -> str:
    return (await client.journal_head(this_member=this_member)).next.history_id


async def read(client: aio.Client, start: JournalPosition | JournalStart, *queues: str) -> list[bytes | None]:
    pages = client.read_journal(queues, start)
    return [row.payload async for page in pages for row in page.rows() if row.payload is not None]


@contextlib.contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(Refused, match=r"another pair, or one that was begun anew") as caught:
        yield
    assert caught.value.reason == "PAIR_CHANGED"
    assert caught.value.metadata["history_id"] != caught.value.metadata["read_history_id"]


async def test_a_history_keeps_its_id_over_takeover_restart_and_full_transfer(tmp_path: Path) -> None:
    async with Cluster(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
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
    cluster = Cluster(tmp_path)
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


async def test_each_domain_has_a_history_of_its_own(tmp_path: Path) -> None:
    async with Cluster(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue(new_name())
        local = (await client.journal_head(domain="local")).next.history_id
        assert local not in ("", await history_of(client))
