"""Decides which columns a client history has, for an audit: what clients asked for and how it ended. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column. Every one may be null: Spark checks nothing else of a file."""

    name: str
    kind: str
    """As Spark writes it in DDL."""


Table = tuple[Column, ...]

SEND, RECV, ACK = "send", "recv", "ack"
OK, FAIL, UNKNOWN = "ok", "fail", "unknown"
OPS, OUTCOMES = (SEND, RECV, ACK), (OK, FAIL, UNKNOWN)

HISTORY: Table = (
    Column("client", "STRING"),
    Column("op", "STRING"),
    Column("outcome", "STRING"),
    Column("invoke_ns", "BIGINT"),
    Column("complete_ns", "BIGINT"),
    Column("queue", "STRING"),
    Column("id", "BINARY"),
    Column("index", "BIGINT"),
    Column("epoch", "BIGINT"),
    Column("producer", "BINARY"),
    Column("sequence", "BIGINT"),
    Column("priority", "BIGINT"),
    Column("payload_crc32", "BIGINT"),
)
"""What clients asked for and how it ended, a row a message.

op: send, recv or ack. outcome: ok; fail, which certainly had no effect; unknown.
invoke_ns, complete_ns: monotonic clock of the host that all clients ran on; complete_ns is null where no answer came.
id: 16 bytes, null where the client was told none (a send that is not ok). index, epoch: as the answer said, else null.
producer, sequence: of a send, as the journal has them: how one whose outcome is unknown is found; null for others.
priority: of a recv, where nothing but priority and index decides when the message comes: it has no group, and nobody
consumes with a filter. Null: its order is not judged. client: of such a recv, one consumer, who receives one at a time.
payload_crc32: of a send and a recv, the CRC-32 of the body (zlib.crc32), from 0 to 2^32 - 1. Null: it is not judged.
"""
HISTORY_LATER = ("priority", "payload_crc32")
"""Columns that a history of before may lack: null."""
