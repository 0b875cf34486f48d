"""Measures how long a producer waits when its master dies, freezes, is cut off, or hands over: at least 20 times each.

A producer of the SDK sends all the time. After a fault the figure is the time until the first message that was sent
after the fault is acknowledged; at a handoff under load it is the longest pause between two acknowledgements. Default
timers, a witness, no tuning. Prints a table on stderr and writes build/bench/failover.json.

With `--rate` messages are sent one by one, so many a second, also while a master hands over; such a run is for
comparing two versions, and is not shown. Beside each run stands p99 of what was due from a second before the fault on
until two seconds after it; it hardly sees an outage of less than 30 ms.

Faults of a disk are played by their names alone, `--only disk` for all of them, and are not shown either; they need a C
compiler. `hung disk`: no sync of the master ends any more, `hung disk of the replica`: none of the replica, both until
`--hang` seconds are over; `slow disk`: one sync of a hundred of the master takes 50 ms longer, for 10 s. Each tells the
longest pause, p99 until two seconds after the pair is whole again, new epochs and answers with one copy, and each
message is looked for: what is lost, doubled or damaged makes a run refused, and the command end with 1.

Example: python bench/failover.py --runs 5 --only 'kill -9' --rate 1000 --out /tmp/failover.json
Example: python bench/failover.py --runs 4 --only 'hung disk' --rate 5000 --out /tmp/hung.json
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
from rich.progress import Progress

from bench.document import Document, begun
from bench.failover_disks import (
    DISKS,
    DRAIN_S,
    HANG_S,
    PAYLOAD_BYTES,
    SLOW_EVERY,
    SLOW_FOR_S,
    SLOW_S,
    Checked,
    DiskFault,
    said_by,
)
from bench.failover_report import HANDOFF_PER_S, TARGETS_MS, summary, verdict
from bench.failover_traffic import CALM_S, PATIENCE_S, QUEUE, SEND_EVERY_S, Traffic
from bench.peers.payloads import Payloads
from bench.peers.place import Strangers, stoppable
from chaos import nemesis
from chaos.cluster import Cluster
from chaos.healing import whole_again
from chaos.preload import Preload, PreloadError
from chaos.scenario import ClusterHands
from tandemq import aio
from tandemq.cli.output import console
from tandemq.cli.terminal import new_table
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
HANG_MAX_S = 30.0
RATE_MAX = 5_000  # that one process sends one by one beside a pair on two cores
WIDTH = 80  # of its table on a terminal
BEFORE_S, AFTER_S = 1.0, 2.0  # of a fault: what was sent in between is in p99
HANDOFF_FRAME, HANDOFF_BYTES = 200, 1024
# Of the member that takes over, in its log: what is over when the line is written.
STEPS = {
    "connection over": re.compile(r"connection to \w+ is over"),
    "claimed": re.compile(r"register: claim of epoch \d+ .*: done"),
    "committed": re.compile(r"register: commit of epoch \d+ .*: done"),
    "serves": re.compile(r"domain main: MASTER, epoch"),
}
OF_DISKS = ("ended", "epochs", "one_copy_ms", "whole_ms")
WHOLE_S = 60.0


class Bench:
    """One pair, one fault after the other."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace, draw: random.Random, progress: Progress) -> None:
        self._cluster, self._draw, self._progress = cluster, draw, progress
        self._runs, self._hang_s = int(options.runs), float(options.hang)
        self._every_s = 1 / options.rate if options.rate else SEND_EVERY_S
        self._one_by_one = options.rate is not None
        self.found: dict[str, list[dict[str, Any]]] = {}

    async def run(self, wanted: list[str]) -> None:
        faults: dict[str, Callable[[str], Awaitable[None]]] = {
            "kill -9": self._kill,
            "frozen": self._freeze,
            "cut off": self._cut,
        }
        async with aio.connect(self._cluster.target, timeout=60) as client:
            await client.create_queue(QUEUE)
            consuming = asyncio.create_task(self._consume(client))
            for name, fault in faults.items():
                if name in wanted:
                    async with Traffic(client, self._every_s, keeps_up=self._one_by_one).running() as traffic:
                        await self._faults(name, fault, traffic)
            if "handoff" in wanted:
                await self._handoffs(client)
            consuming.cancel()
            with suppress(asyncio.CancelledError):
                await consuming

    async def _consume(self, client: aio.Client, checked: Checked | None = None) -> None:
        """So that the queue stays short."""
        async with client.consumer(QUEUE, credit_messages=20_000) as consumer:
            async for batch in consumer.batches():
                if checked is not None:
                    checked.take((message.payload, message.index) for message in batch)
                batch.ack()

    # -- faults ----------------------------------------------------------------------------------------------------

    async def _faults(self, name: str, fault: Callable[[str], Awaitable[None]], traffic: Traffic) -> None:
        bar = self._progress.add_task(name, total=self._runs)
        for _ in range(self._runs):
            master = (await self._cluster.wait_ready()).masters()[0]
            strangers = Strangers()  # looking at all processes takes milliseconds, so never between fault and answer
            await traffic.calm()
            await asyncio.sleep(self._draw.random() * 0.3)
            self._began_wall, self._began_s = time.time(), time.monotonic()
            self._traffic, self._strangers = traffic, strangers
            await fault(master)
            await traffic.first_after(self._began_s + AFTER_S)
            self.found[name][-1]["p99_ms"] = traffic.p99_ms(self._began_s - BEFORE_S, self._began_s + AFTER_S)
            self._progress.advance(bar)

    async def _measure(self, name: str, master: str) -> None:
        took_s = await self._traffic.first_after(self._began_s) - self._began_s
        heir = next(each for each in self._cluster.members if each != master)
        line = {"ms": round(took_s * 1e3, 1), "master": master, **self._steps(heir)}
        self.found.setdefault(name, []).append({**line, "foreign_cores": self._strangers.cores()})

    async def _kill(self, master: str) -> None:
        self._cluster.kill(master)
        await self._measure("kill -9", master)
        await self._cluster.restart(master)

    async def _freeze(self, master: str) -> None:
        self._cluster.pause(master)
        await self._measure("frozen", master)
        self._cluster.resume(master)

    async def _cut(self, master: str) -> None:
        self._cluster.network.isolate(master)
        await self._measure("cut off", master)
        self._cluster.network.heal()

    def _steps(self, heir: str) -> dict[str, float]:
        """Milliseconds after the fault at which the heir had taken each step, from its log."""
        found: dict[str, float] = {}
        lines = self._cluster.children[heir].log.read_text(errors="replace").splitlines()
        for line in lines[-200:]:
            with suppress(ValueError, KeyError):
                entry = json.loads(line)
                after_s = dt.datetime.fromisoformat(entry["time"]).timestamp() - self._began_wall
                for name, pattern in STEPS.items():
                    if after_s >= 0 and pattern.search(entry["message"]):
                        found.setdefault(name, round(after_s * 1e3, 1))
        return found

    # -- disks -----------------------------------------------------------------------------------------------------

    async def run_disk(self, name: str) -> None:
        """Once: a replica that was left behind is left longer the next time, so each run has a pair of its own."""
        checked = Checked(Payloads(PAYLOAD_BYTES, seed=len(name)))
        async with aio.connect(self._cluster.target, timeout=60) as client:
            await client.create_queue(QUEUE)
            consuming = asyncio.create_task(self._consume(client, checked))
            async with Traffic(client, self._every_s, checked.next, keeps_up=True).running() as traffic:
                run = await self._disk(DISKS[name], traffic)
            with suppress(TimeoutError):  # what did not come by then is lost
                async with asyncio.timeout(DRAIN_S):
                    await checked.all_came()
            consuming.cancel()
            with suppress(asyncio.CancelledError):
                await consuming
        account, broke = checked.result()
        broke += [] if run.pop("felt") else ["the member did not feel its disk"]
        self.found.setdefault(name, []).append({**run, "account": account, **({"broke": broke} if broke else {})})

    async def _disk(self, fault: DiskFault, traffic: Traffic) -> dict[str, Any]:
        """One run. A member that ended is started again once its disk is well."""
        cluster, preload = self._cluster, self._cluster.preload
        assert preload is not None
        master = (await cluster.wait_ready()).masters()[0]
        other = next(each for each in cluster.members if each != master)
        victim, heir = (other, master) if fault.of_replica else (master, other)
        strangers = Strangers()
        await traffic.calm()
        await asyncio.sleep(self._draw.random() * 0.3)
        felt, starts = preload.felt(victim), cluster.children[victim].starts
        self._began_wall, began_s = time.time(), time.monotonic()
        try:
            fault.strike(preload, victim)
            await asyncio.sleep(fault.lasts_s(self._hang_s))
        finally:
            preload.calm(victim)
        felt = preload.felt(victim) - felt
        again = partial(whole_again, cluster, ClusterHands(cluster), "whole after the disk was well", WHOLE_S, [victim])
        await again()
        whole_s = time.monotonic()
        await traffic.first_after(whole_s + AFTER_S)
        await again()  # one that had just made up its mind to end is back, too
        ended_s = time.monotonic()
        return {
            "ms": round(traffic.longest_pause(began_s, ended_s) * 1e3, 1),
            "p99_ms": traffic.p99_ms(began_s - BEFORE_S, whole_s + AFTER_S),
            "master": master,
            "hurt": victim,
            "master_after": (await cluster.wait_ready()).masters()[0],
            "ended": cluster.children[victim].starts - starts,
            "whole_ms": round((whole_s - began_s) * 1e3),
            **said_by(traffic.answers, began_s),
            **self._steps(heir),
            "felt": felt,
            "foreign_cores": strangers.cores(),
        }

    # -- handoff ---------------------------------------------------------------------------------------------------

    async def _handoffs(self, client: aio.Client) -> None:
        bar = self._progress.add_task("handoff", total=self._runs)
        frame = 1 if self._one_by_one else HANDOFF_FRAME
        every_s = self._every_s if self._one_by_one else HANDOFF_FRAME / HANDOFF_PER_S
        payloads = (b"x" * HANDOFF_BYTES,) * frame
        async with Traffic(client, every_s, lambda: payloads, self._one_by_one).running() as traffic:
            for _ in range(self._runs):
                master = (await self._cluster.wait_ready()).masters()[0]
                strangers = Strangers()
                await traffic.calm()
                began_s = time.monotonic()
                count = len(traffic.answers)
                reply = await self._hand_over(master)
                await asyncio.sleep(CALM_S)
                ended_s = time.monotonic()
                if not reply.done:
                    raise SystemExit(f"bench: the handoff was refused: {', '.join(reply.reasons)}: {reply.text}")
                self.found.setdefault("handoff", []).append(
                    {
                        "ms": round(traffic.longest_pause(began_s - 0.02, ended_s) * 1e3, 1),
                        "master": master,
                        "drained": round(reply.pause.ToMilliseconds(), 1),
                        "p99_ms": traffic.p99_ms(began_s - BEFORE_S, ended_s - CALM_S / 2),
                        "per_s": round((len(traffic.answers) - count) * frame / (ended_s - began_s)),
                        "foreign_cores": strangers.cores(),
                    }
                )
                self._progress.advance(bar)

    async def _hand_over(self, master: str) -> pb.HandoffResponse:
        async with grpc.aio.insecure_channel(self._cluster.endpoint(master)) as channel:
            stub = pb_grpc.PairServiceStub(channel)
            return await stub.Handoff(pb.HandoffRequest(reason="bench"), timeout=PATIENCE_S)


