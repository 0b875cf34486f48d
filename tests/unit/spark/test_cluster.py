"""The verdict of `make spark-cluster`: each kind of damage makes it FAIL; a machine that cannot run it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.cluster.__main__ import main
from tests.spark.cluster.judging import FAIL, PASS, Held, Run, figures, messages_at, rows_at

TOLD = {b"m1": 1, b"m2": 2, b"m3": 3}
THERE = [(b"m1", 1), (b"m2", 2), (b"m3", 3)]
GOOD = Run(3, 3, 0, 1, 1, 1, held=[messages_at("lake", TOLD, [], THERE)], steps={"audit": ""})


def counted(held: Held) -> tuple[int, int, int, int]:
    return held.rows, held.lost, held.duplicates, held.strangers


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (THERE, (3, 0, 0, 0)),
        (THERE[1:], (2, 1, 0, 0)),
        ([*THERE, (b"m2", 2)], (4, 0, 1, 0)),
        ([*THERE, (b"m2", 9)], (4, 0, 1, 0)),
        ([*THERE, (b"x", 9)], (4, 0, 0, 1)),
        ([(b"m1", 1), (b"m2", 3), (b"m3", 2)], (3, 2, 0, 0)),  # not where the producers were told
        ([*THERE, (b"doubt", 4)], (4, 0, 0, 0)),  # sent, and never answered: it may be there
        ([*THERE, (b"doubt", 4), (b"doubt", 5)], (5, 0, 1, 0)),
    ],
)
def test_messages_are_counted_against_what_producers_were_told(
    there: list[tuple[bytes, int]], found: tuple[int, int, int, int]
) -> None:
    assert counted(messages_at("lake", TOLD, [b"doubt"], there)) == found


def test_in_another_queue_messages_have_indexes_of_their_own() -> None:
    moved = [(body, index + 10) for body, index in THERE]
    assert counted(messages_at("copies", TOLD, [], moved, indexed=False)) == (3, 0, 0, 0)
    assert counted(messages_at("copies", TOLD, [], moved[1:] * 2, indexed=False)) == (4, 1, 2, 0)


def test_rows_of_a_copy_are_counted_as_often_as_they_are_there() -> None:
    assert counted(rows_at("lake", "aab", "aab")) == (3, 0, 0, 0)
    assert counted(rows_at("lake", "aab", "abbc")) == (4, 1, 1, 1)


@pytest.mark.parametrize(
    "run",
    [
        replace(GOOD, held=[*GOOD.held, Held("copies", 3, 1, 0)]),
        replace(GOOD, held=[*GOOD.held, Held("copies", 3, 0, 1)]),
        replace(GOOD, held=[*GOOD.held, Held("copies", 3, 0, 0, 1)]),
        replace(GOOD, held=[*GOOD.held, Held("copies", 0, 0, 0)]),
        replace(GOOD, held=[]),
        replace(GOOD, acknowledged=0),
        replace(GOOD, executors_killed=0),
        replace(GOOD, workers_killed=0),
        replace(GOOD, pair_masters_killed=0),
        replace(GOOD, steps={"audit": "verdict violations"}),
    ],
)
def test_whatever_is_wrong_fails(run: Run) -> None:
    assert figures(GOOD, 1.0, {})["verdict"] == PASS
    assert figures(run, 1.0, {})["verdict"] == FAIL


def test_what_is_written_has_the_sums() -> None:
    held = [Held("lake", 3, 1, 0), Held("copies", 4, 0, 2, 1)]
    found = figures(replace(GOOD, held=held), 61.26, {"java": "17"})
    assert {name: found[name] for name in ("rounds", "rows", "lost", "duplicates", "strangers", "seconds")} == {
        "rounds": 3,
        "rows": 7,
        "lost": 1,
        "duplicates": 2,
        "strangers": 1,
        "seconds": 61.3,
    }
    assert found["steps"] == {"audit": "as it must"}


def test_a_machine_without_name_spaces_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = tmp_path / "setpriv"
    refusing.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error: NO_NAMESPACES\n")
    assert "Operation not permitted" in told
    refusing.unlink()
    assert main([]) == 3
    assert "setpriv is not there" in capsys.readouterr().err


@pytest.mark.parametrize("rounds", ["0", "1001", "many"])
def test_rounds_have_limits(rounds: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--rounds", rounds])
    assert ended.value.code == 2
