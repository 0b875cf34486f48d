"""The part of a queue machine that those see who ask what became of messages; decides nothing itself."""

from __future__ import annotations

from collections.abc import Iterable

from replica.machine.state.handles import Progress, handle_prefix, is_tracked, progress_of
from replica.machine.state.state import State


class Ends:
    """Of `Machine`, whose state it reads."""

    _state: State

    def handle_prefix(self, queue_id: int) -> bytes:
        """First half of the handles of a queue whose type completes later than STORED; empty for the others."""
        queue = self._state.queues.get(queue_id)
        return handle_prefix(self._state.domain, queue_id) if queue is not None and is_tracked(queue) else b""

    def progress(self, queue_id: int, handles: Iterable[bytes]) -> list[Progress]:
        """How far messages have come, as applied here: to be told once it is committed."""
        queue = self._state.numbered(queue_id)
        return [progress_of(self._state, queue, handle) for handle in handles]

    def listen(self, queue_id: int, *, wanted: bool) -> None:
        """Whether somebody here waits for ends in that queue: they are kept until `heard` takes them."""
        queue = self._state.queues.get(queue_id)
        if queue is not None and queue.completions is not None:
            queue.completions.listening = wanted
            queue.completions.heard.clear()

    def heard(self, queue_id: int) -> list[tuple[int, int]] | None:
        """Runs of what ended since the last time; None: the queue is gone."""
        queue = self._state.queues.get(queue_id)
        if queue is None or queue.completions is None:
            return None
        heard, queue.completions.heard = queue.completions.heard, []
        return heard
