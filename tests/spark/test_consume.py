"""readStream.format("tandemq-consume") on real Spark at a real pair: each message in one micro-batch until it is
acknowledged, over crashes of the query and of the pair.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.client.settling import Act
from tandemq.spark import finish
from tandemq.v1.queue_service_pb2 import OUTCOME_EXTEND
from tests.integration.support import new_name, roles
from tests.spark.test_stream import Followed, indexes_of

CONSUMER = "lake"


class Consumed(Followed):
    """What came out of one checkpoint, by micro-batch."""

    def __init__(self, spark: Any, target: str, checkpoint: Path, queue: str, **options: Any) -> None:
        super().__init__(spark, target, checkpoint)
        given = {"target": target, "queue": queue, "consumer": CONSUMER, "partitions": 2, **options}
        self._options = {key: str(value) for key, value in given.items()}

    def start(self, **trigger: Any) -> Any:
        frame = self._spark.readStream.format("tandemq-consume").options(**self._options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**trigger).start()

    def finish(self) -> None:
        finish(self._spark, str(self._checkpoint), self._options)


def send(client: tandemq.Client, queue: str, first: int, last: int) -> None:
    client.enqueue(queue, [f"m{number}".encode() for number in range(first, last + 1)])


@pytest.fixture
def queue(client: tandemq.Client) -> str:
    made = new_name()
    client.create_queue(made)
    return made


def test_each_message_is_consumed_once_and_the_last_batch_is_acknowledged_by_the_runner(
    spark: Any, pair: Cluster, client: tandemq.Client, queue: str, tmp_path: Path
) -> None:
    send(client, queue, 1, 60)
    consumed = Consumed(spark, pair.target, tmp_path, queue, maxRowsPerTrigger=25)
    first = consumed.run()
    assert [len(indexes) for _, indexes in first] == [25, 25, 10]
    assert indexes_of(first) == list(range(1, 61))
    assert client.get_queue(queue).length == 10, "Spark does not commit the last one"
    for _ in range(2):
        consumed.finish()
        assert client.get_queue(queue).length == 0
    assert indexes_of(consumed.run()) == []
    send(client, queue, 61, 70)
    assert indexes_of(consumed.run()) == list(range(61, 71))


def test_a_batch_that_failed_is_repeated_as_it_was_and_nothing_is_lost(
    spark: Any, pair: Cluster, client: tandemq.Client, queue: str, tmp_path: Path
) -> None:
    """The master is killed in between."""
    send(client, queue, 1, 40)
    consumed = Consumed(spark, pair.target, tmp_path, queue, maxRowsPerTrigger=20)
    consumed.fail_at = 1
    assert "the sink fails once" in consumed.refusal()
    failed = consumed.batches[-1]
    master, _ = asyncio.run(roles(pair))
    pair.kill(master)
    try:
        send(client, queue, 41, 50)
        again = consumed.run()
        assert again[0] == failed == (1, list(range(21, 41)))
        assert indexes_of(again) == list(range(21, 51))
        consumed.finish()
        assert client.get_queue(queue).length == 0
    finally:
        asyncio.run(pair.restart(master))
        asyncio.run(pair.wait_ready())


def test_a_batch_whose_lease_has_ended_is_refused_and_its_messages_come_again(
    spark: Any, pair: Cluster, client: tandemq.Client, queue: str, tmp_path: Path
) -> None:
    send(client, queue, 1, 10)
    consumed = Consumed(spark, pair.target, tmp_path / "first", queue)
    consumed.fail_at = 0
    assert "the sink fails once" in consumed.refusal()
    (batch,) = client.get_batches(queue, CONSUMER).batches
    soon = Act(batch.lease_id, OUTCOME_EXTEND, timedelta(milliseconds=1))
    assert client.settle(queue, [(soon, [(1, 10)])]) == []
    while client.get_queue(queue).ready < 10:
        pass  # each look is a call; the test has its time
    assert "BATCH_GONE" in consumed.refusal()
    anew = Consumed(spark, pair.target, tmp_path / "second", queue)
    assert indexes_of(anew.run()) == list(range(1, 11))
    anew.finish()
    assert client.get_queue(queue).length == 0


def test_rows_carry_what_a_message_carries(
    spark: Any, pair: Cluster, client: tandemq.Client, queue: str, tmp_path: Path
) -> None:
    carried: Attributes = {"content_type": "text/plain", "correlation_id": "c", "group_id": "g"}
    client.enqueue(queue, [Outgoing(b"\x00\xff", carried)])
    rows: list[Any] = []
    consumed = Consumed(spark, pair.target, tmp_path, queue)
    consumed._take = lambda frame, _number: rows.extend(frame.collect())  # type: ignore[method-assign]
    consumed.run()
    (row,) = rows
    assert (row["queue"], row["index"], bytes(row["payload"])) == (queue, 1, b"\x00\xff")
    assert (row["content_type"], row["correlation_id"], row["group_id"]) == ("text/plain", "c", "g")
    assert (len(row["id"]), row["delivery_count"], row["time"].year > 2000) == (16, 1, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queue": ""}, "BAD_OPTION"),
        ({"consumer": " "}, "BAD_OPTION"),
        ({"maxRowsPerTrigger": 0}, "BAD_OPTION"),
        ({"leaseSeconds": 43_201}, "BAD_OPTION"),
        ({"queues": "x"}, "BAD_OPTION"),
        ({"consumer": "a/b"}, "BAD_NAME"),
        ({"queue": "nobody-made-this"}, "QUEUE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_consumed_is_refused_by_its_code(
    spark: Any, pair: Cluster, client: tandemq.Client, queue: str, tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    from pyspark.errors import PySparkException

    send(client, queue, 1, 1)
    with pytest.raises(PySparkException, match=told):
        Consumed(spark, pair.target, tmp_path, **{"queue": queue, **options}).run()


def test_a_frame_of_one_reading_is_refused(spark: Any, pair: Cluster, queue: str) -> None:
    from pyspark.errors import PySparkException

    frame = spark.read.format("tandemq-consume").options(target=pair.target, queue=queue, consumer=CONSUMER)
    with pytest.raises(PySparkException, match="BAD_OPTION"):
        frame.load().count()
