"""Holds every bound and default of the queue machine; never decides when one is reached.

What is marked *replicated* takes part in `apply`, so both members of a pair must hold the same value.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.machine.state.kept_quotas import NO_QUOTAS, KeptQuotas
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

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
    queue_type: admin_pb2.QueueType = admin_pb2.QUEUE_TYPE_ONE_WAY_QUEUED_ACK
    default_settle: service_pb2.SettleMode = service_pb2.SETTLE_MODE_LEASE
    empty_idle_ms: int = 0  # 0: never
    dead_letter: bool = True  # an unset dead_letter_queue means <queue>.dead; else none
    reply_ms: int = 300_000
    completion_ms: int = 300_000
    message_dedup_ms: int = 600_000
    message_dedup_max: int = 100_000
    kept_ms: int = 3_600_000  # how long a reaction may be kept for it

    # One frame, so that a single client cannot fill a group commit.
    batch_messages_max: int = 10_000
    batch_bytes_max: int = 4 * MIB
    lease_messages_max: int = 10_000
    lease_ms_max: int = 12 * 3_600_000
    settlement_ranges_max: int = 10_000
    expire_max: int = 10_000  # messages or leases that one EXPIRE record ends
    idle_max: int = 1_000  # queues that one EXPIRE record deletes
    queues_max: int = 100_000
    name_bytes_max: int = 255
    annotation_bytes_max: int = 4_096
    aliases_max: int = 1_000  # of one queue
    labels_max: int = 64
    label_key_bytes_max: int = 63
    label_value_bytes_max: int = 255
    dedup_ids_max: int = 1_000_000  # what dedup_max of a queue may be
    # Queues with group_mode COMPLETE: groups of one that are not whole, members and payload bytes of one group.
    groups_max: int = 100_000
    group_members_max: int = 10_000
    group_bytes_max: int = 64 * MIB
    group_ms: int = 24 * 3_600_000  # how long a group may gather
    readers_max: int = 100  # named readers of the journal
    batch_consumers_max: int = 100  # who takes numbered batches (replicated)
    weight_tables_max: int = 100  # tables of routing weights
    weights_max: int = 1_000  # queues in one of them
    macros_max: int = 10_000  # macro queues
    macro_members_max: int = 1_000  # of one of them
    proxies_max: int = 1_000  # names that lead to queues of other managers
    rights_max: int = 10_000  # grants to principals
    kept_quotas: KeptQuotas = NO_QUOTAS  # of principals; the master's decide

    # Identity of retries (replicated): kept for this many sequences or this long, whichever is more...
    dedup_sequences: int = 65_536
    dedup_window_ms: int = 600_000
    # ... but idle producers beyond these go, the least recently used first, once the time is over.
    dedup_producers_max: int = 10_000
    dedup_rows_max: int = 4_000_000
    # Unary calls that are remembered: as many, or as long.
    requests_kept: int = 65_536
    # Rows that are staged in a domain, in no queue yet.
    stages_max: int = 10_000
    stage_rows_max: int = 10_000_000
    stage_bytes_max: int = 1 << 30
    stage_parts_max: int = 200_000  # one record and 350 bytes of memory each; a publication looks at all of its at once
    stage_ms: int = 3_600_000
    stage_ms_max: int = 24 * 3_600_000
    writers_max: int = 1_000
    # Reactions that are kept for one queue, and those of them that have nothing but a selector.
    kept_max: int = 100_000
    kept_selectors_max: int = 1_000
    kept_hashes_max: int = 1_000_000  # ids that they name, together
    # Leases of a queue whose acks are remembered (replicated).
    settled_leases_kept: int = 10_000

    def __post_init__(self) -> None:
        assert 0 < self.batch_messages_max <= BATCH_MESSAGES_CEILING
        assert 0 < self.batch_bytes_max <= BATCH_BYTES_CEILING
        assert self.message_bytes_max <= self.batch_bytes_max
