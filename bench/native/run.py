"""Loads each peer with its vendor's own tool, and Tandemq with its SDK, in turns: `python -m bench.native.run`.

Example: `python -m bench.native.run --peers rabbitmq-quorum,nats --runs 1 --seconds 2`. Peers are started, checked and
stopped as in `bench.peers.run`; ours is measured by the same load as there. Prints a line a result, writes all of them
as one JSON document; a tool that failed, cannot be read or claims more than its servers hold is refused.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.machine import facts
from bench.native.outcome import held_short
from bench.native.report import table
from bench.native.tool import Tool, run
from bench.native.tools import TOOLS
from bench.peers.adapters import PEERS
from bench.peers.contract import Peer
from bench.peers.figures import refusals, remarks
from bench.peers.place import KEPT, ROOT, BenchError, Place
from bench.peers.report import OURS, summary
from bench.peers.run import Measurement, started, tell

WORKLOADS = ("enqueue", "flow")


def ours(measurement: Measurement) -> Iterator[dict[str, Any]]:
    """The lines of the same two workloads, verified as ever."""
    for line in measurement.results():
        if line["workload"] in WORKLOADS:
            yield line
        if line["workload"] == WORKLOADS[-1]:
            return  # one message in flight is no matter of tools


def theirs(
    tool: Tool, peer: Peer, measurement: Measurement, options: argparse.Namespace, number: int
) -> Iterator[dict[str, Any]]:
    """A line a workload; what fails is a refused one."""
    found = measurement.check()
    base = {"peer": peer.name, "run": number, "size": options.size, "verified": False, "tool": tool.name, **found}
    for workload in WORKLOADS if tool.flow else WORKLOADS[:1]:
        line: dict[str, Any] = {**base, "workload": workload, "value": 0.0}
        try:
            line |= loaded(tool, peer, workload, f"native_{workload}", options)
            line["refused"] = [*line["short"], *refusals(line)]
        except BenchError as failure:
            line |= {"refused": [str(failure)]}
        yield {**line, "remarks": remarks(line)}


def loaded(tool: Tool, peer: Peer, workload: str, queue: str, options: argparse.Namespace) -> dict[str, Any]:
    """One workload by the tool: its figures, and what the servers say to them."""
    tool.prepare(queue)
    commands = tool.commands(workload, queue, options.size, options.seconds)
    ran = run(tool, commands)
    outcome = tool.read(workload, ran.outputs)
    held = tool.held(queue)
    short = held_short(outcome, held, tool.slack)
    return {
        "value": outcome.value,
        "messages": outcome.messages,
        "seconds": round(outcome.seconds, 3),
        "sent": outcome.sent,
        "received": outcome.received,
        "held": held,
        "short": [short] if short else [],
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


def measure(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {
        "about": facts(),
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "options": {"native": True, **{key: getattr(options, key) for key in ("runs", "seconds", "size")}},
        "peers": {},
        "results": [],
        "failed": [],
    }
    for number in range(options.runs):
        turn = number % len(options.peers)  # who is first changes
        for name in (*options.peers[turn:], *options.peers[:turn]):
            began = time.monotonic()
            peer = PEERS[name](place)
            measurement = Measurement(place, peer, options, number)
            tool = TOOLS[name](place, peer) if name in TOOLS else None
            try:
                with started(peer):
                    lines = theirs(tool, peer, measurement, options, number) if tool else ours(measurement)
                    for line in lines:
                        document["results"].append(line)
                        tell(line)
                    if name not in document["peers"]:
                        document["peers"][name] = about(tool, measurement.facts) if tool else measurement.facts
            except (BenchError, OSError) as failure:
                document["failed"].append({"peer": name, "run": number, "why": str(failure)})
                print(f"{name}: FAILED: {failure}", file=sys.stderr, flush=True)
            print(f"{name}: run {number + 1} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return document


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
    asked = bool(options.peers)
    options.peers = tuple(options.peers.split(",")) if asked else names
    if unknown := set(options.peers) - set(names):
        parser.error(f"no load tool for {', '.join(sorted(unknown))}: choose of {', '.join(names)}")
    if options.runs < 1 or options.seconds < 1 or options.size < 1:
        parser.error("--runs, --seconds and --size are at least 1")
    options.warm_s, options.rates = min(1.0, options.seconds / 4), []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is then stopped
    try:
        with Place(options.folder) as place:
            lacking = {name: found for name in options.peers if (found := missing(place, name))}
            if lacking and asked:
                raise BenchError(f"not installed, run `make bench-deps`: {lacking}")
            options.peers = tuple(name for name in options.peers if name not in lacking)
            document = {**measure(place, options), "left_out": lacking}
            document["summary"] = summary(document)
    except BenchError as failure:
        raise SystemExit(f"native: {failure}") from None
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(table(document))
    for failure in document["failed"]:
        print(
            f"{failure['peer']} failed in run {failure['run'] + 1}: {failure['why'].splitlines()[0]}", file=sys.stderr
        )
    for name, programs in lacking.items():
        print(f"{name} is left out: no {', '.join(programs)}; `make bench-deps`", file=sys.stderr)
    print(f"kept in {options.out}", file=sys.stderr)
    if document["failed"] or any(line["refused"] for line in document["results"]):
        raise SystemExit(1)


def missing(place: Place, name: str) -> list[str]:
    """Of the peer's programs and its tool's."""
    peer = PEERS[name](place)
    return [*peer.missing(), *(TOOLS[name](place, peer).missing() if name in TOOLS else ())]


if __name__ == "__main__":
    main()
