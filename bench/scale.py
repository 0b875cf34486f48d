"""Measures what should not grow: 10,000 queues, a million queued messages, 10,000 senders that wait, and how long a
producer waits while three million messages are copied anew.

Prints a line a figure, keeps them in build/bench/scale-<time>.json. Each part runs in a process of its own
(`scale_load.py`), `--runs` times. Figures of cost are processor time, and ratios are taken within one run: what a
neighbour took from the machine is in both sides.

Example: python bench/scale.py --share 0.01 --runs 1 --only queues
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import cpu_us, resident
from run import output_of, pair

from bench.document import Document, begun
from bench.peers.place import KILLED_WITH_US, stoppable
from bench.tables import number, ranged
from chaos.cluster import Cluster
from tandemq import aio

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
QUEUES, DEEP, SHALLOW, WAITERS, COPIED = 10_000, 1_000_000, 1_000, 10_000, 3_000_000
BATCHES = (100, 10)
SETTLE_S, IDLE_S = 2.0, 5.0

FEATURES = ("plain", "priority", "selector by id", "delayed", "expiry")

Figures = dict[str, tuple[float, str]]


async def load(spec: dict[str, Any]) -> dict[str, Any]:
    """The result of one process of load. -P: this folder has a module of the name of a server's package."""
    process = await asyncio.create_subprocess_exec(
        *(*KILLED_WITH_US, sys.executable, "-P", str(HERE / "scale_load.py"), json.dumps(spec)),
        stdout=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
    )
    out = await output_of(process)
    if process.returncode or not out:
        raise SystemExit(f"scale: the load failed in {spec['kind']!r}")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


async def queues(directory: Path, share: float) -> Figures:
    """Made in a batch on a pair; what they take while idle; how soon a member with them serves again."""
    count = int(QUEUES * share)
    async with pair(directory) as (cluster, pids):
        spec = {"kind": "queues", "count": 200, "prefix": "warm-up", "target": cluster.target}
        await load(spec)
        await asyncio.sleep(SETTLE_S)
        before, used = resident(pids["master"])["anon"], {role: cpu_us(pid) for role, pid in pids.items()}
        made = await load({**spec, "count": count, "prefix": "q"})
        took = {role: (cpu_us(pid) - used[role]) / count for role, pid in pids.items()}
        await asyncio.sleep(SETTLE_S)
        idle = (resident(pids["master"])["anon"] - before) / count
    return {
        f"{count:,} queues made, each": (made["value"] / count * 1e6, "us"),
        "of it CPU of the master": (took["master"], "us"),
        "of it CPU of the replica": (took["replica"], "us"),
        "idle memory of a queue": (idle, "B"),
        **await restarted(directory / "alone", count),
    }


async def restarted(directory: Path, count: int) -> Figures:
    """From the start of the process to the first answer, after a stop in good order and after a kill."""
    cluster = Cluster(directory, members=("solo",))
    found: Figures = {}
    async with cluster.running():
        spec = {"kind": "queues", "count": count, "prefix": "q", "target": cluster.target}
        made = await load(spec)
        found[f"{count:,} queues made by a manager without a peer, each"] = (made["value"] / count * 1e6, "us")
        for number, name in ((signal.SIGTERM, "a stop"), (signal.SIGKILL, "a kill")):
            process = cluster.children["solo"].process
            assert process is not None
            cluster.kill("solo", number)
            await asyncio.to_thread(process.wait)
            began = time.perf_counter()
            cluster.spawn("solo")
            async with aio.connect(cluster.target) as client:
                assert (await client.manager_info()).queues == count
            found[f"start with {count:,} queues after {name}"] = (time.perf_counter() - began, "s")
    return found