# -- what it prints ----------------------------------------------------------------------------------------------------


def table(document: Document) -> Table:
    shown = new_table("First acknowledgement after the fault; longest pause at a handoff (ms)")
    for head in ("what", "runs", "p50", "p90", "max", "p99 of messages", "target", "steps of the heir, p50"):
        texts = head in ("what", "target", "steps of the heir, p50")
        shown.add_column(head, justify="left" if texts else "right", no_wrap=not texts, overflow="fold")
    for (name,), found in document.figures().items():
        if name in DISKS:
            continue
        line = summary(found)
        keys = {key: found.spread(key) for key in (*STEPS, "drained", "per_s")}
        steps = ", ".join(f"{key} {spread.median:,.0f}" for key, spread in keys.items() if spread)
        messages = found.spread("p99_ms")
        figures = (found.count, line["p50"], line["p90"], line["max"], messages.median if messages else 0.0)
        shown.add_row(name, *(f"{figure:,.0f}" for figure in figures), verdict(name, line), steps)
    return shown


def wanted_of(only: str) -> list[str]:
    """Faults of a disk only where they are asked for: nothing of them is shown, and each takes half a minute."""
    return [name for name in (*TARGETS_MS, *(DISKS if only else ())) if only in name]


def table_of_disks(document: Document) -> Table:
    shown = new_table("Longest pause while a disk hangs or is slow (ms); medians")
    heads = ("what", "runs", "pause", "max", "p99", "ended", "epochs", "one copy", "whole after")
    for head in heads:
        shown.add_column(head, justify="left" if head == heads[0] else "right", overflow="fold")
    for (name,), found in document.figures().items():
        if name in DISKS:
            pauses = found.spread("ms")
            middles = [each.median if (each := found.spread(key)) else 0.0 for key in ("p99_ms", *OF_DISKS)]
            figures = (pauses.median, pauses.most, *middles) if pauses else ()
            shown.add_row("; ".join((name, *found.said)), f"{found.count}", *(f"{figure:,.0f}" for figure in figures))
    return shown


