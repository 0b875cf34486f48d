"""What others notice while somebody is hostile: how long their sends take, what members take; judges nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from chaos.cluster import Cluster
from chaos.crowd.idle import memory_kib
from tandemq import aio
from tandemq.errors import TandemqError

QUEUE = "honest"
SEND_S, PAUSE_S = 30.0, 0.01
KEPT, QUIET = 20_000, 400


class Sends:
    """Of one client that sends a message after the other."""

    def __init__(self) -> None:
        self.samples: deque[tuple[float, float]] = deque(maxlen=KEPT)
        """When each ended, and the milliseconds that it took."""
        self.quiet: deque[float] = deque(maxlen=QUIET)
        """Milliseconds of the last ones while nobody was hostile."""
        self.failed: list[str] = []
        self.acknowledged = 0

    def since(self, began_s: float) -> list[float]:
        """Milliseconds of those that ended after that."""
        return [took for ended, took in self.samples if ended >= began_s]

    async def run(self, client: aio.Client) -> None:
        """Until cancelled."""
        while True:
            began_s = time.monotonic()
            try:
                await client.enqueue(QUEUE, [b"%d" % self.acknowledged])
            except TandemqError as error:
                self.failed.append(f"{error.reason}: {error.message}")
            else:
                self.acknowledged += 1
            now_s = time.monotonic()
            self.samples.append((now_s, 1_000 * (now_s - began_s)))
            await asyncio.sleep(PAUSE_S)


@contextlib.asynccontextmanager
async def sending(target: str, credentials: Path) -> AsyncIterator[Sends]:
    """Until the block ends."""
    sends = Sends()
    async with aio.connect(target, credentials=credentials, timeout=SEND_S) as client:
        running = asyncio.create_task(sends.run(client))
        try:
            yield sends
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def percentile(values: Sequence[float], share: float) -> float:
    """Of milliseconds; 0: there are none."""
    found = sorted(values)
    return round(found[min(len(found) - 1, int(share * len(found)))], 2) if found else 0.0


def memory_mib(cluster: Cluster) -> float:
    """Of the process that takes most."""
    pids = [child.pid for child in cluster.children.values() if child.running and child.pid]
    return round(max(memory_kib(pid) for pid in pids) / 1024, 1)


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
