"""Counts the syncs that the processes of each copy ask the kernel for while something is done: strace, attached to
them.

It slows what it watches, so it is a run of its own before the measured ones, with one message in flight at a time.
Writes through a file that was opened with O_SYNC or O_DSYNC are no such calls: how many files are open so is told
beside it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.peers.place import BenchError

CALLS = re.compile(r"\b(?:fsync|fdatasync|msync|sync_file_range)\(")
TRACED = "fsync,fdatasync,msync,sync_file_range"
OPEN_DSYNC = 0o10000  # O_DSYNC, which O_SYNC holds
ATTACH_S, LOOK_S = 20.0, 0.02


def counted(members: Mapping[str, Sequence[int]], folder: Path, work: Callable[[], None]) -> dict[str, int]:
    """Syncs by member while `work` runs."""
    tracers = {name: attach(name, pids, folder) for name, pids in members.items()}
    try:
        for name, pids in members.items():
            wait_attached(name, pids, tracers[name])
        work()
    finally:
        for tracer in tracers.values():
            tracer.send_signal(signal.SIGINT)  # it detaches and goes
        for tracer in tracers.values():
            tracer.wait()
    return {name: len(CALLS.findall((folder / f"{name}.strace").read_text(errors="replace"))) for name in members}


def attach(name: str, pids: Sequence[int], folder: Path) -> subprocess.Popen[bytes]:
    if not pids:
        raise BenchError(f"{name} has no process to look at")
    attached = [part for pid in pids for part in ("-p", str(pid))]
    with (folder / f"{name}.strace.log").open("wb") as log:
        return subprocess.Popen(
            ["strace", "-f", "-qq", "-e", f"trace={TRACED}", "-e", "signal=none", "-o", f"{name}.strace", *attached],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def wait_attached(name: str, pids: Sequence[int], tracer: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + ATTACH_S
    while not all(is_traced(pid) for pid in pids):
        if tracer.poll() is not None or time.monotonic() > until:
            raise BenchError(f"strace cannot attach to {name}; it needs to be root or to have CAP_SYS_PTRACE")
        time.sleep(LOOK_S)


def is_traced(pid: int) -> bool:
    """Every thread of it."""
    try:
        statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:
        return True  # it went
    return all("TracerPid:\t0\n" not in status for status in statuses)


def opened_for_sync(pids: Sequence[int]) -> int:
    """Files that are open for synchronised writes, whose syncs are no calls of their own."""
    found = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/fdinfo").glob("*"):
            try:
                flags = re.search(r"^flags:\s+(\d+)", path.read_text(), re.MULTILINE)
            except OSError:
                continue
            found += bool(flags and int(flags[1], 8) & OPEN_DSYNC)
    return found
