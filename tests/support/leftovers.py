"""Sees that processes are gone and ports are free; waits for it with a bound, and says what is left."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from chaos.ports import ports_in_use
from tests.support.until import until_sync


def runs(pid: int) -> bool:
    """It does something still. One that nobody has waited for yet is over."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_gone(pids: Iterable[int], base_port: int, *, at_once: bool = False) -> None:
    """Returns when none of these processes runs and no port of the pair is listened at; `at_once`: it is so now."""
    pids = list(pids)
    assert pids

    def are_gone() -> bool:
        return not any(map(runs, pids)) and not ports_in_use(base_port)

    try:
        assert are_gone() or not at_once
        until_sync(are_gone, f"the ends of {pids}")
    except AssertionError as error:
        left = [pid for pid in pids if runs(pid)]
        for pid in left:  # so that the next test is not disturbed
            os.kill(pid, 9)
        raise AssertionError(f"processes {left} and ports {ports_in_use(base_port)} are left") from error
