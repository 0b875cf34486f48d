"""Loads each peer with its vendor's own tool, and Tandemq with its SDK, in turns: `python -m bench.native.run`.

Example: `python -m bench.native.run --peers rabbitmq-quorum,nats --runs 1 --seconds 2`. Peers are started, checked and
stopped as in `bench.peers.run`; ours is measured by the same load as there. Prints a line a result, writes all of them
as one JSON document; a tool that failed, cannot be read or claims more than its servers hold is refused.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.document import Document
from bench.native.report import WORKLOADS, table, workloads_of
from bench.native.tool import Tool, run
from bench.native.tools import TOOLS
from bench.peers.adapters import PEERS
from bench.peers.calm import calm
from bench.peers.contract import Peer
from bench.peers.figures import refusals, remarks
from bench.peers.place import KEPT, ROOT, BenchError, Place
from bench.peers.report import OURS
from bench.peers.run import Measurement
from bench.peers.session import carry_out, check_options, in_turns


class Ours(Measurement):
    """Tandemq by its SDK, verified as ever."""

    def workloads(self) -> Iterator[dict[str, Any]]:
        """One message in flight is no matter of tools."""
        for line in super().workloads():
            if line["workload"] in WORKLOADS:
                yield line
            if line["workload"] == WORKLOADS[-1]:
                return


class Theirs:
    """A peer by its vendor's tool, in one run."""

    def __init__(self, place: Place, peer: Peer, options: argparse.Namespace, run: int) -> None:
        self._peer, self._options, self._run = peer, options, run
        self._tool = TOOLS[peer.name](place, peer)
        self._measurement = Measurement(place, peer, options, run)
        self.facts: dict[str, Any] = {}

    def results(self) -> Iterator[dict[str, Any]]:
        """See Turn; what a tool fails in is a refused line."""
        tool, peer = self._tool, self._peer
        found = self._measurement.check()
        self.facts = about(tool, self._measurement.facts)
        size = self._options.size
        base = {"peer": peer.name, "run": self._run, "size": size, "verified": False, "tool": tool.name, **found}
        base["copies"] = self.facts["copies"]
        for workload in workloads_of(peer.name):
            queues = (f"native_{workload}_{attempt}" for attempt in itertools.count(1))
            asked = {**base, "workload": workload}
            yield from calm(lambda asked=asked, queues=queues: [self._loaded(asked, next(queues))])

    def _loaded(self, base: dict[str, Any], queue: str) -> dict[str, Any]:
        line: dict[str, Any] = {**base, "value": 0.0}
        try:
            line |= loaded(self._tool, self._peer, base["workload"], queue, self._options)
        except BenchError as failure:
            line["broke"] = [str(failure)]
        return {**line, "refused": refusals(line), "remarks": remarks(line)}


def loaded(tool: Tool, peer: Peer, workload: str, queue: str, options: argparse.Namespace) -> dict[str, Any]:
    """One workload by the tool: its figures, and what the servers say to them."""
    tool.prepare(queue)
    commands = tool.commands(workload, queue, options.size, options.seconds)
    ran = run(tool, commands)
    outcome = tool.read(workload, ran.outputs)
    held = tool.held(queue)
    return {
        "value": outcome.value,
        "messages": outcome.messages,
        "seconds": round(outcome.seconds, 3),
        "sent": outcome.sent,
        "received": outcome.received,
        "held": held,
        "untold": outcome.untold,
        "slack": tool.slack,
        "commands": {role: shlex.join(command).replace(f"{ROOT}/", "") for role, command in commands.items()},
        "settings_wrong": [setting.wrong for setting in peer.settings() if setting.wrong],
        **ran.figures(outcome.messages),
    }


def about(tool: Tool, measured: dict[str, Any]) -> dict[str, Any]:
    """What is the same for all results of a tool."""
    return {
        **measured,
        "client": f"{tool.name} {tool.version()}",
        "copies": measured["copies"] if tool.copies is None else tool.copies,
        "promise": tool.promise or measured["promise"],
        "lacks": tool.lacks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (OURS, *TOOLS)
    parser.add_argument("--peers", help=f"of {', '.join(names)}; default: all that are installed")
    parser.add_argument("--runs", type=int, default=3, help="default: 3")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement; default: 3")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a payload")
    parser.add_argument("--folder", type=Path, default=KEPT / "run", help="where everything is while it runs")
    parser.add_argument("--out", type=Path, default=KEPT / "native.json", help="default: build/bench/native.json")
    options = parser.parse_args()
    asked = options.peers is not None
    options.peers = options.peers.split(",") if asked else names
    options.warm_s, options.rates = min(1.0, options.seconds / 4), []
    check_options(parser, options, names)

    def measured(place: Place) -> Document:
        asked = {key: getattr(options, key) for key in ("runs", "seconds", "size")}

        def turn_of(peer: Peer, run: int) -> Ours | Theirs:
            return (Theirs if peer.name in TOOLS else Ours)(place, peer, options, run)

        return in_turns(place, options, "native", asked, turn_of)

    carry_out("native", options, required=asked, missing=missing, measured=measured, table=table)


def missing(place: Place, name: str) -> list[str]:
    """Of the peer's programs and its tool's."""
    peer = PEERS[name](place)
    return [*peer.missing(), *(TOOLS[name](place, peer).missing() if name in TOOLS else ())]


if __name__ == "__main__":
    main()
