"""What is said of a batch that was ordered, or could not be held as it was asked for. Orders nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import EnqueueDone
from replica.machine.plan.enqueue import is_volatile_now
from tandemq.peer.v1.peer_service_pb2 import HeldKey
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.calls import PendingEnqueue
    from replica.machine import Columns, DuplicateRun, QueueState
    from tandemq.peer.v1.record_pb2 import EnqueueOp


def held_key(pending: PendingEnqueue) -> HeldKey:
    """Names a held request on the wire."""
    client_id, queue, first_sequence = pending.key
    return HeldKey(client_id=client_id, queue=queue, first_sequence=first_sequence)


def is_all_volatile(op: EnqueueOp) -> bool:
    """Whether no message of the record is persistent: its body stays in memory."""
    return len(op.volatiles) > 0 and min(op.volatiles) == 1


def enqueue_done(
    pending: PendingEnqueue,
    op: EnqueueOp,
    log_index: int,
    epoch: int,
    copies: int,
    *,
    duplicate: bool = False,
    handles: bytes = b"",
) -> EnqueueDone:
    """The answer to a batch that was executed now; `duplicate`: for an earlier call of the same identity."""
    return EnqueueDone(
        pending.call.first_sequence,
        op.count,
        op.first_index,
        log_index,
        epoch,
        copies,
        duplicate=duplicate,
        refusals=[(refusal.ordinal, refusal.reason) for refusal in op.refusals],
        downgraded=op.downgraded,
        volatile=is_all_volatile(op),
        queue_id=op.queue_id,
        handles=handles,
        doubles=[(double.ordinal, double.index) for double in op.duplicates],
        member_queue=op.queue if op.macro_id else "",
    )


def repeated(run: DuplicateRun, copies: int, queue: QueueState | None, columns: Columns, handles: bytes) -> EnqueueDone:
    """The first answer again. Where its messages are follows from what the queue is now: it may have changed, and what
    is on its way to the disk is not there yet.
    """
    return EnqueueDone(
        run.first_sequence,
        run.count,
        run.first_index,
        run.log_index,
        run.epoch,
        copies,
        duplicate=True,
        refusals=[(refusal[0], refusal[1]) for refusal in run.refusals],
        downgraded=run.downgraded,
        volatile=queue is not None and is_volatile_now(queue, columns.persistence),
        queue_id=queue.queue_id if queue is not None else 0,
        handles=handles,
        doubles=run.doubles,
        member_queue=queue.name if queue is not None and run.queue_id else "",
    )


def not_enough(copies: int, wanted: int) -> tuple[Reason, str, dict[str, str], int]:
    """The refusal when fewer members hold an operation than asked for (rulings.md 1)."""
    return (
        Reason.REASON_NOT_ENOUGH_COPIES,
        f"{copies} member(s) hold what is acknowledged, {wanted} are asked for; wait for the peer, or ask for fewer",
        {"copies": str(copies), "min_copies": str(wanted)},
        1000,
    )
