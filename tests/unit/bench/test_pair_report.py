"""The README's tables of `make bench` and `make bench-failover`: what they show of a document."""

from __future__ import annotations

from bench import failover_report
from bench import report as pair_report
from bench.document import Document
from bench.plan import MEMORY, WORKLOADS

ABOUT = {"commit": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11", "grpcio": "1", "lmdb": "3"}
TIME = "2026-01-02T03:04:05+00:00"


def of_pair() -> Document:
    """Ours at half of the floor's rate, and twice its time."""
    found = Document("bench", ABOUT, TIME, {"runs": 3, "seconds": 4.0})
    for name in WORKLOADS:
        for run, values in enumerate(((250_000.0, 500_000.0), (240_000.0, 500_000.0), (260_000.0, 400_000.0))):
            for side, value in zip(("ours", "floor"), values, strict=True):
                used = {"master": 1.0, "replica": 2.0, "client": 3.0}
                found.add((name, side), {"run": run, "value": value, "foreign_cores": 0.1, "cpu_us": used})
    for run in range(3):
        found.add((pair_report.TRIPS, "machine"), {"run": run, "value": 125_000.0})
    found.add((f"1,000,000 messages queued: {MEMORY}", "master"), {"run": 0, "value": 6.54})
    return found


def of_failover() -> Document:
    found = Document("failover", ABOUT, TIME, {"runs": 20})
    for name, slow in (("kill -9", 169.4), ("frozen", 1928), ("cut off", 2306), ("handoff", 201)):
        for run in range(20):
            ms, cores = (slow, 0.5) if run == 19 else (run + 1.0, 0.0)
            found.add((name,), {"run": run, "ms": ms, "foreign_cores": cores, "per_s": 20_000})
    return found


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


def test_all_of_a_pair_is_printed_with_its_processor_time() -> None:
    text = pair_report.markdown(of_pair())
    figures = "250,000 msg/s (240,000 to 260,000) | 500,000 msg/s (400,000 to 500,000) | 0.50 (0.48 to 0.65)"
    assert f"| enqueue 1 KiB, frames of 100 | {figures} | 1.00, 2.00, 3.00 | 1.00, 2.00, 3.00 |" in text
    assert (
        "| one in flight 1 KiB, ours / two stream round trips + one commit |  |  | 2.00 (1.92 to 2.08) |  |  |" in text
    )
    assert "| two stream round trips + one commit |  | 125,000 us (125,000 to 125,000) |  |  |  |" in text
    assert "without the ring of recent records | 6.54 B/msg |  |  |  |  |" in text
