"""Says what the machine must know of a batch and whether its columns are well formed; never looks into a payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replica.machine.errors import Refused
from replica.machine.queue import PRIORITIES
from tandemq.v1 import common_pb2, queue_service_pb2

PERSISTENCE_VOLATILE, PERSISTENCE_PERSISTENT = 1, 2  # MessageBatch.persistence; 0: the queue's mode decides


class Columns(NamedTuple):
    """Each of the last three is empty (default), has one entry for all, or one a message."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    payload_bytes: int
    payload_bytes_max: int  # of one message
    sizes: Sequence[int]  # payload bytes, one a message
    priorities: Sequence[int]
    persistence: Sequence[int]
    ttls_ms: Sequence[int]


def columns_of(batch: queue_service_pb2.EnqueueBatch) -> Columns:
    """One walk over the payloads, for the limits; the rest costs nothing unless a producer uses it."""
    messages = batch.messages
    sizes = list(map(len, messages.payloads))
    count = len(sizes)
    columns = Columns(
        count, sum(sizes), max(sizes, default=0), sizes, messages.priorities, messages.persistence, messages.ttls_ms
    )
    for name, column in (
        ("priorities", columns.priorities),
        ("persistence", columns.persistence),
        ("ttls_ms", columns.ttls_ms),
        ("content_types", messages.content_types),
        ("correlation_ids", messages.correlation_ids),
        ("reply_tos", messages.reply_tos),
        ("group_ids", messages.group_ids),
        ("properties", messages.properties),
    ):
        if column and len(column) not in (1, count):
            raise Refused(
                common_pb2.REASON_BAD_REQUEST,
                f"{name} has {len(column)} entries for {count} messages; give none, one for all, or one each",
            )
    _check_highest("priorities", columns.priorities, PRIORITIES - 1)
    _check_highest("persistence", columns.persistence, PERSISTENCE_PERSISTENT)
    return columns


def _check_highest(name: str, column: Sequence[int], highest: int) -> None:
    if column and max(column) > highest:
        raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, f"{name} has {max(column)}; the highest is {highest}")
