"""Builds a session for one machine, and makes the format known to any session. It reads nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from tandemq.spark.java import check_java, check_packages

check_packages()

from pyspark.sql import SparkSession  # noqa: E402 - the line above says what to install where this would only fail

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
}
"""What suits one machine; an argument of the same name wins."""


def register(spark: SparkSession) -> None:
    """Make format("tandemq") and format("tandemq-consume") known to this session. Executors import them: install
    tandemq[spark] there too.
    """
    from tandemq.spark.consume import ConsumeSource
    from tandemq.spark.source import TandemqSource

    spark.dataSource.register(TandemqSource)
    spark.dataSource.register(ConsumeSource)


def local_session(master: str = "local[2]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session that knows format("tandemq"); the one that runs already, when there is one.

    Open it before any client in the same process: its JVM is forked from here. Raises Refused with reason NO_JAVA or
    NO_SPARK.
    """
    check_java()
    # Workers run the first python3 on the PATH unless they are told: another environment, without pyarrow and us.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tandemq")
    for key, value in {**LOCAL, **(conf or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
