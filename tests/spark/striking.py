"""Finds the processes of a running job, and kills one of them as nothing else would: with SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

EXECUTOR, WORKER, JVM = "CoarseGrainedExecutorBackend", "pyspark.daemon", "org.apache.spark.deploy.SparkSubmit"
ROOT = Path(__file__).resolve().parents[2]


def descendants(pid: int) -> dict[int, str]:
    """Process id to command line, of what that process and its children started."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, its in parents.items() if its == parent]
        found |= {child: lines[child] for child in children}
        waiting += children
    return found


class Struck:
    """A program that runs Spark, in a process of its own, or a group of its own. What it tells is kept."""

    def __init__(self, command: list[str], *, group: bool = False) -> None:
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=group,
        )
        self.told: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            for line in self.process.stderr:
                self.told.append(line.rstrip())

    def of(self, sign: str) -> Iterator[int]:
        """Its processes with this in their command line."""
        return (pid for pid, line in descendants(self.process.pid).items() if sign in line)

    def kill(self, sign: str, deadline_s: float = 60.0) -> int:
        """SIGKILL for one of them, as soon as there is one."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            assert self.process.poll() is None, self.told[-5:]
            for pid in self.of(sign):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                return pid
        raise AssertionError(f"there was no {sign} to kill in {deadline_s:g} s; {self.told[-5:]}")

    def die(self) -> None:
        """SIGKILL for the driver; returns when it is gone."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait for its end; its exit code, when all that it told is there."""
        code = self.process.wait()
        self._reader.join()
        return code

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.terminate()
        return self.ended()


class Running(Struck):
    """`tandemq pipeline ingest`."""

    def __init__(self, file: Path, *arguments: str, group: bool = False) -> None:
        command = [sys.executable, "-P", "-m", "tandemq", "pipeline", "ingest", "--config", str(file), *arguments]
        super().__init__(command, group=group)
