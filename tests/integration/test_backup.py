"""Backups of running members: taken under load, broken off by kill -9 on either side, restored while the pair lives
and when it is gone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.cli.view import PairView
from tandemq.client.backup import take_backup
from tandemq.config import ManagerConfig, member_ports
from tandemq.embedded import open_manager
from tandemq.errors import TandemqError
from tandemq.v1 import manager_admin_service_pb2 as manager_pb
from tandemq.v1 import pair_service_pb2 as pair_pb
from tests.integration.support import Raw, gone, member_view, new_id, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process
LARGE = b"x" * 16_384
"""With a thousand of them a backup is far larger than what the connection holds on the way."""


async def command(*words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the document on stdout, and stderr. In this process where nobody is talked to: it is faster."""
    if words[:2] in (("backup", "verify"), ("backup", "restore")):
        result = await asyncio.to_thread(CliRunner().invoke, root, list(words))
        return result.exit_code, json.loads(result.stdout) if result.stdout else {}, result.stderr
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "tandemq", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out) if out else {}, err.decode()


async def done(*words: str) -> dict[str, Any]:
    code, document, said = await command(*words)
    assert code == 0, said
    return document


async def failed(*words: str) -> str:
    code, _, said = await command(*words)
    assert code == 1, said
    return said


def domain(document: dict[str, Any], name: str = "main") -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["domains"] if each["name"] == name)
    return found


async def payloads(member: Raw, queue: str) -> set[bytes]:
    """Of everything in the queue."""
    found: set[bytes] = set()
    while got := (await member.receive(queue, 1000, wait={"nanos": 100_000_000})).messages:
        found |= {message.message.payload for message in got}
    return found


@pytest.mark.requirement("R154")  # a member that lost its disk starts from a named store, with and without its pair
async def test_a_backup_under_load_restores_into_a_living_pair_and_when_nothing_else_is_left(tmp_path: Path) -> None:
    file = str(tmp_path / "pair.tqb")
    async with patient(tmp_path / "c").running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        master, replica = await roles(cluster)
        acknowledged: set[bytes] = set()
        enough = asyncio.Event()
        producing = asyncio.create_task(_produce(client, acknowledged, enough))
        await until(lambda: asyncio.sleep(0, len(acknowledged) > 2_000), "some load")
        before = set(acknowledged)
        taken = await done("backup", "create", file, "--target", cluster.target)
        enough.set()
        await producing
        assert (taken["member"], taken["whole"], domain(taken)["data"]) == (replica, True, "IN_SYNC")
        assert domain(taken)["messages"] >= len(before)

        # While the pair lives an older copy follows: it takes over nothing, and brings nothing back.
        await gone(cluster, replica)
        directory = Path(cluster.config(replica).data_dir)
        shutil.rmtree(directory)
        restored = await done("backup", "restore", file, "--data-dir", str(directory))
        assert (restored["member"], restored["pair"]) == (replica, "pair")
        cluster.spawn(replica)
        await cluster.wait_for(PairView.equal, "the restored member has caught up")
        assert master in (await cluster.status()).masters()
        assert (await client.get_queue("q")).length == len(acknowledged)

        # A replica whose master is gone has a mark that says IN_SYNC, and cannot know what was acknowledged since.
        await gone(cluster, "witness", master)
        await _is_refused_unasked(cluster, replica)
        cluster.spawn("witness")

        # Both are gone. The copy that is left serves nobody before an operator says so: it may lack what came later.
        await gone(cluster, replica)
        for name in cluster.members:
            shutil.rmtree(cluster.config(name).data_dir)
        await done("backup", "restore", file, "--data-dir", cluster.config(master).data_dir, "--member", master)
        cluster.spawn(master)
        await cluster.wait_answers(master)
        async with raw_to(cluster.endpoint(master)) as (left,):
            view = await until(lambda: _waits(cluster, master), "it waits for an operator's word")
            assert view.data_state == "STALE"
            order = pair_pb.ForceFailoverRequest(
                reason="both disks are gone", confirmed=True, accept_loss_after=view.log_index
            )
            answer = await left.pair.ForceFailover(order, timeout=OUTER_S)
            assert answer.done, answer.text
            assert answer.epoch > domain(taken)["epoch"]
            assert before <= await payloads(left, "q")
        cluster.spawn(replica)
        await cluster.wait_for(PairView.whole, "the other member begins anew from it")


