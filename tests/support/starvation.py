"""Judges how soon something was by how long it was at work: what the machine withheld is taken out.

The kernel counts for each thread how long it was ready to run and was not run (`schedstat`). What this process and all
that it started were kept waiting is the most that the machine can have added to a time, and what others worked
meanwhile is the most that they can have taken: who waits for threads of its own is slow by itself. A time that only
without that is within its bound proves nothing either way, as a drill's that nobody looked at: the test says INVALID,
is run again, and is skipped with that reason when it was starved each time. One that is over the bound all the same
fails at once.

On a system that does not count it nothing is taken out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import pytest
from _pytest.runner import runtestprotocol

RUNS = 3
"""Of a test that was starved; a burst of other work is over by then."""
INVALID = "INVALID: "
_PROC = Path("/proc")
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
TICK_S = 2 / _TICKS_A_SECOND
"""What two figures that are counted in ticks can be wrong by."""

Waited = dict[tuple[int, int], float]
"""Seconds that each thread was ready and not run, by process and thread."""


def invalid(why: str) -> NoReturn:
    """Ends the test: the machine did not let it show anything."""
    pytest.skip(INVALID + why)


class Stopwatch:
    """How long a block took, and for how much of it at most the machine kept us waiting."""

    took_s: float
    starved_s: float

    def __enter__(self) -> Self:
        self._before, self._stolen_s, self._others_s = waited(family()), stolen_s(), others_s()
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.took_s = time.monotonic() - self._began_s
        after = waited(family())
        withheld_s = sum(each_s - self._before.get(thread, 0.0) for thread, each_s in after.items())
        self.starved_s = min(withheld_s, others_s() - self._others_s + TICK_S) + stolen_s() - self._stolen_s

    def judge(self, what: str, bound_s: float, took_s: float | None = None) -> None:
        """Returns when it was soon enough. `took_s`: of a part of the block, where that is what counts."""
        judge(what, self.took_s if took_s is None else took_s, self.starved_s, bound_s)


class Soon(Stopwatch):
    """A block that is judged as it ends, unless it failed."""

    def __init__(self, what: str, bound_s: float) -> None:
        self._what, self._bound_s = what, bound_s

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        if error is None:
            self.judge(self._what, self._bound_s)


class Timely(Stopwatch):
    """A block whose outcome hangs on turns that come within `turn_s`. Where it fails and more was withheld, the
    failure shows nothing."""

    def __init__(self, turn_s: float) -> None:
        self._turn_s = turn_s

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        if isinstance(error, (AssertionError, pytest.fail.Exception)) and self.starved_s > self._turn_s:
            failure = str(error).partition("\n")[0] or "it failed"
            invalid(
                f"{failure}; it needs turns within {self._turn_s:g} s, and the machine withheld {self.starved_s:.2f} s"
            )


def judge(what: str, took_s: float, starved_s: float, bound_s: float) -> None:
    """Fails when even without what was withheld it was too long; says INVALID when only with it."""
    if took_s <= bound_s:
        return
    text = f"{what} took {took_s:.2f} s, at most {bound_s:g}; the machine withheld up to {starved_s:.2f} s"
    if took_s - starved_s <= bound_s:
        invalid(text)
    pytest.fail(text)


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
    try:
        user, nice, system, _, _, irq, softirq, *_ = map(int, (_PROC / "stat").read_text().split(maxsplit=9)[1:8])
    except OSError:
        return 0.0
    own = sum(worked_ticks(pid) for pid in family())
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


def _was_starved(reports: list[pytest.TestReport]) -> bool:
    return any(
        isinstance(report.longrepr, tuple) and report.longrepr[2].startswith(f"Skipped: {INVALID}")
        for report in reports
        if report.skipped
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs a test of the clock again that was starved; its last run is what is reported."""
    if item.get_closest_marker("clock") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(RUNS):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not _was_starved(reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
