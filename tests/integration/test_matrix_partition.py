"""The failure matrix, wires: partitions with the arbiter here or there, one-way loss, a second path, a slow peer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.cluster import WITNESS
from chaos.network import Wire
from tandemq.config import Failover, Limits
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.matrix import (
    ASIDE,
    CUT_OFF_S,
    NO_MASTER,
    acknowledges_nothing,
    becomes,
    pair,
    role,
    state,
    under_load,
)
from tests.integration.support import new_id, raw_to
from tests.support.clusters import PATIENT
from tests.support.starvation import Soon, Stopwatch
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


@pytest.mark.promise
@pytest.mark.clock
@pytest.mark.parametrize("loud", [False, True], ids=["silent", "reset and refused"])
async def test_partition_arbiter_seen_by_both(tmp_path: Path, loud: bool) -> None:
    """One compare-and-set wins. The old master asks first, so it is the one; the other suspends and follows later."""
    async with pair(tmp_path) as cluster, under_load(cluster) as load:
        cut = cluster.network.break_off if loud else cluster.network.cut
        with Soon("the takeover", CUT_OFF_S):
            cut("a", "b")
            winner = await becomes_solo(cluster)
        await load.goes_on()
        loser = "b" if winner == "a" else "a"
        assert await role(cluster, loser) in NO_MASTER
        cluster.network.heal()
        await cluster.wait_ready()


async def becomes_solo(cluster) -> str:
    """The one member that serves a later epoch than the first: the second, or where both claimed it the third."""
    view = await cluster.wait_for(
        lambda view: any(d.role == "MASTER" and d.epoch > 1 for m in view.members for d in m.domains),
        "a master of a later epoch",
    )
    return next(m.name for m in view.members for d in m.domains if d.role == "MASTER" and d.epoch > 1)


@pytest.mark.promise
@pytest.mark.clock
async def test_partition_arbiter_with_replica_only(tmp_path: Path) -> None:
    """The replica serves; the old master has neither peer nor register: it acknowledges nothing and is left."""
    async with pair(tmp_path, limits=Limits(park_ms=500)) as cluster, under_load(cluster) as load:
        with Soon("the takeover", CUT_OFF_S), Stopwatch() as watch:
            cluster.network.isolate("a")
            await becomes(cluster, "b", "MASTER", epoch=2)
        await becomes(cluster, "a", *NO_MASTER)
        await acknowledges_nothing(cluster, "a")
        await load.goes_on()
        # Longer where producers are left with the member that cannot answer.
        watch.judge("the longest pause", CUT_OFF_S, load.longest_pause_s)
        assert await role(cluster, "a") in NO_MASTER
        cluster.network.heal()
        await cluster.wait_ready()


@pytest.mark.promise
async def test_partition_arbiter_with_master_only(tmp_path: Path) -> None:
    """The master goes on alone in a recorded epoch; the replica serves nobody."""
    async with pair(tmp_path, limits=Limits(park_ms=500)) as cluster, under_load(cluster) as load:
        cluster.network.isolate("b")
        await becomes(cluster, "a", "MASTER", epoch=2)
        await becomes(cluster, "b", *NO_MASTER)
        await acknowledges_nothing(cluster, "b")
        await load.goes_on()
        cluster.network.heal()
        await cluster.wait_ready()
        assert await role(cluster, "a") == "MASTER"


@pytest.mark.promise
@pytest.mark.parametrize(("sender", "receiver"), [("a", "b"), ("b", "a")], ids=["master unheard", "replica unheard"])
async def test_one_way_loss(tmp_path: Path, sender: str, receiver: str) -> None:
    """Each heartbeat says when it last heard the other: either direction dead is a dead link for both."""
    async with pair(tmp_path) as cluster, under_load(cluster) as load:
        cluster.network.lose(sender, receiver)
        winner = await becomes_solo(cluster)
        await load.goes_on()
        assert await role(cluster, "b" if winner == "a" else "a") in NO_MASTER
        cluster.network.heal()
        await cluster.wait_ready()


async def test_a_question_is_answered_again_by_whom_its_master_follows_meanwhile(tmp_path: Path) -> None:
    """A description waits for what it shows to count. When another member's log replaces that, that one answers."""
    async with pair(tmp_path) as cluster, raw_to(cluster.endpoint("a")) as [member]:
        cluster.network.isolate("a")

        async def is_ahead() -> bool:
            found = await state(cluster, "a")
            return found is not None and found.log_index > found.commit_index

        request = service.EnqueueRequest(queue=ASIDE, request_id=new_id(), messages=[{"payload": b"of nobody"}])
        sending = asyncio.ensure_future(member.queue.Enqueue(request))
        await until(is_ahead, "the message is ordered, and does not count")
        asking = asyncio.ensure_future(member.admin.GetQueue(admin.GetQueueRequest(name=ASIDE), timeout=OUTER_S))
        await becomes(cluster, "b", "MASTER", epoch=2)
        assert not asking.done()
        sending.cancel()
        cluster.network.heal()
        answer = await asking
        assert (answer.header.member, answer.header.epoch) == ("b", 2)