async def _produce(client: aio.Client, acknowledged: set[bytes], enough: asyncio.Event) -> None:
    async with client.producer("q") as producer:
        number = 0
        while not enough.is_set():
            batch = [b"%d" % at for at in range(number, number + 100)]
            await producer.send_many(batch)
            acknowledged.update(batch)
            number += 100


async def _waits(cluster: Cluster, name: str) -> Any:
    view = await member_view(cluster, name)
    main = view.domain("main") if view is not None else None
    return main if main is not None and main.role == "PROBE" and "operator" in main.last_change else None


@pytest.fixture
async def single(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Raw]]:
    """An unpaired member that holds 16 MB in a queue."""
    async with patient(tmp_path / "c", members=("a",)).running() as cluster, raw_to(cluster.endpoint("a")) as (raw,):
        await raw.create("q")
        for _ in range(10):
            await raw.send("q", *[LARGE] * 100)
        yield cluster, raw


async def test_kill_9_in_the_middle_leaves_a_file_that_is_refused_and_a_source_that_is_not_hurt(
    single: tuple[Cluster, Raw], tmp_path: Path
) -> None:
    cluster, raw = single
    partial = tmp_path / "cut.tqb"

    # The client dies. What it wrote is no backup, and the member is ready for the next one.
    said = await _killed(
        "import tandemq.cli.backup as backup\n"
        "def progress(self, step, count, size):\n"
        "    if count > 2 << 20: os.kill(os.getpid(), signal.SIGKILL)\n"
        "backup.Progress.__call__ = progress\n"
        f"backup.create.main([{str(partial)!r}, '--target', {cluster.target!r}])\n"
    )
    assert said == -signal.SIGKILL
    left = tmp_path / "cut.tqb.partial"
    assert "not finished" in await failed("backup", "verify", str(left))
    assert "CORRUPT_STORE" in await failed("backup", "restore", str(left), "--data-dir", str(tmp_path / "d"))
    assert not partial.exists()

    # The member dies.
    with partial.open("wb") as file:

        def write(chunk: bytes) -> None:
            file.write(chunk)
            cluster.kill("a")

        with pytest.raises(TandemqError):
            await take_backup(cluster.endpoint("a"), write)
    assert "not finished" in await failed("backup", "verify", str(partial))
    await cluster.restart("a")
    assert (await raw.admin.GetQueue(_named("q"), timeout=OUTER_S, wait_for_ready=True)).queue.length == 1000
    taken = await done("backup", "create", str(tmp_path / "whole.tqb"), "--target", cluster.target)
    assert domain(taken, "local")["messages"] == 1000
    assert "FILE_EXISTS" in await failed("backup", "create", str(tmp_path / "whole.tqb"), "--target", cluster.target)


def _named(queue: str) -> Any:
    from tandemq.v1.queue_admin_service_pb2 import GetQueueRequest

    return GetQueueRequest(name=queue)


