"""Failure matrix, slow or hung master disk: a write that never ends is a local fault, and the member ends. The loop
waits for short commits itself (docs/decisions/0053-short-commits.md): every story here is of a member that does.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from replica.listen.machine_access import MachineAccess
from replica.listen.ports import STOP_S, Ports
from replica.manager import Manager
from replica.node.loop import FailedInstanceError
from tandemq import aio
from tandemq.config import Failover, ManagerConfig
from tandemq.errors import ServerFault
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.support import new_name, raw_to, stopped_at_end
from tests.support.clusters import patient, quick
from tests.support.until import OUTER_S, until

SYNCS = "fdatasync,fsync,msync"
FOR_EVER = "delay_enter=60s"


@contextmanager
def hurt_disk(pid: int, how: str) -> Iterator[None]:
    """From here on this happens to syncs of the process, in the words of strace; nothing else of it is touched."""
    tracer = shutil.which("strace")
    assert tracer, "this test needs strace: apt-get install strace"
    inject = f"inject={SYNCS}:{how}"
    argv = [tracer, "-f", "--quiet=all", "-p", str(pid), "-e", f"trace={SYNCS}", "-e", inject, "-o", "/dev/null"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0" not in status


def pid_of(cluster: Cluster, member: str) -> int:
    pid = cluster.children[member].pid
    assert pid is not None
    return pid


async def send_one_by_one(cluster: Cluster, queue: str, count: int, first: int = 0) -> list[bytes]:
    """Each waits for its receipt: one in flight, which is what a loop waits for."""
    names = [b"%d" % number for number in range(first, first + count)]
    async with aio.connect(cluster.endpoints) as client, client.producer(queue) as producer:
        for name in names:
            await producer.send(name)
    return names


@pytest.mark.process
@pytest.mark.promise
async def test_a_master_whose_disk_hangs_gives_way(tmp_path: Path) -> None:
    """Its loop goes on and its heartbeats too: only the age of the write shows it."""
    cluster = quick(tmp_path / "pair", failover=Failover(stall_ms=2000))
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("b")) as (b,):
            queue = new_name()
            await b.create(queue)
            before = await send_one_by_one(cluster, queue, 50)
            pid = pid_of(cluster, "a")
            with hurt_disk(pid, FOR_EVER):

                async def is_traced() -> bool:
                    return traced(pid)

                await until(is_traced, "the tracer is attached")
                await b.send(queue, b"after")

                async def gives_up() -> bool:
                    return "it ends now" in cluster.children["a"].log.read_text()

                await until(gives_up, "a ends without order")

            async def ended() -> bool:  # once the tracer lets go of the threads that it holds
                return not cluster.children["a"].running

            await until(ended, "a has ended")
            assert "a write has been under way" in cluster.children["a"].log.read_text()
            assert cluster.children["a"].ending == "exit code 1"
            await cluster.restart("a")
            await cluster.wait_for(lambda view: view.whole() and view.equal(), "a is replica")
            assert await b.take(queue, 51) == [*before, b"after"]


@pytest.mark.process
async def test_a_replica_whose_disk_hangs_says_so(tmp_path: Path) -> None:
    """Its master goes on without it and says that it is too slow; why it is, only it knows."""
    cluster = quick(tmp_path / "pair", failover=Failover(stall_ms=1000))
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("a"), cluster.endpoint("b")) as (a, b):
            queue = new_name()
            await a.create(queue)
            pid = pid_of(cluster, "b")

            async def faults() -> list[str]:
                found = await b.pair.ListEvents(pb.ListEventsRequest(), timeout=OUTER_S)
                return [event.text for event in found.events if event.kind == pb.PAIR_EVENT_KIND_FAULT]

            with hurt_disk(pid, FOR_EVER):
                await until(lambda: traced(pid), "the tracer is attached")
                sending = asyncio.create_task(a.send(queue, b"slow"))
                (text,) = await until(faults, "it is an event while it lasts")
                assert text.startswith("a write has been under way for 1")
                assert text in cluster.children["b"].log.read_text()

            async def over() -> list[str]:
                return (await faults())[1:]

            (text,) = await until(over, "and when it is over")
            assert text.startswith("the write that hung has ended, after ")
            await sending
        await cluster.wait_for(lambda view: view.whole() and view.equal(), "both are whole")
        assert "this manager stops" not in cluster.children["b"].log.read_text()


@pytest.mark.process
@pytest.mark.parametrize("member", ["a", "b"])
async def test_one_slow_sync_of_a_hundred_moves_nobody(tmp_path: Path, member: str) -> None:
    """The loop goes on while it lasts: no heartbeat is missed, and every message is there once, in its order."""
    cluster = patient(tmp_path / "pair")
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("b")) as (b,):
            queue = new_name()
            await b.create(queue)
            pid = pid_of(cluster, member)
            with hurt_disk(pid, "delay_enter=200ms:when=5+100"):
                await until(lambda: traced(pid), "the tracer is attached")
                names = await send_one_by_one(cluster, queue, 300)
            assert await b.take(queue, 300) == names
        view = await cluster.wait_for(lambda view: view.whole() and view.equal(), "both are whole")
        assert view.masters() == ["a"]


@pytest.mark.process
async def test_a_sync_that_says_eio_ends_the_member_and_loses_nothing(tmp_path: Path) -> None:
    """At the master, while the loop waits for it: what was acknowledged is at the other member, which goes on."""
    cluster = quick(tmp_path / "pair")
    async with stopped_at_end(cluster):
        await cluster.start()
        async with raw_to(cluster.endpoint("b")) as (b,):
            queue = new_name()
            await b.create(queue)
            pid = pid_of(cluster, "a")
            with hurt_disk(pid, "error=EIO:when=20+"):
                await until(lambda: traced(pid), "the tracer is attached")
                names = await send_one_by_one(cluster, queue, 60)
            await until(lambda: not cluster.children["a"].running, "a has ended")
            said = cluster.children["a"].log.read_text()
            assert "Input/output error" in said
            assert "error: INTERNAL" in said
            assert "Traceback" not in said, "it ends by a rule, and nobody has to look for a bug"
            assert await b.take(queue, 60) == names


class Lenient(Ports):
    """Waits so long for calls under way that a test would not see the end of it."""

    async def close(self, grace_s: float = STOP_S) -> None:
        await super().close(grace_s * 10_000)


class LenientMachine(MachineAccess):
    def ports(self, config: ManagerConfig) -> Ports:
        return Lenient(config)


async def test_a_bug_that_ends_a_member_is_shown_as_it_is(tmp_path: Path, base_port: int) -> None:
    """Whoever mends it needs the place where it happened."""
    ports = {"listen_client": f"127.0.0.1:{base_port}", "listen_http": f"127.0.0.1:{base_port + 1}"}
    manager = Manager(ManagerConfig(member="a", data_dir=str(tmp_path / "a"), **ports))
    await manager.start()
    assert manager._node is not None
    manager._node.failed.set_result(AssertionError("committed what is not durable"))
    with pytest.raises(AssertionError, match="not durable"):
        await manager.wait_closed()
    await manager.stop()


async def test_a_member_that_failed_ends_every_connection_at_once(tmp_path: Path, base_port: int) -> None:
    """Whoever is still connected waits for nothing: it answers nobody, and its peer takes over when it is gone. It gave
    calls under way their time first, of clients and then of the peer, and each was 200 ms in which nobody served.
    """
    ports = {"listen_client": f"127.0.0.1:{base_port}", "listen_http": f"127.0.0.1:{base_port + 1}"}
    config = ManagerConfig(member="a", data_dir=str(tmp_path / "a"), **ports)
    manager = Manager(config, LenientMachine())
    await manager.start()
    async with aio.connect(config.listen_client, timeout=2) as client:
        await client.create_queue("q")
        async with client.producer("q") as producer, client.consumer("q") as consumer:
            await producer.send(b"x")
            assert (await anext(consumer)).payload == b"x"  # both streams are under way, and stay so
            node = manager._node
            assert node is not None
            node.failed.set_result(FailedInstanceError("a write has been under way for too long"))
            with pytest.raises(ServerFault, match=r"INTERNAL: a write has been") as caught:
                await manager.wait_closed()
            assert isinstance(caught.value.__cause__, FailedInstanceError)
            async with asyncio.timeout(OUTER_S):
                await manager.stop()
