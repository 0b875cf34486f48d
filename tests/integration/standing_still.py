"""A member whose interpreter stands still when it is told to: run as `python -m`, with the arguments of `tandemq`.

Another thread than the loop's cannot run meanwhile either, for the lock of the interpreter is held. gRPC's own threads
go on, as they do while the loop of a member is busy with its clients.
"""

from __future__ import annotations

import ctypes
import runpy
import signal

STALL_S = 3
"""On SIGUSR1: longer than `lost_ms`, shorter than `hung_ms`."""
HANG_S = 60
"""On SIGUSR2: longer than any test waits."""


def _stand_still(seconds: int) -> None:
    ctypes.PyDLL(None).sleep(seconds)  # a PyDLL keeps the lock


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda _number, _frame: _stand_still(STALL_S))
    signal.signal(signal.SIGUSR2, lambda _number, _frame: _stand_still(HANG_S))
    runpy.run_module("tandemq", run_name="__main__", alter_sys=True)
