"""The arithmetic of a result: what a percentile is, when a run is refused, what must be said beside it."""

from __future__ import annotations

from typing import Any

import pytest

from bench.document import Figures, spread
from bench.peers.figures import percentile, refusals, remarks, shares, syncs_short
from bench.peers.payloads import HEAD, Ledger, Payloads

GOOD: dict[str, Any] = {
    "messages": 1000,
    "account": {"sent": 10, "received": 10, "lost": 0, "again": 0, "corrupt": 0, "unknown": 0},
    "settings_wrong": [],
    "syncs": {"a": 100, "b": 100, "messages": 100},
    "copies": 2,
    "verified": True,
    "load_share": {"producer": 0.4, "consumer": 0.2},
    "foreign_cores": 0.1,
}


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, 0.0),
        ([7.0], 0.99, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.75, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 0.76, 4.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([float(n) for n in range(1, 1001)], 0.999, 999.0),
    ],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == expected


def test_spread_and_ratios() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0, (3.0, 1.0, 2.0))
    assert spread([3.0, 1.0, 5.0, 3.0]).mean == 3.0

    def figures(values: dict[int, float]) -> Figures:
        return Figures({"of": ["a"], "runs": [{"run": run, "value": value} for run, value in values.items()]})

    # Run by run; a run that one side lacks, or in which it did nothing, is in none.
    found = figures({0: 10.0, 1: 20.0, 2: 30.0}).ratio(figures({0: 5.0, 2: 0.0, 3: 1.0}), "value")
    assert found
    assert found.runs == (2.0,)
    assert figures({0: 10.0}).ratio(figures({1: 5.0}), "value") is None
    assert figures({0: 10.0}).ratio(None, "value") is None


def test_what_holds_of_all_runs_together_holds_of_each() -> None:
    runs = [{"run": run, "us": {"a": 1.0, "b": 2.0 + run}} for run in range(2)]
    found = Figures({"of": ["a"], "us": {"c": 9.0}, "foreign_cores": 0.2, "runs": runs})
    assert found.values("us.a", "us.b") == {0: 3.0, 1: 4.0}
    assert found.values("us.c") == {}, "a run has its own"
    assert found.values("us.a", "us.none") == {}
    assert found.foreign_cores == 0.2


def test_a_refused_run_is_in_no_figure_and_is_said() -> None:
    runs = [{"run": 0, "value": 1.0}, {"run": 1, "value": 77.0, "broke": ["no"]}, {"run": 2, "value": 3.0}]
    found = Figures({"of": ["a"], "runs": runs, "foreign_cores": 0.4})
    assert found.values("value") == {0: 1.0, 2: 3.0}
    assert found.said == ["1 of 3 runs refused: no", "noisy"]
    assert Figures({"of": ["a"], "runs": runs[1:2]}).said == ["refused: no"]


def test_a_good_result_is_neither_refused_nor_remarked_upon() -> None:
    assert refusals(GOOD) == []
    assert remarks(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"account": {**GOOD["account"], "lost": 1}}, "1 messages lost"),
        ({"account": {**GOOD["account"], "corrupt": 2}}, "2 messages corrupt"),
        ({"account": {**GOOD["account"], "unknown": 3}}, "3 messages unknown"),
        ({"account": None}, "nobody counted"),
        ({"settings_wrong": ["appendfsync is 'everysec', not 'always'"]}, "appendfsync"),
        ({"syncs": {"a": 0, "b": 0, "messages": 100}}, "0 syncs for 100 messages"),
        ({"syncs": None}, "nobody counted syncs"),
        ({"broke": ["the tool failed"]}, "the tool failed"),
        ({"messages": 0}, "nothing was answered"),
    ],
)
def test_a_run_is_refused(change: dict[str, Any], said: str) -> None:
    (reason,) = refusals({**GOOD, **change})
    assert said in reason


def test_the_floor_has_nothing_to_count() -> None:
    assert refusals({**GOOD, "account": None, "verified": False}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"load_share": {"producer": 0.85}}, "bound by the producer (85% of a core)"),
        ({"foreign_cores": 0.36}, "strangers used 0.36 cores"),
        ({"account": {**GOOD["account"], "again": 1200}}, "1,200 came twice"),
        ({"unanswered": 32, "window": 5000, "size": 1 << 20}, "at most 32 unanswered, not 5,000: 32 MiB of payload"),
    ],
)
def test_what_must_be_said(change: dict[str, Any], said: str) -> None:
    (remark,) = remarks({**GOOD, **change})
    assert said in remark


@pytest.mark.parametrize(
    ("syncs", "copies", "short"),
    [
        ({"a": 100, "b": 100}, 2, False),
        ({"a": 96, "b": 95}, 2, False),
        ({"a": 100, "b": 89}, 2, True),
        ({"a": 5000, "b": 0}, 2, True),  # one process that syncs often is no second copy
        ({"a": 100, "b": 60, "c": 40}, 2, False),  # a majority, another one each time
        ({"a": 100}, 2, True),
        ({"a": 0, "b": 0, "c": 0}, 2, True),
        ({"a": 0, "b": 0, "c": 0}, 0, False),  # promises none
    ],
)
def test_syncs_bear_out_the_copies_or_not(syncs: dict[str, int], copies: int, short: bool) -> None:
    assert bool(syncs_short(syncs, 100, copies)) is short


def test_syncs_without_a_message_bear_out_nothing() -> None:
    assert syncs_short({"a": 9, "b": 9}, 0, 2)


def test_shares_tell_load_servers_and_strangers_apart() -> None:
    used = {"master": 3e6, "replica": 1e6, "producer": 2e6, "machine": 7e6}
    assert shares(used, 4.0, 1_000_000, ("producer", "consumer")) == {
        "cpu_us": {"servers": 4.0, "producer": 2.0, "consumer": 0.0},
        "load_share": {"producer": 0.5, "consumer": 0.0},
        "foreign_cores": 0.25,
    }


def test_the_ledger_finds_what_is_lost_doubled_damaged_or_from_elsewhere() -> None:
    payloads = Payloads(64, seed=1)
    sent = payloads.make(0, 200)
    assert len(set(sent)) == 200
    ledger = Ledger(Payloads(64, seed=1))
    damaged = bytearray(sent[5])
    damaged[40] ^= 1
    elsewhere = Payloads(64, seed=2).make(6, 1)
    ledger.take([*sent[:5], bytes(damaged), *elsewhere, sent[7][:-1], *sent[8:], sent[9]])
    assert ledger.account(200) == {
        "sent": 200, "received": 197, "lost": 3, "again": 1, "corrupt": 3, "unknown": 0,
    }  # fmt: skip
    assert ledger.account(150)["unknown"] == 50


def test_a_number_that_was_changed_is_not_believed() -> None:
    payloads = Payloads(64, seed=1)
    (payload,) = payloads.make(3, 1)
    number, turned = HEAD.unpack_from(payload)
    # 67 has the same filler as 3; the second copy of the number tells.
    assert payloads.number_of(HEAD.pack(67, turned) + payload[HEAD.size :]) is None
    assert payloads.number_of(HEAD.pack(number, turned) + payload[HEAD.size :]) == 3
