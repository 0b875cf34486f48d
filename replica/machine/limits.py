"""Holds every bound and default of the queue machine; never decides when one is reached.

What is marked *replicated* takes part in `apply`, so both members of a pair must hold the same value.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

MIB = 1 << 20

# An ordinal is the last two bytes of a message id, and the width of the count columns.
BATCH_MESSAGES_CEILING = 65_535
# The width of the column that holds a batch's payload bytes.
BATCH_BYTES_CEILING = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults are profile `safe`."""

    # What a queue is given when its creator says nothing.
    persistence: admin_pb2.Persistence = admin_pb2.PERSISTENCE_PERSISTENT
    replication: admin_pb2.Replication = admin_pb2.REPLICATION_FULL
    domain_name: str = "main"
    queue_length_max: int = 10_000_000
    queue_bytes_max: int = 8 << 30  # 0: none
    message_bytes_max: int = MIB
    lease_ms: int = 30_000
    deliveries_max: int = 20  # 0: none

    # One frame, so that a single client cannot fill a group commit.
    batch_messages_max: int = 10_000
    batch_bytes_max: int = 4 * MIB
    lease_messages_max: int = 10_000
    lease_ms_max: int = 12 * 3_600_000
    settlement_ranges_max: int = 10_000
    expire_max: int = 10_000  # messages or leases that one EXPIRE record ends
    queues_max: int = 100_000
    name_bytes_max: int = 255
    annotation_bytes_max: int = 4_096

    # Identity of retries (replicated): kept for this many sequences or this long, whichever is more...
    dedup_sequences: int = 65_536
    dedup_window_ms: int = 600_000
    # ... but idle producers beyond these go, the least recently used first, once the time is over.
    dedup_producers_max: int = 10_000
    dedup_rows_max: int = 4_000_000
    # Unary calls that are remembered: as many, or as long.
    requests_kept: int = 65_536
    # Leases of a queue whose acks are remembered (replicated).
    settled_leases_kept: int = 10_000

    def __post_init__(self) -> None:
        assert 0 < self.batch_messages_max <= BATCH_MESSAGES_CEILING
        assert 0 < self.batch_bytes_max <= BATCH_BYTES_CEILING
        assert self.message_bytes_max <= self.batch_bytes_max
