"""For how long processes were ready to run and were not run, as the kernel counts it; 0 where nobody counts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_PROC = Path("/proc")


def withheld_s(pids: Collection[int]) -> float:
    """Of all threads of these processes, since they began."""
    found = 0.0
    for pid in pids:
        try:
            for thread in (_PROC / str(pid) / "task").iterdir():
                found += int((thread / "schedstat").read_text().split()[1]) / 1e9
        except OSError:
            continue  # it has just ended, or nobody counts here
    return found
