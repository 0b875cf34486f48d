"""Measures how long a producer waits when its master dies, freezes, is cut off, or hands over: at least 20 times each.

A producer of the SDK sends all the time. After a fault the figure is the time until the first message that was sent
after the fault is acknowledged; at a handoff under load it is the longest pause between two acknowledgements. Default
timers, a witness, no tuning. Prints a table on stderr and writes build/bench/failover.json.

With `--rate` messages are sent one by one, so many a second, also while a master hands over; such a run is for
comparing two versions, and is not shown. Beside each run stands p99 of what was sent from a second before the fault on
until two seconds after it; it hardly sees an outage of less than 30 ms.

Example: python bench/failover.py --runs 5 --only 'kill -9' --rate 1000 --out /tmp/failover.json
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
from rich.progress import Progress

from bench.document import Document, begun
from bench.failover_report import HANDOFF_PER_S, summary, verdict
from bench.peers.figures import percentile
from bench.peers.place import Strangers, stoppable
from chaos import nemesis
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.output import console
from tandemq.cli.terminal import new_table
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
QUEUE = "failover"
SEND_EVERY_S = 0.002
RATE_MAX = 5_000  # that one process sends one by one beside a pair on two cores
WIDTH = 80  # of its table on a terminal
CALM_S = 0.5  # of sending before each fault, so that nothing of the last one is left
PATIENCE_S = 30.0
BEFORE_S, AFTER_S = 1.0, 2.0  # of a fault: what was sent in between is in p99
HANDOFF_FRAME, HANDOFF_BYTES = 200, 1024
# Of the member that takes over, in its log: what is over when the line is written.
STEPS = {
    "connection over": re.compile(r"connection to \w+ is over"),
    "claimed": re.compile(r"register: claim of epoch \d+ .*: done"),
    "committed": re.compile(r"register: commit of epoch \d+ .*: done"),
    "serves": re.compile(r"domain main: MASTER, epoch"),
}


@dataclass(slots=True)
class Traffic:
    """A producer that sends all the time, and when each message left and was acknowledged."""

    client: aio.Client
    every_s: float = SEND_EVERY_S
    payloads: tuple[bytes, ...] = (b"x" * 100,)
    acked: list[tuple[float, float]] = field(default_factory=list)  # (sent, acknowledged)
    failed: BaseException | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Traffic]:
        sending = asyncio.create_task(self._send_all())
        try:
            yield self
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self) -> None:
        async with self.client.producer(QUEUE) as producer, asyncio.TaskGroup() as sends:
            due_s = time.monotonic()
            while True:
                sends.create_task(self._send(producer))
                due_s = max(due_s + self.every_s, time.monotonic() - 0.05)
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    async def _send(self, producer: aio.Producer) -> None:
        sent_s = time.monotonic()
        await producer.send_many(self.payloads)
        self.acked.append((sent_s, time.monotonic()))

    async def calm(self) -> None:
        """Returns when everything was acknowledged promptly for a while."""
        began_s = time.monotonic()
        while True:
            await asyncio.sleep(SEND_EVERY_S)
            now_s = time.monotonic()
            recent = [acked for sent, acked in self.acked[-200:] if sent > now_s - CALM_S]
            if now_s - began_s > CALM_S and recent and now_s - recent[-1] < 0.05:
                return
            if now_s - began_s > PATIENCE_S:
                raise SystemExit("bench: the pair did not become calm")

    async def first_after(self, fault_s: float) -> float:
        """When the first message that was sent after the fault was acknowledged."""
        while True:
            for sent_s, acked_s in reversed(self.acked):
                if acked_s < fault_s:
                    break
                if sent_s >= fault_s:
                    return min(acked for sent, acked in self.acked if sent >= fault_s)
            if time.monotonic() - fault_s > PATIENCE_S:
                raise SystemExit(f"bench: nothing was acknowledged within {PATIENCE_S:g} s of a fault")
            await asyncio.sleep(SEND_EVERY_S / 2)

    def p99_ms(self, from_s: float, to_s: float) -> float:
        """Of what was sent in this time, from when it was sent to its acknowledgement."""
        return round(percentile([acked - sent for sent, acked in self.acked if from_s <= sent < to_s], 0.99) * 1e3, 1)

    def longest_pause(self, from_s: float, to_s: float) -> float:
        times = [from_s, *sorted(acked for _, acked in self.acked if from_s < acked < to_s), to_s]
        return max(after - before for before, after in pairwise(times))


class Bench:
    """One pair, one fault after the other."""

    def __init__(
        self, cluster: Cluster, runs: int, draw: random.Random, progress: Progress, rate: float | None = None
    ) -> None:
        self._cluster, self._runs, self._draw, self._progress = cluster, runs, draw, progress
        self._every_s = 1 / rate if rate else SEND_EVERY_S
        self._one_by_one = rate is not None
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
                    async with Traffic(client, self._every_s).running() as traffic:
                        await self._faults(name, fault, traffic)
            if "handoff" in wanted:
                await self._handoffs(client)
            consuming.cancel()
            with suppress(asyncio.CancelledError):
                await consuming

    async def _consume(self, client: aio.Client) -> None:
        """So that the queue stays short."""
        async with client.consumer(QUEUE, credit_messages=20_000) as consumer:
            async for batch in consumer.batches():
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
            await self._traffic.first_after(self._began_s + AFTER_S)
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

    # -- handoff ---------------------------------------------------------------------------------------------------

    async def _handoffs(self, client: aio.Client) -> None:
        bar = self._progress.add_task("handoff", total=self._runs)
        frame = 1 if self._one_by_one else HANDOFF_FRAME
        every_s = self._every_s if self._one_by_one else HANDOFF_FRAME / HANDOFF_PER_S
        async with Traffic(client, every_s, (b"x" * HANDOFF_BYTES,) * frame).running() as traffic:
            for _ in range(self._runs):
                master = (await self._cluster.wait_ready()).masters()[0]
                strangers = Strangers()
                await traffic.calm()
                began_s = time.monotonic()
                count = len(traffic.acked)
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
                        "per_s": round((len(traffic.acked) - count) * frame / (ended_s - began_s)),
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
        line = summary(found)
        keys = {key: found.spread(key) for key in (*STEPS, "drained", "per_s")}
        steps = ", ".join(f"{key} {spread.median:,.0f}" for key, spread in keys.items() if spread)
        messages = found.spread("p99_ms")
        figures = (found.count, line["p50"], line["p90"], line["max"], messages.median if messages else 0.0)
        shown.add_row(name, *(f"{figure:,.0f}" for figure in figures), verdict(name, line), steps)
    return shown


async def measure(options: argparse.Namespace, directory: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    with Progress(console=console(stderr=True)) as progress:
        # A relay accepts for a process that is gone, and would hide that its port refuses: only the cut needs relays.
        for relayed, names in ((False, ("kill -9", "frozen", "handoff")), (True, ("cut off",))):
            wanted = [name for name in names if options.only in name]
            if wanted:
                async with Cluster(directory / str(relayed), relayed=relayed).running() as cluster:
                    draw = random.Random(options.seed)
                    bench = Bench(cluster, options.runs, draw, progress, options.rate)
                    try:
                        await bench.run(wanted)
                    finally:
                        nemesis.release(cluster)
                found |= bench.found
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each fault; default: 20")
    parser.add_argument("--only", default="", help="faults whose name contains this: kill -9, frozen, cut off, handoff")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which faults come")
    parser.add_argument(
        "--rate", type=float, help="messages a second, one by one; default: 500, and 20,000 at a handoff"
    )
    parser.add_argument("--data-dir", type=Path, help="where the stores are while it runs; default: a temporary one")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/failover.json")
    options = parser.parse_args()
    if options.rate is not None and not 1 <= options.rate <= RATE_MAX:
        parser.error(f"--rate is 1 to {RATE_MAX:,}")
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
        },
    )
    with stoppable("failover"), tempfile.TemporaryDirectory(dir=options.data_dir) as directory:
        for name, runs in asyncio.run(measure(options, Path(directory))).items():
            for number, run in enumerate(runs):
                document.add((name,), {"run": number, **run})
    document.end()
    document.write(options.out)
    console(stderr=True).print(table(document), width=WIDTH)
    print(f"kept in {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
