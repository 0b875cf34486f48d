"""Sees that processes are gone and ports are free; waits for it with a bound, and says what is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from chaos.cluster import ports_in_use

POLL_S = 0.05


def runs(pid: int) -> bool:
    """It does something still. One that nobody has waited for yet is over."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_gone(pids: Iterable[int], base_port: int, within_s: float) -> None:
    """Returns when none of these processes runs and none of the pair's ports is listened at."""
    pids = list(pids)
    assert pids
    deadline = time.monotonic() + within_s
    while True:
        left = [pid for pid in pids if runs(pid)]
        ports = ports_in_use(base_port)
        if not left and not ports:
            return
        if time.monotonic() > deadline:
            for pid in left:  # so that the next test is not disturbed
                os.kill(pid, 9)
            raise AssertionError(f"after {within_s:g} s processes {left} and ports {ports} are left")
        time.sleep(POLL_S)
