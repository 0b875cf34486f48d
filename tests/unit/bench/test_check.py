"""What is not believed of a document: the committed ones are, and each of them with one thing changed is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.check import NAMED_MAX, unfit
from bench.document import Document, Figures, read
from bench.growth.plan import curves
from bench.growth.report import TURNS_MIN
from bench.shown import KINDS, RESULTS, Shown

BY_NAME = {kind.name: kind for kind in KINDS}
COMMITTED = {kind.name: read(kind.kept(RESULTS).read_text(encoding="utf-8")) for kind in KINDS}
Change = Callable[[Document], object]


def changed(name: str, change: Change) -> list[str]:
    """What is said of the committed document with such a change."""
    found = copy.deepcopy(COMMITTED[name])
    change(found)
    return unfit(found, BY_NAME[name].plan)


def result_of(document: Document, *of: str) -> dict[str, Any]:
    (found,) = [result for result in document.results if result["of"] == list(of)]
    return found


def run_of(document: Document, *of: str, run: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = result_of(document, *of)["runs"][run]
    return found


def with_run(name: str, *of: str, **more: Any) -> list[str]:
    return changed(name, lambda found: run_of(found, *of).update(more))


ONE = {
    "bench": ("one in flight 1 KiB", "ours"), "failover": ("frozen",), "peers": ("redis", "flow"),
    "targets": ("redis", "flow"), "open": ("redis", "open 1,000/s"), "native": ("redis", "enqueue"),
    "growth": ("depth", "0"), "budget": ("enqueue", "ours"), "levers": ("1,000/s", "neither"),
}  # fmt: skip
"""Something that each document has measured."""
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)

# -- of every kind of document -----------------------------------------------------------------------------------------


@every_kind
def test_what_is_committed_is_believed(kind: Shown) -> None:
    assert unfit(COMMITTED[kind.name], kind.plan) == []


@every_kind
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.about.update(commit="abc-dirty", commit_afterwards="abc-dirty"), "in no commit"),
        (lambda found: found.about.update(commit="unknown", commit_afterwards="unknown"), "in no commit"),
        (lambda found: found.about.update(commit_afterwards="def"), "the sources changed while it was measured, from"),
        (lambda found: setattr(found, "ended", False), "it was stopped before it was done"),
        (lambda found: found.options.update(runs=1), "1 runs; "),
    ],
    ids=["dirty", "unknown", "changed", "stopped", "one run"],
)
def test_a_document_says_how_it_was_measured(kind: Shown, change: Change, said: str) -> None:
    assert any(said in reason for reason in changed(kind.name, change))


@every_kind
def test_each_run_is_there_once(kind: Shown) -> None:
    of = ONE[kind.name]

    def again(found: Document) -> None:
        result_of(found, *of)["runs"].append(run_of(found, *of))

    def another(found: Document) -> None:
        result_of(found, *of)["runs"].append({**run_of(found, *of), "run": 99})

    name = " ".join(of)
    assert changed(kind.name, lambda found: result_of(found, *of)["runs"].pop(1)) == [f"no result of {name} (run 2)"]
    assert changed(kind.name, again) == [f"more than one result of {name} (run 1)"]
    assert changed(kind.name, another) == [f"not asked for: {name} (run 100)"]
    (reason,) = changed(kind.name, lambda found: found.results.remove(result_of(found, *of)))
    assert reason.startswith(f"no result of {name} (run 1), {name} (run 2), ")


@pytest.mark.parametrize("name", ["bench", "peers", "open", "native", "growth"])
def test_a_noisy_run_is_counted(name: str) -> None:
    count = sum(1 for _ in COMMITTED[name].all_runs())
    assert with_run(name, *ONE[name], foreign_cores=0.5) == [f"1 of {count} runs while others used the machine"]


@pytest.mark.parametrize("name", ["failover", "budget"])
def test_where_noise_makes_it_worse_alone_the_page_says_it(name: str) -> None:
    assert with_run(name, *ONE[name], foreign_cores=0.5) == []


@pytest.mark.parametrize(
    ("name", "of", "field"),
    [
        ("bench", ONE["bench"], "foreign_cores"),
        ("failover", ONE["failover"], "foreign_cores"),
        ("failover", ("handoff",), "per_s"),
        *(("peers", ONE["peers"], field) for field in ("foreign_cores", "load_share", "copies", "settings_wrong")),
        ("peers", ONE["peers"], "seconds"),
        *(("peers", ("floor", "single"), field) for field in ("foreign_cores", "p99_ms")),
        *(("peers", ("redis", "single"), field) for field in ("p90_ms", "p999_ms")),
        ("open", ONE["open"], "max_ms"),
        ("growth", ONE["growth"], "foreign_cores"),
        ("budget", ONE["budget"], "value"),
    ],
)
def test_what_a_run_lacks_is_named(name: str, of: tuple[str, ...], field: str) -> None:
    def lack(found: Document) -> None:
        result_of(found, *of).pop(field, None)
        run_of(found, *of).pop(field, None)

    assert f"without {field}: {' '.join(of)} (run 1)" in changed(name, lack)[0]


def test_open_loops_lack_no_system_rate_or_number_of_producers() -> None:
    def fewer(found: Document) -> None:
        found.options.update(producers=[1], rates=[1000.0])
        del found.peers["nats"]

    said = set(changed("open", fewer))
    assert {"without nats", "without 300/s, 5,000/s, 20,000/s", "without 50 producers"} <= said


def test_a_run_that_broke_off_is_named_once() -> None:
    def fail(found: Document) -> None:
        found.failed.append({"of": ["redis"], "run": 1, "why": "x"})
        for result in found.results:
            if result["of"][0] == "redis":
                del result["runs"][1]

    assert changed("peers", fail) == ["redis failed in run 2"]


def test_of_many_runs_some_are_named() -> None:
    def leave_out(found: Document) -> None:
        found.results = [result for result in found.results if result["of"][1] != "open 5,000/s"]

    names = [f"{peer} open 5,000/s (run {run})" for peer in sorted(COMMITTED["open"].peers) for run in (1, 2, 3)]
    assert changed("open", leave_out) == [
        f"no result of {', '.join(names[:NAMED_MAX])} and {len(names) - NAMED_MAX} more"
    ]


# -- what follows from a run's own figures -----------------------------------------------------------------------------

ACCOUNT = run_of(COMMITTED["peers"], "redis", "flow")["account"]


@pytest.mark.parametrize(
    ("name", "of", "more", "said"),
    [
        ("peers", ONE["peers"], {"account": {**ACCOUNT, "lost": 1}}, "1 messages lost"),
        ("peers", ONE["peers"], {"account": {**ACCOUNT, "corrupt": 2}}, "2 messages corrupt"),
        ("peers", ONE["peers"], {"account": None}, "nobody counted what came"),
        ("peers", ONE["peers"], {"settings_wrong": ["fsync is 'no'"]}, "setting fsync is 'no'"),
        ("peers", ONE["peers"], {"syncs": {"a": 100, "b": 0, "messages": 100}}, "100 syncs for 100 messages"),
        ("peers", ONE["peers"], {"syncs": None}, "nobody counted syncs"),
        ("peers", ONE["peers"], {"copies": 3}, "2 processes cannot hold 3 copies"),
        ("open", ONE["open"], {"late_p50_ms": 5.0}, "the load was the bottleneck: p50 5.00 ms late"),
        ("open", ONE["open"], {"load_share": {"producer": 0.9}}, "the load was the bottleneck: it used 90% of a core"),
        ("open", ONE["open"], {"load_share": None}, "nobody measured what the load used"),
        ("open", ONE["open"], {"late_p50_ms": None}, "nobody measured how late p50 of the load was"),
        ("native", ONE["native"], {"held": 0}, "messages are left, the server holds 0"),
        ("native", ONE["native"], {"broke": ["the tool failed"]}, "the tool failed"),
        ("growth", ("open", "1,000/s"), {"late_p99_ms": 9.0, "p99_ms": 9.0}, "the load was the bottleneck: p99 9.00"),
        ("growth", ("fault", "handoff"), {"broke": ["it is still master"]}, "it is still master"),
    ],
)  # fmt: skip
def test_a_run_that_its_own_figures_condemn_is_in_no_figure_and_the_page_says_it(
    name: str, of: tuple[str, ...], more: dict[str, Any], said: str
) -> None:
    found = copy.deepcopy(COMMITTED[name])
    run_of(found, *of).update(more, value=98_765_432.0)
    shown = Figures(result_of(found, *of))
    assert 0 not in shown.good
    assert 98_765_432.0 not in shown.values("value").values()
    assert said in shown.said[0]
    text = BY_NAME[name].markdown(found)
    assert said in text
    assert "98,765,432" not in text
    assert unfit(found, BY_NAME[name].plan) == [], "it has said so: nothing else is asked of it"


@pytest.mark.parametrize("more", [{"account": {**ACCOUNT, "lost": 1}}, {"syncs": {"a": 9, "messages": 9}}])
def test_what_is_known_of_all_runs_together_condemns_all(more: dict[str, Any]) -> None:
    found = copy.deepcopy(COMMITTED["growth"])
    result_of(found, "depth", "10,000").update(more)
    assert Figures(result_of(found, "depth", "10,000")).good == {}
    assert "| 10,000 |  |  |  |  |  |  | " in BY_NAME["growth"].markdown(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"account": {**ACCOUNT, "sent": ACCOUNT["sent"] + 1}}, "the account does not add up"),
        ({"account": dict.fromkeys(ACCOUNT, 0)}, "more messages were measured than sent"),
        ({"sent": 1}, "the account is not of what was sent"),
        ({"value": 99_999.0}, "value is not messages in seconds"),
        ({"p50_ms": 99.0}, "percentiles that fall"),
        ({"p50_ms": 0.0}, "percentiles of no time"),
    ],
)
def test_figures_that_cannot_all_be_true_are_not_shown(more: dict[str, Any], said: str) -> None:
    of = ("redis", "single") if "p50_ms" in more else ("redis", "flow")
    reasons = with_run("peers", *of, **more)
    assert any(reason.startswith(said) for reason in reasons)
    assert all(reason.endswith(f": {' '.join(of)} (run 1)") for reason in reasons)


@pytest.mark.parametrize(
    ("name", "of", "more", "said"),
    [
        ("peers", ONE["peers"], {"load_share": {"producer": 0.9}}, "bound by the producer"),
        ("peers", ONE["peers"], {"account": {**ACCOUNT, "again": 3}}, "3 came twice"),
        ("peers", ONE["peers"], {"foreign_cores": 0.5}, "noisy"),
        ("open", ("rabbitmq-quorum", "open 20,000/s"), {}, "does not keep up"),
        ("growth", ONE["growth"], {"load_share": {"client": 0.9}}, "bound by the client"),
    ],
)
def test_what_must_be_said_is_said(name: str, of: tuple[str, ...], more: dict[str, Any], said: str) -> None:
    found = copy.deepcopy(COMMITTED[name])
    run_of(found, *of).update(more)
    assert said in Figures(result_of(found, *of)).said
    assert said in BY_NAME[name].markdown(found)


# -- of one kind -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("bench", lambda found: found.options.update(seconds=0.8), "0.8 s of each are to see that it runs"),
        ("bench", lambda found: found.results.pop(-2), "without the memory of a queued message"),
        ("peers", lambda found: found.options.update(seconds=1.0), "1 s of each are to see that it runs"),
        ("peers", lambda found: found.options.update(size=100), "payloads of 1024 B, not 100"),
        ("peers", lambda found: found.peers.pop("artemis"), "nothing is said of artemis"),
        ("targets", lambda found: found.options.update(size=100), "payloads of 100 B; the targets are for 1024"),
        ("targets", lambda found: found.peers.pop("postgres"), "without postgres, which targets compare with"),
        ("open", lambda found: found.options.update(rates=[1000.0]), "without 300/s, 5,000/s, 20,000/s"),
        ("open", lambda found: found.peers.pop("redis"), "without redis"),
        (
            "open",
            lambda found: run_of(found, "tandemq", "open 1,000/s").update(rate=5000.0),
            "tandemq open 1,000/s was due at 5,000/s",
        ),
        ("failover", lambda found: run_of(found, "handoff").update(per_s=10), "handoffs at 10 messages a second, not"),
        ("failover", lambda found: found.options.update(rate=1000.0), "messages were sent one by one, 1,000 a second"),
        ("growth", lambda found: found.options.update(share=0.1), "it was measured with fewer messages"),
        ("growth", lambda found: found.options.update(turns=4), f"4 turns; {TURNS_MIN} show a spread"),
        (
            "growth",
            lambda found: found.failed.append({"of": ["queues"], "run": 0, "why": "no"}),
            "queues failed in run 1",
        ),
    ],
)  # fmt: skip
def test_what_a_kind_of_document_must_hold(name: str, change: Change, said: str) -> None:
    assert any(reason.startswith(said) for reason in changed(name, change))


def test_without_ours_there_is_nothing_to_compare_with() -> None:
    def leave_out(found: Document) -> None:
        found.results = [result for result in found.results if result["of"][0] != "tandemq"]
        found.options["peers"].remove("tandemq")
        del found.peers["tandemq"]

    assert changed("peers", leave_out) == ["without ours there is nothing to compare with"]


def test_a_point_of_ten_million_messages_may_be_beside_the_others() -> None:
    (deep,) = [point.label for point in curves(deep=True)[1].points if point.depth == 10_000_000]

    def add(found: Document) -> None:
        found.results.append({**copy.deepcopy(result_of(found, "depth-small", "0")), "of": ["depth-small", deep]})

    assert changed("growth", add) == []


def test_of_a_tool_no_more_is_asked_than_it_can_do() -> None:
    assert ["redis", "flow"] not in [result["of"] for result in COMMITTED["native"].results]
    assert "account" not in run_of(COMMITTED["native"], "redis", "enqueue")
    assert with_run("native", "tandemq", "flow", seconds=None) == ["without seconds: tandemq flow (run 1)"]


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"options": "none"}',
        json.dumps({"benchmark": "peers"}),
        '{"benchmark": "x", "about": {}, "time": "", "options": {"seconds": NaN}}',
        '{"benchmark": "x", "about": {}, "time": "", "options": {}, "results": [{"of": [], "runs": [{"run": ""}]}]}',
        '{"benchmark": "x", "about": {}, "time": "", "options": {}, "results": [], "summary": {}}',
    ],
    ids=["empty", "a list", "no document", "half", "no number", "a run without a number", "another version"],
)  # fmt: skip
def test_what_is_no_document_is_not_read(text: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError, KeyError)):
        read(text)
