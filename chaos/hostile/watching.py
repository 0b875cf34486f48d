"""What others notice while somebody is hostile: how long their sends take, what members take; judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from chaos.cluster import Cluster
from chaos.crowd.idle import memory_kib
from chaos.hostile.disk import Disk
from chaos.starved import TICK_S, Waited, busy_s, stolen_s, waited
from tandemq import aio
from tandemq.errors import TandemqError

QUEUE = "honest"
SEND_S, PAUSE_S = 30.0, 0.01
KEPT, QUIET = 20_000, 400
WRITTEN_MAX = 4 << 20
"""Bytes in the time of one send: whoever has written more may be why the disk stood still."""
LOOKED_AT_MS = 20.0
"""Of a send that took no longer it does not matter what the machine withheld."""


class Sample(NamedTuple):
    """One send."""

    ended_s: float
    took_ms: float
    at_least_ms: float
    """Without all that the machine may have withheld meanwhile."""


class Machine:
    """What it withheld from the processes that serve, and from this one: at most as long as their threads were ready
    and did not run, and no more than all others worked meanwhile, of whom the hostile one is one; what a hypervisor
    kept; and as long as the disk let somebody else wait for a page, where members wrote little themselves.
    """

    def __init__(self, pids: Callable[[], Collection[int]], disk: Disk) -> None:
        """`pids`: of the processes that serve now; one that was killed has another one when it is back."""
        self._serving, self._disk = pids, disk
        self._pids: Collection[int] = ()
        self._waited: Waited = {}
        self._others_s = self._stolen_s = self._began_s = 0.0
        self._written: int | None = 0

    def look(self) -> None:
        """From now on."""
        self._pids = (os.getpid(), *self._serving())
        self._waited, self._others_s = waited(iter(self._pids)), self._others()
        self._stolen_s, self._written, self._began_s = stolen_s(), written_bytes(self._pids), time.monotonic()

    def withheld_ms(self) -> float:
        """Since the last look."""
        after, now_s = waited(iter(self._pids)), time.monotonic()
        ready_s = sum(each_s - self._waited.get(thread, 0.0) for thread, each_s in after.items())
        # Both are counted in ticks, and what they differ by may be less than nothing.
        withheld_s = max(0.0, min(ready_s, self._others() - self._others_s + TICK_S)) + stolen_s() - self._stolen_s
        is_excused = wrote_little(self._written, written_bytes(self._pids))
        return 1_000 * (withheld_s + (self._disk.stood_s(self._began_s, now_s) if is_excused else 0.0))

    def _others(self) -> float:
        return busy_s(self._pids)


def written_bytes(pids: Collection[int]) -> int | None:
    """That these processes have handed to the kernel so far. None where nobody can say, or one of them has ended.

    `write_bytes` is another count: of a page that changes it has the whole piece of the cache, up to 2 MiB, so that
    commits of 4 KiB looked like what makes a disk stand still.
    """
    try:
        pages = [Path(f"/proc/{pid}/io").read_text() for pid in pids]
    except OSError:
        return None
    return sum(int(count) for page in pages for count in re.findall(r"(?m)^wchar: (\d+)", page))


def wrote_little(before: int | None, after: int | None) -> bool:
    """As `written_bytes` counted; who wrote what nobody counted may be why a disk stood still."""
    return before is not None and after is not None and after - before <= WRITTEN_MAX


class Sends:
    """Of one client that sends a message after the other. `machine`: that of the pair and this process."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.quiet: deque[float] = deque(maxlen=QUIET)
        """Milliseconds of the last ones while nobody was hostile."""
        self.failed: list[str] = []
        self.acknowledged = 0
        self._one = asyncio.Event()

    def since(self, began_s: float) -> list[Sample]:
        """Those that ended after that."""
        return [each for each in self.samples if each.ended_s >= began_s]

    async def many_since(self, began_s: float, count: int, within_s: float) -> None:
        """Returns when as many have ended since then, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while len(self.since(began_s)) < count:
                    self._one.clear()
                    await self._one.wait()

    async def run(self, client: aio.Client) -> None:
        """Until cancelled."""
        while True:
            self.machine.look()
            began_s = time.monotonic()
            try:
                await client.enqueue(QUEUE, [b"%d" % self.acknowledged])
            except TandemqError as error:
                self.failed.append(f"{error.reason}: {error.message}")
            else:
                self.acknowledged += 1
            now_s = time.monotonic()
            took_ms = 1_000 * (now_s - began_s)
            withheld_ms = self.machine.withheld_ms() if took_ms > LOOKED_AT_MS else 0.0
            self.samples.append(Sample(now_s, took_ms, max(0.0, took_ms - withheld_ms)))
            self._one.set()
            await asyncio.sleep(PAUSE_S)


@contextlib.asynccontextmanager
async def sending(cluster: Cluster, credentials: Path) -> AsyncIterator[Sends]:
    """Until the block ends."""
    disk = Disk(cluster.data_dir)
    disk.start()
    sends = Sends(Machine(lambda: _pids(cluster), disk))
    async with aio.connect(cluster.target, credentials=credentials, timeout=SEND_S) as client:
        running = asyncio.create_task(sends.run(client))
        try:
            yield sends
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await asyncio.to_thread(disk.stop)


def percentile(values: Sequence[float], share: float) -> float:
    """Of milliseconds, the least that so large a share of them do not exceed; 0: there are none."""
    found = sorted(values)
    return round(found[max(0, math.ceil(share * len(found)) - 1)], 2) if found else 0.0


def memory_mib(cluster: Cluster) -> float:
    """Of the process that takes most."""
    return round(max(memory_kib(pid) for pid in _pids(cluster)) / 1024, 1)


def _pids(cluster: Cluster) -> list[int]:
    return [child.pid for child in cluster.children.values() if child.running and child.pid]


def logs(cluster: Cluster) -> dict[Path, int]:
    """How long each is."""
    return {child.log: child.log.stat().st_size for child in cluster.children.values() if child.log.exists()}


def written(before: dict[Path, int]) -> bytes:
    """What was written since."""
    found = b""
    for log, size in before.items():
        with log.open("rb") as file:
            file.seek(size)
            found += file.read()
    return found
