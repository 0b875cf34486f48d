"""Measures Tandemq and its peers in turns on this machine: `python -m bench.peers.run --peers tandemq,redis`.

For each: start, read the settings back, count syncs under strace, then the workloads, then stop. Every message has a
number and is compared byte for byte where it is received; a result of a run that lost one, or whose peer does not do
what its label says, is refused. Prints a line a result, writes all of them as one JSON document.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import facts
from bench.peers.adapters import PEERS
from bench.peers.adapters.floor import Floor
from bench.peers.contract import Peer
from bench.peers.figures import refusals, remarks, syncs_short
from bench.peers.place import KEPT, KILLED_WITH_US, ROOT, BenchError, Place
from bench.peers.report import summary, table
from bench.peers.syncs import counted, opened_for_sync

QUICK = ("tandemq", "floor", "redis", "rabbitmq-quorum")
OPEN_RATES = "1000,5000,20000"
WORKLOADS = ("enqueue", "drain", "flow", "single")
PROBED = 100  # messages under strace
FLOOR_PROBE_S = 0.5  # its client is asked for a time, not for a count
BACKLOG = 8000  # most messages between a producer and its consumer when both run
LATE_S = 2.0  # a producer goes on for longer than its consumer is measured
DEADLINE_S = 240.0  # of one load process


class Load:
    """One process of load; what it prints last is its result."""

    def __init__(self, place: Place, role: str, peer: Peer, spec: dict[str, Any]) -> None:
        self._role = role
        folder = place.role(role)
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*KILLED_WITH_US, peer.interpreter, "-P", "-m", "bench.peers.load", json.dumps({**spec, "role": role})],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            )

    def ready(self) -> None:
        """Until the queue is there."""
        assert self._process.stdout
        if self._process.stdout.readline() != b"ready\n":
            self.result()

    def result(self) -> dict[str, Any]:
        try:
            out, _ = self._process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise BenchError(f"the {self._role} did not end within {DEADLINE_S:.0f} s") from None
        if self._process.returncode or not out:
            tail = self._log.read_text(errors="replace").splitlines()[-12:]
            raise BenchError("\n".join([f"the {self._role} failed ({self._process.returncode}):", *tail]))
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


class Measurement:
    """One peer in one run."""

    def __init__(self, place: Place, peer: Peer, options: argparse.Namespace, run: int) -> None:
        self._place, self._peer, self._options, self._run = place, peer, options, run
        self.facts: dict[str, Any] = {}
        self._found: dict[str, Any] = {}  # that holds for every result of this run
        self._number = 0

    def _spec(self, queue: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        progress = self._place.role("progress") / f"{self._peer.name}-{self._run}-{self._number}-{queue}"
        progress.unlink(missing_ok=True)  # what an earlier queue of the name counted would end a consumer too soon
        return {
            "client": self._peer.client,
            "target": self._peer.target(),
            "queue": queue,
            "folder": str(self._place.folder),
            "progress": str(progress),
            "seed": self._run,
            "size": self._options.size,
            "window": self._peer.window,
            "batch": self._peer.batch,
            "warm_s": max(self._options.warm_s, self._peer.warm_s),
            "seconds": self._options.seconds,
            **more,
        }

    def _load(self, role: str, spec: dict[str, Any]) -> Load:
        return Load(self._place, role, self._peer, spec)

    def results(self) -> Iterator[dict[str, Any]]:
        """A line for each workload; the first ones are told while the next are still to come."""
        self.check()
        if self._options.rates:
            for rate in self._options.rates:
                yield self.open_loop(rate)
            return
        if isinstance(self._peer, Floor):
            spec = {key: self._spec("floor")[key] for key in ("size", "warm_s", "seconds")}
            for workload in ("enqueue", "flow", "single"):
                yield self._line(workload, self._peer.load(workload, spec))
            return
        enqueued, drained = self._filled_and_drained("enqueue")
        yield self._line("enqueue", {**enqueued, "account": drained["account"]})
        yield self._line("drain", drained)
        yield self._line("flow", self._flow())
        single, rest = self._filled_and_drained("single", window=1, batch=1)
        yield self._line("single", {**single, "account": rest["account"]})

    def check(self) -> dict[str, Any]:
        """Settings as the running processes tell them, and syncs as the kernel sees them: what every result carries."""
        peer = self._peer
        self._send(
            1, f"first_{self._run}"
        )  # the settings are asked with a queue there, and everything is written to once
        settings = peer.settings()
        messages = 0

        def work() -> None:
            nonlocal messages
            messages = self._send(PROBED, f"probe_{self._run}")

        syncs = counted(peer.members(), self._place.role("strace"), work)
        self._found = {
            "settings_wrong": [setting.wrong for setting in settings if setting.wrong],
            "syncs": {**syncs, "messages": messages},
            "syncs_short": syncs_short(syncs, messages, peer.copies),
        }
        self.facts = {
            "title": peer.title,
            "promise": peer.promise,
            "copies": peer.copies,
            "client": peer.client_title,
            "verified": peer.verified,
            "versions": peer.versions(),
            "settings": {setting.name: setting.found for setting in settings},
            "described": peer.described(),
            "open for synchronised writes": sum(opened_for_sync(pids) for pids in peer.members().values()),
            "syncs": self._found["syncs"],
        }
        return self._found

    def _send(self, count: int, queue: str) -> int:
        """So many messages one at a time, or a little more; how many were answered."""
        if isinstance(self._peer, Floor):
            spec = {"size": self._options.size, "warm_s": 0, "seconds": FLOOR_PROBE_S}
            return int(self._peer.load("single", spec)["messages"])
        spec = self._spec(queue, window=1, batch=1, count=count, warm_s=0, seconds=0)
        return int(self._load("producer", spec).result()["sent"])

    def _filled_and_drained(self, queue: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        spec = self._spec(queue, **more)
        filled = self._load("producer", spec).result()
        whole = {"window": self._peer.window, "batch": self._peer.frames or self._peer.batch, "warm_s": 0, "seconds": 0}
        return filled, self._load("consumer", {**spec, **whole}).result()

    def _flow(self) -> dict[str, Any]:
        spec = self._spec("flow", backlog=BACKLOG)
        producer = self._load("producer", {**spec, "seconds": spec["seconds"] + LATE_S})
        producer.ready()
        consumer = self._load("consumer", {**spec, "batch": self._peer.frames or self._peer.batch})
        producer.result()
        return consumer.result()

    def open_loop(self, rate: float, meanwhile: Callable[[], None] | None = None, **more: Any) -> dict[str, Any]:
        """So many messages a second, each sent when it is due, while a consumer takes them; `meanwhile` is called when
        that has begun."""
        spec = self._spec(f"open_{self._run}_{self._number}", rate=rate, **more)
        producer = self._load("producer", spec)
        producer.ready()
        without = {key: value for key, value in spec.items() if key != "rate"}
        whole = {"batch": self._peer.frames or self._peer.batch, "warm_s": 0, "seconds": 0}
        consumer = self._load("consumer", {**without, **whole})
        if meanwhile:
            meanwhile()
        sent, received = producer.result(), consumer.result()
        return self._line(f"open {rate:,.0f}/s", {**sent, "account": received["account"]})

    def _line(self, workload: str, result: dict[str, Any]) -> dict[str, Any]:
        line = {
            "peer": self._peer.name,
            "run": self._run,
            "workload": workload,
            "size": self._options.size,
            "verified": self._peer.verified,
            **result,
            **self._found,
        }
        return {**line, "refused": refusals(line), "remarks": remarks(line)}


@contextmanager
def started(peer: Peer) -> Iterator[None]:
    try:
        peer.start()
        yield
    finally:
        peer.stop()


def measure(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    names = options.peers
    asked = {key: getattr(options, key) for key in ("runs", "seconds", "warm_s", "size", "rates")}
    document: dict[str, Any] = {
        "about": facts(),
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "options": asked,
        "peers": {},
        "results": [],
        "failed": [],
    }
    for run in range(options.runs):
        turn = run % len(names)  # who is first changes
        for name in (*names[turn:], *names[:turn]):
            began = time.monotonic()
            peer = PEERS[name](place)
            measurement = Measurement(place, peer, options, run)
            try:
                with started(peer):
                    for line in measurement.results():
                        document["results"].append(line)
                        tell(line)
            except (BenchError, OSError) as failure:
                document["failed"].append({"peer": name, "run": run, "why": str(failure)})
                print(f"{name}: FAILED: {failure}", file=sys.stderr, flush=True)
            if measurement.facts:
                document["peers"].setdefault(name, measurement.facts)
            print(f"{name}: run {run + 1} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return document


def tell(line: dict[str, Any]) -> None:
    rate = f"{line['value']:>12,.0f}" if line["workload"] != "single" else f"{line['p50_ms'] * 1e3:>9,.0f} us"
    if "rate" in line:
        times = (f"{name} {line[f'{name}_ms']:,.2f}" for name in ("p50", "p99", "p999", "max", "late_p50", "late_p99"))
        rate += f"  {', '.join(times)} ms"
    load = ", ".join(f"{role} {share:.0%}" for role, share in line.get("load_share", {}).items() if share)
    said = (
        f"  {load} of a core"
        + "".join(f"; REFUSED: {why}" for why in line["refused"])
        + "".join(f"; {what}" for what in line["remarks"])
    )
    print(f"{line['peer']:<18} {line['workload']:<8} {rate}{said}", file=sys.stderr, flush=True)


def rates_of(text: str, parser: argparse.ArgumentParser) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or min(rates) < 1:
        parser.error(f"--open {text}: write rates of at least 1 a second, for example --open {OPEN_RATES}")
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--open",
        dest="rates",
        nargs="?",
        const=OPEN_RATES,
        help=f"only open loops, at so many messages a second each (default: {OPEN_RATES})",
    )
    parser.add_argument("--quick", action="store_true", help="ours, the floor, Redis, RabbitMQ quorum; one short run")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}; default: all that are installed")
    parser.add_argument("--runs", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--seconds", type=float, help="of each measurement; default: 5, with --quick 3")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a payload")
    parser.add_argument("--folder", type=Path, default=KEPT / "run", help="where everything is while it runs")
    parser.add_argument(
        "--out", type=Path, help="default: build/bench/peers.json, with --quick quick.json, with --open open.json"
    )
    options = parser.parse_args()
    asked = bool(options.peers)
    chosen = options.peers.split(",") if options.peers else QUICK if options.quick else tuple(PEERS)
    options.rates = rates_of(options.rates, parser) if options.rates else []
    if options.rates:
        if not asked:
            chosen = [name for name in QUICK if PEERS[name].open_loop]
        elif closed := [name for name in chosen if name in PEERS and not PEERS[name].open_loop]:
            parser.error(f"no open loop for {', '.join(closed)}: its client waits for answers before it sends")
    if unknown := set(chosen) - PEERS.keys():
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    options.peers = tuple(chosen)
    options.runs = options.runs or (1 if options.quick else 3)
    options.seconds = options.seconds or (3.0 if options.quick else 5.0)
    options.warm_s = min(1.0, options.seconds / 4)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is then stopped
    kept = "open.json" if options.rates else "quick.json" if options.quick else "peers.json"
    out = options.out or KEPT / kept
    try:
        with Place(options.folder) as place:
            missing = {name: PEERS[name](place).missing() for name in options.peers}
            lacking = {name: programs for name, programs in missing.items() if programs}
            if lacking and (options.quick or asked):
                raise BenchError(f"not installed, run `make bench-deps`: {lacking}")
            options.peers = tuple(name for name in options.peers if name not in lacking)
            document = {**measure(place, options), "left_out": lacking}
            document["summary"] = summary(document)
    except BenchError as failure:
        raise SystemExit(f"peers: {failure}") from None
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if not options.rates:
        print(table(document))
    for failure in document["failed"]:
        print(
            f"{failure['peer']} failed in run {failure['run'] + 1}: {failure['why'].splitlines()[0]}", file=sys.stderr
        )
    for name, programs in lacking.items():
        print(f"{name} is left out: no {', '.join(programs)}; `make bench-deps`", file=sys.stderr)
    print(f"kept in {out}", file=sys.stderr)
    if document["failed"] or any(line["refused"] for line in document["results"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
