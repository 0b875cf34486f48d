"""Copies one queue into another with a streaming query on an executor of its own, until it is told to end.

python -m tests.spark.copying TARGET SOURCE SINK CHECKPOINT, for `test_exactly_once_queue`, which kills it.
"""

from __future__ import annotations

import signal
import sys
import threading

from tandemq.spark import local_session
from tests.spark.striking import ROOT

CONF = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.driver.memory": "1g", "spark.task.maxFailures": "4"}


def main(target: str, source: str, sink: str, checkpoint: str) -> int:
    """0 when it was told to end; 1 when the query failed."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    spark = local_session("local-cluster[1,2,1024]", CONF)
    read = spark.readStream.format("tandemq").options(
        target=target, queues=source, kinds="enqueued", maxRowsPerTrigger=500, partitions=2
    )
    writer = read.load().select("payload").writeStream.format("tandemq")
    writer = writer.options(target=target, queue=sink, writer=f"copy of {source}", timeoutSeconds=120)
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="200 milliseconds").start()
    sys.stderr.write("copies\n")
    while query.isActive and not over.wait(0.1):
        pass
    failed = query.exception() is not None
    if failed:
        sys.stderr.write(f"{query.exception()}\n")
    query.stop()
    spark.stop()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
