"""Streaming queries with a named reader: what they have not committed is kept; the runner tells of the last batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.client.readers import JournalReader
from tandemq.errors import InvalidRequest
from tandemq.spark import finish
from tests.integration.support import new_name
from tests.spark.conftest import more, trim, trim_to
from tests.spark.test_stream import Followed, indexes_of


def reader(client: tandemq.Client, name: str) -> JournalReader:
    return next(each for each in client.list_readers() if each.name == name)


def test_the_reader_moves_with_the_batches_and_the_last_one_is_told_by_the_runner(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue, name = filled(60), new_name("lake")
    options = {"target": pair.target, "queues": queue, "reader": name}
    followed = Followed(spark, pair.target, tmp_path, queues=queue, reader=name, maxRowsPerTrigger=25)
    followed.run()
    entered = [row for page in client.read_journal([queue]) for row in page.rows() if row.first == 31]
    before = reader(client, name)
    assert before.position.log_index == entered[0].log_index, "of two batches the first one is committed"
    finish(spark, str(tmp_path), options)
    after = reader(client, name)
    assert after.position.log_index > before.position.log_index
    finish(spark, str(tmp_path), options)
    assert reader(client, name).position == after.position
    more(client, queue, 61, 70)
    assert indexes_of(followed.run()) == list(range(61, 71))
    client.delete_reader(name)


def test_a_new_checkpoint_begins_where_the_reader_is(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue, name = filled(20), new_name("lake")
    client.register_reader(name, at_end=True)
    more(client, queue, 21, 30)
    followed = Followed(spark, pair.target, tmp_path / "there", queues=queue, reader=name)
    assert indexes_of(followed.run()) == list(range(21, 31))
    client.delete_reader(name)
    more(client, queue, 31, 40)
    assert indexes_of(followed.run()) == list(range(31, 41)), "one that was deleted begins at the checkpoint"
    assert reader(client, name).lag_records > 0
    client.delete_reader(name)


def test_a_query_that_stood_still_goes_on_where_another_one_is_refused(
    spark: Any, small_pair: Cluster, tmp_path: Path
) -> None:
    with tandemq.connect(small_pair.target) as client:
        queue, name = new_name(), new_name("lake")
        options = {"queues": queue, "startingPosition": client.journal_head().next.log_index}
        client.create_queue(queue)
        more(client, queue, 1, 20)
        named = Followed(spark, small_pair.target, tmp_path / "named", reader=name, **options)
        nobody = Followed(spark, small_pair.target, tmp_path / "nobody", **options)
        for followed in (named, nobody):
            assert indexes_of(followed.run()) == list(range(1, 21))
        finish(spark, str(tmp_path / "named"), {"target": small_pair.target, "queues": queue, "reader": name})
        trim_to(client, reader(client, name).position.log_index)
        more(client, queue, 21, 30)
        assert indexes_of(named.run()) == list(range(21, 31))
        client.delete_reader(name)
        trim(client)
        assert "OUT_OF_RANGE" in nobody.refusal()


def test_what_cannot_be_finished_is_refused_by_its_code(spark: Any, pair: Cluster, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="BAD_OPTION"):
        finish(spark, str(tmp_path), {"target": pair.target})
    with pytest.raises(InvalidRequest, match="BAD_OPTION"):
        finish(spark, str(tmp_path), {"target": pair.target, "reader": " "})
    finish(spark, str(tmp_path), {"target": pair.target, "reader": "x"})  # nothing is committed there
    for folder, text in (("commits", "v1\n{}"), ("offsets", "v1\n{}\n7")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text)
    with pytest.raises(InvalidRequest, match="BAD_CHECKPOINT"):
        finish(spark, str(tmp_path), {"target": pair.target, "reader": "x"})
    with pytest.raises(InvalidRequest, match=r"BAD_CHECKPOINT.*no source 3"):
        finish(spark, str(tmp_path), {"target": pair.target, "reader": "x"}, source=3)
