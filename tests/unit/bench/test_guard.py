"""What the guard says of a run beside its baseline: each way of not being compared has a name, and none is a pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.guard.compare import NOT_COMPARED, OK, REGRESSED, Verdict, compared, table
from bench.guard.page import markdown
from bench.guard.workloads import ALL
from bench.tables import placed

ABOUT = {"python": "3.11.7", "lmdb": "3.0.0"}
BASELINE = {"about": ABOUT, "figures": {"enqueue small: master": 1000, "record large: store": 1000}}
BOUND = {"enqueue small: master": 1100, "record large: store": 1050}


@pytest.mark.parametrize("change", [0, -50])
def test_what_stays_within_its_bound_passes(change: int) -> None:
    found = compared(BASELINE, ABOUT, {name: bound + change for name, bound in BOUND.items()})
    assert found.exit_code == OK
    assert {line.verdict for line in found.lines} == {Verdict.SAME}


@pytest.mark.parametrize("name", BOUND)
def test_one_more_than_the_bound_fails(name: str) -> None:
    found = compared(BASELINE, ABOUT, {**BASELINE["figures"], name: BOUND[name] + 1})
    assert found.exit_code == REGRESSED
    assert [line.name for line in found.lines if line.verdict is Verdict.WORSE] == [name]
    assert table(found.lines).splitlines()[1].startswith(name), "the worst one is not shown first"


def test_what_became_better_passes_and_is_named() -> None:
    found = compared(BASELINE, ABOUT, {**BASELINE["figures"], "record large: store": 800})
    assert found.exit_code == OK
    assert Verdict.BETTER in {line.verdict for line in found.lines}


def test_a_workload_that_is_gone_is_no_pass() -> None:
    found = compared(BASELINE, ABOUT, {"record large: store": 1000})
    assert found.exit_code == NOT_COMPARED
    assert [line.name for line in found.lines if line.verdict is Verdict.GONE] == ["enqueue small: master"]


def test_a_workload_without_a_baseline_is_no_pass() -> None:
    found = compared(BASELINE, ABOUT, {**BASELINE["figures"], "settle small: master": 5})
    assert found.exit_code == NOT_COMPARED
    assert [line.name for line in found.lines if line.verdict is Verdict.NEW] == ["settle small: master"]


def test_a_run_without_any_figure_is_no_pass() -> None:
    assert compared({"about": ABOUT, "figures": {}}, ABOUT, {}).exit_code == NOT_COMPARED


def test_a_regression_is_not_hidden_by_a_workload_that_is_gone() -> None:
    assert compared(BASELINE, ABOUT, {"record large: store": 2000}).exit_code == REGRESSED


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({**ABOUT, "python": "3.12.1"}, "python: the baseline has 3.11.7, here is 3.12.1"),
        ({"python": "3.11.7"}, "lmdb: the baseline has 3.0.0, here is none"),
        ({**ABOUT, "libc": "musl"}, "libc: the baseline has none, here is musl"),
    ],
)
def test_other_surroundings_are_a_stale_baseline(about: dict[str, str], named: str) -> None:
    """Also where every figure looks the same, and where one looks much worse."""
    for figures in (BASELINE["figures"], dict.fromkeys(BASELINE["figures"], 9999)):
        found = compared(BASELINE, about, figures)
        assert found.exit_code == NOT_COMPARED
        assert found.stale == (named,)


def test_the_committed_baseline_has_every_workload() -> None:
    committed = json.loads((Path(__file__).resolve().parents[3] / "bench/results/guard.json").read_text())
    assert set(committed["figures"]) == {workload.name for workload in ALL}
    assert all(count > 0 for count in committed["figures"].values())


def test_the_page_shows_the_committed_baseline() -> None:
    root = Path(__file__).resolve().parents[3]
    committed = json.loads((root / "bench/results/guard.json").read_text())
    page = (root / "docs/PERFORMANCE.md").read_text()

    def shown(figures: dict[str, int]) -> str:
        return placed(page, markdown(figures), "guard", by="guard-baseline")

    assert shown(committed["figures"]) == page, "make guard-baseline writes both"
    assert shown({**committed["figures"], "record large: store": 7_000_000}) != page
