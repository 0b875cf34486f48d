"""The failure matrix, processes and disks: who may serve after which crashes, and transfers that are cut short.

The plain rows are elsewhere: a master that crashes, freezes, or loses its replica in test_pair.py; old copies in
test_restored.py; torn and foreign directories in test_faults.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import msgspec
import pytest

from chaos import nemesis
from chaos.cluster import Cluster
from failover.authority import WitnessAuthority
from failover.register import Register, RegisterState
from replica.peer.identity.incarnation import register_name
from tandemq.cli.view import PairView
from tandemq.config import Limits, Timers, member_ports, to_toml
from tandemq.v1 import common_pb2
from tests.integration.matrix import ASIDE, NO_MASTER, becomes, pair, refuses, role, state, status, under_load
from tests.integration.support import raw_to, sdk, still_serves
from tests.support.clusters import patient
from tests.support.until import until

pytestmark = pytest.mark.process

SHORT = Limits(park_ms=500)


# -- both members ------------------------------------------------------------------------------------------------------


@pytest.mark.promise
@pytest.mark.parametrize("first", ["a", "b"])
async def test_both_crash_and_the_first_back_serves_because_the_register_names_it(tmp_path: Path, first: str) -> None:
    async with pair(tmp_path) as cluster, raw_to(*cluster.endpoints) as members:
        member = members["ab".index(first)]
        await members[0].send(ASIDE, b"both")
        await nemesis.kill(cluster, "a", "b")
        cluster.spawn(first)
        await becomes(cluster, first, "MASTER", epoch=2)
        assert (await member.send(ASIDE, b"alone")).header.copies == 1
        cluster.spawn("b" if first == "a" else "a")
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await role(cluster, first) == "MASTER"
        assert await member.take(ASIDE, 10) == [b"both", b"alone"]


@pytest.mark.promise
async def test_both_crash_and_the_first_back_waits_because_the_register_does_not_name_it(tmp_path: Path) -> None:
    """Master crash while solo is the same row: the other one's copy is outdated, and it says so."""
    async with pair(tmp_path, limits=SHORT) as cluster, raw_to(*cluster.endpoints) as [a, b]:
        await nemesis.kill(cluster, "b")
        assert (await a.send(ASIDE, b"alone")).header.copies == 1
        await nemesis.kill(cluster, "a")
        cluster.spawn("b")
        await cluster.wait_answers("b")
        error = await refuses(cluster, "b")
        assert error.reason in ("NO_MASTER", "SUSPENDED")
        found = await state(cluster, "b")
        assert found is not None
        assert (found.role, found.in_sync_set) == ("PROBE", ("a",)), "it knows whom the register names"
        await refuses(cluster, "b")  # and it stays so
        cluster.spawn("a")
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await role(cluster, "a") == "MASTER"
        assert await b.take(ASIDE, 10) == [b"alone"]


# -- state transfer ----------------------------------------------------------------------------------------------------


async def _filled(cluster: Cluster, queue: str = "big", mib: int = 6) -> None:
    async with sdk(cluster) as client:
        await client.create_queue(queue)
        async with client.producer(queue) as producer:
            await producer.send_many([bytes(1 << 16)] * (16 * mib))


async def _syncing(cluster: Cluster) -> None:
    """b, with an empty disk, is in the middle of a full transfer over a slow wire."""
    await nemesis.kill(cluster, "b")
    await becomes(cluster, "a", "MASTER", epoch=2)
    nemesis.wipe(cluster, "b")
    cluster.network.throttle("a", "b", 1 << 20)
    cluster.spawn("b")

    async def syncing() -> bool:
        found = await state(cluster, "b")
        return found is not None and found.data_state == "SYNCING"

    await until(syncing, "a full transfer")


