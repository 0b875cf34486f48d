"""What the machine itself takes: a sync, a loopback round trip, one LMDB commit; and what the machine is."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).resolve().parent.parent


def cpu_us(pid: int) -> float:
    """User and system time that a process has used; steps of one kernel tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / TICKS


def resident(pid: int) -> dict[str, int]:
    """Bytes: anonymous memory, and pages of files (LMDB's map among them, which the kernel may drop at any time)."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {"anon": int(lines["RssAnon"].split()[0]) << 10, "file": int(lines["RssFile"].split()[0]) << 10}


def facts() -> dict[str, Any]:
    """Which code ran on which machine."""
    about = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in about if "model name" in line]
    versions = {}
    for name in ("grpcio", "protobuf", "lmdb", "uvloop"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD") + ("-dirty" if _git("status", "--porcelain", "-uno") else ""),
        "python": platform.python_version(),
        "built": built(),
        **versions,
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
    }


def built() -> str:
    """How this interpreter was built, which is worth as much as many a change of ours."""
    return f"{'with' if is_optimised() else 'without'} profile-guided optimisation"


def is_optimised() -> bool:
    return "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS") or "")


def is_commit(name: str) -> bool:
    """Whether others can have the sources of that name: not when they were changed since, nor when there was no git."""
    return re.fullmatch("[0-9a-f]+", name) is not None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # then nothing of it is known, and no result is taken
        return "unknown"
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")


def _p50_us(step: Callable[[], object], seconds: float) -> float:
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until or len(took) < 20:
        step()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def fdatasync_us(directory: Path, seconds: float) -> float:
    """p50 of appending 4 KiB and fdatasync."""
    block = os.urandom(4096)
    with tempfile.NamedTemporaryFile(dir=directory, buffering=0) as file:

        def step() -> None:
            file.write(block)
            os.fdatasync(file.fileno())

        return _p50_us(step, seconds)


def commit_us(directory: Path, seconds: float) -> float:
    """p50 of one LMDB commit of one record of 1 KiB, in this thread."""
    import lmdb

    payload, number = os.urandom(1024), iter(range(1 << 62))
    with tempfile.TemporaryDirectory(dir=directory) as where, lmdb.open(where, map_size=1 << 30) as env:

        def step() -> None:
            with env.begin(write=True) as txn:
                txn.put(next(number).to_bytes(8, "big"), payload, append=True)

        return _p50_us(step, seconds)


_ANSWER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while received := peer.recv(2048):
        peer.sendall(received)
"""


def loopback_us(seconds: float) -> float:
    """p50 of a TCP round trip of 1 KiB between two processes."""
    payload = os.urandom(1024)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen([sys.executable, "-c", _ANSWER, str(listener.getsockname()[1])])
        mine, _ = listener.accept()
    with mine:
        mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step() -> None:
            mine.sendall(payload)
            got = 0
            while got < len(payload):
                got += len(mine.recv(2048))

        found = _p50_us(step, seconds)
    process.wait()
    return found


class Meter:
    """CPU of processes between `begin` and `end`, by role."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._began: dict[str, float] = {}

    def begin(self) -> None:
        self._began = {role: cpu_us(pid) for role, pid in self._pids.items()}

    def end(self, messages: int) -> dict[str, float]:
        """Microseconds per message."""
        used = {role: cpu_us(pid) - self._began[role] for role, pid in self._pids.items()}
        return {role: round(took / max(1, messages), 3) for role, took in used.items()}


def quantile_ms(seconds: list[float], share: float) -> float:
    """Of a list of durations."""
    if not seconds:
        return 0.0
    return round(sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1e3, 3)


class Window:
    """Counts what is answered between the end of the warm-up and the end of the measurement."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.messages = 0
        self.took: list[float] = []
        self.over = False
        self._spec = spec
        self._meter = Meter({**spec["pids"], "client": os.getpid()})

    def answered(self, messages: int, took: float) -> None:
        self.messages += messages
        self.took.append(took)

    async def measure(self) -> dict[str, Any]:
        await asyncio.sleep(self._spec["warm_s"])
        first, place, began = self.messages, len(self.took), time.perf_counter()
        self._meter.begin()
        await asyncio.sleep(self._spec["seconds"])
        messages, seconds = self.messages - first, time.perf_counter() - began
        cpu, took = self._meter.end(messages), self.took[place:]
        self.over = True
        return {
            "value": round(messages / seconds, 1),
            "messages": messages,
            "p50_ms": quantile_ms(took, 0.5),
            "p99_ms": quantile_ms(took, 0.99),
            "cpu_us": cpu,
        }
