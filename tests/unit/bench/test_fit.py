"""What is not believed of a document: the committed ones are, and each of them with one thing changed is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.peers.fit import NAMED_MAX, unfit
from bench.shown import NATIVE, OPEN, PEERS

Document = dict[str, Any]
COMMITTED: Document = json.loads(PEERS.results.read_text(encoding="utf-8"))
LOOPS: Document = json.loads(OPEN.results.read_text(encoding="utf-8"))


def line_of(document: Document, peer: str, workload: str, run: int) -> dict[str, Any]:
    (found,) = [
        line for line in document["results"] if (line["peer"], line["workload"], line["run"]) == (peer, workload, run)
    ]
    return found


def changed(change: Callable[[Document], object], document: Document = COMMITTED) -> list[str]:
    """What is said of a document with such a change."""
    found = copy.deepcopy(document)
    change(found)
    return unfit(found)


def with_line(peer: str, workload: str, run: int, document: Document = COMMITTED, **more: Any) -> list[str]:
    return changed(lambda found: line_of(found, peer, workload, run).update(more), document)


def test_what_is_committed_is_believed() -> None:
    assert unfit(COMMITTED) == []
    assert unfit(LOOPS) == []


@pytest.mark.parametrize(
    ("part", "more", "said"),
    [
        ("about", {"commit": "abc-dirty", "commit_afterwards": "abc-dirty"}, "it was measured on changes"),
        ("about", {"commit": "unknown", "commit_afterwards": "unknown"}, "it was measured on changes"),
        ("options", {"seconds": 1.0}, "1 s of each are to see that it runs"),
        ("about", {"commit_afterwards": "def"}, "the sources changed while it was measured, from"),
        ("options", {"peers": ["redis", "kafka"]}, "nothing of kafka"),
    ],
)
def test_a_document_tells_how_it_was_measured(part: str, more: dict[str, Any], said: str) -> None:
    (reason,) = changed(lambda found: found[part].update(more))
    assert reason.startswith(said)


def test_a_run_that_failed_is_named_once() -> None:
    def fail(found: Document) -> None:
        found["failed"].append({"peer": "redis", "run": 1, "why": "x"})
        found["results"] = [line for line in found["results"] if (line["peer"], line["run"]) != ("redis", 1)]

    assert changed(fail) == ["redis failed in run 2"]


def test_one_run_shows_no_spread() -> None:
    def shorten(found: Document) -> None:
        found["options"]["runs"] = 1
        found["results"] = [line for line in found["results"] if line["run"] == 0]

    assert changed(shorten) == ["1 runs; 3 show a spread"]


def test_a_noisy_result_is_counted_and_must_be_remarked() -> None:
    count = len(COMMITTED["results"])
    assert with_line("redis", "flow", 0, foreign_cores=0.5) == [
        f"1 of {count} results while others used the machine",
        "without the remark 'noisy: strangers used 0.50 cores': redis flow (run 1)",
    ]


def without(peer: str, workload: str) -> Callable[[Document], None]:
    def leave_out(found: Document) -> None:
        found["results"] = [
            line for line in found["results"] if (line["peer"], line["workload"], line["run"]) != (peer, workload, 1)
        ]

    return leave_out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("redis", "drain"), "no result of redis drain (run 2)"),
        (without("floor", "flow"), "no result of floor flow (run 2)"),
        (
            lambda found: found["results"].append(line_of(found, "redis", "drain", 1)),
            "more than one result of redis drain (run 2)",
        ),
        (
            lambda found: found["results"].append({**line_of(found, "floor", "flow", 1), "workload": "drain"}),
            "not asked for: floor drain (run 2)",
        ),
        (
            lambda found: found["results"].append({**line_of(found, "redis", "drain", 1), "run": 3}),
            "not asked for: redis drain (run 4)",
        ),
    ],
    ids=["missing", "missing of the floor", "twice", "another workload", "another run"],
)
def test_each_line_is_there_once(change: Callable[[Document], None], said: str) -> None:
    assert changed(change) == [said]


def test_a_rate_that_is_missing_in_every_run_is_missed() -> None:
    def leave_out(found: Document) -> None:
        found["results"] = [line for line in found["results"] if line["workload"] != "open 5,000/s"]

    said = "no result of " + ", ".join(
        f"{peer} open 5,000/s (run {run})" for peer in ("rabbitmq-quorum", "redis", "tandemq") for run in (1, 2, 3)
    )
    (reason,) = changed(leave_out, LOOPS)
    assert reason == ", ".join(said.split(", ")[:NAMED_MAX]) + f" and {9 - NAMED_MAX} more"


def test_a_peer_without_its_description_has_no_place_in_the_table() -> None:
    (reason,) = changed(lambda found: found["peers"].pop("artemis"))
    assert reason.startswith("not asked for: artemis drain (run 1), ")


@pytest.mark.parametrize(
    ("name", "peer", "workload", "document"),
    [
        *((name, "redis", "flow", COMMITTED) for name in ("foreign_cores", "refused", "load_share", "account")),
        *((name, "redis", "flow", COMMITTED) for name in ("seconds", "syncs", "settings_wrong", "remarks")),
        *((name, "floor", "single", COMMITTED) for name in ("foreign_cores", "p99_ms")),
        *((name, "redis", "single", COMMITTED) for name in ("p90_ms", "p999_ms")),
        *((name, "tandemq", "open 1,000/s", LOOPS) for name in ("rate", "late_p99_ms", "max_ms")),
    ],
)
def test_what_a_line_lacks_is_named(name: str, peer: str, workload: str, document: Document) -> None:
    said = f"without {name}: {peer} {workload} (run 1)"
    assert changed(lambda found: line_of(found, peer, workload, 0).pop(name), document) == [said]
    assert with_line(peer, workload, 0, document, **{name: None}) == [said]


ACCOUNT = line_of(COMMITTED, "redis", "flow", 0)["account"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"account": {**ACCOUNT, "lost": 1, "received": ACCOUNT["received"] - 1}}, "although 1 messages lost"),
        ({"account": {**ACCOUNT, "corrupt": 2}}, "although 2 messages corrupt"),
        ({"settings_wrong": ["appendfsync is 'everysec', not 'always'"]}, "although setting appendfsync is 'everysec'"),
        ({"syncs": {"redis-primary": 100, "redis-replica": 0, "messages": 100}}, "although 100 syncs for 100 messages"),
        ({"load_share": {"producer": 0.9, "consumer": 0.1}}, "without the remark 'bound by the producer (90% of a co"),
        ({"account": {**ACCOUNT, "again": 3}}, "without the remark '3 came twice'"),
        ({"account": {**ACCOUNT, "lost": 1}}, "the account does not add up"),
        ({"account": dict.fromkeys(ACCOUNT, 0)}, "more messages were measured than sent"),
        ({"value": 99_999.0}, "value is not messages in seconds"),
        ({"size": 100}, "of 100 B, not 1024"),
    ],
)
def test_what_follows_from_a_line_is_not_taken_on_trust(more: dict[str, Any], said: str) -> None:
    """It said `refused: []`, and its own figures say otherwise."""
    reasons = with_line("redis", "flow", 0, **more)
    assert any(said in reason for reason in reasons)
    assert all(reason.endswith(": redis flow (run 1)") for reason in reasons)


def test_percentiles_and_the_count_of_what_was_sent_are_looked_at() -> None:
    (reason,) = with_line("redis", "single", 0, p50_ms=99.0)
    assert reason == "percentiles that fall: redis single (run 1)"
    (reason,) = with_line("redis", "single", 0, p50_ms=0.0)
    assert reason == "percentiles of no time: redis single (run 1)"
    (reason,) = with_line("redis", "single", 0, sent=1)
    assert reason == "the account is not of what was sent: redis single (run 1)"


def test_an_open_loop_that_was_late_itself_is_not_believed_to_be_the_system() -> None:
    (reason,) = with_line("redis", "open 1,000/s", 0, LOOPS, late_p50_ms=5.0)
    assert reason.startswith("not refused, although the load was the bottleneck: p50 5.00 ms late")
    (reason,) = with_line("rabbitmq-quorum", "open 20,000/s", 0, LOOPS, remarks=[])
    assert reason.startswith("without the remark 'does not keep up")


def test_open_loops_at_fewer_rates_or_of_fewer_systems_take_the_place_of_nothing() -> None:
    fewer = copy.deepcopy(LOOPS)
    fewer["options"]["rates"] = [1000.0]
    fewer["results"] = [
        {**line, "rate": 5000.0} if line["peer"] == "tandemq" else line
        for line in fewer["results"] if line["workload"] == "open 1,000/s" and line["peer"] != "redis"
    ]  # fmt: skip
    del fewer["peers"]["redis"]
    assert OPEN.unfit(LOOPS) == []
    assert [reason for reason in OPEN.unfit(fewer) if "keep up" not in reason] == [
        "without redis",
        "without 5,000/s, 20,000/s",
        *["tandemq open 1,000/s was due at 5,000/s"] * 3,
    ]


def test_of_a_refused_line_nothing_more_is_asked() -> None:
    """It is in no figure, and the table tells why. A tool that failed has no figures."""
    found = copy.deepcopy(COMMITTED)
    line = line_of(found, "redis", "flow", 0)
    line.update({"refused": ["the tool failed"], "account": None, "value": 0.0})
    del line["foreign_cores"]
    assert unfit(found) == []


def test_without_ours_there_is_nothing_to_compare_with() -> None:
    def leave_out(found: Document) -> None:
        found["results"] = [line for line in found["results"] if line["peer"] != "tandemq"]
        del found["peers"]["tandemq"]

    assert changed(leave_out) == ["without ours there is nothing to compare with"]


def tools() -> Document:
    """Ours and a tool that cannot consume, of `bench-native`."""
    of = {"title": "", "copies": 1, "versions": {}, "client": "", "promise": ""}
    base = {
        "size": 1024, "messages": 300, "value": 100.0, "seconds": 3.0, "cpu_us": {}, "load_share": {"tool": 0.1},
        "foreign_cores": 0.1, "settings_wrong": [], "syncs": {"a": 100, "messages": 100}, "syncs_short": "",
        "refused": [], "remarks": [],
    }  # fmt: skip
    account = {"sent": 300, "received": 300, "lost": 0, "again": 0, "corrupt": 0, "unknown": 0}
    told = {"sent": 300, "received": 0, "held": 300, "untold": 0, "slack": 2, "short": [], "verified": False}
    ours = [
        {**base, "peer": "tandemq", "workload": workload, "run": run, "account": account, "verified": True}
        for workload in ("enqueue", "flow") for run in range(3)
    ]  # fmt: skip
    theirs = [{**base, "peer": "redis", "workload": "enqueue", "run": run, **told} for run in range(3)]
    return {
        "about": {"commit": "abc"},
        "options": {"native": True, "runs": 3, "seconds": 3.0, "size": 1024},
        "peers": {"tandemq": of, "redis": of},
        "results": [*ours, *theirs],
        "failed": [],
    }


def test_of_a_tool_no_more_is_asked_than_it_can_do() -> None:
    found = tools()
    assert NATIVE.unfit(found) == []
    line_of(found, "redis", "enqueue", 1)["held"] = 297
    line_of(found, "redis", "enqueue", 2)["short"] = ["the tool says that 9 messages are left"]
    assert NATIVE.unfit(found) == [
        "not refused, although the server holds 297 of 300 messages: redis enqueue (run 2)",
        "not refused, although the tool says that 9 messages are left: redis enqueue (run 3)",
    ]
    del line_of(found, "tandemq", "flow", 0)["account"]
    assert "without account: tandemq flow (run 1)" in NATIVE.unfit(found)
