"""A query that writes to a pair or consumes from it, when the pair is begun anew: refused by name, nothing enters or is
taken in silence.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.errors import Refused
from tandemq.spark.kept import FILE
from tests.spark.test_consume import CONSUMER, Consumed
from tests.spark.test_pair_changed import QUEUE, begin
from tests.spark.test_stream import indexes_of, rewrite
from tests.support.clusters import patient


class Written:
    """A query that writes the lines of files into a queue, with its checkpoint."""

    def __init__(self, spark: Any, target: str, folder: Path) -> None:
        self._spark, self._target, self._folder = spark, target, folder
        (folder / "in").mkdir()
        self.kept = folder / "checkpoint" / FILE

    def run(self, *lines: str, **options: str) -> None:
        """With one more file."""
        if lines:
            count = len(list((self._folder / "in").iterdir()))
            (self._folder / "in" / f"{count}.txt").write_text("\n".join(lines) + "\n")
        read = self._spark.readStream.format("text").load(str(self._folder / "in"))
        writer = read.selectExpr("value AS payload").writeStream.format("tandemq")
        writer = writer.options(target=self._target, queue=QUEUE, writer="copy", **options)
        query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def refusal(self, *lines: str, **options: str) -> str:
        from pyspark.errors import StreamingQueryException

        with pytest.raises(StreamingQueryException) as caught:
            self.run(*lines, **options)
        return str(caught.value)


def bodies(cluster: Cluster) -> list[bytes]:
    with tandemq.connect(cluster.target) as client:
        return [message.payload for message in client.browse(QUEUE)]


def history_of(cluster: Cluster) -> str:
    with tandemq.connect(cluster.target) as client:
        return client.journal_head([QUEUE]).next.history_id


def test_a_writer_never_goes_on_in_a_pair_that_was_begun_anew(spark: Any, tmp_path: Path) -> None:
    cluster = patient(tmp_path / "pair", members=("a",))
    written = Written(spark, cluster.target, tmp_path)
    try:
        begin(cluster, 0)
        written.run("1")
        written.kept.unlink()  # as an older version left it
        written.run("2")
        assert bodies(cluster) == [b"1", b"2"]
        assert written.kept.exists(), "it took the history over"
        asyncio.run(cluster.stop())

        begin(cluster, 0)
        told = written.refusal("3")
        assert "PAIR_CHANGED" in told
        assert "what was seen is of history" in told
        kept = written.kept.read_text()
        written.kept.unlink()  # of a checkpoint that is on another file system there is none
        told = written.refusal()
        assert "PAIR_CHANGED" in told
        assert "has published before, and it is not known here" in told
        assert bodies(cluster) == []

        written.kept.write_text(kept)
        written.run(historyId=history_of(cluster))
        assert bodies(cluster) == [b"3"], "knowingly"
        written.run("4")
        assert bodies(cluster) == [b"3", b"4"], "and held to it from now on"
    finally:
        asyncio.run(cluster.stop())


def test_a_consumer_never_goes_on_in_a_pair_that_was_begun_anew(spark: Any, tmp_path: Path) -> None:
    cluster, checkpoint = patient(tmp_path / "pair", members=("a",)), tmp_path / "checkpoint"
    consumed = Consumed(spark, cluster.target, checkpoint, QUEUE, maxRowsPerTrigger=10)

    def forget(offset: dict[str, Any]) -> None:
        offset[QUEUE] = {"number": offset[QUEUE]["number"]}

    try:
        begin(cluster, 30)
        assert indexes_of(consumed.run()) == list(range(1, 31))
        rewrite(checkpoint, forget)  # as an older version left it
        with tandemq.connect(cluster.target) as client:
            client.enqueue(QUEUE, [b"31"])
        assert indexes_of(consumed.run()) == [31]
        asyncio.run(cluster.stop())

        begin(cluster, 50)
        assert "PAIR_CHANGED" in consumed.refusal()
        with pytest.raises(Refused, match="PAIR_CHANGED"):
            consumed.finish()
        with tandemq.connect(cluster.target) as client:
            assert client.get_batches(QUEUE, CONSUMER).last_number == 0
            assert client.get_queue(QUEUE).ready == 50
    finally:
        asyncio.run(cluster.stop())
