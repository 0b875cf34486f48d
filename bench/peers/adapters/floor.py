"""The floor: two processes of Tandemq's stack that commit the same frames here and there, without a queue.

It is measured with its own client (`bench/floor/client.py`) and nothing is received by number, so nothing is verified:
it is a limit to compare with, not a peer.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

from bench.peers.contract import Peer, Setting, in_flight
from bench.peers.place import KILLED_WITH_US, ROOT, BenchError, Place, usage

BENCH = ROOT / "bench"
ENVIRONMENT = {"PYTHONPATH": f"{BENCH}{os.pathsep}{ROOT}"}
FRAME = 500
KINDS: dict[str, dict[str, Any]] = {
    "enqueue": {"kind": "enqueue", "frame": FRAME, "window": 10},
    "flow": {"kind": "flow", "frame": 100, "window": 20, "credit": 8000, "backlog": 8000},
    "single": {"kind": "latency", "frame": 1, "window": 1},
}


def bounded(kind: dict[str, Any], size: int) -> dict[str, Any]:
    """With smaller frames for large payloads, as the others have them; see IN_FLIGHT_BYTES_MAX."""
    frames = kind["window"]
    counts = {key: in_flight(kind[key], size) for key in ("credit", "backlog") if key in kind}
    return {**kind, **counts, "frame": max(1, in_flight(frames * kind["frame"], size) // frames)}


class Floor(Peer):
    name = "floor"
    title = "the floor: two processes that commit frames, no queue"
    promise = "synced on both"
    copies = 2
    client = ""
    client_title = "gRPC streams, frames serialised once"
    interpreter = sys.executable
    roles = ("floor-first", "floor-second")
    verified = False
    workloads = tuple(KINDS)  # nothing stays to be drained

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._port = 0

    def start(self) -> None:
        second = self._spawn("floor-second")
        self._port = self._spawn("floor-first", "--peer", str(second))

    def _spawn(self, role: str, *more: str) -> int:
        folder = self.place.role(role)
        command = [sys.executable, str(BENCH / "floor/server.py"), "--data-dir", str(folder / "data"), *more]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*KILLED_WITH_US, *command],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,  # a consumer that goes leaves a trace there
                text=True,
                env={**os.environ, **ENVIRONMENT},
            )
        self._processes[role] = process
        self.place.watch(role, process)
        assert process.stdout
        if not (line := process.stdout.readline()):
            raise BenchError("a process of the floor did not start")
        return int(line)

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        super().stop()

    def target(self) -> dict[str, Any]:
        return {"port": self._port}

    def settings(self) -> list[Setting]:
        return []

    def versions(self) -> dict[str, str]:
        return {}

    def described(self) -> dict[str, Any]:
        return {"frame": FRAME, "frame of flow": KINDS["flow"]["frame"]}

    def _used(self) -> float:
        """By strangers: what the machine has used beyond the two processes and all clients that have ended."""
        used = usage(self.place.folder)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = sum(took for role, took in used.items() if role != "machine")
        return used["machine"] - own - (ended.ru_utime + ended.ru_stime) * 1e6

    def load(self, workload: str, spec: dict[str, Any]) -> dict[str, Any]:
        """One workload by its own client, in the words of the others."""
        pids = {"master": self._processes["floor-first"].pid, "replica": self._processes["floor-second"].pid}
        asked = {**spec, **bounded(KINDS[workload], spec["size"]), "port": self._port, "pids": pids}
        began, before = time.perf_counter(), self._used()
        done = subprocess.run(
            [sys.executable, str(BENCH / "floor/client.py"), json.dumps(asked)],
            stdout=subprocess.PIPE,
            cwd=self.place.role("producer"),
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
        if done.returncode or not done.stdout:
            why = self.place.gone() or f"exit code {done.returncode}"
            raise BenchError(f"the floor's client failed in {workload}: {why}")
        foreign = (self._used() - before) / (time.perf_counter() - began) / 1e6
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        cpu = result.pop("cpu_us")
        client = "consumer" if workload == "flow" else "producer"
        return {
            **result,
            "cpu_us": {"servers": round(cpu["master"] + cpu["replica"], 3), client: cpu["client"]},
            "foreign_cores": round(max(0.0, foreign), 3),
            "load_share": {client: round(cpu["client"] * result["value"] / 1e6, 3)},
        }
