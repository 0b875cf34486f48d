"""Decides which columns the pipeline's tables have: the lake, what clients saw, where the journals stood. Pure.

Schemas are texts that Spark reads (DDL), given wherever a table is read and never inferred. A table that has other
columns is refused, not guessed at.
"""

from __future__ import annotations

from tandemq.spark.history import (
    ACK,
    FAIL,
    HISTORY,
    HISTORY_LATER,
    OK,
    OPS,
    OUTCOMES,
    RECV,
    SEND,
    UNKNOWN,
    Column,
    Table,
)

__all__ = [
    "ACK",
    "ATTRIBUTES",
    "BARE_JOURNAL",
    "FAIL",
    "HEADS",
    "HISTORY",
    "HISTORY_LATER",
    "JOURNAL",
    "LAKE",
    "OK",
    "OPS",
    "OUTCOMES",
    "PROPERTIES",
    "RECV",
    "SEND",
    "UNKNOWN",
    "VERSION",
    "VIOLATIONS",
    "Column",
    "Table",
    "ddl",
    "names",
]

VERSION = 1
"""Of the lake's layout and columns; a lake of another version is refused."""

PROPERTIES = "properties"

BARE_JOURNAL: Table = (
    Column("log_index", "BIGINT"),
    Column("epoch", "BIGINT"),
    Column("time", "TIMESTAMP"),
    Column("kind", "STRING"),
    Column("queue", "STRING"),
    Column("queue_id", "BIGINT"),
    Column("index", "BIGINT"),
    Column("count", "BIGINT"),
    Column("id", "BINARY"),
    Column("lease_id", "BIGINT"),
    Column("producer", "BINARY"),
    Column("sequence", "BIGINT"),
    Column("payload", "BINARY"),
)
"""A row of a member's journal, as format("tandemq") gives it (docs/SPARK.md). Lakes of before have these alone."""

ATTRIBUTES: Table = (
    Column("priority", "INT"),
    Column("persistent", "BOOLEAN"),
    Column("ttl_ms", "BIGINT"),
    Column("delay_ms", "BIGINT"),
    Column("deliver_at", "TIMESTAMP"),
    Column("content_type", "STRING"),
    Column("correlation_id", "STRING"),
    Column("group_id", "STRING"),
    Column("reply_to", "STRING"),
    Column("dedup_id", "STRING"),
    Column(
        PROPERTIES,
        "MAP<STRING, STRUCT<text: STRING, integer: BIGINT, number: DOUBLE, flag: BOOLEAN, data: BINARY>>",
    ),
)
"""What stood beside the body of a message that entered, as format("tandemq") gives it with `attributes`."""

JOURNAL: Table = (*BARE_JOURNAL, *ATTRIBUTES)
"""A row of the lake."""

LAKE: Table = (*JOURNAL, Column("member", "STRING"))
"""The journals of both members. `member` says whose copy the row was read from; it is the partition, so it is last."""

HEADS: Table = (
    Column("member", "STRING"),
    Column("domain", "STRING"),
    Column("first_log_index", "BIGINT"),
    Column("next_log_index", "BIGINT"),
    Column("epoch", "BIGINT"),
    Column("queue", "STRING"),
    Column("queue_id", "BIGINT"),
    Column("first_index", "BIGINT"),
    Column("next_index", "BIGINT"),
)
"""Where each member said its journal and its queues stand, a row a member and queue; a tail cut off below is missing.

One row of a member that names no queue (null) describes its journal alone. next_log_index, next_index: the first that
is not there yet. epoch: of the record before next_log_index.
"""

VIOLATIONS: Table = (
    Column("kind", "STRING"),
    Column("member", "STRING"),
    Column("queue", "STRING"),
    Column("queue_id", "BIGINT"),
    Column("index", "BIGINT"),
    Column("count", "BIGINT"),
    Column("log_index", "BIGINT"),
    Column("id", "STRING"),
    Column("journals", "STRING"),
    Column("clients", "STRING"),
)
"""One broken promise a row, and what proves it.

kind: of `chaos.journal_kinds.MEANING`. member: null when it is about both. index: of the message, or of the first of
`count`. id: hexadecimal. journals, clients: what each side says, for people.
"""


def ddl(table: Table) -> str:
    """As DataFrameReader.schema and createDataFrame take it."""
    return ", ".join(f"`{column.name}` {column.kind}" for column in table)


def names(table: Table) -> tuple[str, ...]:
    """In order."""
    return tuple(column.name for column in table)
