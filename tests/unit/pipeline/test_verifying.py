"""`tandemq pipeline verify`: what it says of a lake, and how it ends, without Spark and without a pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeline.lake import Lake
from pipeline.problems import BAD_LAKE, LAKE_CHANGED, UNREADABLE, PipelineError
from pipeline.running import reporting_unreadable
from pipeline.verifying import verify
from tandemq.cli import root
from tests.support.lakes import ROWS, made_lake, of_before


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return made_lake(tmp_path / "lake")


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["pipeline", "verify", *arguments])


def damaged(lake: Lake) -> Path:
    path = lake.stretches("a")[1].path / "part-0.parquet"
    path.write_bytes(path.read_bytes().upper())
    (path.parent / "part-1.parquet").touch()
    return path


def test_a_clean_lake_ends_with_0(lake: Lake) -> None:
    told = ran(str(lake.path), "-o", "json")
    facts = json.loads(told.stdout)
    assert (told.exit_code, facts["verdict"], facts["findings"]) == (0, "clean", [])
    assert (facts["job"], facts["stretches"], facts["files"], facts["rows"]) == ("verify", 6, 12, 6 * ROWS)
    assert (facts["lake"], facts["adopted"], facts["schema_version"]) == (str(lake.path), 0, 1)
    told = ran(str(lake.path), "-o", "table")
    assert (told.exit_code, "All is as it was published." in " ".join(told.stdout.split())) == (0, True), told.output


def test_a_damaged_lake_ends_with_5_and_each_finding_says_where_what_and_what_to_do(lake: Lake) -> None:
    path = damaged(lake)
    told = ran(str(lake.path), "-o", "json")
    found = json.loads(told.stdout)["findings"]
    assert (told.exit_code, json.loads(told.stdout)["verdict"]) == (5, "damaged")
    assert [(each["reason"], each["path"]) for each in found] == [
        (BAD_LAKE, str(path.with_name("part-1.parquet"))),
        (BAD_LAKE, str(path)),
    ]
    assert "is in no manifest" in found[0]["what"]
    assert "move it out of the lake" in found[0]["next"]
    assert "restore it from a backup" in found[1]["next"]
    told = ran(str(lake.path), "-o", "table")
    assert told.exit_code == 5
    for line in (f"BAD_LAKE {path}\n", "  what: is damaged", "  next: restore it", "DAMAGED"):
        assert line in told.stdout
    assert "Findings: 2." in " ".join(told.stdout.split())


def test_the_lake_of_a_configuration_gets_a_report(lake: Lake) -> None:
    file = lake.path.parent / "pipeline.toml"
    file.write_text('[source]\ntarget = "127.0.0.1:1"\n')
    damaged(lake)
    told = ran("--config", str(file), "-o", "json")
    assert told.exit_code == 5
    page = Path(json.loads(told.stdout)["report"])
    assert page == lake.path.parent / "reports" / "verify" / "report.html"
    assert "part-1.parquet" in page.read_text()
    assert json.loads((page.parent / "result.json").read_text())["verdict"] == "damaged"


def test_a_lake_of_before_or_none_ends_with_1(lake: Lake, tmp_path: Path) -> None:
    of_before(lake)
    told = ran(str(lake.path))
    assert (told.exit_code, "error: LAKE_UNPROVEN\n" in told.stderr) == (1, True), told.output
    assert "--adopt" in told.stderr
    for nothing in (tmp_path, tmp_path / "nothing"):
        told = ran(str(nothing))
        assert (told.exit_code, "error: BAD_LAKE\n" in told.stderr) == (1, True), told.output
        assert "there is nothing in" in told.stderr


def test_one_lake_is_asked_for(lake: Lake) -> None:
    for arguments in ((), (str(lake.path), "--config", "pipeline.toml")):
        told = ran(*arguments)
        assert (told.exit_code, "Give the directory of a lake, or --config FILE" in told.stderr) == (2, True)


def test_a_lake_that_was_proven_is_not_adopted(lake: Lake) -> None:
    damaged(lake)
    assert verify(lake, adopted=True).verdict == "damaged"


def test_what_spark_could_not_read_is_told_of_the_lake(lake: Lake) -> None:
    pytest.importorskip("py4j", reason="SPARK NOT TESTED: no pyspark (`make spark`)")
    path = lake.stretches("a")[1].path / "part-0.parquet"

    def read(cause: str) -> None:
        with reporting_unreadable(lake):
            raise PipelineError(UNREADABLE, cause)

    with pytest.raises(PipelineError, match="LAKE_CHANGED: an ingest has put") as caught:
        read(f"{path.with_name('other')} cannot be read: it does not exist")
    assert caught.value.reason == LAKE_CHANGED
    with pytest.raises(PipelineError, match=r"UNREADABLE: .*here it is as it was published") as caught:
        read(f"{path} cannot be read: it does not exist")
    assert "every executor" in caught.value.next_step
    with pytest.raises(PipelineError, match="UNREADABLE: /history"):
        read("/history.parquet cannot be read: no Parquet")
    damaged(lake)
    with pytest.raises(PipelineError, match=f"BAD_LAKE: {path.parent}/part-1.parquet is in no manifest"):
        read(f"{path} cannot be read: checksum")
    of_before(lake)
    with pytest.raises(PipelineError, match=f"BAD_LAKE: {path} cannot be read: checksum"):
        read(f"{path} cannot be read: checksum")
