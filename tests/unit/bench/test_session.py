"""Commands that measure peers: options without sense, runs that fail or are stopped, sources that change meanwhile."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import document as documents
from bench.check import unfit
from bench.document import Document
from bench.peers import session
from bench.peers.contract import Peer, Setting
from bench.peers.place import BenchError, Place
from bench.peers.report import PLAN

LINE = {
    "peer": "tandemq",
    "workload": "enqueue",
    "size": 100,
    "value": 1.0,
    "p50_ms": 1.0,
    "refused": [],
    "remarks": [],
}


class Nothing(Peer):
    """A peer without processes."""

    name, roles = "tandemq", ()

    def start(self) -> None: ...

    def target(self) -> dict[str, Any]:
        return {}

    def settings(self) -> list[Setting]:
        return []

    def versions(self) -> dict[str, str]:
        return {}


class Turn:
    """A line, then what is to happen."""

    facts: dict[str, Any] = {"title": "Tandemq", "copies": 2}  # noqa: RUF012 - read alone

    def __init__(self, run: int, then: Callable[[int], None]) -> None:
        self._run, self._then = run, then

    def results(self) -> Iterator[dict[str, Any]]:
        yield {**LINE, "run": self._run}
        self._then(self._run)


def options(tmp_path: Path, **more: Any) -> argparse.Namespace:
    given = {"peers": ["tandemq"], "runs": 3, "seconds": 1.0, "size": 100, "out": tmp_path / "made/out.json"}
    return argparse.Namespace(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"peers": ["kafka"]}, "nothing known of kafka: choose of tandemq, redis"),
        ({"runs": 0}, "--runs and --seconds are at least 1"),
        ({"seconds": -1.0}, "--runs and --seconds are at least 1"),
        ({"seconds": float("nan")}, "--runs and --seconds are at least 1"),
        ({"seconds": float("inf")}, "--seconds at most 60"),
        ({"size": 10}, "--size 10: a payload has 24 to 1048576 bytes"),
        ({"size": 1 << 30}, "--size 1073741824: a payload has 24 to"),
        ({"out": Path("/")}, "--out / is a folder"),
        ({"out": Path("/proc/none/out.json")}, "--out /proc/none/out.json: No such file or directory"),
    ],
)
def test_options_that_make_no_sense_are_told(
    more: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        session.check_options(argparse.ArgumentParser(), options(tmp_path, **more), ("tandemq", "redis"))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_peer_that_is_named_twice_is_measured_once(tmp_path: Path) -> None:
    given = options(tmp_path, peers=["redis", "redis", "tandemq"])
    session.check_options(argparse.ArgumentParser(), given, ("tandemq", "redis"))
    assert given.peers == ("redis", "tandemq")
    assert given.out.parent.is_dir()


def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[int], None]) -> Document:
    monkeypatch.setattr(session, "PEERS", {"tandemq": Nothing})
    with Place(tmp_path / "run") as place:
        return session.in_turns(
            place, options(tmp_path), "peers", {"runs": 3, "seconds": 5.0, "size": 100}, lambda _, run: Turn(run, then)
        )


def test_who_is_stopped_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def then(run: int) -> None:
        if run == 1:
            raise KeyboardInterrupt

    found = document(tmp_path, monkeypatch, then)
    assert found.options["peers"] == ["tandemq"]
    assert [run["run"] for _, run in found.all_runs()] == [0, 1]
    assert found.failed == [{"of": ["tandemq"], "run": 1, "why": session.STOPPED}]
    assert {"it was stopped before it was done", "tandemq failed in run 2"} <= set(unfit(found, PLAN))


def test_a_run_that_fails_is_told_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def then(run: int) -> None:
        if run == 0:
            raise BenchError("server ended (-9) while the producer was at work")

    found = document(tmp_path, monkeypatch, then)
    assert sum(1 for _ in found.all_runs()) == 3
    assert [failure["run"] for failure in found.failed] == [0]
    assert "tandemq failed in run 1" in unfit(found, PLAN)


def test_sources_that_change_in_the_middle_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair that is started later runs the later sources."""
    commits = iter(("abc", "def"))
    monkeypatch.setattr(documents, "facts", lambda: {"commit": next(commits)})
    found = unfit(document(tmp_path, monkeypatch, lambda _: None), PLAN)
    assert found[0] == "the sources changed while it was measured, from abc to def"


@pytest.mark.parametrize("runs", [[], [{**LINE, "run": 0}]])
def test_who_stops_before_there_is_a_result_keeps_the_document_of_before(
    runs: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = options(tmp_path, folder=tmp_path / "run", out=tmp_path / "out.json")
    given.out.write_text("of before")
    found = Document("peers", {}, "", {}, failed=[{"of": ["tandemq"], "run": 0, "why": session.STOPPED}])
    for run in runs:
        found.add(("tandemq", "enqueue"), run)
    with pytest.raises(SystemExit) as ended:
        session.carry_out("peers", given, required=True, missing=lambda *_: [], measured=lambda _: found, table=None)
    assert ended.value.code == 1
    assert (given.out.read_text() == "of before") is not bool(runs)
    assert ("nothing was measured" in capsys.readouterr().err) is not bool(runs)
