"""Makes the pipeline's Spark session: the only place that does, for a plain start and under spark-submit."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import SparkOptions
from pipeline.problems import PipelineError
from tandemq.errors import Refused
from tandemq.spark.java import check_java, check_packages, check_python
from tandemq.spark.settings import SUBMITTED, address_of, python_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STDERR = 2
MASTER = "local[2,4]"
"""Two tasks at once, each tried four times: with local[2] the first worker that dies ends the job."""
ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # What else reads Parquet knows no INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The lake is the checkpoint: those of Spark are thrown away, and need no look back.
    "spark.sql.streaming.minBatchesToRetain": "2",
}


LOG = "spark.log"


@contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """Whoever starts meanwhile keeps that file as its stderr: Spark's process, and the workers that it starts.

    Where the file cannot be written all stays as it is: the report will not be either, and says so.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened_file = file.open("wb")
    except OSError:
        yield
        return
    with opened_file:
        sys.stderr.flush()
        before = os.dup(STDERR)
        try:
            os.dup2(opened_file.fileno(), STDERR)
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, STDERR)
            os.close(before)


@contextmanager
def _signals_are_ours() -> Iterator[None]:
    """A process that starts meanwhile leaves SIGTERM and SIGHUP alone: a service manager sends them to all, and Spark
    is to live until this process has stopped what it does there. It ends with this one in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_machine() -> None:
    """Raises PipelineError with reason NO_JAVA, NO_SPARK or NOT_INSTALLED."""
    try:
        check_java()
        check_packages()
    except Refused as refused:
        raise PipelineError(refused.reason, refused.message) from refused


def settings(options: SparkOptions, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What Spark is given. Under spark-submit nothing that was given there already. Pure."""
    submitted = SUBMITTED in environment
    master = options.master or ("" if submitted else MASTER)
    sizes = {
        "spark.driver.memory": "" if submitted else options.driver_memory,
        "spark.executor.memory": options.executor_memory,
        "spark.executor.cores": str(options.executor_cores or ""),
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        "spark.local.dir": options.local_dir,
        "spark.master": master,
    }
    given = {key: value for key, value in sizes.items() if value}
    return {**ALWAYS, **address_of(master), **given, **options.conf}


@contextmanager
def opened(options: SparkOptions, name: str, place: Path, *, verbose: bool = False) -> Iterator[SparkSession]:
    """A session that knows format("tandemq"), until the block ends. Open it before any client in this process.

    place: a directory for LOG, which gets what Spark and its workers write to stderr; with `verbose` it stays there.
    Where Spark runs in this process already, that session is used as it is, and left running.

    Raises PipelineError as check_machine does, or with reason SPARK_FAILED when it does not start.
    """
    check_machine()
    try:
        os.environ["PYSPARK_PYTHON"] = check_python(python_of(options.conf, os.environ, sys.executable))
    except Refused as refused:
        raise PipelineError(refused.reason, refused.message) from refused
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from tandemq.spark import register

    # Asked of the context: a session is active for one thread alone, and the JVM is everybody's.
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no other way to ask
        running = SparkSession.builder.getOrCreate()
        register(running)
        yield running
        return
    builder = SparkSession.builder.appName(f"tandemq {name}")
    for key, value in settings(options).items():
        builder = builder.config(key, value)
    try:
        with nullcontext() if verbose else _stderr_into(place / LOG), _signals_are_ours():
            spark = builder.getOrCreate()
    except PySparkException as error:
        raise PipelineError("SPARK_FAILED", f"Spark does not start: {error}") from error
    try:
        spark.sparkContext.setLogLevel("WARN" if verbose else "OFF")
        register(spark)
        yield spark
    finally:
        with suppress(Py4JError, OSError):  # its process may be gone, which somebody else reports
            spark.stop()
