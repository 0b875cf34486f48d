"""Decides when what is pending is folded into the database, on a thread of its own; never what that means.

Soon after something is pending, so that there is little to fold in a hurry, and at once when much is. Between the two
it sleeps, and when nothing is pending it sleeps for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

FOLD_S = 0.1


class Folder:
    """`fold` is called by one thread, made when first needed. `notify`, `hurry` and `stop` from any other."""

    def __init__(self, fold: Callable[[], bool]) -> None:
        self._fold = fold
        self._pending = threading.Event()
        self._hurry = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def notify(self) -> None:
        """Something is pending."""
        if not self._pending.is_set():
            self._pending.set()
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="tandemq-fold", daemon=True)
                self._thread.start()

    def hurry(self) -> None:
        """Much is."""
        if not self._hurry.is_set():
            self._hurry.set()

    def stop(self) -> None:
        """Waits for a fold under way; then none begins."""
        self._stopped = True
        self._pending.set()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._pending.wait()
            self._hurry.wait(FOLD_S)
            if self._stopped:
                return
            self._pending.clear()
            self._hurry.clear()
            if self._fold():  # something became pending meanwhile, perhaps before the event was cleared
                self._pending.set()
