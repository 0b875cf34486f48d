"""One pair that is started with a lever as it stands, and the process that loads it."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.growth.figures import foreign_cores
from bench.growth.meter import cpu_us
from bench.levers.table import WORKLOADS, Lever, Workload
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.asked import Asked
from bench.peers.figures import refusals, remarks
from bench.peers.place import ROOT, BenchError, Place, usage
from bench.peers.run import Measurement
from chaos.cluster import Cluster

ANSWER_S = 60.0
SWITCHED = "bench.levers.switched"


class Switched(Tandemq):
    """A pair whose processes are without what the lever names."""

    def __init__(self, place: Place, role: str, lever: Lever) -> None:
        super().__init__(place, role)
        self._lever = lever

    def start(self) -> None:
        """As any pair, but for the program of its members."""
        self._cluster = cluster = Cluster(self.place.role(self.roles[0]))
        environment = {"PYTHONPATH": str(ROOT), **self._lever.environment}
        for child in cluster.children.values():
            child.arguments[:1] = [SWITCHED, ",".join(self._lever.off)]
            child.environment = environment
        self._spawned(cluster.start())


class Running:
    """A lever's pair and load; every step is a call that returns when it is done."""

    def __init__(self, place: Place, lever: Lever, number: int, options: argparse.Namespace) -> None:
        self.lever = lever
        self._place, self._options = place, options
        self._role = f"load-{number}"
        self.pair = Switched(place, f"pair-{number}", lever)
        self._load: Asked | None = None
        self.pids: dict[str, int] = {}
        self._switches: dict[str, Switches] = {}
        self._checked: dict[str, Any] = {}

    def start(self) -> None:
        """The pair, its settings, its syncs under strace, then the load."""
        self.pair.start()
        self._checked = Measurement(self._place, self.pair, self._options, 0).check()
        spec = {
            "target": self.pair.target()["servers"],
            "off": ",".join(self.lever.off),
            "connections": max(each.producers for each in WORKLOADS),
        }
        environment = self.lever.environment
        self._load = Asked(self._place, self._role, "bench.levers.load", spec, ANSWER_S, environment)
        self.pids = {**self.pair.by_role(), "client": self._load.pid}
        self._switches = {role: Switches(pid) for role, pid in self.pids.items()}

    def turn(self, work: Workload, seconds: float) -> dict[str, Any]:
        """What a turn measured, and what it cost each process; see `table` for what is in it."""
        before, began = self._used(), time.perf_counter()
        own = {role: (cpu_us(pid), self._switches[role].read()) for role, pid in self.pids.items()}
        assert self._load
        asked = {**asdict(work), "seconds": seconds}
        found = self._load.ask(asked, f"{self.lever.name!r} in {work.name!r}")
        if strangers := unlike(self.pids):  # not before: until it has answered, the load may be what starts it
            raise BenchError(strangers)
        count, took_s = max(1, found["sent"]), time.perf_counter() - began
        used = {
            role: (cpu_us(pid) - own[role][0], self._switches[role].read() - own[role][1])
            for role, pid in self.pids.items()
        }
        line = {
            **found,
            "us": {role: round(us / count, 3) for role, (us, _) in used.items()},
            "switches": {role: round(each / count, 3) for role, (_, each) in used.items()},
            "load_share": {"producer": round(used["client"][0] / 1e6 / took_s, 3)},
            "foreign_cores": foreign_cores(before, self._used(), took_s),
            **self._checked,
        }
        return {**line, "refused": refusals(line), "remarks": remarks(line)}

    def check(self) -> None:
        """The pair is the one that was measured: raises BenchError."""
        if {**self.pair.by_role(), "client": self.pids["client"]} != self.pids:
            raise BenchError(f"{self.lever.name}: the pair changed its roles under load")

    def stop(self) -> None:
        if self._load:
            self._load.stop()
        self.pair.stop()

    def _used(self) -> dict[str, float]:
        return {**usage(self._place.folder), "harness": time.process_time() * 1e6}


class Switches:
    """Context switches of all threads of a process, each thread's as far as it was ever read."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._of_thread: dict[str, int] = {}

    def read(self) -> int:
        """Now; never less than before: a thread that has ended keeps what it was last read with."""
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended before it was opened, or read
                self._of_thread[task.name] = _switches_of(task / "status")
        return sum(self._of_thread.values())


def _switches_of(status: Path) -> int:
    lines: Iterable[str] = status.read_text(encoding="ascii", errors="replace").splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def unlike(pids: dict[str, int]) -> str:
    """Why these processes must not be compared: they run on different interpreters; empty when they may."""
    found = {role: Path(f"/proc/{pid}/exe").resolve() for role, pid in pids.items()}
    if len(set(found.values())) == 1:
        return ""
    return "different interpreters: " + ", ".join(f"{role} runs on {path}" for role, path in found.items())
