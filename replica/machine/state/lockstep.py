"""Knows which attributes a queue with PRODUCER replication may have (K3, K4).

Its sides are given the same messages in the same order, so that nothing may leave it, or change its place in that
order, that one side has been given already.
"""

from __future__ import annotations

from typing import NamedTuple

from replica.machine.state.errors import Refused
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

PRODUCER = admin_pb2.REPLICATION_PRODUCER
_RETRIES = ("retry_delay_min", "retry_delay_max")


class SideOf(NamedTuple):
    """The queue of a pair's domain that a side stands for."""

    domain: int
    history_id: bytes
    """Of that domain: a queue of the same number in another history is another one."""
    queue_id: int
    restarted_ms: int = 0
    """Time of the record by which it has begun anew last: what it was before is over, though its member may not have
    seen that it had lost its place.
    """


class SideLoss(NamedTuple):
    """A side that has lost its place, until somebody has it begin anew (K6)."""

    log_index: int
    """Of the record that says so."""
    after: int
    """What it has settled ends there..."""
    until: int
    """... and what was given up here."""
    because: str


def resolve_lockstep(config: admin_pb2.QueueConfig, asked: admin_pb2.QueueConfig) -> None:
    """Attributes that a queue with PRODUCER replication has when nobody asks for others. `asked`: by name."""
    if config.replication != PRODUCER:
        return
    config.lockstep = config.lockstep or admin_pb2.LOCKSTEP_PLAIN
    if not asked.HasField("max_deliveries"):
        config.max_deliveries = 0
    if not asked.HasField("dead_letter_queue"):
        config.dead_letter_queue = ""
    if not asked.persistence:
        config.persistence = admin_pb2.PERSISTENCE_PERSISTENT
    if not asked.default_settle:
        config.default_settle = service_pb2.SETTLE_MODE_LEASE
    if not asked.max_consumers:
        config.max_consumers = 1


def check_lockstep(config: admin_pb2.QueueConfig) -> None:
    """Raises Refused for what would let the sides differ; of other queues for the attribute that they do not have."""
    if config.replication != PRODUCER:
        if config.lockstep:
            raise _bad("lockstep is an attribute of queues with replication PRODUCER; leave it out, or ask for that")
        return
    is_plain = config.lockstep == admin_pb2.LOCKSTEP_PLAIN
    unlike = _until_selected(config) if is_plain else []
    unlike += [name for name in _RETRIES if config.HasField(name) and getattr(config, name).ByteSize()]
    unlike += ["max_deliveries"] if config.max_deliveries else []
    unlike += ["dead_letter_queue"] if config.dead_letter_queue or not config.HasField("dead_letter_queue") else []
    unlike += ["persistence"] if config.persistence != admin_pb2.PERSISTENCE_PERSISTENT else []
    # An answer names its request by the index of a delivery, which is a number of the selection there.
    unlike += ["queue_type"] if config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY and not is_plain else []
    if unlike:
        none = "no times, no dropping, no dead letters, no reactions, nothing volatile"
        if not is_plain:
            none = "no delivery limit, no delay of a retry, no dead letters, no answers, nothing volatile"
        how = f"replication PRODUCER and lockstep {'PLAIN' if is_plain else 'SELECTED'}"
        raise _bad(f"{', '.join(unlike)}: with {how} one side would miss what the other was given: {none}", unlike[0])
    wrong = ["group_mode"] if config.group_mode != admin_pb2.GROUP_MODE_NONE else []
    wrong += ["default_settle"] if config.default_settle == service_pb2.SETTLE_MODE_IMMEDIATE else []
    wrong += ["max_consumers"] if config.max_consumers != 1 else []
    if wrong:
        text = (
            f"{', '.join(wrong)}: a queue with replication PRODUCER has one consumer a side, which is given everything "
            "under leases, in one order"
        )
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, {"attribute": wrong[0]})


def _until_selected(config: admin_pb2.QueueConfig) -> list[str]:
    """What it has that takes messages away before a side was given them: nobody knows that of a PLAIN one (K3, K5)."""
    found = ["default_ttl"] if config.HasField("default_ttl") and config.default_ttl.ByteSize() else []
    found += ["overflow"] if config.overflow == admin_pb2.OVERFLOW_DROP_HEAD else []
    return found + (["reactions_enabled"] if config.reactions_enabled else [])


def _bad(text: str, attribute: str = "lockstep") -> Refused:
    return Refused(common_pb2.REASON_BAD_ATTRIBUTE, text, {"attribute": attribute})
