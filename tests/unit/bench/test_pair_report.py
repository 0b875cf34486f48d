"""The README's tables of `make bench` and `make bench-failover`: what is taken, what it shows, what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import failover_report
from bench import report as pair_report
from bench.peers.figures import spread
from bench.plan import MEMORY, WORKLOADS
from bench.shown import FAILOVER, PAIR, Shown, kind_of

Document = dict[str, Any]
ABOUT = {
    "commit": "abc", "commit_afterwards": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11",
    "grpcio": "1", "lmdb": "3",
}  # fmt: skip
TIME = "2026-01-02T03:04:05+00:00"


def of_pair() -> Document:
    """Ours at half of the floor's rate, and twice its time."""
    ours, floor = [250_000.0, 240_000.0, 260_000.0], [500_000.0, 500_000.0, 400_000.0]
    lines = []
    for name, spec in WORKLOADS.items():
        unit = "us" if spec["kind"] == "latency" else "msg/s"
        base = {"kind": "workload", "workload": name, "unit": unit, "cpu_us": {"master": 1.0}, "foreign_cores": 0.1}
        lines += [{**base, "side": side, **spread(runs)} for side, runs in (("ours", ours), ("floor", floor))]
        ratios = [round(a / b, 3) for a, b in zip(ours, floor, strict=True)]
        lines.append({"kind": "ratio", "workload": name, "side": "ours / floor", "unit": "", **spread(ratios)})
    memory = {"kind": "memory", "workload": f"1,000,000 messages queued: {MEMORY}", "side": "master", "unit": "B/msg"}
    lines.append({**memory, **spread([6.54])})
    return {"about": ABOUT, "time": TIME, "options": {"bench": True, "runs": 3, "seconds": 4.0}, "lines": lines}


def of_failover() -> Document:
    def runs(slow: float) -> list[dict[str, float]]:
        return [{"ms": float(number), "foreign_cores": 0.0, "per_s": 20_000} for number in range(1, 20)] + [
            {"ms": slow, "foreign_cores": 0.5, "per_s": 20_000}
        ]

    found = {"kill -9": runs(169.4), "frozen": runs(1928), "cut off": runs(2306), "handoff": runs(201)}
    return {"about": ABOUT, "time": TIME, "options": {"failover": True, "runs": 20}, "runs": found}


def test_a_pair_is_shown_beside_its_floor() -> None:
    text = pair_report.readme(of_pair())
    assert text.startswith("Commit abc, 2026-01-02, a cpu, 2 cores for everything, Linux 6, Python 3.11, grpcio 1, ")
    assert "median (range) of 3 runs of 4 s; others used at most 0.10 cores meanwhile." in text
    figures = "250,000/s (240,000 to 260,000) | 500,000/s (400,000 to 500,000) | 0.50 (0.48 to 0.65)"
    assert f"| enqueue 1 KiB, frames of 100 | {figures} |" in text
    assert f"| enqueue 1 KiB, single sends (floor: frames of 100) | {figures} |" in text
    assert f"| one in flight 1 KiB, p50 | {figures.replace('/s', ' us')} |" in text
    assert "A queued message of 100 B takes 6.5 bytes" in text


def test_a_takeover_is_shown_from_its_single_runs() -> None:
    text = failover_report.markdown(of_failover())
    assert "20 runs each, milliseconds. Others used at most 0.50 cores, in 4 of 80 runs more than 0.35." in text
    assert "| kill -9 of the master | 10 | 18 | 169 | p50 300, max 1,000 | reached |" in text
    assert "| handoff under load | 10 | 18 | 201 | max 200 | **missed: max 200 ms** |" in text


