"""The reader of the Spark data source at a real pair, called as Spark calls it and without Spark's JVM.

`tests/spark` has the whole of it, in `make test-all`.
"""

from __future__ import annotations

import pickle

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.client.journal import JournalKind
from tests.integration.module_pair import module_pair
from tests.integration.support import new_name

pytest.importorskip("pyspark", reason="SPARK NOT TESTED: no pyspark (`make spark`)")
pytest.importorskip("pyarrow", reason="SPARK NOT TESTED: no pyarrow (`make spark`)")

pytestmark = pytest.mark.process

pair = module_pair()


@pytest.mark.promise
def test_partitions_that_travel_by_pickle_are_read_as_the_journal_has_it(pair: Cluster) -> None:
    from tandemq.spark.source import TandemqSource

    queue = new_name()
    with tandemq.connect(pair.target) as client:
        client.create_queue(queue)
        with client.producer(queue) as producer:
            producer.send_many([b"m%d" % number for number in range(1, 96)])
        client.dequeue(queue, 10).ack()
        source = TandemqSource({"target": pair.target, "queues": queue, "partitions": "3"})
        reader = source.reader(source.schema())
        rows = []
        for span in reader.partitions():
            task = pickle.loads(pickle.dumps(reader))
            for batch in task.read(pickle.loads(pickle.dumps(span))):
                rows += batch.to_pylist()
        expected = [row for page in client.read_journal([queue]) for row in page.rows()]
    read = [(row["log_index"], row["index"], row["kind"], row["payload"]) for row in rows]
    assert read == [(row.log_index, row.first, row.kind.name, row.payload) for row in expected][: len(read)]
    assert [payload for *_, kind, payload in read if kind == JournalKind.ENQUEUED.name] == [
        b"m%d" % number for number in range(1, 96)
    ]
