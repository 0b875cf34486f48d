"""What one input costs: the work's own processor time, without what the process does beside it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TRIES = 3
"""How often it is measured before it is called slow: slow input is slow each time, a first import or fault is not."""


def assert_within(cap_s: float, work: Callable[[], object]) -> None:
    """Does `work`, and fails if it cost more than `cap_s` of processor time each time it was measured.

    Collecting garbage waits: in a process that has run thousands of tests, one collection alone is longer than a cap.
    """
    taken = float("inf")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(TRIES):
            began = time.process_time()
            work()
            taken = min(taken, time.process_time() - began)
            if taken <= cap_s:
                return
    finally:
        if was_enabled:
            gc.enable()
    raise AssertionError(f"took {taken:.3f} s")