async def _killed(code: str) -> int:
    """How a Python process ended that was told to end itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"import os, signal\n{code}", stderr=subprocess.DEVNULL
    )
    return await process.wait()


@pytest.mark.requirement("R154")  # serve --restore-from starts from a named store, into an empty directory alone
async def test_kill_9_in_the_middle_of_a_restore_leaves_a_directory_that_no_member_starts_from(
    single: tuple[Cluster, Raw], tmp_path: Path, base_port: int
) -> None:
    cluster, raw = single
    file, directory = str(tmp_path / "b.tqb"), tmp_path / "d"
    await done("backup", "create", file, "--target", cluster.target)
    said = await _killed(
        "from pathlib import Path\n"
        "from replica.offline.restoring import restore\n"
        "def progress(what, count, size):\n"
        "    if what == 'restored': os.kill(os.getpid(), signal.SIGKILL)\n"
        f"restore(Path({file!r}), Path({str(directory)!r}), on_progress=progress)\n"
    )
    assert said == -signal.SIGKILL
    own = ["--member", "a", "--data-dir", str(directory), "--base-port", str(base_port)]
    assert "broken off" in await failed("serve", *own)
    assert "RESTORE_UNFINISHED" in await failed("backup", "verify", str(directory))

    # The same member begins anew elsewhere, from the backup.
    await gone(cluster, "a")
    child = cluster.children["a"]
    child.arguments += ["--data-dir", str(directory), "--restore-from", file]
    await cluster.restart("a")
    assert (await raw.admin.GetQueue(_named("q"), timeout=OUTER_S, wait_for_ready=True)).queue.length == 1000
    assert await raw.take("q") == [LARGE]
    await gone(cluster, "a")
    assert "DIRECTORY_NOT_EMPTY" in await failed(*child.arguments[1:])


async def test_one_backup_at_a_time_and_none_for_a_client_that_takes_nothing(tmp_path: Path, base_port: int) -> None:
    client, peer, http = (f"127.0.0.1:{port}" for port in member_ports(base_port, 0))
    config = ManagerConfig(
        member="a", data_dir=str(tmp_path / "a"), listen_client=client, listen_peer=peer, listen_http=http
    )
    async with open_manager(config) as manager, raw_to(client) as (raw,):
        await raw.create("q")
        for _ in range(10):
            await raw.send("q", *[LARGE] * 100)
        assert manager.backups is not None
        slow = raw.manager.Backup(manager_pb.BackupRequest())
        first = await slow.read()
        assert first.header.member == "a"
        with refused("QUOTA_EXCEEDED", grpc.StatusCode.RESOURCE_EXHAUSTED, "one at a time"):
            await raw.manager.Backup(manager_pb.BackupRequest()).read()
        slow.cancel()
        handlers = manager.backups
        await until(lambda: asyncio.sleep(0, not handlers.running), "the member has seen the client go")

        handlers.stall_s = 0.2
        stalled = raw.manager.Backup(manager_pb.BackupRequest())
        await until(lambda: asyncio.sleep(0, handlers.running), "it has begun")
        await until(lambda: asyncio.sleep(0, not handlers.running), "it was given up")
        with refused("QUOTA_EXCEEDED", grpc.StatusCode.RESOURCE_EXHAUSTED, "took nothing for 0.2 s"):
            while await stalled.read():
                pass

        handlers.stall_s = 30.0
        handlers.pinned_share = 1 << 40
        growing = raw.manager.Backup(manager_pb.BackupRequest())
        await growing.read()
        await raw.send("q", *[LARGE] * 100, request_id=new_id())
        with refused("STORAGE_FULL", grpc.StatusCode.RESOURCE_EXHAUSTED, "has grown to"):
            while await growing.read():
                pass


async def _is_refused_unasked(cluster: Cluster, name: str) -> None:
    async with raw_to(cluster.endpoint(name)) as (raw,):
        await until(lambda: _probes(cluster, name), "it looks for a master")
        with refused("INVALID_STATE", grpc.StatusCode.FAILED_PRECONDITION, "may lack what was acknowledged"):
            await raw.manager.Backup(manager_pb.BackupRequest()).read()
        header = (await raw.manager.Backup(manager_pb.BackupRequest(any_copy=True)).read()).header
        assert not header.whole


async def _probes(cluster: Cluster, name: str) -> bool:
    view = await member_view(cluster, name)
    main = view.domain("main") if view is not None else None
    return main is not None and main.role == "PROBE"
