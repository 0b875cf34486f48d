"""An open loop counts from when a message was due: a pause of the system is seen, the load's own is told apart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from bench.peers.figures import load_was_the_limit, percentile, refusals, remarks
from bench.peers.load import Job
from bench.peers.pacing import LOOK_S, TICK_S, Arrivals, Pace

OPEN: dict[str, Any] = {
    "rate": 1000.0, "value": 999.0, "messages": 5000,
    "p50_ms": 1.0, "p99_ms": 4.0, "late_p50_ms": 0.1, "late_p99_ms": 0.5,
    "load_share": {"producer": 0.3, "consumer": 0.2},
    "account": {"sent": 10, "received": 10, "lost": 0, "again": 0, "corrupt": 0, "unknown": 0},
}  # fmt: skip


def pace(rate: float = 100.0, warm_s: float = 1.0, seconds: float = 2.0) -> Pace:
    return Pace(rate, warm_s, seconds, began=50.0)


def test_what_is_due_depends_on_the_clock_alone() -> None:
    one = pace()
    assert one.count == 300
    assert one.ready(50.0, 0) == 1, "the first at once"
    assert one.ready(50.101, 0) == 11
    assert one.ready(50.101, 11) == 0
    assert one.ready(99.0, 11) == 289, "no more than there are"
    assert one.wait_s(50.101, 11) == pytest.approx(0.009)
    assert one.wait_s(50.2, 11) == TICK_S
    assert pace(rate=1).wait_s(50.0, 1) == LOOK_S


def test_a_pause_is_seen_by_every_message_that_was_due_in_it() -> None:
    """A system that answers at once, but for one second in which it does nothing: a closed loop would have one slow
    message of many; here a third of them are."""
    one = pace(warm_s=0.0, seconds=3.0)
    took: list[float] = []
    for number in range(one.count):
        due = one.due(number)
        answered = 52.0 if 51.0 <= due < 52.0 else due
        took += one.took(due, 1, answered)
    assert len(took) == 300
    assert percentile(took, 0.5) == 0.0
    assert percentile(took, 0.9) == pytest.approx(0.7)
    assert max(took) == pytest.approx(1.0)


def test_a_batch_is_as_late_as_each_of_its_messages_and_the_warm_up_is_left_out() -> None:
    one = pace()
    assert one.took(50.98, 4, 51.5) == pytest.approx([0.5, 0.49])


def test_only_who_waited_for_the_clock_is_late_himself() -> None:
    one = pace()
    one.looked(50.5, 0, 20)  # it was busy with an answer: that is the system's time
    assert one.late == []
    one.looked(50.5, 20, 0)  # nothing due
    one.looked(50.75, 20, 6)
    assert one.late == pytest.approx([0.55])
    one.looked(50.80, 26, 4)
    assert len(one.late) == 1


def job(folder: Path, **more: Any) -> Job:
    spec = {
        "folder": str(folder), "progress": str(folder / "progress"), "target": {}, "queue": "q", "seed": 1, "size": 64,
        "window": 10, "batch": 4, "warm_s": 0, "seconds": 0.02, "rate": 1000.0,
    }  # fmt: skip
    return Job({**spec, **more})


def test_an_open_loop_does_not_wait_for_answers_and_ends_by_count(tmp_path: Path) -> None:
    one = job(tmp_path)
    taken = []
    while not one.over:
        if payloads := one.take(4):
            taken.append(payloads)
    assert sum(map(len, taken)) == 20, "more than the window, and none is answered"
    for payloads in taken:
        one.answered(len(payloads), payloads.began)
    assert one.all_sent() == 20
    result = one.measured.result()
    assert result["messages"] == 20
    assert result["max_ms"] >= 19, "the first was due when it began"
    assert result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]


def test_a_load_that_sleeps_over_what_is_due_is_refused(tmp_path: Path) -> None:
    """Planted: between two looks it does something else for 40 ms, then everything is answered at once."""
    one = job(tmp_path, seconds=0.2)
    while not one.over:
        until = time.perf_counter() + 0.04
        while payloads := one.take(100):
            one.answered(len(payloads), payloads.began)
        while time.perf_counter() < until:
            pass
    one.all_sent()
    result = {**OPEN, **one.measured.result(), "load_share": {"producer": 0.1}}
    assert "late" in load_was_the_limit(result)[0]
    assert any("the load was the bottleneck" in why for why in refusals(result))


def test_a_good_open_loop_is_not_refused() -> None:
    assert refusals(OPEN) == []
    assert remarks(OPEN) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"load_share": {"producer": 0.9}}, "it used 90% of a core"),
        ({"late_p50_ms": 0.6}, "p50 0.60 ms late of 1.00 ms"),
        ({"late_p99_ms": 3.1}, "p99 3.10 ms late of 4.00 ms"),
        ({"account": {**OPEN["account"], "lost": 1}}, "1 messages lost"),
    ],
)
def test_an_open_loop_is_refused(change: dict[str, Any], said: str) -> None:
    (reason,) = refusals({**OPEN, **change})
    assert said in reason


def test_a_system_that_does_not_keep_up_is_said_to() -> None:
    (remark,) = remarks({**OPEN, "value": 900.0})
    assert remark == "does not keep up: 900 of 1,000 a second"


def test_a_consumer_counts_from_when_a_message_was_due_and_leaves_the_warm_up_out() -> None:
    arrivals = Arrivals(rate=10.0, warm_s=1.0)
    arrivals.came(range(12), began=50.0, now=51.5)
    assert arrivals.took == pytest.approx([0.5, 0.4])
    arrivals.came([20], began=50.0, now=52.1)
    assert arrivals.times() == {"received_p50_ms": 400.0, "received_p99_ms": 500.0}
    assert Arrivals(10.0, 1.0).times() == {}


def test_both_sides_of_an_open_loop_count_from_one_moment(tmp_path: Path) -> None:
    spec = {
        "folder": str(tmp_path), "progress": str(tmp_path / "progress"), "target": {}, "queue": "q", "seed": 1,
        "size": 64, "window": 10, "batch": 4, "warm_s": 0, "seconds": 1,
    }  # fmt: skip
    producer = Job({**spec, "rate": 1000.0})
    consumer = Job({**spec, "due": {"rate": 1000.0, "warm_s": 0.0}})
    sent = producer.take(1)
    before = time.perf_counter()
    consumer.received([*sent, *sent])
    took = consumer.arrived()["received_p50_ms"] / 1e3
    assert before - sent.began - 1e-4 <= took <= time.perf_counter() - sent.began + 1e-4
    assert consumer.ledger.again == 1, "and counts once"
    assert Job(spec).arrived() == {}
