"""From the options of a command to its document: peers in turns, what failed, what was left out, how it ends.

For every command that measures peers; what is measured of each is a `Turn`'s business.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from bench.document import Document, begun
from bench.peers.adapters import PEERS
from bench.peers.contract import Peer
from bench.peers.packaged import Packaged
from bench.peers.payloads import SIZE_MIN
from bench.peers.place import LOAD_ROLES, BenchError, Place, stoppable
from bench.peers.programs import newest_root

SIZE_MAX = 1 << 20
"""Of a payload: what a queue takes unless it is told otherwise."""
SECONDS_MAX = 60
"""Of a measurement: a process of load, or a tool, must end within two minutes with all that it does."""


class Turn(Protocol):
    """One peer in one run."""

    facts: dict[str, Any]
    """What is the same for all its results; empty until it is known."""

    def results(self) -> Iterator[dict[str, Any]]:
        """A line a workload; the first ones are told while the next are still to come. Raises BenchError."""


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str]) -> None:
    """Ends with exit code 2 where they make no sense. `peers` becomes names, `out` a place that can be written."""
    options.peers = tuple(dict.fromkeys(options.peers))
    if unknown := set(options.peers) - set(names):
        parser.error(f"nothing known of {', '.join(sorted(unknown))}: choose of {', '.join(names)}")
    if options.runs < 1 or not 1 <= options.seconds <= SECONDS_MAX:
        parser.error(f"--runs and --seconds are at least 1, --seconds at most {SECONDS_MAX}")
    if not SIZE_MIN <= options.size <= SIZE_MAX:
        parser.error(f"--size {options.size}: a payload has {SIZE_MIN} to {SIZE_MAX} bytes, its number among them")
    if options.out.is_dir():
        parser.error(f"--out {options.out} is a folder")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        parser.error(f"--out {options.out}: {failure.strerror}")
    if not os.access(options.out if options.out.exists() else options.out.parent, os.W_OK):
        parser.error(f"--out {options.out} cannot be written")


@contextmanager
def started(peer: Peer) -> Iterator[None]:
    try:
        peer.start()
        yield
    finally:
        for role in LOAD_ROLES:  # one whose other side failed still waits for it
            peer.place.end(role)
        peer.stop()


def in_turns(
    place: Place,
    options: argparse.Namespace,
    benchmark: str,
    asked: Mapping[str, Any],
    turn_of: Callable[[Peer, int], Turn],
) -> Document:
    """Of all runs. Who is stopped keeps what was measured by then, as a run that failed."""
    document = begun(benchmark, {**asked, "peers": list(options.peers)})
    for run in range(options.runs):
        turn = run % len(options.peers)  # who is first changes
        for name in (*options.peers[turn:], *options.peers[:turn]):
            began, failed = time.monotonic(), ""
            peer = PEERS[name](place)
            one = turn_of(peer, run)
            try:
                with started(peer):
                    for line in one.results():
                        measured = {name: value for name, value in line.items() if name not in ("peer", "workload")}
                        document.add((line["peer"], line["workload"]), measured)
                        tell(line)
            except (BenchError, OSError) as failure:
                failed = str(failure)
            except KeyboardInterrupt:
                failed = STOPPED
            if failed:
                document.failed.append({"of": [name], "run": run, "why": failed})
                print(f"{name}: FAILED: {failed}", file=sys.stderr, flush=True)
            if one.facts:
                document.peers.setdefault(name, one.facts)
            if failed == STOPPED:
                return document
            took = f"run {run + 1} took {time.monotonic() - began:.0f} s"
            print(f"{name}{ran(one.facts)}: {took}", file=sys.stderr, flush=True)
    document.end()
    return document


def ran(facts: Mapping[str, Any]) -> str:
    """The version that was measured, and whose it is."""
    version, programs = facts.get("versions", {}).get("server", ""), facts.get("programs", "")
    said = f" {version}" if version else ""
    return f"{said} ({programs})" if programs else said


STOPPED = "stopped before it was done"


def tell(line: Mapping[str, Any]) -> None:
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


def without_root(peers: Iterable[str]) -> str:
    """Why the machine's own versions are all that there are, where that is so and matters to these peers."""
    if not any(issubclass(PEERS[peer], Packaged) for peer in peers):
        return ""
    why = newest_root().why
    return f"no root of a newer Debian ({why}): what this machine has itself is measured" if why else ""


def carry_out(
    name: str,
    options: argparse.Namespace,
    *,
    required: bool,
    missing: Callable[[Place, str], list[str]],
    measured: Callable[[Place], Document],
    table: Callable[[Document], str] | None,
) -> None:
    """Measures what is installed, or all that is `required`; writes the document; exits with 1 when anything failed."""
    with stoppable(name):
        try:
            with Place(options.folder) as place:
                found = {peer: missing(place, peer) for peer in options.peers}
                if without := without_root(options.peers):
                    print(f"{name}: {without}", file=sys.stderr, flush=True)
                lacking = {peer: programs for peer, programs in found.items() if programs}
                if lacking and required:
                    raise BenchError(f"not installed, run `make bench-deps`: {lacking}")
                options.peers = tuple(peer for peer in options.peers if peer not in lacking)
                document = measured(place)
                document.left_out = lacking
        except BenchError as failure:
            raise SystemExit(f"{name}: {failure}") from None
    if document.results:  # who stops at once keeps the document of before
        document.write(options.out)
    if table:
        print(table(document))
    for broken in document.failed:
        what = broken["why"].splitlines()[0]
        print(f"{broken['of'][0]} failed in run {broken['run'] + 1}: {what}", file=sys.stderr)
    for peer, programs in lacking.items():
        print(f"{peer} is left out: no {', '.join(programs)}; `make bench-deps`", file=sys.stderr)
    said = f"kept in {options.out}" if document.results else f"nothing was measured; {options.out} is as it was"
    print(said, file=sys.stderr)
    if document.failed or any(found.refused for found in document.figures().values()):
        raise SystemExit(1)