@pytest.mark.parametrize(("kind", "document"), [(PAIR, of_pair()), (FAILOVER, of_failover())])
def test_a_document_is_known_taken_and_shown(kind: Shown, document: Document, tmp_path: Path) -> None:
    text = json.dumps(document, indent=1)
    assert kind_of(text) is kind
    page = tmp_path / "page.md"
    page.write_text(kind.page.read_text(encoding="utf-8"), encoding="utf-8")  # its marks are there
    here = replace(kind, results=tmp_path / "kept/document.json", page=page)
    here.take(text)
    assert here.show(tmp_path) == ["page.md"]
    assert kind.markdown(document) in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="not to be shown: it was measured on changes that are in no commit"):
        here.take(json.dumps({**document, "about": {**ABOUT, "commit": "x-dirty", "commit_afterwards": "x-dirty"}}))
    assert here.results.read_text(encoding="utf-8") == text


def line_of(document: Document, side: str) -> dict[str, Any]:
    return next(line for line in document["lines"] if (line["workload"], line["side"]) == ("one in flight 1 KiB", side))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found["options"].update(runs=1), "1 runs; 3 show a spread"),
        (lambda found: found["about"].update(commit_afterwards="def"), "the sources changed while it was measured"),
        (lambda found: found["options"].update(seconds=0.8), "0.8 s of each are to see that it runs"),
        (
            lambda found: found["about"].update(commit="unknown", commit_afterwards="unknown"),
            "it was measured on changes that are in no commit",
        ),
        (lambda found: found["lines"].append(line_of(found, "ours")), "more than one line of the same"),
        (lambda found: found["lines"].pop(), "without the memory of a queued message"),
        (lambda found: found["lines"].remove(line_of(found, "ours / floor")), "without one in flight 1 KiB (ours / fl"),
        (lambda found: line_of(found, "ours").pop("foreign_cores"), "without foreign_cores: one in flight 1 KiB (ours"),
        (lambda found: line_of(found, "floor").update(foreign_cores=0.4), "while others used the machine: one in flig"),
        (lambda found: line_of(found, "ours").update(median=1.0), "median and range are not those of the runs: one in"),
        (
            lambda found: line_of(found, "ours / floor").update(spread([9.0, 9.0, 9.0])),
            "the ratios are not those of the runs: one in flight 1 KiB (ours / floor)",
        ),
    ],
)
def test_a_pair_that_is_not_fit(change: Callable[[Document], object], said: str) -> None:
    assert pair_report.unfit(of_pair()) == []
    found = copy.deepcopy(of_pair())
    change(found)
    (reason,) = pair_report.unfit(found)
    assert reason.startswith(said)


def test_a_pair_of_which_a_run_was_left_out_is_not_fit() -> None:
    found = of_pair()
    sides = ("ours", "floor", "ours / floor")
    lines = [line for line in found["lines"] if line["workload"] == found["lines"][0]["workload"]]
    for line in lines:
        line.update(spread(line["runs"][-2:]))
    reasons = pair_report.unfit(found)
    assert {f"of 2 runs, not 3: {lines[0]['workload']} ({side})" for side in sides} <= set(reasons)


def asked_for_more(document: Document, kept: str) -> None:
    """One run more than there was, and that of one fault left out."""
    document["options"]["runs"] = 21
    for name, runs in document["runs"].items():
        runs += runs[:1] if name != kept else []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found["about"].update(commit_afterwards="def"), "the sources changed while it was measured"),
        (
            lambda found: found["about"].update(commit="unknown", commit_afterwards="unknown"),
            "it was measured on changes that are in no commit",
        ),
        (lambda found: asked_for_more(found, "frozen"), "20 runs of frozen, not 21"),
        (
            lambda found: found["runs"]["handoff"][3].update(per_s=10),
            "handoffs at 10 messages a second, not 20,000",
        ),
        (lambda found: found["runs"]["frozen"].pop(), "19 runs of frozen; 20 show a spread"),
        (lambda found: found["runs"].pop("handoff"), "0 runs of handoff; 20 show a spread"),
        (
            lambda found: found["runs"]["cut off"][3].pop("foreign_cores"),
            "what others used was not measured of cut off",
        ),
    ],
)
def test_a_failover_that_is_not_fit(change: Callable[[Document], object], said: str) -> None:
    assert failover_report.unfit(of_failover()) == []
    found = copy.deepcopy(of_failover())
    change(found)
    assert failover_report.unfit(found) == [said]
