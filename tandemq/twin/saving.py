"""What of a twin's state is on its disk, and which of its inputs may be settled for it (K10). It knows no pair.

An input is settled once a snapshot behind it is on the disk. A state that is half of what an input comes to is in none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

from tandemq.twin.snapshots import Snapshots, TwinSnapshot


class Settled(Protocol):
    """What is needed of a delivery."""

    def ack(self) -> object: ...


class Handling:
    """An input that the handler is at: names it when that raises, and remembers that the state may be half made."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.index = 0
        self.has_raised = False
        """The state may be half of what that input comes to: it is never saved."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.has_raised = True
            error.add_note(f"at input {self.index} of {self._queue}; its twin comes to the same")


class Saving:
    """Of one process. `handling`: what changes its state. Of inputs that a snapshot has seen and that are given again
    `held_max` are held, until it is known that they are the same ones; no more, for whoever gives them waits for it.
    """

    def __init__(self, snapshots: Snapshots, handling: Handling, held_max: int) -> None:
        self._snapshots, self._handling, self._held_max = snapshots, handling, held_max
        self.index = 0
        """The last input that a snapshot on the disk has seen."""
        self.lock = asyncio.Lock()
        """Of the state: nobody saves half of the one and half of the other."""
        self._unsettled: deque[tuple[int, Settled]] = deque()
        self._is_known = True
        """What is given is what the snapshot has seen, as far as it has; until that is known nothing is settled."""
        self._held_from = 0

    def begins(self, index: int) -> None:
        """Behind a snapshot that is on the disk."""
        self.index, self._is_known, self._held_from = index, False, 0

    def acted(self, first: int, last: int, inputs: Settled) -> None:
        """These are in the state, and where the last one that the snapshot has seen is among them it is the same one.
        What a snapshot has seen is settled at once.
        """
        self._unsettled.append((last, inputs))
        if not self._is_known:
            self._held_from = self._held_from or first
            self._is_known = last >= self.index or last - self._held_from >= self._held_max
        self._settle()

    async def save(self, make: Callable[[], TwinSnapshot], sent: Callable[[int], Awaitable[None]]) -> TwinSnapshot:
        """The state as it is now (`make`), once its outputs are `sent`; when it returns, that is on the disk and its
        inputs are settled. Of a state that is half made it never returns: `Twin.run` ends by what has raised.
        """
        async with self.lock:
            if self._handling.has_raised:
                await asyncio.Event().wait()
            snapshot = make()
            await sent(snapshot.index)
            if snapshot.index > self.index:
                await self.write(snapshot)
                self.index = snapshot.index
            self._settle()
            return snapshot

    async def write(self, snapshot: TwinSnapshot) -> None:
        """Ends when the file is there, also where it is cancelled: the next one may write the same file."""
        writing = asyncio.ensure_future(asyncio.to_thread(self._snapshots.write, snapshot))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise

    def _settle(self) -> None:
        while self._is_known and self._unsettled and self._unsettled[0][0] <= self.index:
            self._unsettled.popleft()[1].ack()
