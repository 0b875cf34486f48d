"""What the machine kept from this process and all that it started: the most that it can have added to a time.

The kernel counts for each thread how long it was ready to run and was not run (`schedstat`). What others worked
meanwhile is the most that they can have taken: who waits for threads of its own is slow by itself. On a system that
does not count it nothing was withheld.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
TICK_S = 2 / _TICKS_A_SECOND
"""What two figures that are counted in ticks can be wrong by."""

Waited = dict[tuple[int, int], float]
"""Seconds that each thread was ready and not run, by process and thread."""


class Withholding:
    """From now on."""

    def __init__(self) -> None:
        self._before, self._stolen_s, self._others_s = waited(family()), stolen_s(), others_s()

    def so_far_s(self) -> float:
        """At most, of any one of our threads and all of them together."""
        after = waited(family())
        withheld_s = sum(each_s - self._before.get(thread, 0.0) for thread, each_s in after.items())
        return min(withheld_s, others_s() - self._others_s + TICK_S) + stolen_s() - self._stolen_s


def family() -> Iterator[int]:
    """This process and all that came of it and is there still."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
            children.setdefault(parent, []).append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, ())
    return iter(found)


def waited(pids: Iterator[int]) -> Waited:
    """Of these processes' threads."""
    found: Waited = {}
    for pid in pids:
        try:
            for thread in (_PROC / str(pid) / "task").iterdir():
                found[pid, int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
        except OSError:
            continue  # ended meanwhile, or not counted here
    return found


def others_s() -> float:
    """Processor seconds of whoever is not of the family, all processors together; 0 where nobody counts them."""
    return busy_s(family())


def busy_s(but: Iterable[int]) -> float:
    """Processor seconds of everybody but these processes; 0 where nobody counts them."""
    try:
        user, nice, system, _, _, irq, softirq, *_ = map(int, (_PROC / "stat").read_text().split(maxsplit=9)[1:8])
    except OSError:
        return 0.0
    own = sum(worked_ticks(pid) for pid in but)
    return (user + nice + system + irq + softirq - own) / _TICKS_A_SECOND


def worked_ticks(pid: int) -> int:
    """Of a process, and of those that it has waited for."""
    try:
        return sum(map(int, (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:15]))
    except OSError:
        return 0  # it has just ended


def stolen_s() -> float:
    """What a hypervisor kept for others, of each processor."""
    try:
        ticks = int((_PROC / "stat").read_text().split(maxsplit=10)[8])
    except OSError:
        return 0.0
    return ticks / _TICKS_A_SECOND / (os.cpu_count() or 1)
