"""The journal as a Spark data source, spark.read and spark.readStream.format("tandemq"), in batches of Arrow columns.

It needs the extra `tandemq[spark]` and Java 17; docs/SPARK.md has the options, columns and refusals. Names are imported
when they are asked for, and nothing else of Tandemq imports this package, pyspark or pyarrow (tests/test_layout.py).

    from tandemq.spark import local_session

    spark = local_session()
    spark.read.format("tandemq").option("queues", "orders").load().groupBy("kind").count().show()
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tandemq.installed import check_installed

if TYPE_CHECKING:
    from tandemq.spark.finishing import finish
    from tandemq.spark.java import check_java
    from tandemq.spark.recording import Recording
    from tandemq.spark.session import local_session, register
    from tandemq.spark.source import TandemqSource

check_installed(places=())  # tasks import this first: out of a zip they say so, and not that grpc is missing

__all__ = ["Recording", "TandemqSource", "check_java", "finish", "local_session", "register"]

_HOMES = MappingProxyType(
    {
        "Recording": "recording",
        "TandemqSource": "source",
        "check_java": "java",
        "finish": "finishing",
        "local_session": "session",
        "register": "session",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tandemq.spark' has no attribute {name!r}")
    return getattr(import_module(f"tandemq.spark.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
