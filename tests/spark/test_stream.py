"""spark.readStream.format("tandemq") on real Spark at a real pair: each row in one micro-batch, over restarts, crashes
and takeovers; what cannot be followed any more is refused.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.errors import InvalidRequest
from tests.integration.support import new_name, roles
from tests.spark.conftest import more, trim


class Followed:
    """What came out of one checkpoint, by micro-batch."""

    def __init__(self, spark: Any, target: str, checkpoint: Path, **options: Any) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._options = {"target": target, "kinds": "enqueued", "partitions": 2, **options}
        self.batches: list[tuple[int, list[int]]] = []
        self.fail_at = -1

    def _take(self, frame: Any, number: int) -> None:
        indexes = sorted(row["index"] for row in frame.select("index").collect())
        self.batches.append((number, indexes))
        if number == self.fail_at:
            self.fail_at = -1
            raise RuntimeError("the sink fails once")

    def start(self, **trigger: Any) -> Any:
        frame = self._spark.readStream.format("tandemq").options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**trigger).start()

    def run(self) -> list[tuple[int, list[int]]]:
        """All that there is; the micro-batches of this run."""
        before = len(self.batches)
        query = self.start(availableNow=True)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return self.batches[before:]

    def refusal(self) -> str:
        from pyspark.errors import StreamingQueryException

        with pytest.raises(StreamingQueryException) as caught:
            self.run()
        return str(caught.value)


def indexes_of(batches: list[tuple[int, list[int]]]) -> list[int]:
    return [index for _, indexes in batches for index in indexes]


def test_a_restart_reads_nothing_twice_and_loses_nothing(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(60)
    followed = Followed(spark, pair.target, tmp_path, queues=queue, maxRowsPerTrigger=25)
    first = followed.run()
    assert indexes_of(first) == list(range(1, 61))
    assert [len(indexes) for _, indexes in first] == [30, 30], "25 rows, up to the end of a record"
    assert indexes_of(followed.run()) == []
    more(client, queue, 61, 95)
    assert indexes_of(followed.run()) == list(range(61, 96))


def test_a_micro_batch_that_failed_is_repeated_as_it_was(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(40)
    followed = Followed(spark, pair.target, tmp_path, queues=queue, maxRowsPerTrigger=20)
    followed.fail_at = 1
    assert "the sink fails once" in followed.refusal()
    failed = followed.batches[-1]
    more(client, queue, 41, 60)
    again = followed.run()
    assert again[0] == failed == (1, list(range(21, 41))), "what came since is of the next batch"
    assert indexes_of(again) == list(range(21, 61))


def test_a_query_goes_on_over_kill_9_of_the_master(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    """Killed while the query runs; the survivor orders more, the other comes back and follows."""
    queue = filled(20)
    master, _ = asyncio.run(roles(pair))
    followed = Followed(spark, pair.target, tmp_path, queues=queue)
    query = followed.start(processingTime="0 seconds")
    try:
        query.processAllAvailable()
        pair.kill(master)
        try:
            more(client, queue, 21, 50)
            query.processAllAvailable()
            assert indexes_of(followed.batches) == list(range(1, 51))
        finally:
            asyncio.run(pair.restart(master))
            asyncio.run(pair.wait_ready())
        more(client, queue, 51, 70)
        query.processAllAvailable()
    finally:
        query.stop()
    assert indexes_of(followed.batches) == list(range(1, 71))
    more(client, queue, 71, 80)
    assert indexes_of(followed.run()) == list(range(71, 81)), "the checkpoint is good at the pair of the new epoch"


def test_the_latest_position_leaves_out_what_was(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(20)
    followed = Followed(spark, pair.target, tmp_path, queues=queue, startingPosition="latest")
    assert indexes_of(followed.run()) == []
    more(client, queue, 21, 30)
    assert indexes_of(followed.run()) == list(range(21, 31))


def test_a_beginning_with_an_epoch_is_of_that_history_or_refused(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(10)
    head = client.journal_head([queue])
    more(client, queue, 11, 20)
    here = f"{head.next.log_index}:{head.next.epoch}"
    followed = Followed(spark, pair.target, tmp_path / "here", queues=queue, startingPosition=here)
    assert indexes_of(followed.run()) == list(range(11, 21))
    elsewhere = f"{head.next.log_index}:{head.next.epoch + 7}"
    followed = Followed(spark, pair.target, tmp_path / "elsewhere", queues=queue, startingPosition=elsewhere)
    assert "EPOCH_DIVERGED" in followed.refusal()


def test_one_members_copy_is_given_by_that_member_or_by_nobody(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(10)
    for name in pair.members:
        followed = Followed(spark, pair.endpoint(name), tmp_path / name, queues=queue, thisMember="true")
        assert indexes_of(followed.run()) == list(range(1, 11))
    target = f"127.0.0.1:1,{pair.target}"
    followed = Followed(spark, target, tmp_path / "any", queues=queue, timeoutSeconds=3)
    assert indexes_of(followed.run()) == list(range(1, 11)), "whoever answers"
    followed = Followed(spark, target, tmp_path / "this", queues=queue, timeoutSeconds=3, thisMember="true")
    assert "127.0.0.1:1" in followed.refusal()


def rewrite(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the last place that Spark has written down; Spark then plans from there."""
    for folder in ("offsets", "commits"):
        for crc in (checkpoint / folder).glob(".*.crc"):
            crc.unlink()
    last = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    lines = last.read_text().splitlines()
    offset = json.loads(lines[-1])
    change(offset)
    last.write_text("\n".join([*lines[:-1], json.dumps(offset)]))


