"""Measures Tandemq and its peers in turns on this machine: `python -m bench.peers.run --peers tandemq,redis`.

For each: start, read the settings back, count syncs under strace, then the workloads, then stop. Every message has a
number and is compared byte for byte where it is received; a result of a run that lost one, or whose peer does not do
what its label says, is refused. Prints a line a result, writes all of them as one JSON document.

Example: python -m bench.peers.run --peers tandemq,redis --runs 1 --seconds 2
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.document import Document
from bench.peers.adapters import PEERS
from bench.peers.adapters.floor import Floor
from bench.peers.calm import AGAIN_MAX, calm
from bench.peers.contract import Peer, in_flight
from bench.peers.figures import refusals, remarks
from bench.peers.open_report import BESIDE, PRODUCERS, RATES, SYSTEMS, open_name
from bench.peers.place import KEPT, KILLED_WITH_US, ROOT, BenchError, Place
from bench.peers.report import table
from bench.peers.session import carry_out, check_options, in_turns
from bench.peers.syncs import counted, opened_for_sync

QUICK = ("tandemq", "floor", "redis", "rabbitmq-quorum")
OPEN_RATES = ",".join(f"{rate:.0f}" for rate in RATES)
OPEN_PRODUCERS = ",".join(map(str, PRODUCERS))
UNANSWERED = ("enqueue", "drain", "flow")
PROBED = 100  # messages under strace
FLOOR_PROBE_S = 0.5  # its client is asked for a time, not for a count
BACKLOG = 8000  # most messages between a producer and its consumer when both run
LATE_S = 2.0  # a producer goes on for longer than its consumer is measured
DEADLINE_S = 240.0  # of one load process
LOOK_S = 0.5  # between two looks whether all that it needs still runs


class Load:
    """One process of load; what it prints last is its result."""

    def __init__(self, place: Place, role: str, peer: Peer, spec: dict[str, Any]) -> None:
        self._place, self._role = place, role
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
        until = time.monotonic() + DEADLINE_S
        while not select.select([self._process.stdout], [], [], LOOK_S)[0]:
            if self._place.gone() or time.monotonic() > until:
                self.result()
        if self._process.stdout.readline() != b"ready\n":
            self.result()

    def result(self) -> dict[str, Any]:
        out = self._output()
        if gone := self._place.gone():
            raise BenchError(f"{gone} while the {self._role} was at work")
        if self._process.returncode or not out:
            tail = self._log.read_text(errors="replace").splitlines()[-12:]
            what = f"the {self._role} failed ({self._process.returncode}): {tail[-1] if tail else 'it told nothing'}"
            raise BenchError("\n".join([what, *tail[:-1]]))
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def _output(self) -> bytes:
        """All that it prints. Nobody waits for it when a server is gone: some clients would for minutes."""
        until = time.monotonic() + DEADLINE_S
        while not self._place.gone():
            try:
                return self._process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    self._end()
                    raise BenchError(f"the {self._role} did not end within {DEADLINE_S:.0f} s") from None
        self._end()
        return b""

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Measurement:
    """One peer in one run."""

    def __init__(
        self, place: Place, peer: Peer, options: argparse.Namespace, run: int, again_max: int = AGAIN_MAX
    ) -> None:
        self._place, self._peer, self._options, self._run = place, peer, options, run
        self._again_max = again_max
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
            **self._bounds(self._peer.batch),
            "warm_s": max(self._options.warm_s, self._peer.warm_s),
            "seconds": self._options.seconds,
            **more,
        }

    def _bounds(self, batch: int) -> dict[str, int]:
        size = self._options.size
        return {"window": in_flight(self._peer.window, size), "batch": self._peer.together(batch, size)}

    def _new(self, queue: str) -> str:
        """Its name, another one when the workload is measured again: what a noisy attempt left is not met."""
        return f"{queue}_{self._run}_{self._number}"

    def _load(self, role: str, spec: dict[str, Any]) -> Load:
        return Load(self._place, role, self._peer, spec)

    def results(self) -> Iterator[dict[str, Any]]:
        """See Turn."""
        self.check()
        yield from self.workloads()
        # A node that went is no matter to who has a majority, but then it was another system that was measured.
        if wrong := [setting.wrong for setting in self._peer.settings() if setting.wrong]:
            raise BenchError(f"afterwards it was not as it was before: {'; '.join(wrong)}")

    def workloads(self) -> Iterator[dict[str, Any]]:
        """A line for each; the peer is checked before and after."""
        if self._options.rates:
            for producers in self._options.producers:
                for rate in self._options.rates:
                    yield from calm(
                        lambda rate=rate, producers=producers: [self.open_loop(rate, producers=producers)],
                        self._again_max,
                    )
            return
        if isinstance(self._peer, Floor):
            floor, spec = self._peer, {key: self._spec("floor")[key] for key in ("size", "warm_s", "seconds")}
            for workload in floor.workloads:
                yield from calm(
                    lambda workload=workload: [self._line(workload, floor.load(workload, spec))], self._again_max
                )
            return
        for measured in (self._pipelined, self._flowing, self._one_by_one):
            yield from calm(measured, self._again_max)

    def _pipelined(self) -> list[dict[str, Any]]:
        enqueued, drained = self._filled_and_drained("enqueue")
        return [
            self._line("enqueue", {**enqueued, "account": drained["account"]}),
            self._line("drain", drained),
        ]

    def _flowing(self) -> list[dict[str, Any]]:
        return [self._line("flow", self._flow())]

    def _one_by_one(self) -> list[dict[str, Any]]:
        single, rest = self._filled_and_drained("single", window=1, batch=1)
        return [self._line("single", {**single, "account": rest["account"]})]

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
            "copies": peer.copies,
        }
        self.facts = {
            "title": peer.title,
            "promise": peer.promise,
            "copies": peer.copies,
            "client": peer.client_title,
            "verified": peer.verified,
            "versions": peer.versions(),
            "programs": peer.origin(),
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
        spec = self._spec(self._new(queue), **more)
        filled = self._load("producer", spec).result()
        whole = {**self._bounds(self._peer.frames or self._peer.batch), "warm_s": 0, "seconds": 0}
        return filled, self._load("consumer", {**spec, **whole}).result()

    def _flow(self) -> dict[str, Any]:
        spec = self._spec(self._new("flow"), backlog=in_flight(BACKLOG, self._options.size))
        producer = self._load("producer", {**spec, "seconds": spec["seconds"] + LATE_S})
        producer.ready()
        consumer = self._load("consumer", {**spec, **self._bounds(self._peer.frames or self._peer.batch)})
        producer.result()
        return consumer.result()

    def open_loop(
        self, rate: float, meanwhile: Callable[[], None] | None = None, *, producers: int = 1, **more: Any
    ) -> dict[str, Any]:
        """So many messages a second, each sent when it is due by one of so many producers with connections of their
        own, while a consumer takes them; `meanwhile` is called when that has begun."""
        spec = self._spec(f"open_{self._run}_{self._number}", rate=rate, producers=producers, **more)
        producer = self._load("producer", spec)
        producer.ready()
        without = {key: value for key, value in spec.items() if key != "rate"}
        without["due"] = {"rate": rate, "warm_s": spec["warm_s"]}
        whole = {**self._bounds(self._peer.frames or self._peer.batch), "warm_s": 0, "seconds": 0}
        consumer = self._load("consumer", {**without, **whole})
        if meanwhile:
            meanwhile()
        sent, received = producer.result(), consumer.result()
        times = {name: value for name, value in received.items() if name.startswith("received_")}
        return self._line(open_name(rate, producers), {**sent, **times, "account": received["account"]})

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
        if workload in UNANSWERED:  # the others have one in flight, or whatever is due
            line |= {"unanswered": in_flight(self._peer.window, line["size"]), "window": self._peer.window}
        return {**line, "refused": refusals(line), "remarks": remarks(line)}


def default_s(options: argparse.Namespace) -> float:
    """Of each measurement: open loops are many."""
    return 3.0 if options.rates or options.quick else 5.0


def again_max_of(options: argparse.Namespace) -> int:
    """Repetitions of what is noisy. A quick look is over in minutes on any machine, as is what is measured once."""
    return 0 if options.quick or options.once else AGAIN_MAX


def rates_of(text: str, parser: argparse.ArgumentParser, option: str = "--open") -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or min(rates) < 1:
        example = OPEN_RATES if option == "--open" else OPEN_PRODUCERS
        parser.error(f"{option} {text}: write numbers of at least 1, for example {option} {example}")
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--open",
        dest="rates",
        nargs="?",
        const=OPEN_RATES,
        help=f"only open loops, at so many messages a second each (default: {OPEN_RATES})",
    )
    parser.add_argument(
        "--producers", default=OPEN_PRODUCERS, help=f"of open loops, each on a connection; default: {OPEN_PRODUCERS}"
    )
    parser.add_argument("--quick", action="store_true", help="ours, the floor, Redis, RabbitMQ quorum; one short run")
    parser.add_argument("--peers", help=f"of {', '.join(PEERS)}; default: all that are installed")
    parser.add_argument("--runs", type=int, help="default: 3, with --quick 1")
    parser.add_argument("--seconds", type=float, help="of each; default: 5, with --quick or --open 3")
    parser.add_argument(
        "--once", action="store_true", help="nothing is measured again: what others disturbed stays, marked noisy"
    )
    parser.add_argument("--size", type=int, default=1024, help="bytes of a payload")
    parser.add_argument("--folder", type=Path, default=KEPT / "run", help="where everything is while it runs")
    parser.add_argument(
        "--out", type=Path, help="default: build/bench/peers.json, with --quick quick.json, with --open open.json"
    )
    options = parser.parse_args()
    asked = options.peers is not None
    chosen = options.peers.split(",") if asked else QUICK if options.quick else tuple(PEERS)
    options.rates = rates_of(options.rates, parser) if options.rates else []
    options.producers = [int(count) for count in rates_of(options.producers, parser, "--producers")]
    if options.rates:
        if not asked:
            chosen = [*SYSTEMS, *BESIDE]
        elif closed := [name for name in chosen if name in PEERS and not PEERS[name].open_loop]:
            parser.error(f"no open loop for {', '.join(closed)}: its client waits for answers before it sends")
    options.peers = tuple(chosen)
    options.runs = (1 if options.quick else 3) if options.runs is None else options.runs
    options.seconds = default_s(options) if options.seconds is None else options.seconds
    options.warm_s = min(1.0, options.seconds / 4)
    kept = "open.json" if options.rates else "quick.json" if options.quick else "peers.json"
    options.out = options.out or KEPT / kept
    check_options(parser, options, tuple(PEERS))

    def measured(place: Place) -> Document:
        asked = {key: getattr(options, key) for key in ("runs", "seconds", "warm_s", "size", "rates")}
        if options.rates:
            asked["producers"] = options.producers
        if options.once:
            asked["once"] = True

        def turn_of(peer: Peer, run: int) -> Measurement:
            return Measurement(place, peer, options, run, again_max_of(options))

        return in_turns(place, options, "open" if options.rates else "peers", asked, turn_of)

    carry_out(
        "peers",
        options,
        required=options.quick or asked,
        missing=lambda place, name: PEERS[name](place).missing(),
        measured=measured,
        table=None if options.rates else table,
    )


if __name__ == "__main__":
    main()
