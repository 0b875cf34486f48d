"""Decides what a session is told: by its master, by who started the process, and by its user. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MASTER = "local[2]"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""In the environment of what spark-submit started: the JVM is there, and knows its master and its memory."""
LOOPBACK = MappingProxyType({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
PYTHON = "spark.pyspark.python"
USUAL = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
)


def settings(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Of `local_session`; what `conf` says wins. No master: local[2], and under spark-submit what that was told."""
    chosen = conf.get("spark.master") or master or ("" if SUBMITTED in environment else MASTER)
    told = {"spark.master": chosen} if chosen else {}
    return {**USUAL, **address_of(chosen), **conf, **told}


def address_of(master: str) -> dict[str, str]:
    """Where executors find the driver. On one machine that is its loopback; on a cluster Spark looks for an address."""
    return dict(LOOPBACK) if master.startswith("local") else {}


def python_of(conf: Mapping[str, str], environment: Mapping[str, str], own: str) -> str:
    """What executors run: what the session is told, as Spark's own option has it, else the environment's, else ours.

    PySpark itself reads that option under spark-submit alone. Without any it takes the first python3 on the PATH:
    another environment, without pyarrow and us.
    """
    return conf.get(PYTHON) or environment.get("PYSPARK_PYTHON") or own
