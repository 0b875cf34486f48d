"""The bodies of one domain's messages that are on no disk of this member. Keeps and forgets them; decides nothing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.core.state.progress import Progress


class VolatileBodies:
    """Everybody reads; what comes and goes does so by a method."""

    def __init__(self, progress: Progress, floor: int) -> None:
        self._progress = progress
        self.bodies: dict[int, bytes] = {}
        """By log index."""
        self.bytes = 0
        """Of all of them."""
        self.missing: set[int] = set()
        """Above the floor, and came without the body that its master had lost."""
        self.floor = floor
        """Records up to here were stored before this process started: their volatile messages are gone here."""
        self.saved: deque[tuple[int, Sequence[int]]] = deque()
        """Log index of a SAVE, and of the records whose bodies it writes: they stay in memory until it is durable here
        and committed.
        """

    def keep(self, log_index: int, body: bytes) -> None:
        """The body of a record that is not on disk."""
        self.bodies[log_index] = body
        self.bytes += len(body)

    def miss(self, log_indexes: Iterable[int]) -> None:
        """Nobody has the bodies of these any more."""
        self.missing.update(log_indexes)

    def has(self, log_index: int) -> bool:
        """Whether the volatile messages of a record are at hand here."""
        if log_index in self.bodies:
            return True
        return log_index > self.floor and log_index not in self.missing

    def forget(self, freed: Sequence[int]) -> None:
        """Let go of bodies whose messages are all gone."""
        if self.missing:
            self.missing.difference_update(freed)
        if not self.bodies:
            return
        for log_index in freed:
            body = self.bodies.pop(log_index, None)
            if body is not None:
                self.bytes -= len(body)

    def save(self, log_index: int, log_indexes: Sequence[int]) -> None:
        """A SAVE at this log index writes the bodies of these records."""
        self.saved.append((log_index, log_indexes))

    def forget_saved(self) -> None:
        """Let go of bodies that are on disk for good. Not before the commit: if the record that says so is cut, they
        are volatile again, and a peer that has lost its own may ask for them.
        """
        below = min(self._progress.durable_index, self._progress.commit_index)
        while self.saved and self.saved[0][0] <= below:
            self.forget(self.saved.popleft()[1])

    def cut(self, log_index: int) -> None:
        """Records above are taken out of the log. What comes in their place comes with its body: what this process has
        lost ends at the cut.
        """
        while self.saved and self.saved[-1][0] > log_index:
            self.saved.pop()
        for each in [index for index in self.bodies if index > log_index]:
            self.forget([each])
        self.floor = min(self.floor, log_index)
        self.missing = {index for index in self.missing if index <= log_index}

    def wipe(self) -> None:
        """A full transfer takes the place of everything."""
        self.bodies.clear()
        self.bytes = 0
        self.missing.clear()
        self.saved.clear()

    def on_transferred(self) -> None:
        """A full transfer brought the bodies that its master has: none was lost by a restart of this member."""
        self.floor = 0
