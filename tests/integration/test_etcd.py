"""A pair whose register is in etcd: it forms, takes over, counts its starts, and lives through what happens to etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from chaos.relay import Relay, Relays
from failover.etcd import EtcdAuthority
from failover.register import Register
from replica.peer.identity.incarnation import register_name
from tandemq.cli.view import PairView
from tandemq.v1.pair_service_pb2 import ListEventsRequest
from tests.integration.matrix import becomes, role, status
from tests.integration.support import raw_to, stopped_at_end
from tests.support.clusters import quick
from tests.support.etcd import EtcdServer
from tests.support.ports import free_port
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.slow]


ALONE_S = 0.5  # long enough for an answer that must not come


@dataclass(frozen=True, slots=True)
class World:
    """A whole pair with a as master, its etcd, and the way to etcd that can be cut."""

    cluster: Cluster
    etcd: EtcdServer
    relay: Relay
    register: EtcdAuthority

    async def read(self, domain: str = "main") -> Register:
        async def found() -> Register | None:
            answer = await self.register.get(domain)
            return answer if isinstance(answer, Register) else None

        register: Register = await until(found, "etcd answers")
        return register


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    etcd = EtcdServer(tmp_path / "etcd")
    await etcd.start()
    register = EtcdAuthority([etcd.endpoint], "/tandemq/", "pair", "observer")
    with Relays() as relays:
        relay = relays.open(f"127.0.0.1:{free_port()}", etcd.endpoint)
        cluster = quick(tmp_path / "pair", etcd=[relay.listen])
        async with stopped_at_end(cluster):
            await cluster.start()
            yield World(cluster, etcd, relay, register)
    await register.close()
    await etcd.kill()


async def test_a_pair_forms_takes_over_and_counts_its_starts(world: World) -> None:
    cluster = world.cluster
    formed = await world.read()
    assert (formed.holder, formed.in_sync_set) == ("a", {"a", "b"})
    assert (await world.read(register_name("a"))).epoch == 1
    async with raw_to(*cluster.endpoints) as [a, b]:
        await a.create("q")
        await a.send("q", b"before")
        cluster.kill("a")
        await becomes(cluster, "b", "MASTER")
        taken = await world.read()
        assert (taken.holder, taken.in_sync_set) == ("b", {"b"})
        assert taken.epoch > formed.epoch
        reply = await b.send("q", b"after")
        assert (reply.header.copies, reply.header.epoch) == (1, taken.epoch)
        await cluster.restart("a")
        await cluster.wait_for(PairView.whole, "whole again")
        assert (await world.read(register_name("a"))).epoch == 2
        assert await b.take("q", 10) == [b"before", b"after"]
    member = await status(cluster, "b")
    assert (member.authority, member.witness_connected) == ("etcd", True)


async def test_without_etcd_the_pair_goes_on_and_a_survivor_does_not(world: World) -> None:
    """pair-protocol.md 4.11: arbiter dead, pair up; then one node dead as well."""
    cluster = world.cluster
    async with raw_to(*cluster.endpoints) as [a, b]:
        await a.create("q")
        before = await world.read()
        await world.etcd.kill()
        assert (await a.send("q", b"1")).header.copies == 2
        cluster.kill("b")
        await becomes(cluster, "a", "MASTER_SUSPENDED")
        waiting = asyncio.ensure_future(a.send("q", b"2"))
        assert not (await asyncio.wait([waiting], timeout=ALONE_S))[0], "acknowledged with neither peer nor register"
        await world.etcd.start()
        await becomes(cluster, "a", "MASTER")
        after = await world.read()
        assert (after.holder, after.in_sync_set) == ("a", {"a"})
        assert after.epoch > before.epoch
        assert (await waiting).header.copies == 1
        await cluster.restart("b")
        await cluster.wait_for(PairView.whole, "whole again")
        assert await b.take("q", 10) == [b"1", b"2"]


async def test_a_frozen_master_is_replaced_and_comes_back_as_replica(world: World) -> None:
    cluster = world.cluster
    async with raw_to(*cluster.endpoints) as [a, b]:
        await a.create("q")
        cluster.pause("a")
        await becomes(cluster, "b", "MASTER")
        assert (await b.send("q", b"x")).header.copies == 1
        cluster.resume("a")
        await becomes(cluster, "a", "REPLICA")
        await cluster.wait_for(PairView.whole, "whole again")
    assert (await world.read()).holder == "b"


async def test_a_key_deleted_under_a_running_pair_stops_no_one_and_is_written_again(world: World) -> None:
    """P7: the master reads something else than its own record, and starts a new epoch with the peer it has."""
    cluster = world.cluster
    before = await world.read()
    await world.etcd.ctl("del", "/tandemq/pair/main")

    async def rewritten() -> bool:
        register = await world.read()
        return not register.is_new and register.in_sync_set == {"a", "b"}

    await until(rewritten, "the register is written again")
    assert (await world.read()).epoch > before.epoch
    await cluster.wait_for(PairView.whole, "whole again")
    async with raw_to(cluster.endpoint("b")) as [b]:
        await b.create("q")
        assert (await b.send("q", b"x")).header.copies == 2


async def test_a_key_that_no_member_wrote_is_named_and_believed_by_nobody(world: World) -> None:
    cluster = world.cluster
    async with raw_to(*cluster.endpoints) as [a, b]:
        await a.create("q")
        good = (await world.etcd.ctl("get", "/tandemq/pair/main", "--print-value-only")).strip().decode()
        await world.etcd.ctl("put", "/tandemq/pair/main", "garbage")
        assert (await a.send("q", b"1")).header.copies == 2  # both members are there: nobody needs to be asked
        cluster.kill("a")

        async def told() -> bool:
            events = (await b.pair.ListEvents(ListEventsRequest(), timeout=OUTER_S)).events
            return any("/tandemq/pair/main: it is no register" in event.text for event in events)

        await until(told, "the history names the key")
        assert await role(cluster, "b") != "MASTER"
        await world.etcd.ctl("put", "/tandemq/pair/main", good)
        await becomes(cluster, "b", "MASTER")
        assert (await b.send("q", b"2")).header.copies == 1
