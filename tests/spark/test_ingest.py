"""`tandemq pipeline ingest` on real Spark at a real pair: the journals of both members, each row once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.compacting import compact
from pipeline.lake import Lake
from tests.spark.conftest import more
from tests.spark.lakes import Piped, journal_rows, lake_rows


def test_a_run_that_never_began_leaves_the_directory_alone_in_which_it_was_started(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine").touch()
    monkeypatch.chdir(here)
    told = Piped("127.0.0.1:1", tmp_path, "source.timeout_s = 1.0\ningest.wait_s = 0.0").run("ingest")
    assert (told.code, (here / "mine").exists()) == (3, True)


def test_both_journals_are_in_the_lake_once_and_the_next_run_goes_on_behind_what_was_compacted(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(60)
    rows = len(journal_rows(pair, next(iter(pair.members))))  # with all that other tests have left there
    piped = Piped(pair.target, tmp_path, f"ingest.rows_per_batch = {rows // 2}")
    first = piped.ingested()
    lake = Lake(piped.lake)
    with lake.locked():
        for name in pair.members:
            assert compact(spark, lake, name, 128, fewest=2) == first[name]["micro_batches"]
            [one] = lake.stretches(name)
            assert (one.start, one.end.log_index) == (first[name]["from_log_index"], first[name]["next_log_index"])
            assert list((lake.journal / f"member={name}").iterdir()) == [one.path], "those inside it are gone"
    more(client, queue, 61, 80)
    second = piped.ingested()
    for name in pair.members:
        assert first[name]["micro_batches"] > 1
        assert second[name]["from_log_index"] == first[name]["next_log_index"]
        there = journal_rows(pair, name, second[name]["next_log_index"])
        assert lake_rows(spark, piped.lake, name) == there
        assert len(there) == first[name]["rows"] + second[name]["rows"]
        begin = first[name]["from_log_index"]
        assert lake.every_record_from()[name] == begin
        assert {row[0] for row in there} == set(range(begin, second[name]["next_log_index"])), "each record has a row"
    assert (tmp_path / "reports" / "ingest" / "report.html").read_text().startswith("<!doctype html>")