@pytest.mark.promise
async def test_crash_mid_sync_of_the_target(tmp_path: Path) -> None:
    """SYNCING persists over the crash, nobody promotes it, the source is unaffected, and the next transfer succeeds."""
    async with pair(tmp_path) as cluster:
        await _filled(cluster)
        async with under_load(cluster) as load:
            await _syncing(cluster)
            await load.goes_on()
            await nemesis.kill(cluster, "b")
            await load.goes_on()
            cluster.network.heal()
            cluster.spawn("b")
            await cluster.wait_ready()


async def test_crash_mid_sync_of_the_source(tmp_path: Path) -> None:
    """The half copy is asked for nothing: its queues wait for the master, which comes back with everything."""
    async with pair(tmp_path, limits=SHORT) as cluster:
        await _filled(cluster)
        await _syncing(cluster)
        await nemesis.kill(cluster, "a")
        await becomes(cluster, "b", "PROBE")
        await refuses(cluster, "b")
        found = await state(cluster, "b")
        assert found is not None
        assert (found.role, found.data_state) == ("PROBE", "SYNCING")
        await nemesis.kill(cluster, "b")
        cluster.network.heal()
        for name in ("b", "a"):
            cluster.spawn(name)
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await role(cluster, "a") == "MASTER"
        async with sdk(cluster) as client:
            assert (await client.get_queue("big")).length == 16 * 6


# -- disks -------------------------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_lost_disk_of_the_master_follows_the_replica(tmp_path: Path) -> None:
    async with pair(tmp_path) as cluster, raw_to(cluster.endpoint("a")) as [a]:
        await a.send(ASIDE, b"kept")
        await nemesis.kill(cluster, "a")
        await becomes(cluster, "b", "MASTER", epoch=2)
        nemesis.wipe(cluster, "a")
        cluster.spawn("a")
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await role(cluster, "b") == "MASTER"
        assert await a.take(ASIDE, 10) == [b"kept"]


async def test_an_empty_disk_is_never_promoted(tmp_path: Path) -> None:
    """Both crash, the one that is back has lost its disk: the register names it, and it serves nobody all the same."""
    async with pair(tmp_path, limits=SHORT) as cluster, raw_to(*cluster.endpoints) as [a, b]:
        await a.send(ASIDE, b"kept")
        await nemesis.kill(cluster, "a", "b")
        nemesis.wipe(cluster, "b")
        cluster.spawn("b")
        await cluster.wait_answers("b")
        await refuses(cluster, "b")
        assert await role(cluster, "b") in NO_MASTER
        cluster.spawn("a")
        await cluster.wait_for(PairView.equal, "whole and equal")
        assert await b.take(ASIDE, 10) == [b"kept"]


@pytest.mark.promise
@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_copy_of_a_data_directory_is_started_beside_the_original(tmp_path: Path, name: str) -> None:
    """Same instance, other start. Two claimed in one name and took turns, until the peer refused the second one; and
    again where the peer stood still for longer than connections last, and the copy was the first to call.
    """
    # Who stands still for less than this keeps its place; on a busy machine each does so now and then.
    patient = Timers(lost_ms=10_000)
    async with pair(tmp_path / "pair", timers=patient) as cluster, under_load(cluster) as load:
        async with _copied(cluster, name, tmp_path / "copy") as twin:
            ended = _count(cluster, "b", "is over")
            if name == "b":  # the one that dials
                cluster.pause("a")
            twin.spawn(name)
            await twin.wait_answers(name)
            await until(lambda: _says(twin, name, "an older copy was put back"), "the copy knows what it is")
            if name == "b":
                await until(lambda: _is_above(cluster, "b", "is over", ended), "the original has lost its connection")
                cluster.resume("a")
                await until(lambda: _says(twin, name, "was its data directory copied"), "it is refused, and says so")
            await until(lambda: _has_no_vote(twin, name), "its copy is STALE")
            await load.goes_on(300)
            assert await _has_no_vote(twin, name)
        await cluster.wait_ready()


