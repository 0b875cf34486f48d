"""Frames and streams into queues by real Spark at a real pair: each row once and in order, over tasks, drivers and
masters that die.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tests.integration.support import new_name, roles
from tests.spark.conftest import more


def payloads(client: tandemq.Client, queue: str) -> list[bytes]:
    return [message.payload for message in client.browse(queue)]


def made(client: tandemq.Client) -> str:
    queue = new_name()
    client.create_queue(queue)
    return queue


def save(frame: Any, target: str, **options: Any) -> None:
    frame.write.format("tandemq").options(target=target, **options).mode("append").save()


def rows_of(first: int, last: int) -> list[bytes]:
    return [f"m{number}".encode() for number in range(first, last + 1)]


def test_a_frame_enters_a_queue_in_its_order(spark: Any, pair: Cluster, client: tandemq.Client) -> None:
    queue = made(client)
    frame = spark.range(1, 12_001, 1, 3).selectExpr("concat('m', id) AS payload", "cast(id % 10 AS int) AS priority")
    save(frame, pair.target, queue=queue)
    assert payloads(client, queue) == rows_of(1, 12_000)
    got = client.dequeue(queue, 2)
    assert [message.payload for message in got] == [b"m9", b"m19"], "the highest priority first"


def test_a_column_says_to_which_queue_and_a_repeated_batch_enters_once(
    spark: Any, pair: Cluster, client: tandemq.Client
) -> None:
    even, odd, writer = made(client), made(client), new_name()
    frame = spark.range(10).selectExpr(
        "cast(id AS string) AS payload", f"if(id % 2 = 0, '{even}', '{odd}') AS queue", "concat('c', id) AS group_id"
    )
    for batch in (3, 3, 2):
        save(frame.coalesce(1), pair.target, writer=writer, batchId=batch)
    assert payloads(client, even) == [b"0", b"2", b"4", b"6", b"8"]
    assert payloads(client, odd) == [b"1", b"3", b"5", b"7", b"9"]
    assert [message.attributes["group_id"] for message in client.browse(odd)] == ["c1", "c3", "c5", "c7", "c9"]
    save(frame, pair.target, writer=writer, batchId=4)
    assert len(payloads(client, odd)) == 10


@pytest.mark.parametrize(
    ("frame", "options", "reason"),
    [
        ("SELECT 'x' AS payload", {}, "BAD_OPTION"),
        ("SELECT 'x' AS payload, 1 AS other", {"queue": "q"}, "BAD_OPTION"),
        ("SELECT 'x' AS payload", {"queue": "q", "writer": "w"}, "BAD_OPTION"),
        ("SELECT cast(NULL AS string) AS payload", {"queue": "q"}, "BAD_ROW"),
        ("SELECT 'x' AS payload, cast(x'ff00fe' AS string) AS group_id", {"queue": "q"}, "BAD_ROW: column group_id"),
        ("SELECT 'x' AS payload, cast(x'ff00fe' AS string) AS queue", {}, "BAD_ROW: column queue"),
        ("SELECT 'x' AS payload", {"queue": "nobody-made-this"}, "QUEUE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_reason(
    spark: Any, pair: Cluster, frame: str, options: dict[str, str], reason: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=reason):
        save(spark.sql(frame), pair.target, **options)


def test_bytes_that_spark_calls_a_string_arrive_as_they_are(spark: Any, pair: Cluster, client: tandemq.Client) -> None:
    queue = made(client)
    save(spark.sql("SELECT cast(x'ff00fe' AS string) AS payload"), pair.target, queue=queue)
    assert payloads(client, queue) == [b"\xff\x00\xfe"]


def test_rows_for_many_queues_are_sent_before_they_fill_the_memory(
    client: tandemq.Client, pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue has a part that is not full; together they would hold a MiB for every queue there is."""
    import pyarrow as pa

    from tandemq.spark import staging
    from tandemq.spark.write_options import WriteOptions

    monkeypatch.setattr(staging, "BUFFERED_BYTES", 1_000)
    queues = [made(client) for _ in range(3)]
    stager = staging.Stager(client, WriteOptions(target=pair.target))
    rows = [(queues[number % 3], b"%03d" % number) for number in range(300)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([queue for queue, _ in rows]), pa.array([body for _, body in rows])], names=["queue", "payload"]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        assert stager.rows > 200, "they are not kept until the end"

    stager.take(batches())
    client.publish(new_name(), "q", 0, [stager.stage_id])
    for queue in queues:
        assert payloads(client, queue) == [body for wanted, body in rows if wanted == queue]


