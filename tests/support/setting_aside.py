"""Sets aside what reading the tests has made: all of it lives as long as the run, and the collector of garbage would
look through it again and again.
"""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
