"""Logs of several processes become one, by time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tandemq.testing.logs import merged, shown


def line(second: int, message: str) -> str:
    return json.dumps({"time": f"2026-11-22T10:00:{second:02}.000+00:00", "level": "info", "message": message})


def test_lines_come_by_time_and_what_has_no_time_stays_behind_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join([line(1, "one"), "Traceback: a", line(5, "five")]) + "\n")
    (tmp_path / "b.log").write_text("\n".join([line(3, "three"), line(2, "set back"), line(4, "four")]) + "\n")
    lines = merged([tmp_path / "a.log", tmp_path / "b.log", tmp_path / "missing.log"])
    said = [text.partition(" | ")[2].rpartition("info    ")[2] for text in shown(lines).splitlines()]
    assert said == ["one", "Traceback: a", "three", "set back", "four", "five"]
    assert shown(lines).splitlines()[0].split(" | ")[0].strip() == "a"


def test_only_the_tests_own_time_and_the_last_lines_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(line(second, str(second)) + "\n" for second in range(10)))
    lines = merged([tmp_path / "a.log"], datetime(2026, 11, 22, 10, 0, 4, tzinfo=UTC))
    assert len(lines) == 6
    assert shown(lines, 2).splitlines()[0] == "... 4 earlier lines are in the files"
    assert shown(lines, 2).endswith(" 9")


def test_what_is_no_time_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('[1]\n{"time": 7}\n{"time": "soon"}\n{}\n\xff\n')
    assert len(merged([tmp_path / "a.log"])) == 5
