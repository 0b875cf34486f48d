"""Copies one queue into another with a streaming query on an executor of its own, until it is told to end.

python -m tests.spark.copying TARGET SOURCE SINK CHECKPOINT [MASTER], for `test_exactly_once_queue` and
`tests.spark.cluster`, which kill it.
"""

from __future__ import annotations

import signal
import sys
import threading

from tandemq.spark import local_session
from tests.spark.striking import ROOT

HERE = "local-cluster[1,2,1024]"
CONF = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.driver.memory": "1g", "spark.task.maxFailures": "4"}
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""What compiles best pays off too late."""
ELSEWHERE = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
}
"""On a cluster that others use too: a core on each of two workers."""


def main(target: str, source: str, sink: str, checkpoint: str, master: str = HERE) -> int:
    """0 when it was told to end; 1 when the query failed."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    spark = local_session(master, CONF if master == HERE else ELSEWHERE)
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
