"""Says whether a batch finds room in a queue, now or ever; never lets it in."""

from __future__ import annotations

from enum import Enum

from replica.machine.plan.columns import Columns
from replica.machine.state.queue import QueueState
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


class Fit(Enum):
    NOW = 1
    LATER = 2
    NEVER = 3


def fit_of(queue: QueueState, columns: Columns) -> Fit:
    """Of all its entries that are not refused for their size. O(1), unless one of them is."""
    config = queue.config
    if config.overflow == admin_pb2.OVERFLOW_DROP_HEAD:
        return Fit.NOW  # such a queue makes room, or has none to wait for
    count, size = columns.count, columns.payload_bytes
    if columns.payload_bytes_max > config.max_message_bytes:
        sizes = [each for each in columns.sizes if each <= config.max_message_bytes]
        count, size = len(sizes), sum(sizes)
    if count > config.max_length or (config.max_bytes and size > config.max_bytes):
        return Fit.NEVER
    if count > config.max_length - queue.length or (config.max_bytes and size > config.max_bytes - queue.bytes):
        return Fit.LATER if count else Fit.NOW
    return Fit.NOW
