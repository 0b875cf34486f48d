"""Builds a session, and makes the format known to any session. It reads nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from tandemq.spark.java import check_java, check_packages, check_python
from tandemq.spark.settings import python_of, settings

check_packages()

from pyspark.sql import SparkSession  # noqa: E402 - the line above says what to install where this would only fail


def register(spark: SparkSession) -> None:
    """Make format("tandemq") and format("tandemq-consume") known to this session. Executors import them: install
    tandemq[spark] there too.
    """
    from tandemq.spark.consume import ConsumeSource
    from tandemq.spark.source import TandemqSource

    spark.dataSource.register(TandemqSource)
    spark.dataSource.register(ConsumeSource)


def local_session(master: str = "", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session that knows format("tandemq"); the one that runs already, when there is one.

    master: without one local[2], and under spark-submit what that was told. The driver listens on the loopback of a
    local master alone; for a cluster Spark looks for an address, and `spark.driver.host` or SPARK_LOCAL_IP names one.

    Open it before any client in the same process: its JVM is forked from here. Raises Refused with reason NO_JAVA,
    NO_SPARK or NOT_INSTALLED.
    """
    check_java()
    given = dict(conf or {})
    os.environ["PYSPARK_PYTHON"] = check_python(python_of(given, os.environ, sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tandemq")
    for key, value in settings(master, given, os.environ).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
