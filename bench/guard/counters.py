"""Counts system calls of processes by the kernel's own counters (perf_event_open), without stopping them at each call.

strace stops a process at every call, so that a member under it is several times slower and takes other ways than in
life: a commit is no longer short (docs/decisions/0053-short-commits.md), a batch gathers more messages. A counter of a
tracepoint costs well below a microsecond a call. It needs root, or CAP_PERFMON and tracefs readable.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
ALL = "all"
"""Every system call, whatever it is."""
_NUMBERS = {"x86_64": 298, "aarch64": 241}  # of perf_event_open
_TRACEPOINT, _SIZE, _INHERIT = 2, 64, 1 << 1  # perf_event.h: PERF_TYPE_TRACEPOINT, PERF_ATTR_SIZE_VER0, attr.inherit


class CannotCountError(Exception):
    """The kernel gives no counter here; says why and what to do."""


def tracepoint(call: str) -> int:
    """The number of the event that is the entry of a system call. Raises CannotCountError."""
    name = "raw_syscalls/sys_enter" if call == ALL else f"syscalls/sys_enter_{call}"
    try:
        return int((TRACEFS / "events" / name / "id").read_text())
    except OSError as error:
        raise CannotCountError(
            f"system calls cannot be counted: {error}. Run as root, tracefs mounted at {TRACEFS}"
        ) from None


class Counters:
    """Of all threads that a process has, and of those that they start from now on."""

    def __init__(self) -> None:
        self._open: dict[str, list[int]] = {}

    def begin(self, pid: int, calls: Iterable[str]) -> None:
        """Count from here on. Raises CannotCountError."""
        if platform.machine() not in _NUMBERS:
            raise CannotCountError(f"counting is not written for {platform.machine()}")
        for call in calls:
            self._open[call] = descriptors = []
            event = tracepoint(call)
            threads = [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
            descriptors.extend(_counter(event, thread) for thread in threads)

    def read(self) -> dict[str, int]:
        """How many there were since the beginning, by the name of the call."""
        return {
            call: sum(struct.unpack("Q", os.read(each, 8))[0] for each in descriptors)
            for call, descriptors in self._open.items()
        }

    def close(self) -> None:
        for descriptors in self._open.values():
            while descriptors:
                os.close(descriptors.pop())


def _counter(event: int, thread: int) -> int:
    attributes = ctypes.create_string_buffer(
        struct.pack("IIQQQQQ", _TRACEPOINT, _SIZE, event, 0, 0, 0, _INHERIT), _SIZE
    )
    libc = ctypes.CDLL(None, use_errno=True)
    number = _NUMBERS[platform.machine()]
    close_on_exec = 8  # PERF_FLAG_FD_CLOEXEC
    found: int = libc.syscall(number, ctypes.byref(attributes), thread, -1, -1, close_on_exec)
    if found < 0:
        why = os.strerror(ctypes.get_errno())
        raise CannotCountError(f"system calls cannot be counted: perf_event_open: {why}. It needs root or CAP_PERFMON")
    return found


@contextmanager
def counting(pids: Iterable[int], calls: Iterable[str]) -> Iterator[list[Counters]]:
    """One for each process, in order."""
    opened = {pid: Counters() for pid in pids}
    names = tuple(calls)
    try:
        for pid, counters in opened.items():
            counters.begin(pid, names)
        yield list(opened.values())
    finally:
        for counters in opened.values():
            counters.close()
