"""Failure matrix, slow or hung master disk: a write that never ends is a local fault, and the member gives way."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tandemq.config import Failover
from tests.integration.support import new_name, raw_to, stopped_at_end
from tests.support.clusters import quick
from tests.support.until import until

SYNCS = "fdatasync,fsync,msync"


@contextmanager
def hung_disk(pid: int) -> Iterator[None]:
    """Every sync of the process takes a minute from here on; nothing else of it is slowed."""
    tracer = shutil.which("strace")
    assert tracer, "this test needs strace: apt-get install strace"
    inject = f"inject={SYNCS}:delay_enter=60s"
    argv = [tracer, "-f", "--quiet=all", "-p", str(pid), "-e", f"trace={SYNCS}", "-e", inject, "-o", "/dev/null"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0" not in status


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
            await b.send(queue, b"before")
            pid = cluster.children["a"].pid
            assert pid is not None
            with hung_disk(pid):

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
            assert await b.take(queue, 2) == [b"before", b"after"]
