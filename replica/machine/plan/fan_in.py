"""Decides which queues may be members of a macro queue, and in which order they are asked; changes nothing.

It is evaluated at every dequeue (R082), over the members as they are then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica.machine.state.errors import Refused
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


def misfit(macro: MacroQueue, queue: QueueState, others: Sequence[QueueState]) -> str:
    """Why a queue does not go with a macro queue and its other members; empty: it does (R074)."""
    if queue.passed is not None or queue.side is not None:
        return "each side of a queue with PRODUCER replication is consumed at its own member"
    if queue.config.single_active and not macro.is_producer:
        return "it serves one consumer at a time (single_active)"
    kind = queue.config.queue_type
    if others and kind != others[0].config.queue_type:
        name = admin_pb2.QueueType.Name(kind).removeprefix("QUEUE_TYPE_")
        return f"it is {name}, and the other members are not"
    return ""


def check_takes(macro: MacroQueue, *, producing: bool) -> None:
    """M12."""
    if producing == macro.is_producer:
        return
    kind = "PRODUCER" if macro.is_producer else "CONSUMER"
    does = "received from" if producing else "sent to"
    text = f"macro queue {macro.name} is a {kind}: messages are {does} it, and not the other way; use its members"
    raise Refused(common_pb2.REASON_RELATIONSHIP_MISMATCH, text, {"queue": macro.name})


def asked_in_order(state: State, macro: MacroQueue, *, immediate: bool) -> Iterator[QueueState]:
    """Members that may have something for a consumer, the one that is served first before the others."""
    ids = macro.in_turn() if macro.policy == pb.MACRO_POLICY_ROUND_ROBIN else macro.by_priority()
    for queue_id in ids:
        queue = state.queues[queue_id]
        if not queue.open_members or not queue.config.dequeue_enabled or queue.config.single_active:
            continue
        if immediate and queue.config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY:
            continue
        if queue.has_ready():
            yield queue
