"""When the disk itself stood still: a thread writes a page beside the pair and waits for it, all the while."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path

PAGE = b"\0" * 4_096
PAUSE_S = 0.005
LONG_S = 0.02
"""A write that takes no longer is none to speak of."""
KEPT = 4_096


class Disk:
    """Of one directory. Its spans are what somebody waited who asked for next to nothing."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "disk-probe"
        self._over = threading.Event()
        self._long: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._since_s = 0.0
        """When the write began that is under way; 0: none is."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """And takes its file away."""
        self._over.set()
        self._thread.join()
        self._file.unlink(missing_ok=True)

    def stood_s(self, began_s: float, ended_s: float) -> float:
        """For how long of that time a write was under way that took long. Times are of `time.monotonic`."""
        spans = list(self._long)
        if (since_s := self._since_s) and ended_s - since_s > LONG_S:
            spans.append((since_s, ended_s))
        return sum(max(0.0, min(ended_s, end) - max(began_s, start)) for start, end in spans)

    def _run(self) -> None:
        file = os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            while not self._over.wait(PAUSE_S):
                began_s = self._since_s = time.monotonic()
                os.pwrite(file, PAGE, 0)
                os.fsync(file)
                ended_s = time.monotonic()
                if ended_s - began_s > LONG_S:
                    self._long.append((began_s, ended_s))
                self._since_s = 0.0
        finally:
            self._since_s = 0.0  # of a write that failed too: else all that comes after it would be excused
            os.close(file)