async def measure(options: argparse.Namespace, directory: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    wanted = wanted_of(options.only)
    with Progress(console=console(stderr=True)) as progress:
        # A relay accepts for a process that is gone, and would hide that its port refuses: only the cut needs relays.
        for relayed, names in ((False, ("kill -9", "frozen", "handoff")), (True, ("cut off",))):
            if here := [name for name in wanted if name in names]:
                async with Cluster(directory / str(relayed), relayed=relayed).running() as cluster:
                    bench = Bench(cluster, options, random.Random(options.seed), progress)
                    try:
                        await bench.run(here)
                    finally:
                        nemesis.release(cluster)
                found |= bench.found
        if disks := [name for name in wanted if name in DISKS]:
            preload = Preload(directory / "preload", ("a", "b"))
            await asyncio.to_thread(preload.prepare)
            draw = random.Random(options.seed)
            for name in disks:
                bar = progress.add_task(name, total=options.runs)
                for run in range(options.runs):
                    place = directory / f"{name} {run}".replace(" ", "-")
                    async with Cluster(place, preload=preload).running() as cluster:
                        bench = Bench(cluster, options, draw, progress)
                        await bench.run_disk(name)
                    found.setdefault(name, []).extend(bench.found[name])
                    progress.advance(bar)
                    await asyncio.to_thread(shutil.rmtree, place)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each fault; default: 20")
    names = ", ".join((*TARGETS_MS, *DISKS))
    parser.add_argument("--only", default="", help=f"faults whose name contains this, of: {names}")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which faults come")
    parser.add_argument(
        "--rate", type=float, help="messages a second, one by one; default: 500, and 20,000 at a handoff"
    )
    parser.add_argument(
        "--hang", type=float, default=HANG_S, help=f"seconds for which a hung disk hangs; default: {HANG_S:g}"
    )
    parser.add_argument("--data-dir", type=Path, help="where the stores are while it runs; default: a temporary one")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/failover.json")
    options = parser.parse_args()
    if options.rate is not None and not 1 <= options.rate <= RATE_MAX:
        parser.error(f"--rate is 1 to {RATE_MAX:,}")
    if not 0 < options.hang <= HANG_MAX_S:
        parser.error(f"--hang is more than 0 and at most {HANG_MAX_S:g}: a producer waits no longer than 60 s")
    if not (wanted := wanted_of(options.only)):
        parser.error(f"--only: no fault has {options.only!r} in its name; there are {names}")
    of_disk = {"hang_s": options.hang, "slow_s": SLOW_S, "slow_every": SLOW_EVERY, "slow_for_s": SLOW_FOR_S}
    document = begun(
        "failover",
        {
            "runs": options.runs,
            "only": options.only,
            "seed": options.seed,
            **({"rate": options.rate} if options.rate else {}),
            "send_every_s": SEND_EVERY_S,
            "handoff": {"per_s": HANDOFF_PER_S, "frame": HANDOFF_FRAME, "bytes": HANDOFF_BYTES},
            "timers": "default",
            **({"disk": of_disk} if any(name in DISKS for name in wanted) else {}),
        },
    )
    with stoppable("failover"), tempfile.TemporaryDirectory(dir=options.data_dir) as directory:
        try:
            found = asyncio.run(measure(options, Path(directory)))
        except PreloadError as error:
            raise SystemExit(f"failover: {error}") from None
        for name, runs in found.items():
            for number, run in enumerate(runs):
                document.add((name,), {"run": number, **run})
    document.end()
    document.write(options.out)
    for shown in (table(document), table_of_disks(document)):
        if shown.row_count:
            console(stderr=True).print(shown, width=WIDTH)
    print(f"kept in {options.out}", file=sys.stderr)
    sys.exit(any(found.refused for found in document.figures().values()))


if __name__ == "__main__":
    main()
