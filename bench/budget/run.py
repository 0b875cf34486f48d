"""Measures where the time of a message goes: microseconds of each stage in each process, ours beside the floor's.

Both are loaded as `bench/run.py` loads them, in turns, while py-spy looks at master, replica and client. What a process
uses for a message (user + system, from the kernel) is divided by how often each stage was seen at work.

Example: python -m bench.budget.run --runs 3; then `make bench-report TAKE=build/bench/budget.json` writes
bench/results/budget.json and the tables of docs/PERFORMANCE.md; --flame docs/img/flame-master.svg draws the master
under pipelined load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from bench.budget import flame
from bench.budget.sample import SampleError, Sampler, Stack
from bench.budget.stages import ORDER, RULES, budget, inside
from bench.document import Document, begun
from bench.machine import commit_us, facts, fdatasync_us
from bench.peers.calm import calm_on_loop
from bench.peers.place import KILLED_WITH_US, Strangers, stoppable
from bench.run import ENVIRONMENT, HERE, KIB, ROOT, Floor, pair
from chaos.cluster import Cluster
from tandemq.config import member_ports

WARM_S, LEAD_S = 1.5, 1.5
"""Of the load; what its process needs to start and connect."""
WORKLOADS: dict[str, dict[str, Any]] = {
    "enqueue": {"kind": "enqueue", "size": KIB, "frame": 100, "window": 20},
    "enqueue + consume + ack": {
        "kind": "flow", "size": KIB, "frame": 100, "window": 20, "credit": 4000, "backlog": 4000,
    },
    "one in flight": {"kind": "latency", "size": KIB, "frame": 1, "window": 1},
}  # fmt: skip
ROLES = ("master", "replica", "client")


class Load:
    """One process of load, and samplers of all three; `result` waits for it."""

    def __init__(self, script: str, spec: dict[str, Any], folder: Path, seconds: float) -> None:
        self._process = subprocess.Popen(
            [*KILLED_WITH_US, sys.executable, str(HERE / script), json.dumps(spec)],
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        self._samplers: dict[str, Sampler] = {}
        self._pids = {**spec["pids"], "client": self._process.pid}
        self._folder, self._seconds = folder, seconds

    async def result(self) -> tuple[dict[str, Any], dict[str, dict[Stack, float]]]:
        """All of them end with whoever waits for it. Raises SampleError."""
        try:
            return await self._result()
        finally:
            for sampler in self._samplers.values():
                sampler.stop()
            self._process.kill()
            self._process.wait()

    async def _result(self) -> tuple[dict[str, Any], dict[str, dict[Stack, float]]]:
        await asyncio.sleep(WARM_S + LEAD_S)
        for role, pid in self._pids.items():
            self._samplers[role] = Sampler(pid, self._seconds, self._folder / f"stacks-{role}")
        weights = {role: await asyncio.to_thread(sampler.weights) for role, sampler in self._samplers.items()}
        out, _ = await asyncio.to_thread(self._process.communicate)
        if self._process.returncode or not out:
            raise SampleError("a load process failed")
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found, weights


def commits(cluster: Cluster) -> tuple[float, float]:
    """How many the first member made, and how long they took."""
    port = member_ports(cluster.base_port, 0).http
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines() if line.startswith("tandemq_commit")]
    values = {name: float(value) for name, value in lines}
    return values["tandemq_commits_total"], values["tandemq_commit_seconds_total"]


class Bench:
    """All runs, and what they found."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self.document: Document = begun("budget", {"runs": options.runs, "seconds": options.seconds})
        self.of_master: list[dict[Stack, float]] = []
        """Stacks of our master, pipelined."""

    async def run(self) -> None:
        for number in range(self._options.runs):
            folder = self._folder / str(number)
            floor = Floor(folder / "floor")
            try:
                floor.start()
                async with pair(folder / "pair") as (cluster, pids):
                    for name, work in (("fdatasync 4 KiB", fdatasync_us), ("LMDB commit 1 KiB", commit_us)):
                        took_us = await asyncio.to_thread(work, folder, 0.3)
                        self.document.add((name, "machine"), {"run": number, "value": round(took_us, 3)})
                    for name in self._options.only or WORKLOADS:
                        for side in ("ours", "floor") if number % 2 == 0 else ("floor", "ours"):
                            await self._one(number, name, side, cluster, pids, floor)
            finally:
                floor.stop()
            shutil.rmtree(folder)

    async def _one(
        self, number: int, name: str, side: str, cluster: Cluster, pids: dict[str, int], floor: Floor
    ) -> None:
        stacks: dict[Stack, float] = {}

        async def measure(attempt: int) -> dict[str, Any]:
            nonlocal stacks
            figures, stacks = await self._attempt(name, side, cluster, pids, floor, attempt)
            return figures

        figures = await calm_on_loop(measure)
        if side == "ours" and name == "enqueue":
            self.of_master.append(stacks)
        self.document.add((name, side), {"run": number, **figures})

    async def _attempt(
        self, name: str, side: str, cluster: Cluster, pids: dict[str, int], floor: Floor, attempt: int
    ) -> tuple[dict[str, Any], dict[Stack, float]]:
        """What was found, and stacks of the master."""
        seconds = self._options.seconds
        spec = {**WORKLOADS[name], "warm_s": WARM_S, "seconds": seconds + LEAD_S}
        before = await asyncio.to_thread(commits, cluster)
        strangers = Strangers()
        if side == "ours":
            spec |= {
                "target": cluster.target,
                "pids": pids,
                "queue": f"{name.replace(' + ', '-').replace(' ', '-')}-{attempt}",
            }
            load = Load("load.py", spec, self._folder, seconds)
        else:
            load = Load("floor/client.py", {**spec, "port": floor.port, "pids": floor.pids}, self._folder, seconds)
        result, weights = await load.result()
        figures: dict[str, Any] = {
            "foreign_cores": strangers.cores(),
            "value": result["value"] if spec["kind"] != "latency" else round(result["p50_ms"] * 1e3, 1),
            "cpu_us": result["cpu_us"],
            "stages_us": {},
        }
        for role in ROLES:  # one at which a process was not seen took nothing
            found = budget(weights[role], RULES[side, role], result["cpu_us"][role])
            figures["stages_us"][role] = {stage: round(found.get(stage, 0.0), 3) for stage in ORDER}
        if side == "ours":
            after = await asyncio.to_thread(commits, cluster)
            figures["commit_ms"] = 1e3 * (after[1] - before[1]) / max(1.0, after[0] - before[0])
        print(f"{name}, {side}: {result['value']:,.0f}, cpu us/msg {result['cpu_us']}", file=sys.stderr, flush=True)
        return figures, weights["master"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="default: 3")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each look; default: 8")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="a workload; may be repeated")
    parser.add_argument("--flame", type=Path, help="draw our master under pipelined load into this file")
    options = parser.parse_args()
    with stoppable("bench-budget"), tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        try:
            asyncio.run(bench.run())
        except SampleError as error:
            raise SystemExit(f"bench-budget: {error}") from None
    if options.flame is not None:
        total: dict[Stack, float] = {}
        for weights in bench.of_master:
            for whole, weight in weights.items():
                stack = inside(whole)
                total[stack] = total.get(stack, 0.0) + weight
        about = facts()
        what = "tandemq master, pipelined enqueue, 1 KiB, frames of 100"
        title = f"{what}: commit {about['commit']}, Python {about['python']}"
        options.flame.write_text(flame.drawn(total, title))
        print(f"drawn in {options.flame}")
        return  # one workload, looked at once: no budget, and none is overwritten
    out = ROOT / "build/bench/budget.json"
    bench.document.end()
    bench.document.write(out)
    print(f"kept in {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
