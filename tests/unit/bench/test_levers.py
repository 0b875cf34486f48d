"""Levers: each switch takes out what it names, and a table says nothing that its turns do not bear out."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from typing import Any

import pytest

from bench.check import unfit
from bench.document import Document
from bench.levers.pairs import Switches, unlike
from bench.levers.report import PLAN, RUNS_MIN, markdown, rows
from bench.levers.table import LEVERS, SHIPPED, SWITCHES, WORKLOADS, switch_off
from replica.node.writer import WriterThread
from tandemq.client import settling
from tandemq.client.outbox import Entry, Outbox


@pytest.fixture(autouse=True)
def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a switch changes is changed for its process."""
    monkeypatch.setattr(Outbox, "__init__", Outbox.__init__)
    monkeypatch.setattr(WriterThread, "run_alone", WriterThread.run_alone)
    monkeypatch.setattr(settling, "SMALL_MESSAGES", settling.SMALL_MESSAGES)


def second_leaves_at_once() -> bool:
    box = Outbox("q", messages_max=10, bytes_max=1_000, batches_max=4)
    box.opened(0, 4, 0)
    for _ in range(2):
        box.add(Entry(b"x", None, 10, None), 1)
        frame, _ = box.next_frame()
    return frame is not None


def test_without_small_batches_each_leaves_at_once() -> None:
    assert not second_leaves_at_once()
    switch_off("small-batches")
    assert second_leaves_at_once()
    assert settling.SMALL_MESSAGES == 0


def test_without_short_commits_the_loop_waits_for_none() -> None:
    switch_off("small-batches,short-commits")
    assert WriterThread.run_alone is WriterThread.run


def test_nothing_is_switched_off_by_no_name_and_a_wrong_one_is_refused() -> None:
    switch_off("")
    assert not second_leaves_at_once()
    with pytest.raises(KeyError):
        switch_off("small-batches,no-such")


def test_the_table_names_each_switch_and_shipped_comes_first() -> None:
    assert LEVERS[0].name == SHIPPED
    assert (LEVERS[0].off, dict(LEVERS[0].environment)) == ((), {})
    assert {name for lever in LEVERS for name in lever.off} == set(SWITCHES)
    assert len({lever.name for lever in LEVERS}) == len(LEVERS)


def test_processes_on_different_interpreters_are_not_compared() -> None:
    own = os.getpid()
    assert unlike({"master": own, "client": own}) == ""
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            assert "different interpreters: master runs on /" in unlike({"master": own, "client": other.pid})
        finally:
            other.kill()


def test_context_switches_are_counted_over_all_threads() -> None:
    count = Switches(os.getpid())
    before = count.read()
    subprocess.run(["true"], check=True)  # it is waited for
    assert count.read() > before


def test_a_thread_that_ends_takes_none_of_its_switches_with_it() -> None:
    """As gRPC's do on a busy machine: a difference of two readings would be below 0."""
    there, back, over = queue.SimpleQueue[int](), queue.SimpleQueue[int](), -1

    def answer() -> None:
        while (number := there.get()) != over:
            back.put(number)

    other = threading.Thread(target=answer)
    other.start()
    for number in range(100):
        there.put(number)
        back.get()
    count = Switches(os.getpid())
    before = count.read()
    there.put(over)
    other.join()
    assert count.read() >= before


def turn(run: int, p50_ms: float, **more: Any) -> dict[str, Any]:
    return {
        "run": run,
        "messages": 100,
        "value": 100.0,
        "p50_ms": p50_ms,
        "p99_ms": 3 * p50_ms,
        "per_frame": 1.0,
        "us": {"master": 100.0, "replica": 50.0, "client": 50.0},
        "switches": {"master": 3.0, "replica": 2.0, "client": 1.0},
        "load_share": {"producer": 0.1},
        "foreign_cores": 0.0,
        "copies": 2,
        "syncs": {"a": 100, "b": 100, "messages": 100},
        **more,
    }


def whole() -> Document:
    document = Document(
        "levers", {"commit": "abc123", "python": "3.11"}, "2026-01-01", {"runs": RUNS_MIN, "seconds": 1}
    )
    document.about |= {"cpu": "c", "cores": 2, "kernel": "k", "commit_afterwards": "abc123"}
    for work in WORKLOADS:
        late = {"rate": work.rate, "late_p50_ms": 0.1, "late_p99_ms": 0.1, "value": work.rate} if work.rate else {}
        for place, lever in enumerate(LEVERS):
            for run in range(RUNS_MIN):
                document.add((work.name, lever.name), turn(run, (place + 1) * (run + 1.0), **late))
    document.ended = True
    return document


def test_a_whole_document_may_be_shown_and_its_ratios_are_of_one_round() -> None:
    document = whole()
    assert unfit(document, PLAN) == []
    table = {(row[0], row[1]): row for row in rows(document)[1:]}
    assert table["one in flight", SHIPPED][2:4] == ("3.00 (1.00 to 5.00)", "")
    assert table["one in flight", LEVERS[1].name][2:4] == ("6.00 (2.00 to 10.00)", "2.00 (2.00 to 2.00)")
    assert "of shipped" in markdown(document)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"late_p50_ms": 50.0}, "the load was the bottleneck"),
        ({"syncs": {"a": 100, "b": 3, "messages": 100}}, "103 syncs for 100 messages"),
        ({"broke": ["10 acknowledged, the queue holds 9"]}, "10 acknowledged, the queue holds 9"),
        ({"load_share": {"producer": 0.9}}, "it used 90% of a core"),
    ],
)
def test_a_turn_that_measured_something_else_is_in_no_figure(change: dict[str, Any], why: str) -> None:
    document = whole()
    (result,) = [each for each in document.results if each["of"] == ["1,000/s", SHIPPED]]
    for run in result["runs"]:
        run |= change
    found = document.figures()["1,000/s", SHIPPED]
    assert not found.good
    assert why in found.said[0]
    (row,) = [row for row in rows(document) if row[:2] == ("1,000/s", SHIPPED)]
    assert row[2] == ""
    assert why in row[-1]


def test_what_lacks_a_lever_or_turns_is_not_shown() -> None:
    short = whole()
    short.results = [each for each in short.results if each["of"][1] != LEVERS[2].name]
    assert any(f"no result of {WORKLOADS[0].name}" in why or LEVERS[2].name in why for why in unfit(short, PLAN))
    few = whole()
    few.options["runs"] = 1
    assert any("1 runs" in why for why in unfit(few, PLAN))
