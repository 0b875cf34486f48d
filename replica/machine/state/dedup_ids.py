"""Remembers the dedup ids of one queue's messages, within bounds of time and number; never decides what enters.

Beside `dedup`, which knows repeated batches of one producer: an id is the application's word that two messages are one,
whoever sends them. Ids come and go by the times of the records alone, so every member remembers the same.
"""

from __future__ import annotations

from collections import OrderedDict

from replica.machine.state.config import milliseconds
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

IdRow = tuple[str, int, int]  # id, index, time of the record


class DedupIds:
    """The newest last. Costs a row for each id, so a queue has one only once ids are used."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[IdRow] | None = None) -> None:
        self._rows: OrderedDict[str, tuple[int, int]] = OrderedDict()
        for name, index, at_ms in rows or ():
            self._rows[name] = index, at_ms

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        """It is kept, whatever its age."""
        return name in self._rows

    def find(self, name: str, time_ms: int, config: admin_pb2.QueueConfig) -> int:
        """Index of the message that was sent with it within the window; 0 if there is none."""
        index, at_ms = self._rows.get(name, (0, 0))
        return index if index and time_ms - at_ms < milliseconds(config.dedup_window) else 0

    def add(self, name: str, index: int, time_ms: int) -> None:
        self._rows[name] = index, time_ms
        self._rows.move_to_end(name)

    def forget(self, time_ms: int, config: admin_pb2.QueueConfig) -> None:
        """What is older than the window, and beyond the number that is kept."""
        before_ms = time_ms - milliseconds(config.dedup_window)
        while self._rows:
            _, at_ms = next(iter(self._rows.values()))
            if at_ms > before_ms and len(self._rows) <= config.dedup_max:
                return
            self._rows.popitem(last=False)

    def rows(self) -> list[IdRow]:
        return [(name, index, at_ms) for name, (index, at_ms) in self._rows.items()]
