"""Judges how soon something was by how long it was at work: what the machine withheld is taken out.

What this process and all that it started were kept waiting is counted in `chaos.starved`. A time that only
without that is within its bound proves nothing either way, as a drill's that nobody looked at: the test says INVALID,
is run again, and is skipped with that reason when it was starved each time. One that is over the bound all the same
fails at once.

On a system that does not count it nothing is taken out.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import NoReturn, Self

import pytest
from _pytest.runner import runtestprotocol

from chaos.starved import Withholding

RUNS = 3
"""Of a test that was starved; a burst of other work is over by then."""
INVALID = "INVALID: "


def invalid(why: str) -> NoReturn:
    """Ends the test: the machine did not let it show anything."""
    pytest.skip(INVALID + why)


class Stopwatch:
    """How long a block took, and for how much of it at most the machine kept us waiting."""

    took_s: float
    starved_s: float

    def __enter__(self) -> Self:
        self._withholding = Withholding()
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.took_s = time.monotonic() - self._began_s
        self.starved_s = self._withholding.so_far_s()

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
