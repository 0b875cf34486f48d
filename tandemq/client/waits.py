"""How long a call may wait for something at the queue, as it is written on the wire. Waits for nothing itself."""

from __future__ import annotations

from datetime import timedelta

FOREVER = timedelta(days=3_650)
"""What -1 means: a number on the wire, so that a caller who says nothing does not hang (decision 0012)."""
Wait = timedelta | float


def to_wait(wait: Wait | None) -> timedelta:
    """None and 0: not at all; -1: for ever; else that long, a plain number in seconds. Raises ValueError."""
    if wait is None:
        return timedelta()
    found = wait if isinstance(wait, timedelta) else FOREVER if wait == -1 else timedelta(seconds=wait)
    if not timedelta() <= found <= FOREVER:
        raise ValueError(f"a wait is -1 (for ever), or from 0 (not at all) to ten years, not {wait}")
    return found
