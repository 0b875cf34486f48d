"""Whether a document may be shown to readers: is it whole, and does each line say of itself what follows from it?

What a line says of itself is not believed where it can be computed again from its own figures: why it is refused, what
is remarked, its rate, its account. Of a line that is refused nothing else is asked, as it is in no figure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from bench.machine import is_commit
from bench.peers.adapters import PEERS
from bench.peers.calm import is_noisy
from bench.peers.contract import WORKLOADS
from bench.peers.figures import PERCENTILES, refusals, remarks, syncs_short
from bench.peers.report import OURS

RUNS_MIN, SECONDS_MIN = 3, 3.0
NAMED_MAX = 5
"""Lines that are named of those of which the same is to be said."""
FIELDS = (
    "size", "messages", "value", "cpu_us", "load_share", "foreign_cores",
    "settings_wrong", "syncs", "syncs_short", "verified", "remarks",
)  # fmt: skip
OF_VERIFIED = ("account", "seconds")
OF_SINGLE = ("p50_ms", "p99_ms")
OF_OPEN = ("rate", *PERCENTILES, "late_p50_ms", "late_p99_ms")

Line = Mapping[str, Any]


def read(text: str) -> Any:
    """JSON. Raises ValueError, also where a number is none: no comparison would find anything wrong with it."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number")

    return json.loads(text, parse_constant=refuse)


def unfit(
    document: Mapping[str, Any],
    workloads_of: Callable[[str], Sequence[str]] | None = None,
    verified_of: Callable[[str], bool] | None = None,
) -> list[str]:
    """Why a document must not be shown; empty when it may. The two say what is measured of a peer, and whether what
    came was compared; without them it is as in `run.py`."""
    about, options = document["about"], document["options"]
    found = []
    if not is_commit(about["commit"]):
        found.append("it was measured on changes that are in no commit")
    if (began := about["commit"]) != (ended := about.get("commit_afterwards", began)):
        found.append(f"the sources changed while it was measured, from {began} to {ended}")
    if options["runs"] < RUNS_MIN:
        found.append(f"{options['runs']} runs; {RUNS_MIN} show a spread")
    if options["seconds"] < SECONDS_MIN:
        found.append(f"{options['seconds']:g} s of each are to see that it runs")
    found += [f"{failure['peer']} failed in run {failure['run'] + 1}" for failure in document["failed"]]
    if noisy := [line for line in document["results"] if is_noisy(line)]:
        found.append(f"{len(noisy)} of {len(document['results'])} results while others used the machine")
    if not any(line["peer"] == OURS for line in document["results"]):
        found.append("without ours there is nothing to compare with")
    if lacking := sorted(set(options.get("peers", ())) - document["peers"].keys()):
        found.append(f"nothing of {', '.join(lacking)}")
    found += missing(document, workloads_of or planned_in(options))
    return found + contradictions(document, verified_of or compared)


def planned_in(options: Mapping[str, Any]) -> Callable[[str], Sequence[str]]:
    """What `run.py` measures of a peer."""
    if rates := options.get("rates"):
        return lambda _: [f"open {rate:,.0f}/s" for rate in rates]
    return lambda peer: PEERS[peer].workloads if peer in PEERS else WORKLOADS


def compared(peer: str) -> bool:
    return peer not in PEERS or PEERS[peer].verified


def missing(document: Mapping[str, Any], workloads_of: Callable[[str], Sequence[str]]) -> list[str]:
    """Lines that are not there, or twice, or of what was never measured."""
    runs = range(document["options"]["runs"])
    stopped = {(failure["peer"], failure["run"]) for failure in document["failed"]}
    wanted = {
        (peer, workload, run)
        for peer in document["peers"]
        for workload in workloads_of(peer)
        for run in runs
        if (peer, run) not in stopped
    }
    there = Counter((line["peer"], line["workload"], line["run"]) for line in document["results"])
    told = {
        "no result of": wanted - there.keys(),
        "more than one result of": {key for key, count in there.items() if count > 1},
        "not asked for:": {key for key in there.keys() - wanted if (key[0], key[2]) not in stopped},
    }
    return [f"{what} {listed(sorted(keys))}" for what, keys in told.items() if keys]


def contradictions(document: Mapping[str, Any], verified_of: Callable[[str], bool]) -> list[str]:
    """What lines leave out, or say otherwise than their own figures do."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for line in document["results"]:
        key = (line["peer"], line["workload"], line["run"])
        for why in wrong_with(line, document, verified_of):
            found.setdefault(why, []).append(key)
    return [f"{why}: {listed(keys)}" for why, keys in found.items()]


def listed(keys: Sequence[tuple[str, str, int]]) -> str:
    named = [f"{peer} {workload} (run {run + 1})" for peer, workload, run in keys[:NAMED_MAX]]
    return ", ".join(named) + (f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else "")


def wrong_with(line: Line, document: Mapping[str, Any], verified_of: Callable[[str], bool]) -> list[str]:
    if line.get("refused") is None:
        return ["without refused"]
    if line["refused"]:
        return []
    if lacking := [name for name in fields_of(line, verified_of(line["peer"])) if line.get(name) is None]:
        return [f"without {', '.join(lacking)}"]
    copies = document["peers"].get(line["peer"], {}).get("copies", 0)
    return [*said_otherwise(line, copies, verified_of), *figures_apart(line, document["options"].get("size"))]


def fields_of(line: Line, verified: bool) -> Iterator[str]:
    yield from FIELDS
    if verified:
        yield from OF_VERIFIED
    if line["workload"] == "single":
        yield from PERCENTILES[:-1] if verified else OF_SINGLE
    if line["workload"].startswith("open "):
        yield from OF_OPEN


def said_otherwise(line: Line, copies: int, verified_of: Callable[[str], bool]) -> Iterator[str]:
    """Why it is refused, and what is remarked, computed again."""
    counted = {name: count for name, count in line["syncs"].items() if name != "messages"}
    short = syncs_short(counted, line["syncs"]["messages"], copies)
    judged = {**line, "syncs_short": short, "verified": verified_of(line["peer"])}
    yield from (f"not refused, although {why}" for why in (*refusals(judged), *line.get("short", ())))
    if "slack" in line and line["held"] + line["untold"] + line["slack"] < (left := line["sent"] - line["received"]):
        yield f"not refused, although the server holds {line['held']:,} of {left:,} messages"
    yield from (f"without the remark {what!r}" for what in remarks(line) if what not in line["remarks"])


def figures_apart(line: Line, size: int | None) -> Iterator[str]:
    """Figures of one line that cannot all be true."""
    if line["size"] != size:
        yield f"of {line['size']} B, not {size}"
    if seconds := line.get("seconds"):
        rate = line["messages"] / seconds
        if abs(line["value"] - rate) > 0.051 + rate * 0.00051 / seconds:  # both are rounded
            yield "value is not messages in seconds"
    if account := line.get("account"):
        if account["sent"] != account["received"] - account["unknown"] + account["lost"]:
            yield "the account does not add up"
        if line.get("sent", account["sent"]) != account["sent"]:
            yield "the account is not of what was sent"
        if line["messages"] > account["sent"]:
            yield "more messages were measured than sent"
    times = [line[name] for name in PERCENTILES if name in line]
    if times != sorted(times):
        yield "percentiles that fall"
    if (line["workload"] == "single" or "rate" in line) and times[0] <= 0:
        yield "percentiles of no time"
