"""Says that somebody is at work on something, by a locked file; the lock goes with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def held(path: Path, text: str = "") -> Iterator[bool]:
    """Held until the block ends, when nobody else holds it; whether it is. `text` is for `holder`."""
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate(0)
        file.write(text)
        file.flush()
        yield True


def holder(path: Path) -> str | None:
    """What the one who holds it wrote; None: nobody does."""
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
    except FileNotFoundError:
        pass
    return None
