"""One point while it is measured: a pair of its own and the process that loads it."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Any

from bench.document import Document
from bench.growth.figures import cost, foreign_cores, load_share
from bench.growth.plan import Curve
from bench.peers.adapters.tandemq import Tandemq
from bench.peers.asked import Asked
from bench.peers.place import BenchError, Place, usage
from bench.peers.run import Measurement

ANSWER_S = 600.0  # ten million messages to fill in


class Running:
    """A started point; every step is a call that returns when it is done."""

    def __init__(self, place: Place, curve: Curve, number: int, options: argparse.Namespace) -> None:
        self.curve, self.point = curve, curve.points[number]
        self._place, self._options = place, options
        self.role = f"{curve.name}-{number}"
        self.pair = Tandemq(place, f"pair-{self.role}")
        self._load: Asked | None = None
        self._number = number
        self.pids: dict[str, int] = {}
        self.turns: list[dict[str, Any]] = []
        self.checked: dict[str, Any] = {}
        self.account: dict[str, int] = {}

    def start(self) -> None:
        """The pair, its settings, its syncs under strace, then the load, which fills the queues."""
        self.pair.start()
        self.checked = Measurement(self._place, self.pair, self._options, 0).check()
        self.pids = self.pair.by_role()
        replica_only = self.point.through == "replica"
        spec = {
            "target": self._endpoint(self.pids["replica"]) if replica_only else self.pair.target()["servers"],
            "point": asdict(self.point),
            "pids": self.pids,
            "seed": self._number,
        }  # fmt: skip
        self._load = Asked(self._place, f"load-{self.role}", "bench.growth.load", spec, ANSWER_S)
        self._ask("fill")

    def _endpoint(self, pid: int) -> str:
        cluster = self.pair.cluster
        return next(cluster.endpoint(name) for name in cluster.members if cluster.children[name].pid == pid)

    def _ask(self, what: str) -> dict[str, Any]:
        assert self._load
        return self._load.ask({"do": what}, f"{self.role} in {what!r}")

    def _usage(self) -> dict[str, float]:
        """By everything of the benchmark's, this process included, and by the machine."""
        return {**usage(self._place.folder), "harness": time.process_time() * 1e6}

    def turn(self) -> dict[str, Any]:
        """One turn; whether it counts, is decided for a round of all points."""
        before, began = self._usage(), time.perf_counter()
        found = self._ask("turn")
        foreign = foreign_cores(before, self._usage(), time.perf_counter() - began)
        return {**found, "value": round(found["messages"] / found["seconds"], 1), "foreign_cores": foreign}

    def drain(self) -> None:
        """Receives the rest, and sees that the pair is the one that was measured."""
        self.account = self._ask("drain")["account"]
        if self.pair.by_role() != self.pids:
            raise BenchError(f"{self.role}: the pair changed its roles under load")

    def add_to(self, document: Document) -> None:
        """Each turn; what was seen of the pair, and the account, are of all of them."""
        more = {
            "settings": {**asdict(self.point), "batch": self.point.batch},
            "messages": sum(each["messages"] for each in self.turns),
            "load_share": {"client": load_share(self.turns)},
            "account": self.account,
            "verified": True,
            **self.checked,
        }
        for number, turn in enumerate(self.turns):
            kept = {name: turn[name] for name in ("foreign_cores", "set_aside") if name in turn}
            document.add((self.curve.name, self.point.label), {"run": number, "us": cost(turn), **kept}, **more)

    def stop(self) -> None:
        if self._load:
            self._load.stop()
        self.pair.stop()
