"""Puts idle consumers on a pair, measures what they cost, and kills the master among them.

Everything is real: two members, a witness, and the consumers in processes of their own. A trickle of sends goes on all
the while; a send fails when the SDK, with all its repetitions, did not get an acknowledgement within its deadline.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.output import say, say_lines
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUEUE, SENT_TO = "crowd", "trickle"
PROCESSES_MAX = 4
QUIET_S = 20.0
SETTLE_S = 3.0
"""After the last consumer was attached, before the quiet time begins."""
SEND_EVERY_S, SEND_EVERY_SOON_S = 0.5, 0.02
"""Between two sends of the trickle; the shorter one from just before the kill until the first acknowledgement."""
SEND_DEADLINE_S = 30.0
ATTACH_DEADLINE_S = 180.0
TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class IdleResult:
    """What was seen. Shares are parts of one core over the quiet time; -1 where something did not come."""

    idle_consumers: int
    cpu_share_master: float
    cpu_share_replica: float
    takeovers_without_fault: int
    takeover_ms: float
    """From the kill to the first acknowledgement of a send that began after it."""
    reattached_s: float
    """From the kill until as many streams are open as before."""
    sends_failed: int
    attached_s: float
    """How long it took to open them the first time."""
    memory_master_kib: float
    """For each consumer, beside what the member took without."""


@dataclass(slots=True)
class Trickle:
    """Sends, one task each, so that one that waits holds up no other."""

    client: aio.Client
    every_s: float = SEND_EVERY_S
    failed: int = 0
    since: float = float("inf")
    first: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    under_way: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            task = asyncio.create_task(self._send(time.monotonic()))
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)
            await asyncio.sleep(self.every_s)

    async def _send(self, began: float) -> None:
        try:
            await self.client.enqueue(SENT_TO, [b"drop"])
        except TandemqError as error:
            self.failed += 1
            say(f"a send failed: {error}", err=True)
            return
        if began >= self.since and not self.first.done():
            self.first.set_result(time.monotonic())
            self.every_s = SEND_EVERY_S


class Crowd:
    """The processes of the consumers, and how many streams of theirs are open."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.changed = asyncio.Event()
        self._processes: list[asyncio.subprocess.Process] = []
        self._readers: list[asyncio.Task[None]] = []

    @property
    def total(self) -> int:
        return sum(self.open)

    async def start(self, target: str, consumers: int, connections: int) -> None:
        """Consumers and connections are shared out evenly."""
        processes = min(PROCESSES_MAX, connections)
        for number in range(processes):
            share = [part // processes + (number < part % processes) for part in (consumers, connections)]
            arguments = ["-m", "chaos.crowd.attendants", target, QUEUE, *map(str, share)]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            self._processes.append(process)
            self.open.append(0)
            self._readers.append(asyncio.create_task(self._read(number, process)))

    async def _read(self, number: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.open[number] = int(line)
            self.changed.set()
        self.open[number] = 0  # it has ended, with all that it had

    async def wait_for(self, count: int, deadline_s: float) -> bool:
        """Whether so many were open in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while self.total < count:
                    self.changed.clear()
                    await self.changed.wait()
        return self.total >= count

    async def stop(self) -> None:
        """Ends those processes."""
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        for reader in self._readers:
            await reader


def cpu_s(pid: int) -> float:
    """Processor time that a process has had, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


def memory_kib(pid: int) -> int:
    """What it holds in memory now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def epoch_of(cluster: Cluster) -> int:
    """The highest that a member names; it rises with each takeover and each change of the in-sync set."""
    view = await cluster.status()
    return max(part.epoch for member in view.members for part in member.domains if part.name == "main")


async def shares(cluster: Cluster, quiet_s: float, names: tuple[str, ...]) -> list[float]:
    """Parts of a core that these members use over that time."""
    pids = [cluster.children[name].pid or 0 for name in names]
    began, before = time.monotonic(), [cpu_s(pid) for pid in pids]
    await asyncio.sleep(quiet_s)
    took_s = time.monotonic() - began
    return [round((cpu_s(pid) - was) / took_s, 4) for pid, was in zip(pids, before, strict=True)]


@contextlib.asynccontextmanager
async def trickling(cluster: Cluster) -> AsyncIterator[Trickle]:
    """Sends go on; at the end those under way are waited for."""
    async with aio.connect(cluster.target, timeout=SEND_DEADLINE_S) as client:
        await client.create_queue(QUEUE)
        await client.create_queue(SENT_TO)
        trickle = Trickle(client)
        running = asyncio.create_task(trickle.run())
        try:
            yield trickle
        finally:
            running.cancel()
            if trickle.under_way:
                await asyncio.wait(trickle.under_way)


async def run_idle(
    consumers: int, connections: int, *, quiet_s: float = QUIET_S, folder: Path | None = None
) -> IdleResult:
    """Starts a pair in `folder` (None: a temporary one), and ends it. Raises ClusterError where it does not start."""
    with tempfile.TemporaryDirectory(prefix="tandemq-crowd-") as made:
        cluster = Cluster(folder or Path(made) / "pair")
        crowd = Crowd()
        try:
            await cluster.start()
            async with trickling(cluster) as trickle:
                return await _measure(cluster, crowd, trickle, (consumers, connections), quiet_s)
        finally:
            await crowd.stop()
            await cluster.stop()


async def _measure(
    cluster: Cluster, crowd: Crowd, trickle: Trickle, size: tuple[int, int], quiet_s: float
) -> IdleResult:
    consumers, connections = size
    view = await cluster.status()
    master = view.masters()[0]
    replica = next(name for name in cluster.members if name != master)
    pid = cluster.children[master].pid or 0
    epoch, memory, began = await epoch_of(cluster), memory_kib(pid), time.monotonic()
    await crowd.start(cluster.target, consumers, connections)
    attached = await crowd.wait_for(consumers, ATTACH_DEADLINE_S)
    attached_s = round(time.monotonic() - began, 2) if attached else -1
    await asyncio.sleep(SETTLE_S)
    at_master, at_replica = await shares(cluster, quiet_s, (master, replica))
    idle, grown = crowd.total, memory_kib(pid) - memory
    takeovers = await epoch_of(cluster) - epoch

    trickle.every_s = SEND_EVERY_SOON_S
    await asyncio.sleep(SEND_EVERY_S)  # the trickle has looked at its new pace
    before = crowd.total
    cluster.kill(master)
    killed = trickle.since = time.monotonic()
    crowd.open = [0] * len(crowd.open)  # until each says how many it has
    takeover_ms = -1.0
    with contextlib.suppress(TimeoutError):
        takeover_ms = round((await asyncio.wait_for(trickle.first, SEND_DEADLINE_S) - killed) * 1000, 1)
    epoch = await epoch_of(cluster)
    again = await crowd.wait_for(before, ATTACH_DEADLINE_S)
    reattached_s = round(time.monotonic() - killed, 2) if again else -1
    await asyncio.sleep(SETTLE_S)
    return IdleResult(
        idle_consumers=idle,
        cpu_share_master=at_master,
        cpu_share_replica=at_replica,
        takeovers_without_fault=takeovers + await epoch_of(cluster) - epoch,
        takeover_ms=takeover_ms,
        reattached_s=reattached_s,
        sends_failed=trickle.failed,
        attached_s=attached_s,
        memory_master_kib=round(grown / max(1, idle), 1),
    )


def main() -> None:
    """By hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--quiet-s", type=float, default=QUIET_S)
    parser.add_argument("--folder", type=Path, help="keep the pair's directory here")
    given = parser.parse_args()
    result = asyncio.run(run_idle(given.consumers, given.connections, quiet_s=given.quiet_s, folder=given.folder))
    say_lines(msgspec.json.format(msgspec.json.encode(asdict(result)), indent=2).decode())


if __name__ == "__main__":
    main()
