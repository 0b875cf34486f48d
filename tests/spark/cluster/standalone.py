"""Spark's own standalone cluster, a master and workers on machines of their own: started, looked at, and killed."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.spark.cluster.lan import Host

PORT, UI_PORT = 7077, 8080
CLASSES = "org.apache.spark.deploy"
BIN = Path(sys.executable).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
CORES, MEMORY = "4", "3g"
DAEMONS = {
    "PYSPARK_DRIVER_PYTHON": sys.executable,  # it is asked where Spark is
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
BEGUN_S, ANSWER_S, POLL_S = 600.0, 10.0, 0.2


class StuckError(AssertionError):
    """What was waited for did not come."""


def until(holds: Callable[[], bool], what: str, deadline_s: float) -> None:
    """Returns when it holds. Raises StuckError at the deadline."""
    ends = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > ends:
            raise StuckError(f"{what}: not within {deadline_s:g} s")
        time.sleep(POLL_S)


class Executor(NamedTuple):
    """A JVM that runs tasks of one application."""

    pid: int
    app: str


class Standalone:
    """One master on a machine, a worker on each of the others."""

    def __init__(self, master: Host, workers: list[Host], folder: Path) -> None:
        self._master, self._workers, self._folder = master, workers, folder
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        local = folder / "local"
        local.mkdir()
        os.environ["SPARK_LOCAL_DIRS"] = str(local)  # of all machines: what is killed leaves it to be removed
        self._running: dict[str, subprocess.Popen[str]] = {}

    @property
    def url(self) -> str:
        return f"spark://{self._master.name}:{PORT}"

    def start(self) -> None:
        """Returns when the master counts all workers."""
        ports = ["--port", str(PORT), "--webui-port", str(UI_PORT)]
        self._spawn(self._master, f"{CLASSES}.master.Master", "--host", self._master.name, *ports)
        until(lambda: self._state() is not None, "Spark's master answers", BEGUN_S)
        for each in self._workers:
            self._spawn_worker(each)
        self.wait_whole()

    def wait_whole(self) -> None:
        self._wait_alive(len(self._workers))

    def kill_worker(self, at: int) -> str:
        """SIGKILL for the worker of that machine and a new one, when the master has noticed; the machine's name.

        Its executors see that it is gone, and end by themselves.
        """
        host = self._workers[at % len(self._workers)]
        self._running[host.name].kill()
        self._running[host.name].wait()
        self._wait_alive(len(self._workers) - 1)
        self._spawn_worker(host)
        self.wait_whole()
        return host.name

    def executors(self, application: str) -> list[Executor]:
        """Those of the running application of that name."""
        state = self._state() or {}
        ids = {each["id"] for each in state.get("activeapps", ()) if each["name"] == application}
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                try:
                    words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue  # it has just ended
                if any(word.endswith(EXECUTOR) for word in words) and "--app-id" in words:
                    found.append(Executor(int(place.name), words[words.index("--app-id") + 1]))
        return sorted(each for each in found if each.app in ids)

    def kill_executor(self, application: str) -> int:
        """SIGKILL for one of that application's, as soon as there is one; its process number."""
        found: list[Executor] = []

        def look() -> bool:
            found[:] = self.executors(application)
            return bool(found)

        until(look, f"an executor of {application}", BEGUN_S)
        os.kill(found[0].pid, signal.SIGKILL)
        return found[0].pid

    def _spawn_worker(self, host: Host) -> None:
        sizes = ["--cores", CORES, "--memory", MEMORY, "--work-dir", str(self._folder / "work" / host.name)]
        self._spawn(host, f"{CLASSES}.worker.Worker", "--host", host.name, *sizes, self.url)

    def _spawn(self, host: Host, *command: str) -> None:
        with (self._logs / f"{host.name}.log").open("ab") as log:
            spark_class = [str(BIN / "spark-class"), *command]
            self._running[host.name] = host.start(spark_class, DAEMONS, log, subprocess.STDOUT)

    def _wait_alive(self, count: int) -> None:
        def holds() -> bool:
            state = self._state() or {}
            return [each["state"] for each in state.get("workers", ())].count("ALIVE") == count

        until(holds, f"{count} workers at Spark's master", BEGUN_S)

    def _state(self) -> dict[str, Any] | None:
        """As the master's page has it; None while it does not answer. Raises StuckError when a daemon has ended."""
        for name, process in self._running.items():
            if process.poll() is not None and process.returncode != -signal.SIGKILL:
                raise StuckError(f"Spark's process on {name} ended with {process.returncode}; see its log")
        asked = http.client.HTTPConnection(self._master.address, UI_PORT, timeout=ANSWER_S)
        try:
            asked.request("GET", "/json/")
            found: dict[str, Any] = json.loads(asked.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            asked.close()
        return found
