"""A copy is made anew, in real members: nobody waits for it, it is sent once, and whatever happens meanwhile ends well.

One member runs in this process, so that the transfer can be held where it is: its disk, or its reading, waits.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from failover.marks import DataMark, Role
from replica.core.domain import Domain
from replica.core.replication.sync_source import Phase
from replica.manager import Manager
from replica.node.members import MAIN
from tandemq import aio
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import Raw, raw_to
from tests.integration.test_verify import compared, kill, pair_with, refusal, whole
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


def main_of(manager: Manager) -> Domain:
    members = manager._members
    assert members is not None
    return members.by_name[MAIN]


class Gate:
    """Holds whoever comes through it, in a thread of the member's, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(OUTER_S)


@contextmanager
def held(manager: Manager, call: str, when: Callable[[], bool]) -> Iterator[Gate]:
    """That call of its store waits from the first time on that the condition holds."""
    store, gate = manager._store, Gate()
    original = getattr(store, call)

    def waiting(*args: Any, **kwargs: Any) -> Any:
        if when():
            gate.pass_through()
        return original(*args, **kwargs)

    setattr(store, call, waiting)
    try:
        yield gate
    finally:
        gate.opened.set()
        setattr(store, call, original)


async def reached(gate: Gate) -> None:
    async def has() -> bool:
        return gate.reached.is_set()

    await until(has, "the transfer is under way")


async def texts(member: Raw) -> list[str]:
    return [event.text for event in (await member.pair.ListEvents(pb.ListEventsRequest(limit=1000))).events]


@asynccontextmanager
async def taking_anew(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Domain, aio.Client, tuple[Raw, Raw], Gate]]:
    """The replica, b, has been told to take everything, and its disk hangs as the first record of it comes."""
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        domain = main_of(manager)
        await client.create_queue("two", admin.QueueConfig(require_two=True))
        with held(manager, "commit", lambda: domain.target.full and bool(domain.target.active)) as gate:
            async with raw_to(*(cluster.config(name).endpoint for name in ("a", "b"))) as (a, b):
                answer = await b.pair.Resync(pb.ResyncRequest(full=True, reason="test"))
                assert answer.done
                assert "a goes on alone" in answer.text
                await reached(gate)
                yield cluster, domain, client, (a, b), gate


async def test_nobody_waits_for_a_copy_that_is_made_anew(tmp_path: Path) -> None:
    """One transfer, no master that is suspended, and what is sent meanwhile is acknowledged."""
    async with taking_anew(tmp_path) as (cluster, domain, client, (a, b), gate):
        async with client.producer("q") as producer:
            assert {(await producer.send(b"meanwhile")).copies for _ in range(20)} == {1}
        assert domain.shared.state.data is DataMark.SYNCING
        assert await refusal(a.send("two", b"x")) == "NOT_ENOUGH_COPIES"

        again = await b.pair.Resync(pb.ResyncRequest(full=True, reason="again"))
        assert again.done
        assert "already" in again.text
        handoff = await a.pair.Handoff(pb.HandoffRequest(reason="meanwhile"))
        assert not handoff.done
        assert "NOT_IN_SYNC" in handoff.reasons
        assert domain.shared.role is Role.REPLICA, "neither of them has disturbed it"

        gate.opened.set()
        await until(lambda: whole(client), "the pair is whole")
        assert (await compared(a))[-1].equal
        told = await texts(a)
        sent = [at for at, text in enumerate(told) if text.startswith("sends everything")]
        assert len(sent) == 2, "as the pair was formed, and now"
        assert not [text for text in told[sent[-1] :] if "SUSPENDED" in text or "too slow" in text]
        async with client.producer("two") as producer:
            assert (await producer.send(b"x")).copies == 2
        assert (await client.get_queue("q")).length == 220
    assert cluster


async def test_a_master_that_dies_meanwhile_is_master_again(tmp_path: Path) -> None:
    async with taking_anew(tmp_path) as (cluster, domain, client, _, gate):
        async with client.producer("q") as producer:
            await producer.send_many([b"meanwhile"] * 20)
        kill(cluster, "a")
        gate.opened.set()
        await until(lambda: _is(domain, Role.PROBE), "b has noticed")
        assert not domain.shared.state.data.is_good
        cluster.spawn("a")
        await until(lambda: whole(client), "the pair is whole")
        assert (await client.get_queue("q")).length == 220


async def _is(domain: Domain, role: Role) -> bool:
    return domain.shared.role is role


async def test_a_replica_that_dies_meanwhile_takes_everything_once_more(tmp_path: Path) -> None:
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        domain = main_of(manager)
        kill(cluster, "a")
        await until(lambda: _is(domain, Role.MASTER), "b has taken over")
        cluster.spawn("a")
        await until(lambda: whole(client), "the pair is whole")
        with held(manager, "read_many", lambda: domain.source.phase is Phase.FULL) as gate:
            async with raw_to(cluster.config("a").endpoint) as (a,):
                assert (await a.pair.Resync(pb.ResyncRequest(full=True, reason="test"))).done
            await reached(gate)
            kill(cluster, "a")
        async with client.producer("q") as producer:
            assert (await producer.send(b"meanwhile")).copies == 1
        cluster.spawn("a")
        await until(lambda: whole(client), "the pair is whole")
        assert (await client.get_queue("q")).length == 201


async def test_an_order_that_everybody_would_wait_for_is_refused(tmp_path: Path) -> None:
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        domain = main_of(manager)
        kill(cluster, "witness")

        async def unreadable() -> bool:
            return not domain.mastership.view.readable

        await until(unreadable, "b cannot read the register")
        async with raw_to(cluster.config("b").endpoint) as (b,):
            with pytest.raises(Exception, match="the authority cannot be asked"):
                await b.pair.Resync(pb.ResyncRequest(full=True, reason="test"))
        assert domain.shared.state.data is DataMark.IN_SYNC
        async with client.producer("q") as producer:
            assert (await producer.send(b"x")).copies == 2