async def test_that_a_queue_is_empty_is_not_said_by_whom_its_master_follows_meanwhile(tmp_path: Path) -> None:
    """Its wait is over, and what has come since is at the other member."""
    async with pair(tmp_path) as cluster, raw_to(cluster.endpoint("a")) as [member]:
        cluster.network.isolate("a")
        request = service.DequeueRequest(queue=ASIDE, request_id=new_id(), wait={"seconds": 1})
        asking = asyncio.ensure_future(member.queue.Dequeue(request, timeout=OUTER_S))
        await becomes(cluster, "b", "MASTER", epoch=2)
        await asyncio.wait({asking}, timeout=1)
        assert not asking.done(), "its wait is over, and nobody is there who could say so"
        cluster.network.heal()
        answer = await asking
        assert (answer.header.member, answer.header.epoch, answer.lease_id) == ("b", 2, 0)


async def test_link_lost_and_found_again_and_again(tmp_path: Path) -> None:
    """Three short cuts in a row, shorter and longer than the lost time: it always ends whole."""
    async with pair(tmp_path) as cluster, under_load(cluster) as load:
        for cut_s in (0.4, 1.4, 2.5):
            cluster.network.cut("a", "b")
            await asyncio.sleep(cut_s)
            cluster.network.heal()
            await cluster.wait_ready()
            await load.goes_on()


async def test_the_arbiter_is_cut_off_from_both(tmp_path: Path) -> None:
    """The pair alone is enough: nothing changes, no epoch, no pause."""
    async with pair(tmp_path, timers=PATIENT) as cluster, under_load(cluster) as load:
        for name in cluster.members:
            cluster.network.cut(name, WITNESS)
        await asyncio.sleep(CUT_OFF_S)
        await load.goes_on()
        view = await cluster.status()
        assert {(d.role, d.epoch) for m in view.members for d in m.domains} == {("MASTER", 1), ("REPLICA", 1)}
        cluster.network.heal([Wire(name, WITNESS) for name in cluster.members])
        async with raw_to(cluster.endpoint("a")) as [member]:
            assert (await member.send(ASIDE, b"x")).header.copies == 2


@pytest.mark.promise
async def test_slow_link(tmp_path: Path) -> None:
    """Delay makes it slow and changes nothing; on a wire too narrow for the load the master goes on alone."""
    slow = Failover(slow_peer_ms=3000)
    async with (
        pair(tmp_path, timers=PATIENT, failover=slow) as cluster,
        under_load(cluster, padding=bytes(2000)) as load,
    ):
        cluster.network.delay("a", "b", 0.1)
        await load.goes_on(200)
        view = await cluster.status()
        assert {(d.role, d.epoch) for m in view.members for d in m.domains} == {("MASTER", 1), ("REPLICA", 1)}
        assert {ack.copies for ack in load.history.acked} == {2}
        cluster.network.throttle("a", "b", 20_000)
        await becomes_solo(cluster)
        await load.goes_on()
        cluster.network.heal()
        await cluster.wait_ready()


@pytest.mark.promise
async def test_store_full_replica(tmp_path: Path) -> None:
    """It cannot write what it gets: a peer that makes no progress. The master goes on alone and says so."""
    small = {"b": {"limits": Limits(map_bytes=16 << 20)}}
    slow = Failover(slow_peer_ms=1500)
    async with (
        pair(tmp_path, timers=PATIENT, settings=small, failover=slow) as cluster,
        raw_to(cluster.endpoint("a")) as [a],
    ):
        copies = [(await a.send(ASIDE, b"x" * 100_000)).header.copies for _ in range(200)]
        assert copies == sorted(copies, reverse=True), "first on both, then on one"
        assert 60 < copies.count(2) < 180
        assert "the store is full" in cluster.children["b"].log.read_text()
        view = await cluster.status()
        assert view.masters() == ["a"]
        main = await state(cluster, "a")
        assert main is not None
        assert (main.epoch, main.in_sync_set) == (2, ("a",))
        assert len(await a.take(ASIDE, 10)) == 10
