"""The command of the crowds: what it refuses, and when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.crowd import run
from chaos.crowd.__main__ import USAGE, main


def test_a_part_that_nobody_knows_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "silent,loud"])
    assert ended.value.code == USAGE
    assert "--only loud: there are silent, floods, idle" in capsys.readouterr().err


def test_a_part_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "IDLE_MODULE", "chaos.crowd.absent")
    assert main(["--out", str(tmp_path / "crowd.json")]) == USAGE
    assert "chaos.crowd.absent" in capsys.readouterr().err
    assert not (tmp_path / "crowd.json").exists()
    assert not run.missing(["silent", "floods"])


@pytest.mark.parametrize(
    "figures",
    [
        {"sends_failed": 1, "takeovers_without_fault": None},
        {"sends_failed": 0, "takeovers_without_fault": 1},
        {"sends_failed": 0, "takeovers_without_fault": 0, "floods": [{"name": "ping", "ended": False}]},
    ],
)
def test_what_must_be_zero_is_wrong_when_it_is_not(figures: dict[str, object]) -> None:
    assert len(run.wrong(figures)) == 1


def test_a_run_in_which_all_is_zero_passes() -> None:
    assert run.wrong({"sends_failed": 0, "takeovers_without_fault": 0, "floods": []}) == []
    assert run.wrong({"sends_failed": 0, "takeovers_without_fault": None}) == []


def test_a_handoff_is_told_from_a_takeover() -> None:
    assert run.HANDED_OVER.search("domain main: MASTER, epoch 2: a handed over")
    assert not run.HANDED_OVER.search("domain main: MASTER, epoch 2: the peer is lost")
