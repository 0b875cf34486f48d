"""A job that is killed between any two steps leaves a lake in which nothing is wrong; the next one goes on there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.adopting import settle
from pipeline.integrity import prove
from pipeline.lake import Lake
from tests.support.lakes import made_lake, told

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return made_lake(tmp_path / "lake", "a", (10, 20))


def struck(deed: str, lake: Lake, into: Path) -> list[Lake]:
    """Copies in which a job died, one step later in each; in the last one nobody did."""
    into.mkdir()
    command = [sys.executable, "-P", "-m", "tests.unit.pipeline.striking_lake", deed, str(lake.path), str(into)]
    steps = int(subprocess.check_output(command, env={**os.environ, "PYTHONPATH": str(ROOT)}))
    return [Lake(into / f"{step + 1:03}") for step in range(steps + 1)]


def rows_that_count(lake: Lake) -> dict[str, list[str]]:
    """By member, what is in the data files, each as often as it is read."""
    return {
        member: [path.read_text() for each in lake.stretches(member) for path in sorted(each.path.glob("*.parquet"))]
        for member in lake.members()
    }


@pytest.mark.parametrize(("deed", "steps"), [("publish", 14), ("first", 18), ("replace", 14)])
def test_who_dies_between_two_steps_leaves_a_lake_that_is_clean(
    lake: Lake, tmp_path: Path, deed: str, steps: int
) -> None:
    """And the next ingest goes on, from before that step or from behind it; nothing is left that does not count."""
    copies = struck(deed, lake, tmp_path / "struck")
    assert len(copies) > steps, "every step was counted"
    before, after = rows_that_count(lake), rows_that_count(copies[-1])
    found = []
    for copy in copies:
        assert told(copy) == [], copy.path.name
        found.append(rows_that_count(copy))
        again = struck_once(copy)
        assert rows_that_count(again) == found[-1]
    assert [each for each in found if each not in (before, after, {**before, "c": []})] == []
    assert before in found


def struck_once(lake: Lake) -> Lake:
    """After the next ingest has begun."""
    with lake.locked():
        prove(lake)
        settle(lake, lambda _: None)
    assert told(lake) == []
    left = sorted(str(path.relative_to(lake.path)) for path in lake.path.rglob("*"))
    assert [path for path in left if path.startswith("_staging/") or path.count(".json.")] == []
    for member in lake.members():
        assert [each.path for each in lake.every(member)] == [each.path for each in lake.stretches(member)]
        ends = lake.end(member)
        assert ends is None or lake.range(member).next == ends.log_index
    return lake


def test_who_dies_while_he_clears_up_after_one_who_died_leaves_it_to_the_next(lake: Lake, tmp_path: Path) -> None:
    """1. A wide stretch is published. 2. Its writer dies before he removes those inside. 3. So does the next one."""
    copies = struck("replace", lake, tmp_path / "struck")
    wide = [copy for copy in copies if len(copy.every("a")) == 3]
    assert wide, "one died between the two"
    rows = rows_that_count(copies[-1])
    for copy in struck("again", wide[0], tmp_path / "again"):
        assert (told(copy), rows_that_count(copy)) == ([], rows)
        assert rows_that_count(struck_once(copy)) == rows
