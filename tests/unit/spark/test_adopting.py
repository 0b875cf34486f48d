"""A lake of an older version gets its manifests once; damage that can be seen in it is refused, and not taken over."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="SPARK NOT TESTED: no pyarrow (`make spark`)")

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.adopting import adopt, settle
from pipeline.integrity import examine
from pipeline.lake import Lake
from pipeline.problems import PipelineError
from pipeline.verifying import verify
from tests.support.lakes import made_lake, of_before, told

ROOT = Path(__file__).resolve().parents[3]
PART = 512
STRIKING = "import pyarrow.parquet; from tests.unit.pipeline.striking_lake import run; run()"
"""Imported once, before the children are forked."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Of before, with ten rows in each of six stretches, as Spark writes them: with sums."""
    made = made_lake(tmp_path / "lake")
    of_before(made)
    for member in made.members():
        for each in made.stretches(member):
            file = each.path / "part-0.parquet"
            pq.write_table(pa.table({"log_index": list(range(each.start, each.start + 10))}), file)
            data = file.read_bytes()
            sums = b"".join(zlib.crc32(data[at : at + PART]).to_bytes(4, "big") for at in range(0, len(data), PART))
            (each.path / ".part-0.parquet.crc").write_bytes(b"crc\0" + struct.pack(">I", PART) + sums)
    return made


def part(lake: Lake, number: int = 1) -> Path:
    return lake.stretches("a")[number].path / "part-0.parquet"


def test_the_next_ingest_gives_it_manifests_and_says_so_once(lake: Lake) -> None:
    lines: list[str] = []
    with lake.locked():
        for _ in range(2):
            settle(lake, lines.append)
    assert lines == [f"{lake.path}: an older version kept it; its 6 stretches have manifests from now on"]
    proof = examine(lake)
    assert (proof.findings, proof.of_before, proof.stretches, proof.files, proof.rows) == ([], False, 6, 12, 60)
    part(lake).unlink()
    assert [what for _, what, _ in told(lake)] == ["is gone"]


def test_verify_adopts_where_it_is_told_to(lake: Lake) -> None:
    with pytest.raises(PipelineError, match="LAKE_UNPROVEN"):
        verify(lake, adopted=False)
    steps: list[tuple[str, int, int]] = []
    outcome = verify(lake, adopted=True, on_progress=lambda step, done, size: steps.append((step, done, size)))
    assert (outcome.verdict, outcome.facts["adopted"], outcome.facts["rows"]) == ("clean", 6, 60)
    assert ("stretches", 6, 6) in steps
    assert verify(lake, adopted=False).verdict == "clean"
    of_before(lake)
    with lake.locked(), pytest.raises(PipelineError, match="LAKE_IN_USE"):
        verify(lake, adopted=True)


def flipped(lake: Lake) -> str:
    data = bytearray(part(lake).read_bytes())
    data[40] ^= 1
    part(lake).write_bytes(bytes(data))
    return "part-0.parquet is damaged: it does not fit the sums that Spark wrote beside it"


def sums_cut(lake: Lake) -> str:
    beside = part(lake).with_name(".part-0.parquet.crc")
    beside.write_bytes(beside.read_bytes()[:7])
    return "part-0.parquet is damaged: it does not fit the sums"


def cut(lake: Lake) -> str:
    part(lake).write_bytes(part(lake).read_bytes()[:-9])
    part(lake).with_name(".part-0.parquet.crc").unlink()
    return "part-0.parquet cannot be read: "


def gone(lake: Lake) -> str:
    part(lake).unlink()
    return " has no Parquet file"


def hole(lake: Lake) -> str:
    shutil.rmtree(part(lake).parent)
    return "what is between is missing"


def linked(lake: Lake) -> str:
    part(lake).rename(lake.path / "elsewhere")
    part(lake).symlink_to(lake.path / "elsewhere")
    return "part-0.parquet is a symbolic link"


@pytest.mark.parametrize("fault", [flipped, sums_cut, cut, gone, hole, linked], ids=lambda each: each.__name__)
def test_damage_that_can_be_seen_is_refused(lake: Lake, fault: Callable[[Lake], str]) -> None:
    wanted = fault(lake)
    with lake.locked(), pytest.raises(PipelineError, match=f"BAD_LAKE: .*{wanted}"):
        adopt(lake)
    assert not lake.has_manifests()


def test_what_was_put_together_by_the_older_version_is_cleared_up(lake: Lake) -> None:
    """1. Three stretches are put together. 2. The writer dies before he removes them. 3. The version is changed."""
    kept = lake.path.parent / "kept"
    shutil.copytree(lake.folder("a"), kept)
    with lake.locked():
        staged = lake.staging("wide")
        staged.mkdir()
        pq.write_table(pa.table({"log_index": list(range(30))}), staged / "part-0.parquet")
        lake.replace("a", lake.stretches("a"), staged, rows=30)
    (lake.stretches("a")[0].path / "_manifest.json").unlink()
    shutil.copytree(kept, lake.folder("a"), dirs_exist_ok=True)
    with lake.locked():
        assert adopt(lake) == 4
    assert len(lake.every("a")) == 1
    assert examine(lake).rows == 60


def test_who_dies_while_he_adopts_is_followed_by_one_who_goes_on(lake: Lake, tmp_path: Path) -> None:
    shutil.rmtree(lake.folder("b"))
    for each in lake.stretches("a")[1:]:
        shutil.rmtree(each.path)
    into = tmp_path / "struck"
    into.mkdir()
    command = [sys.executable, "-P", "-c", STRIKING, "take_over", str(lake.path), str(into)]
    steps = int(subprocess.check_output(command, env={**os.environ, "PYTHONPATH": str(ROOT)}))
    assert steps > 10
    for step in range(1, steps + 1):
        copy = Lake(into / f"{step:03}")
        assert told(copy) == []
        with copy.locked():
            settle(copy, lambda _: None)
        proof = examine(copy)
        assert (proof.findings, proof.of_before, proof.rows) == ([], False, 10)
