"""The targets of `make bench-spark` are held against what was measured."""

from __future__ import annotations

from bench.document import Document, read
from bench.shown import RESULTS
from bench.spark_report import judged

AUDITS = (
    {"rows": 1_000_000, "checks_s": 10.0, "all_s": 20.0, "checks_cpu_s": 20.0},
    {"rows": 5_000_000, "checks_s": 20.0, "all_s": 30.0, "checks_cpu_s": 40.0},
    {"rows": 19_999_998, "checks_s": 88.0, "all_s": 121.0, "checks_cpu_s": 160.0},
)


def document(values: dict[tuple[str, ...], list[float]], *audits: dict[str, float]) -> Document:
    found = Document("spark", {}, "", {})
    for of, each in values.items():
        for run, value in enumerate(each):
            found.add(of, {"run": run, "value": value})
    for audit in audits:
        found.add(("audit", str(audit["rows"])), {"run": 0, **audit})
    return found


def test_each_target_is_held_against_what_was_measured() -> None:
    values = {
        ("read",): [100_000, 310_000, 305_000],
        ("stream",): [60_000, 69_000, 80_000],
        ("members", "whole"): [1.5, 1.5, 2.0],
        ("members", "bounded"): [1.6, 1.8, 1.7],
        ("master", "alone"): [5.0, 5.0, 9.0],
        ("master", "ingest"): [5.3, 5.6, 5.4],
        ("master", "other"): [4.8, 4.5, 4.6],
    }
    found = judged(document(values, *AUDITS))
    assert {name: (each.value, each.reached) for name, each in found.items()} == {
        "batch read, rows/s": (305_000, True),
        "stream, rows/s in steady batches": (69_000, False),
        "member CPU of a bounded stream, of a whole read": (1.133, True),
        "master CPU with ingest, share more": (0.08, True),
        "master CPU with ingest, share more than beside a query that asks it nothing": (0.174, False),
        "audit of 20 million rows, s": (121.0, False),
        "audit, growth beside linear": (1.1, False),
        "audit, growth of CPU": (1.0, False),
    }


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert judged(document({})) == {}
    assert judged(document({}, {**AUDITS[0], "rows": 1_000})) == {}, "no claim about another size"


def test_what_is_committed_is_judged_as_the_page_says() -> None:
    found = judged(read((RESULTS / "spark.json").read_text(encoding="utf-8")))
    assert [name for name, each in found.items() if not each.reached] == [
        "member CPU of a bounded stream, of a whole read",
        "master CPU with ingest, share more",
    ]
    assert found["audit of 20 million rows, s"].value == 94.2
