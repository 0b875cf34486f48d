"""Looks for no garbage while a failure is written, so that a test which fails does so alone.

Python 3.11 counts the depth of a parse in one place for all: where garbage is found meanwhile whose end parses too, as
the traceback of a task that nobody awaited does, the parse of the source that failed is a SystemError, which ends the
process with all the tests that were still to come.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is None or not gc.isenabled():
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
