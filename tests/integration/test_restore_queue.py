"""One queue put back from a backup (R155): when it may be, what enters, and what a call that broke off leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from tandemq.cli.view import PairView
from tandemq.client.backup import take_backup
from tandemq.config import ManagerConfig, member_ports
from tandemq.embedded import open_manager
from tandemq.v1 import pair_service_pb2 as pair_pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb
from tests.integration.support import Raw, gone, new_id, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process
PAYLOADS = [b"%d" % number for number in range(250)]


async def restore(member: Raw, name: str, source: str = "q.tqb", request_id: bytes = b"") -> Any:
    request = admin_pb.RestoreQueueRequest(name=name, request_id=request_id or new_id(), source=source)
    return await member.admin.RestoreQueue(request, timeout=OUTER_S)


async def close(member: Raw, name: str) -> None:
    request = admin_pb.CloseReplicatedQueueRequest(name=name, request_id=new_id())
    await member.admin.CloseReplicatedQueue(request, timeout=OUTER_S)


async def open_at(member: Raw, name: str) -> None:
    request = admin_pb.OpenReplicatedQueueRequest(name=name, request_id=new_id())
    await member.admin.OpenReplicatedQueue(request, timeout=OUTER_S)


async def back_up(cluster: Cluster, name: str) -> None:
    """Of one member, into the backup directories of both."""
    parts: list[bytes] = []
    await take_backup(cluster.endpoint(name), parts.append)
    for member in cluster.members:
        directory = Path(cluster.config(member).data_dir) / "backups"
        directory.mkdir(exist_ok=True)
        (directory / "q.tqb").write_bytes(b"".join(parts))


async def taken(member: Raw, name: str) -> list[Any]:
    """Every message that is there, in order; none is settled."""
    found: list[Any] = []
    while got := (await member.receive(name, 1000, wait={"nanos": 100_000_000})).messages:
        found += [message.message for message in got]
    return found


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Raw, Raw]]:
    """The pair whose queue was backed up, its master and its replica."""
    async with patient(tmp_path / "c").running() as cluster:
        master, replica = await roles(cluster)
        async with raw_to(cluster.endpoint(master), cluster.endpoint(replica)) as (first, second):
            await first.create("q")
            for at in range(0, 250, 50):
                await first.send("q", *PAYLOADS[at : at + 50], min_copies=2)
            await back_up(cluster, replica)
            yield cluster, first, second


@pytest.mark.requirement("R155")
async def test_a_queue_is_put_back_once_when_it_is_closed_empty_or_gone(pair: tuple[Cluster, Raw, Raw]) -> None:
    cluster, master, replica = pair
    with refused("NOT_EMPTY", grpc.StatusCode.FAILED_PRECONDITION, "is open and holds 250 messages; close it"):
        await restore(replica, "q")

    # Closed: what it holds still does not enter again; what was consumed since the backup does.
    assert await master.take("q", 30) == PAYLOADS[:30]
    await close(master, "q")
    await close(replica, "q")
    own = await restore(master, "q", "")
    assert (own.restored, own.present, own.lost) == (0, 220, 0)
    request_id = new_id()
    done = await restore(replica, "q", request_id=request_id)
    assert (done.restored, done.present, done.queue.length, done.duplicate) == (30, 220, 250, False)
    again = await restore(master, "q", request_id=request_id)
    assert (again.queue.length, again.duplicate) == (250, True)
    await open_at(master, "q")
    await open_at(replica, "q")
    assert (await restore(replica, "q", request_id=request_id)).duplicate, "a repetition is one also when it is open"
    got = await taken(replica, "q")
    assert [message.payload for message in got] == PAYLOADS[30:] + PAYLOADS[:30]
    marks = [message.properties["tq_restored_from"].data for message in got]
    assert [len(mark) for mark in marks] == [0] * 220 + [16] * 30
    assert len(set(marks)) == 31
    await cluster.wait_for(PairView.equal, "both members hold the same")

    # Gone: it is made as it was, and serves nobody before it is opened.
    await master.admin.DeleteQueue(admin_pb.DeleteQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
    with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "own store"):
        await restore(master, "q", "")
    done = await restore(replica, "q")
    assert (done.restored, done.queue.length, list(done.queue.open_members)) == (250, 250, [])
    with refused("INVALID_STATE", grpc.StatusCode.FAILED_PRECONDITION, "not open"):
        await master.send("q", b"too early")

    # Empty, and open: purged by mistake, say.
    await open_at(master, "q")
    await open_at(replica, "q")
    await master.admin.PurgeQueue(admin_pb.PurgeQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
    assert (await restore(master, "q")).restored == 250
    await cluster.wait_for(PairView.equal, "both members hold the same")
    await _is_repeated_after_its_master_died(cluster, master, replica)


async def test_what_cannot_be_restored_says_why_and_changes_nothing(tmp_path: Path, base_port: int) -> None:
    client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
    config = ManagerConfig(
        member="a", data_dir=str(tmp_path / "a"), listen_client=client, listen_peer=peer, listen_http=http
    )
    async with open_manager(config), raw_to(client) as (alone,):
        await alone.create("q")
        await alone.send("q", *PAYLOADS)
        parts: list[bytes] = []
        await take_backup(client, parts.append)
        directory, data = tmp_path / "a" / "backups", b"".join(parts)
        directory.mkdir()
        (directory / "q.tqb").write_bytes(data)
        (directory / "cut.tqb").write_bytes(data[:-100])
        (directory / "flipped.tqb").write_bytes(data[:2000] + bytes([data[2000] ^ 1]) + data[2001:])
        (directory / "newer.tqb").write_bytes(data[:7] + b"\x63" + data[8:])
        (directory / "link.tqb").symlink_to("/etc/passwd")
        await alone.admin.PurgeQueue(admin_pb.PurgeQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
        await _refuses(alone)
        update = admin_pb.UpdateQueueRequest(
            name="q",
            request_id=new_id(),
            config=admin_pb.QueueConfig(max_length=249),
            update_mask={"paths": ["max_length"]},
        )
        await alone.admin.UpdateQueue(update, timeout=OUTER_S)
        with refused("QUEUE_FULL", grpc.StatusCode.RESOURCE_EXHAUSTED, "250 messages", "may hold 249"):
            await restore(alone, "q")
        info = (await alone.admin.GetQueue(admin_pb.GetQueueRequest(name="q"), timeout=OUTER_S)).queue
        assert (info.length, info.enqueued_total) == (0, 250)

        # Gone: an unpaired manager makes it anew in its own domain, and knows the call again.
        await alone.admin.DeleteQueue(admin_pb.DeleteQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
        request_id = new_id()
        assert (await restore(alone, "q", request_id=request_id)).restored == 250
        assert (await restore(alone, "q", request_id=request_id)).duplicate
        await alone.admin.DeleteQueue(admin_pb.DeleteQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
        with refused("INVALID_STATE", grpc.StatusCode.FAILED_PRECONDITION, "deleted since"):
            await restore(alone, "q", request_id=request_id)


async def _refuses(alone: Raw) -> None:
    bad, failed = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DATA_LOSS
    for source in ("../data.mdb", "/etc/passwd", "link.tqb", "\0", "x" * 5_000):
        with refused("BAD_REQUEST", bad, "is not in"):
            await restore(alone, "q", source)
    with refused("BAD_REQUEST", bad, "there is no file 'none.tqb'"):
        await restore(alone, "q", "none.tqb")
    with refused("CORRUPT_STORE", failed, "not finished"):
        await restore(alone, "q", "cut.tqb")
    with refused("CORRUPT_STORE", failed, "CRC32C"):
        await restore(alone, "q", "flipped.tqb")
    with refused("NEWER_FORMAT", grpc.StatusCode.FAILED_PRECONDITION, "format 99"):
        await restore(alone, "q", "newer.tqb")
    with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no queue other in backup q.tqb"):
        await restore(alone, "other")
    with refused("BAD_REQUEST", bad):
        await restore(alone, "q", request_id=b"short")


async def _is_repeated_after_its_master_died(cluster: Cluster, master: Raw, replica: Raw) -> None:
    """A part of it was ordered: the next master brings the rest, and nothing twice."""
    await master.admin.PurgeQueue(admin_pb.PurgeQueueRequest(name="q", request_id=new_id()), timeout=OUTER_S)
    name = next(each for each in cluster.members if cluster.endpoint(each) == master.endpoint)
    other = next(each for each in cluster.members if each != name)
    request_id = new_id()
    before = await _log_index(master)
    cluster.pause(other)  # nothing is committed from here on: the call orders as much as it may, and waits
    calling = asyncio.create_task(restore(master, "q", request_id=request_id))

    async def begun() -> bool:
        return await _log_index(master) > before

    await until(begun, "a part of it is ordered")
    await gone(cluster, name)
    cluster.resume(other)
    with pytest.raises(grpc.aio.AioRpcError):
        await calling

    async def repeated() -> Any:
        try:
            return await restore(replica, "q", request_id=request_id)
        except grpc.aio.AioRpcError as error:
            return None if error.code() is grpc.StatusCode.UNAVAILABLE else error

    done = await until(repeated, "the other member is master and answers")
    assert (done.restored, done.queue.length, done.duplicate) == (250, 250, False)
    assert [message.payload for message in await taken(replica, "q")] == PAYLOADS


async def _log_index(member: Raw) -> int:
    status = await member.pair.GetPairStatus(pair_pb.GetPairStatusRequest(), timeout=OUTER_S)
    return next(domain.log_index for domain in status.member.domains if domain.name == "main")