async def deep(directory: Path, share: float) -> Figures:
    """Messages sent, received and acknowledged by the hundred among a thousand queued, and among a million; by id, one
    at a time.
    """
    found: Figures = {}
    spec = {"kind": "deep", "shallow": SHALLOW, "deep": int(DEEP * share), "directory": str(directory)}
    for feature in FEATURES:
        result = await load({**spec, "feature": feature})
        found[f"{feature}, a message among {SHALLOW:,}"] = (result["shallow"], "us CPU")
        found[f"{feature}, a message among {spec['deep']:,}"] = (result["deep"], "us CPU")
        found[f"{feature}, the second by the first"] = (result["deep"] / result["shallow"], "")
    return found


async def waiters(directory: Path, share: float) -> Figures:
    """Senders blocked on one full queue: what the manager does meanwhile, and how long until all are served."""
    count = int(WAITERS * share)
    cluster = Cluster(directory, members=("solo",))
    async with cluster.running():
        pid = cluster.children["solo"].pid
        assert pid is not None
        idle = await idling(pid)
        spec = {"kind": "waiters", "count": count, "target": cluster.target, "pid": pid, "idle_s": IDLE_S}
        result = await load(spec)
    return {
        "CPU of an idle manager": (idle, "ms/s"),
        f"CPU while {count:,} wait": (result["idle"], "ms/s"),
        f"{count:,} waiters served in order, all": (result["served_s"], "s"),
    }


async def resync(directory: Path, share: float) -> Figures:
    """Everything anew at the replica, while one producer sends a message after the other."""
    found: Figures = {}
    for batch in BATCHES:
        found |= await copied(directory / str(batch), int(COPIED * share), batch)
    return found


async def copied(directory: Path, count: int, batch: int) -> Figures:
    """So many messages, that came in batches of that many."""
    async with pair(directory) as (cluster, pids):
        replica = next(name for name, child in cluster.children.items() if child.pid == pids["replica"])
        master = next(name for name, child in cluster.children.items() if child.pid == pids["master"])
        ends = {"replica": cluster.config(replica).endpoint, "master": cluster.config(master).endpoint}
        result = await load({"kind": "resync", "count": count, "batch": batch, "target": cluster.target, **ends})
    what = f"{count:,} messages by {batch} anew"
    return {
        f"{what}, until both members have all": (result["took_s"], "s"),
        f"{what}, full transfers": (result["transfers"], ""),
        f"{what}, longest send before": (result["before_ms"], "ms"),
        f"{what}, longest send meanwhile": (result["longest_ms"], "ms"),
        f"{what}, 99 % of the sends meanwhile": (result["p99_ms"], "ms"),
        f"{what}, sends meanwhile": (result["sends"], ""),
        f"{what}, of these on one copy": (result["alone"], ""),
    }


async def idling(pid: int) -> float:
    """Milliseconds of CPU a second."""
    began = cpu_us(pid)
    await asyncio.sleep(IDLE_S)
    return (cpu_us(pid) - began) / 1e3 / IDLE_S


PARTS = {"queues": queues, "deep": deep, "waiters": waiters, "resync": resync}


async def measure(options: argparse.Namespace, directory: Path, document: Document) -> None:
    for run in range(options.runs):
        for part, measured in PARTS.items():
            if options.only in part:
                for name, (value, unit) in (await measured(directory / f"{part}-{run}", options.share)).items():
                    document.add((part, name), {"run": run, "value": round(value, 3)}, unit=unit)
                    print(f"run {run + 1}: {name}: {value:,.2f} {unit}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the numbers: 0.01 to see that it runs")
    parser.add_argument("--only", default="", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--data-dir", type=Path, help="where the stores are while it runs; default: a temporary one")
    options = parser.parse_args()
    document = begun("scale", {"runs": options.runs, "share": options.share, "only": options.only})
    kept = ROOT / "build/bench" / f"scale-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.json"
    with stoppable("scale"), tempfile.TemporaryDirectory(dir=options.data_dir) as directory:
        asyncio.run(measure(options, Path(directory), document))
    document.end()
    document.write(kept)
    for result, found in zip(document.results, document.figures().values(), strict=True):
        print(f"{' '.join(found.of)}: {ranged(found.spread('value'), number)} {result['unit']}")
    print(f"kept in {kept}", file=sys.stderr)


if __name__ == "__main__":
    main()
