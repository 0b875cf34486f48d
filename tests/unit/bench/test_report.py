"""What the reports show of a document of peers, and what stands in no figure."""

from __future__ import annotations

from typing import Any

from bench.document import Document
from bench.peers import open_report, targets
from bench.peers.plots import Series, bars, percentiles
from bench.peers.report import drawn, markdown, rows


def line(peer: str, workload: str, run: int, value: float, **more: Any) -> dict[str, Any]:
    times = {"p50_ms": value / 1e3, "p90_ms": value / 500, "p99_ms": value / 250, "p999_ms": value / 100}
    base = {"peer": peer, "workload": workload, "run": run, "value": value, **times, "foreign_cores": 0.1}
    return {**base, "load_share": {"producer": 0.1}, **more}


def document(lines: list[dict[str, Any]]) -> Document:
    about = {"commit": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11"}
    found = Document("peers", about, "2026-01-02", {"runs": 3, "size": 1024, "seconds": 5.0})
    entry = {"title": "", "copies": 2, "versions": {"server": "1.0"}}
    found.peers = {"tandemq": {**entry, "title": "Tandemq"}, "redis": {**entry, "title": "Redis"}}
    for each in lines:
        found.add((each["peer"], each["workload"]), each)
    return found


RUNS = [
    *(line("tandemq", "enqueue", run, value) for run, value in enumerate((100_000.0, 300_000.0, 200_000.0))),
    *(line("redis", "enqueue", run, value) for run, value in enumerate((50_000.0, 30_000.0, 40_000.0))),
    *(line(peer, "single", run, 400.0) for peer in ("tandemq", "redis") for run in range(3)),
]


def test_a_ratio_is_taken_within_each_run() -> None:
    figures = document(RUNS).figures()
    found = figures["redis", "enqueue"]
    ratio = figures["tandemq", "enqueue"].ratio(found, "value")
    assert ratio
    assert ratio.runs == (2.0, 10.0, 5.0)
    assert found.spread("value") == (40_000.0, 30_000.0, 50_000.0, (50_000.0, 30_000.0, 40_000.0))
    assert rows(document(RUNS))[2][2] == "40,000 (30,000 to 50,000), 5.00x"


def test_a_refused_result_is_in_no_figure_and_the_table_says_so() -> None:
    lost = line("redis", "enqueue", 1, 9e9, broke=["1 messages lost"])
    some = document([*(entry for entry in RUNS if (entry["peer"], entry["run"]) != ("redis", 1)), lost])
    assert rows(some)[2][2] == "45,000 (40,000 to 50,000), 3.50x; 1 of 3 runs refused: 1 messages lost"
    every = document([entry for entry in RUNS if entry["peer"] == "tandemq"] + [lost])
    assert rows(every)[2][2] == "refused: 1 messages lost"
    assert "9,000,000,000" not in "".join(drawn(every).values()) + markdown(every)


def test_what_must_be_said_stands_in_the_table() -> None:
    bound = line("redis", "drain", 0, 1000.0, foreign_cores=1.2, load_share={"producer": 0.0, "consumer": 0.97})
    row = rows(document([*RUNS, bound]))[2]
    assert row[4].endswith("; bound by the consumer; noisy")
    assert row[-1] == "at most 97%"


def test_open_loops_are_shown_by_rate_and_a_refused_one_is_in_no_figure() -> None:
    came = {"received_p50_ms": 2.5, "received_p99_ms": 7.25}
    more = {"max_ms": 9.0, "late_p50_ms": 0.1, "late_p99_ms": 0.1, "rate": 1.0, **came}
    lines = [
        line(peer, f"open {rate}/s", run, 1000.0 + run, **more)
        for peer in ("tandemq", "redis") for rate in ("20,000", "1,000") for run in range(3)
    ]  # fmt: skip
    lines += [line("tandemq", "open 1,000/s from 50", run, 1000.0, **more) for run in range(3)]
    assert [row[:4] for row in open_report.rows(document(lines))[1:4]] == [
        ("Tandemq", "1,000/s", "1", "1,001"),
        ("Tandemq", "20,000/s", "1", "1,001"),
        ("Tandemq", "1,000/s", "50", "1,000"),
    ]
    assert open_report.rows(document(lines))[1][4:11] == ("1.00", "4.00", "10.01", "9.00", "2.50", "7.25", "0.10")
    assert open_report.rows(document(lines))[1][-1] == ""
    assert open_report.drawn(document(lines))["open-p99.svg"].count("<circle") == 4
    for each in lines:
        each["broke"] = ["the load was the bottleneck"] if each["peer"] == "redis" else []
    bad = document(lines)
    assert "refused: the load was the bottleneck" in open_report.markdown(bad)
    assert open_report.drawn(bad)["open-p99.svg"].count("<circle") == 2


def test_plots_draw_each_figure_and_escape_titles() -> None:
    drawing = bars("rates", [Series("a & b", {"one": 10.0, "two": 0.0}), Series("c", {"one": 5.0, "two": 2.5})])
    assert "a &amp; b" in drawing
    assert drawing.count("<rect") == 1 + 2 + 4  # background, legend, bars
    assert ">none<" in drawing
    assert 'width="660.0"' in drawing  # the largest one takes the whole width
    assert 'width="330.0"' in drawing
    points = percentiles("times", [Series("a", {"p50": 10.0, "p99": 1000.0}), Series("none", {"p50": 0.0, "p99": 0.0})])
    assert points.count("<circle") == 2
    assert 'cx="210.0"' in points  # 10 is the left end of two decades
    assert 'cx="870.0"' in points


def test_a_target_is_reached_missed_or_not_measured() -> None:
    """Of a rate at least so much, of a time at most; the median of what was measured run by run decides."""
    found = document([*RUNS, *(line("floor", "single", run, 250.0 + run) for run in range(3))])
    found.peers["floor"] = {**found.peers["redis"], "title": "The floor"}
    by = {(row[0], row[1]): row[2:] for row in targets.rows(found)[1:]}
    assert by["pipelined enqueue", "Redis"] == ("at least 5x", "5.00x (2.00 to 10.00)", "reached")
    assert by["one in flight, p50", "The floor"] == ("at most 1.5x", "1.59x (1.59 to 1.60)", "**missed**")
    assert by["enqueue + consume + ack", "Redis"] == ("at least 3.5x", "", "not measured")
    assert by["pipelined enqueue", "postgres"] == ("at least 1.5x", "", "not measured")
    assert "| one in flight, p50 | The floor | at most 1.5x | 1.59x" in targets.markdown(found)


def test_when_messages_came_stands_beside_when_they_were_answered() -> None:
    more = {"rate": 1000.0, "late_p50_ms": 0.1, "late_p99_ms": 0.1, "max_ms": 9.0}
    came = {"received_p50_ms": 2.5, "received_p99_ms": 7.25}
    found = document([line("tandemq", "open 1,000/s", run, 1000.0, **more, **came) for run in range(3)])
    found.options |= {"producers": [1], "rates": [1000.0]}
    heads, row = open_report.rows(found)[:2]
    assert [row[heads.index(f"received, {name}, ms")] for name in ("p50", "p99")] == ["2.50", "7.25"]
    assert not any("when messages came" in why for why in open_report.wrong(found))
    without = document([line("tandemq", "open 1,000/s", 0, 1000.0, **more)])
    without.options |= {"producers": [1], "rates": [1000.0]}
    assert "tandemq open 1,000/s does not say when messages came" in list(open_report.wrong(without))
