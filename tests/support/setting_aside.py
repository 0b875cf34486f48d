"""Sets aside what reading the tests makes: all of it lives as long as the run, and the collector of garbage would look
through it again and again, while it grows and afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish() -> Generator[None, object, object]:
    gc.enable()  # before anybody looks at what tests may not change
    done = yield
    gc.collect()
    gc.freeze()
    return done
