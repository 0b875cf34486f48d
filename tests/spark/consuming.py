"""Consumes a queue into Parquet with a streaming query on an executor of its own, until it is told to end.

python -m tests.spark.consuming TARGET QUEUE FOLDER CHECKPOINT, for `test_exactly_once_consume`, which kills it.
"""

from __future__ import annotations

import signal
import sys
import threading

from tandemq.spark import finish, local_session
from tests.spark.copying import CONF


def main(target: str, queue: str, folder: str, checkpoint: str) -> int:
    """0 when it was told to end, and has taken all that there was; 1 when the query failed."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    spark = local_session("local-cluster[1,2,1024]", CONF)
    options = {
        "target": target,
        "queue": queue,
        "consumer": "rounds",
        "maxRowsPerTrigger": "500",
        "partitions": "2",
        "timeoutSeconds": "120",
    }
    read = spark.readStream.format("tandemq-consume").options(**options).load()
    writer = read.select("index", "payload").writeStream.format("parquet").option("path", folder)
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="200 milliseconds").start()
    sys.stderr.write("consumes\n")
    while query.isActive and not over.wait(0.1):
        pass
    if query.isActive:
        query.processAllAvailable()
    failed = query.exception() is not None
    if failed:
        sys.stderr.write(f"{query.exception()}\n")
    query.stop()
    if not failed:
        finish(spark, checkpoint, options)
    spark.stop()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