async def test_a_copy_that_took_the_place_of_a_frozen_original_is_the_member_from_then_on(tmp_path: Path) -> None:
    """The original wakes up with good marks, refused by its peer: it would take over without what it has missed."""
    async with pair(tmp_path / "pair") as cluster, under_load(cluster) as load:
        async with _copied(cluster, "b", tmp_path / "copy") as twin:
            cluster.pause("b")
            twin.spawn("b")
            await until(lambda: _is_replica(twin, "b"), "the copy follows, and has everything")
            cluster.resume("b")
            await until(lambda: _has_no_vote(cluster, "b"), "the original is the older copy now")
            await load.goes_on(300)
            assert await _has_no_vote(cluster, "b")
            assert await _is_replica(twin, "b")
        await cluster.wait_ready()


@asynccontextmanager
async def _copied(cluster: Cluster, name: str, to: Path) -> AsyncIterator[Cluster]:
    """A member on a copy of its directory, still to be started, beside the original, which is; killed at the end."""
    await nemesis.kill(cluster, name)
    nemesis.copy(cluster, name, to / name)
    cluster.spawn(name)
    await cluster.wait_ready()
    # Of two starts with one number the witness believes the one that it hears of first.
    await until(lambda: _start_is_counted(cluster, name), "the original's start is counted")
    twin = patient(to)
    ports = member_ports(twin.base_port, "ab".index(name))
    listen = {f"listen_{what}": f"127.0.0.1:{getattr(ports, what)}" for what in ("client", "peer", "http")}
    directory = str(nemesis.directory(twin, name))
    config = msgspec.structs.replace(cluster.config(name), data_dir=directory, **listen)
    twin.config_file(name).write_text(to_toml(config))
    try:
        yield twin
    finally:
        if twin.children[name].running:
            await nemesis.kill(twin, name)


async def _start_is_counted(cluster: Cluster, name: str) -> bool:
    authority = WitnessAuthority(cluster.witness_endpoint, cluster.pair, name)
    try:
        found = await authority.get(register_name(name))
    finally:
        await authority.close()
    start = (await status(cluster, name)).incarnation
    return isinstance(found, Register) and (found.epoch, found.state) == (start, RegisterState.COMMITTED)


async def _has_no_vote(twin: Cluster, name: str) -> bool:
    # Asked directly: a view of the pair knows one member by each name.
    [main] = [domain for domain in (await status(twin, name)).domains if domain.name == "main"]
    return (main.role, main.data_state) == (common_pb2.ROLE_PROBE, common_pb2.DATA_STATE_STALE)


async def _is_replica(cluster: Cluster, name: str) -> bool:
    if not cluster.children[name].running:
        return False
    try:
        [main] = [domain for domain in (await status(cluster, name)).domains if domain.name == "main"]
    except grpc.aio.AioRpcError:
        return False  # it is still starting
    return (main.role, main.data_state) == (common_pb2.ROLE_REPLICA, common_pb2.DATA_STATE_IN_SYNC)


async def _says(cluster: Cluster, name: str, words: str) -> bool:
    return await _is_above(cluster, name, words, 0)


async def _is_above(cluster: Cluster, name: str, words: str, count: int) -> bool:
    return _count(cluster, name, words) > count


def _count(cluster: Cluster, name: str, words: str) -> int:
    return cluster.children[name].log.read_text().count(words)


# -- after it ----------------------------------------------------------------------------------------------------------


async def test_crash_of_everything_at_once(tmp_path: Path) -> None:
    """Both members and the witness, as when the power fails: all start again and it is as it was."""
    async with pair(tmp_path) as cluster, raw_to(cluster.endpoint("b")) as [b]:
        await b.send(ASIDE, b"kept")
        await nemesis.kill(cluster, *cluster.children)
        for name in cluster.children:
            cluster.spawn(name)
        await cluster.wait_ready()
        assert await b.take(ASIDE, 10) == [b"kept"]
        await still_serves(cluster)
