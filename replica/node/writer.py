"""The thread that writes to the disk, and when the loop's own thread waits for it: for a short while, and where nobody
else needs the loop. Decides nothing about what is written.

To hear of the end of work in another thread by its event loop costs a thread more than a short sync does: a write to a
pipe, a turn of the loop, two takings of the interpreter's lock (docs/decisions/0053-short-commits.md).
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable

Args = TypeVarTuple("Args")

WAIT_S = 0.002
"""The longest time that a loop stands still for a commit: a tenth of a tick. A sync of a healthy disk is shorter."""


class DiskWriter(Protocol):
    """Whoever carries out work on the disk, one piece at a time and in order."""

    async def run(self, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        """The loop goes on meanwhile. Raises what the work raises. Work that began is carried out, cancelled or not."""

    async def run_alone(self, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        """The same, for work that nothing else in this process depends on being beside: the loop may stand still for
        it, for `WAIT_S` at most. What was ready to run before, runs before: frames to the peer among it.
        """

    async def stop(self) -> None:
        """Wait for the end of what began; the loop goes on."""


class WriterThread:
    """One thread. The loop waits for it only while the last work was over within `WAIT_S`: of a disk that hangs, or
    that is always slower, it loses one wait.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tandemq-writer")
        self._is_quick = False

    async def run(self, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        """See DiskWriter."""
        began = time.perf_counter()
        await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)
        self._is_quick = time.perf_counter() - began < WAIT_S

    async def run_alone(self, work: Callable[[Unpack[Args]], None], *args: *Args) -> None:
        """See DiskWriter."""
        if not self._is_quick:
            await self.run(work, *args)
            return
        ended = self._pool.submit(work, *args)
        await asyncio.sleep(0)
        try:
            ended.result(WAIT_S)
        except TimeoutError:
            self._is_quick = False
            await asyncio.wrap_future(ended)  # also where it is what the work itself raised

    async def stop(self) -> None:
        """See DiskWriter."""
        # Not in this thread: a write that hangs would keep whoever stops us from giving up on it.
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
