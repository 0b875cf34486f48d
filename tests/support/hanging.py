"""A test that hangs fails, and the run goes on with the next one; one that hangs below Python ends the process.

pytest-timeout's signal ends what waits in Python. What does not come back to Python, or swallows the failure, has
GRACE_S more; then every thread's stack is written and the process ends with 1, whatever holds the interpreter.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key  # the terminal's, past what pytest captures
from pytest_timeout import Settings

GRACE_S = 60.0
"""A failure is told, and what the test started is ended, within it."""


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> Generator[None, object, object]:
    place = item.config.stash.get(fault_handler_stderr_fd_key, 2)
    faulthandler.dump_traceback_later(settings.timeout + GRACE_S, exit=True, file=place)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer() -> Generator[None, object, object]:
    faulthandler.cancel_dump_traceback_later()
    return (yield)