def test_a_checkpoint_of_another_history_or_another_domain_is_refused(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(10)
    followed = Followed(spark, pair.target, tmp_path, queues=queue)
    followed.run()
    more(client, queue, 11, 20)
    rewrite(tmp_path, lambda offset: offset["main"].update(epoch=offset["main"]["epoch"] + 7))
    assert "EPOCH_DIVERGED" in followed.refusal()
    rewrite(tmp_path, lambda offset: offset.update(other=offset.pop("main")))
    message = followed.refusal()
    assert ("BAD_CHECKPOINT" in message, "'other'" in message) == (True, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queues": "nobody-made-this"}, "QUEUE_NOT_FOUND"),
        ({"startIndex": 1}, "BAD_OPTION"),
        ({"startingPosition": 1 << 40}, "BAD_OPTION"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_its_code(
    spark: Any, pair: Cluster, tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=told):
        Followed(spark, pair.target, tmp_path, **options).run()


def test_a_trimmed_checkpoint_is_refused(spark: Any, small_pair: Cluster, tmp_path: Path) -> None:
    with tandemq.connect(small_pair.target) as client:
        queue, here = new_name(), client.journal_head().next.log_index
        client.create_queue(queue)
        more(client, queue, 1, 20)
        followed = Followed(spark, small_pair.target, tmp_path, queues=queue, startingPosition=here)
        assert indexes_of(followed.run()) == list(range(1, 21))
        trim(client)
        message = followed.refusal()
        assert ("OUT_OF_RANGE" in message, "is trimmed" in message) == (True, True)


def test_a_queue_that_was_made_anew_is_not_taken_for_the_one_that_was_followed(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    """1. A query has read 20 of 30 messages. 2. The queue is deleted, and one of its name created. 3. Rows are chosen
    by name: the query would go on with the new queue, and ten messages would be missing without a word.
    """
    queue = filled(20)
    followed = Followed(spark, pair.target, tmp_path, queues=queue)
    assert indexes_of(followed.run()) == list(range(1, 21))
    more(client, queue, 21, 30)
    client.delete_queue(queue)
    client.create_queue(queue)
    client.enqueue(queue, [b"of the new one"])
    refused = followed.refusal()
    assert f"QUEUE_NOT_FOUND: queue '{queue}' was deleted, and another one of its name created" in refused
    assert indexes_of(followed.batches) == list(range(1, 21))


def test_a_part_of_a_queue_that_was_made_anew_since_it_was_planned_is_refused(
    client: tandemq.Client, pair: Cluster, filled: Callable[[int], str]
) -> None:
    from tandemq.spark.options import Options
    from tandemq.spark.source import JournalReader

    queue = filled(20)
    reader = JournalReader(Options(target=pair.target, queues=(queue,), partitions=1))
    (part,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(part)) > 20
    client.delete_queue(queue)
    client.create_queue(queue)
    with pytest.raises(tandemq.errors.NotFound, match=r"QUEUE_NOT_FOUND: .* was deleted, and another one"):
        list(reader.read(part))


def test_the_planning_half_of_a_query_asks_over_one_connection(
    pair: Cluster, filled: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from tandemq.spark import stream
    from tandemq.spark.options import parse

    opened: list[tandemq.Client] = []

    def counted(options: Any) -> tandemq.Client:
        opened.append(connect(options))
        return opened[-1]

    connect = stream.connect
    monkeypatch.setattr(stream, "connect", counted)
    reader = stream.JournalStream(parse({"target": pair.target, "queues": filled(5)}, streaming=True))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert sum(part.until - part.start.log_index for part in reader.partitions(start, end)) > 0
    assert len(opened) == 1
    assert len(pickle.dumps(reader)) < 10_000, "a task gets no connection"
    with pytest.raises(InvalidRequest, match="the checkpoint says"):
        reader.partitions({}, end)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert len(opened) == 2, "after a failure it has a new one"
    reader.stop()