def test_a_queue_is_not_overwritten(spark: Any, pair: Cluster) -> None:
    from pyspark.errors import PySparkException

    frame = spark.sql("SELECT 'x' AS payload")
    with pytest.raises(PySparkException, match="BAD_OPTION"):
        frame.write.format("tandemq").options(target=pair.target, queue="q").mode("overwrite").save()


class Copied:
    """A query that copies the messages of one queue into another, with its checkpoint."""

    def __init__(self, spark: Any, pair: Cluster, place: Path, source: str, sink: str) -> None:
        self._spark, self._target, self._place = spark, pair.target, place
        self._source, self._sink = source, sink
        self.writer = f"copy-{sink}"

    def start(self, expression: str = "payload", **trigger: Any) -> Any:
        read = self._spark.readStream.format("tandemq").options(
            target=self._target, queues=self._source, kinds="enqueued", maxRowsPerTrigger=20, partitions=2
        )
        writer = read.load().selectExpr(f"{expression} AS payload").writeStream.format("tandemq")
        writer = writer.options(target=self._target, queue=self._sink, writer=self.writer)
        return writer.option("checkpointLocation", str(self._place)).trigger(**trigger).start()

    def run(self, expression: str = "payload") -> None:
        query = self.start(expression, availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_last_commit(self) -> None:
        """As if the driver had died between the publication and its note: the next run repeats that batch."""
        last = max(int(path.name) for path in (self._place / "commits").iterdir() if path.name.isdigit())
        for path in (self._place / "commits" / str(last), self._place / "commits" / f".{last}.crc"):
            path.unlink(missing_ok=True)


@pytest.fixture
def copied(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> Iterator[tuple[Copied, str, str]]:
    source, sink = filled(60), made(client)
    yield Copied(spark, pair, tmp_path / "checkpoint", source, sink), source, sink
    shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)


def test_a_batch_that_spark_repeats_enters_once(copied: tuple[Copied, str, str], client: tandemq.Client) -> None:
    copy, source, sink = copied
    copy.run()
    assert payloads(client, sink) == rows_of(1, 60)
    copy.forget_last_commit()
    more(client, source, 61, 75)
    copy.run()
    assert payloads(client, sink) == rows_of(1, 75)
    state = client.writer_state(copy.writer)
    assert state is not None
    assert state.batch >= 3


def test_a_task_that_fails_leaves_nothing_and_is_made_good(
    copied: tuple[Copied, str, str], client: tandemq.Client
) -> None:
    from pyspark.errors import StreamingQueryException

    copy, _, sink = copied
    with pytest.raises(StreamingQueryException):
        copy.run("if(payload = X'6D3337', raise_error('planted'), payload)")  # m37, of the second batch
    assert payloads(client, sink) == rows_of(1, 20)
    copy.run()
    assert payloads(client, sink) == rows_of(1, 60)


def test_another_checkpoint_under_the_same_writer_is_refused(
    copied: tuple[Copied, str, str], client: tandemq.Client, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    copy, _, sink = copied
    copy.run()
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="WRITER_TAKEN"):
        copy.run()
    assert payloads(client, sink) == rows_of(1, 60)
    client.release_writer(copy.writer)


def test_the_master_dies_while_a_query_writes(
    copied: tuple[Copied, str, str], pair: Cluster, client: tandemq.Client
) -> None:
    copy, source, sink = copied
    master, _ = asyncio.run(roles(pair))
    query = copy.start(processingTime="0 seconds")
    try:
        query.processAllAvailable()
        for number in range(3):
            more(client, source, 61 + 40 * number, 100 + 40 * number)
            if number == 1:
                pair.kill(master)
        query.processAllAvailable()
    finally:
        query.stop()
        asyncio.run(pair.restart(master))
        asyncio.run(pair.wait_ready())
    assert payloads(client, sink) == rows_of(1, 180)
    copy.forget_last_commit()
    copy.run()
    assert payloads(client, sink) == rows_of(1, 180)
