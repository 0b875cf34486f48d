"""How a demo of flight records is played and ends, whichever it is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from chaos.demos import Account, Place, end, play
from tandemq.errors import TandemqError, error_of


def test_one_that_is_ended_from_outside_ends_what_it_has_begun() -> None:
    ended: list[bool] = []

    async def story() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    assert play(story()) == ["interrupted"]
    assert ended == [True]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (error_of("QUEUE_FULL", "no room"), ["QUEUE_FULL: no room"]),
        (ExceptionGroup("both", [RuntimeError("one"), RuntimeError("other")]), ["one", "other"]),
        (None, []),
    ],
)
def test_why_it_broke_off_is_said(error: TandemqError | ExceptionGroup[Exception] | None, said: list[str]) -> None:
    async def story() -> None:
        if error is not None:
            raise error

    assert play(story()) == said


@pytest.mark.parametrize(
    ("passed", "keep", "code", "is_left"),
    [(True, False, 0, False), (True, True, 0, True), (False, False, 1, True)],
)
def test_its_files_are_written_and_its_data_stay_where_somebody_may_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, passed: bool, keep: bool, code: int, is_left: bool
) -> None:
    (directory := tmp_path / "data").mkdir()
    account = Account({"rows": 1_000, "choices": {"POLICY": 2}}, ["row 7 is lost"], passed, "the verdict")
    with pytest.raises(SystemExit) as ended:
        end(Place("demo", tmp_path / "out", directory, keep), account, "<svg/>")
    said = capsys.readouterr().out
    assert (ended.value.code, directory.exists()) == (code, is_left)
    assert json.loads((tmp_path / "out" / "demo.json").read_text()) == account.totals
    assert (tmp_path / "out" / "demo.svg").read_text() == "<svg/>"
    for text in ("1,000", "POLICY 2", "row 7 is lost", "the verdict; "):
        assert text in said
    assert (f"data and logs are in {directory}" in said) == is_left
