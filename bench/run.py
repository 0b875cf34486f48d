"""Measures a replicated pair, and the floor beside it, in one run: read each figure as a ratio to its neighbour.

Ends with a table, writes build/bench/bench.json; `report.py` makes Markdown of it. What was
measured while others used the machine is measured again, as in `bench.peers.calm`.

Example: python bench/run.py --quick --only 'one in flight'
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from machine import commit_us, fdatasync_us, loopback_us
from report import FLOOR, MACHINE, MASTER, OURS, TRIPS, table

from bench.document import Document, begun
from bench.peers.calm import AGAIN_MAX, calm_on_loop
from bench.peers.place import KILLED_WITH_US, Strangers, stoppable
from bench.plan import KIB, MEMORY, WORKLOADS
from chaos.cluster import Cluster

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The floor's scripts share this folder's modules; what is measured is this checkout.
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}"}
RING_BYTES = 64 << 20


async def child(script: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The result of one process of load."""
    process = await asyncio.create_subprocess_exec(
        *KILLED_WITH_US, sys.executable, str(HERE / script), json.dumps(spec), stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    out = await output_of(process)
    if process.returncode or not out:
        raise SystemExit(f"bench: {script} failed in {spec['kind']!r}")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


async def output_of(process: asyncio.subprocess.Process) -> bytes:
    """All that it prints. It ends with whoever waits for it."""
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out


class Floor:
    """The two processes of the floor."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        self.port = 0
        self.pids: dict[str, int] = {}

    def start(self) -> None:
        second = self._spawn("second")
        self.port = self._spawn("first", "--peer", str(second))
        self.pids = {"master": self._processes[1].pid, "replica": self._processes[0].pid}

    def _spawn(self, name: str, *more: str) -> int:
        process = subprocess.Popen(
            [
                *KILLED_WITH_US,
                sys.executable,
                str(HERE / "floor/server.py"),
                "--data-dir",
                str(self._directory / name),
                *more,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        self._processes.append(process)
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise SystemExit("bench: a process of the floor did not start")
        return int(line)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[tuple[Cluster, dict[str, int]]]:
    """A running pair with a witness, and the process of each role."""
    cluster = Cluster(directory)
    async with cluster.running():
        yield cluster, await roles(cluster)


async def roles(cluster: Cluster) -> dict[str, int]:
    view = await cluster.wait_ready()
    pids: dict[str, int] = {}
    for member in view.members:
        domain = member.domain("main")
        pid = cluster.children[member.name].pid
        assert domain is not None
        assert pid is not None
        pids[domain.role.lower()] = pid
    return pids


class Bench:
    """One run of everything asked for, and what it found."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self._directory = directory
        self._runs = options.runs or (1 if options.quick else 3)
        seconds = options.seconds or (0.8 if options.quick else 4.0)
        self._again_max = 0 if options.quick else AGAIN_MAX
        self._times = {"seconds": seconds, "warm_s": 0.3 if options.quick else 1.0}
        self._memory_count = 700_000 if options.quick else 1_000_000
        self._only = options.only
        self.document: Document = begun("bench", {"runs": self._runs, **self._times, "only": self._only})

    def _wanted(self) -> dict[str, dict[str, Any]]:
        return {name: spec for name, spec in WORKLOADS.items() if self._only is None or self._only in name}

    async def run(self) -> None:
        for number in range(self._runs):
            await self._one(number, self._directory / str(number))
            shutil.rmtree(self._directory / str(number))
        if self._only is None or self._only in "memory":
            await self._memory()

    async def _one(self, number: int, directory: Path) -> None:
        """One pair and one floor, taking turns; who goes first changes with each run."""
        floor = Floor(directory / "floor")
        try:
            floor.start()
            async with pair(directory / "pair") as (cluster, pids):
                await self._machine(number, directory, floor)
                for place, (name, spec) in enumerate(self._wanted().items()):
                    sides = [OURS, FLOOR] if (number + place) % 2 == 0 else [FLOOR, OURS]
                    for side in sides:
                        given = {**spec, **self._times}
                        if side == OURS:
                            given |= {"target": cluster.target, "pids": pids, "queue": f"bench-{place}"}
                            result = await self._calm("load.py", given)
                            assert await roles(cluster) == pids, "the pair changed its roles under load"
                        else:
                            given |= {"port": floor.port, "pids": floor.pids}
                            result = await self._calm("floor/client.py", given)
                        self.document.add((name, side), {"run": number, **result}, settings={**spec, **self._times})
                        print(f"run {number + 1}: {name}, {side}: {result['value']:,.0f}", file=sys.stderr, flush=True)
        finally:
            floor.stop()

    async def _calm(self, script: str, given: dict[str, Any]) -> dict[str, Any]:
        async def measure(attempt: int) -> dict[str, Any]:
            queue = {"queue": f"{given['queue']}-{attempt}"} if "queue" in given else {}
            strangers = Strangers()
            result = await child(script, {**given, **queue})
            foreign = strangers.cores()
            if given["kind"] == "latency":  # the floor's tells a rate in any case
                result["value"] = round(result["p50_ms"] * 1e3, 1)
            return {**result, "foreign_cores": foreign}

        return await calm_on_loop(measure, self._again_max)

    async def _machine(self, number: int, directory: Path, floor: Floor) -> None:
        share = min(1.0, self._times["seconds"] / 3)
        echo = {"kind": "echo", "size": KIB, "port": floor.port, "warm_s": 0.2, "seconds": share}
        found = {
            "fdatasync 4 KiB": await asyncio.to_thread(fdatasync_us, directory, share),
            "LMDB commit 1 KiB": await asyncio.to_thread(commit_us, directory, share),
            "loopback TCP round trip 1 KiB": await asyncio.to_thread(loopback_us, share),
            "gRPC stream round trip 1 KiB": (await child("floor/client.py", echo))["value"],
        }
        found[TRIPS] = 2 * found["gRPC stream round trip 1 KiB"] + found["LMDB commit 1 KiB"]
        for name, value in found.items():
            self.document.add((name, MACHINE), {"run": number, "value": round(value, 1)})

    async def _memory(self) -> None:
        directory, count = self._directory / "memory", self._memory_count
        spec = {"kind": "memory", "size": 100, "frame": 100, "count": count, "queue": "memory"}
        async with pair(directory) as (cluster, pids):
            found = await child("load.py", {**spec, "target": cluster.target, "pids": pids})
        first, second = found["steps"]
        ring = min(RING_BYTES, count * 100)
        bytes_per_message = {
            "first, raw": first["anon"] / count,
            MEMORY: (first["anon"] - ring) / count,
            "second, with the ring full": second["anon"] / count,
        }
        for name, value in bytes_per_message.items():
            of = (f"{count:,} messages queued: {name}", MASTER)
            self.document.add(of, {"run": 0, "value": round(value, 2)}, settings=spec)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of everything, about half a minute")
    parser.add_argument("--runs", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--seconds", type=float, help="of each measurement; default: 4, with --quick 0.8")
    parser.add_argument("--only", help="workloads whose name contains this")
    parser.add_argument("--data-dir", type=Path, help="where the stores are while it runs; default: a temporary one")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/bench.json")
    options = parser.parse_args()
    with stoppable("bench"), tempfile.TemporaryDirectory(dir=options.data_dir) as directory:
        bench = Bench(options, Path(directory))
        asyncio.run(bench.run())
    bench.document.end()
    bench.document.write(options.out)
    table(bench.document)
    print(f"kept in {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
