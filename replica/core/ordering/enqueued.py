"""What is said of a batch that was ordered, or could not be held as it was asked for. Orders nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import EnqueueDone, EnteredMember
from replica.machine.plan.enqueue import is_volatile_now
from tandemq.peer.v1.peer_service_pb2 import HeldKey
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.calls import PendingEnqueue
    from replica.machine import DuplicateRun, Machine
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


def repeated(machine: Machine, pending: PendingEnqueue, run: DuplicateRun, copies: int) -> EnqueueDone:
    """The first answer again. Where its messages are follows from what the queue is now: it may have changed, and what
    is on its way to the disk is not there yet.
    """
    if run.parts:
        return dealt_done(machine, pending, run, copies, duplicate=True)
    queue, persistence = machine.home_of(run, pending.call.queue), pending.call.columns.persistence
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
        volatile=queue is not None and is_volatile_now(queue, persistence),
        queue_id=queue.queue_id if queue is not None else 0,
        handles=machine.handle_prefix(queue.queue_id if queue is not None else 0),
        doubles=run.doubles,
        member_queue=queue.name if queue is not None and run.queue_id else "",
    )


def dealt_done(
    machine: Machine, pending: PendingEnqueue, run: DuplicateRun, copies: int, *, duplicate: bool
) -> EnqueueDone:
    """The answer to a batch that a macro queue has dealt to several members."""
    queues, persistence = machine.state.queues, pending.call.columns.persistence
    homes = [queues.get(part.queue_id) for part in run.parts]
    names = [home.name if home is not None else "" for home in homes]
    return EnqueueDone(
        run.first_sequence,
        run.count,
        0,
        run.log_index,
        run.epoch,
        copies,
        duplicate=duplicate,
        refusals=run.refusals,
        downgraded=run.downgraded,
        volatile=bool(homes) and all(home is not None and is_volatile_now(home, persistence) for home in homes),
        doubles=run.doubles,
        members=[
            EnteredMember(name, part.queue_id, part.first_index, part.ordinals, machine.handle_prefix(part.queue_id))
            for name, part in zip(names, run.parts, strict=True)
        ],
    )


def homes_of(run: DuplicateRun) -> list[int]:
    """Numbers of the queues that a batch has entered; 0: the one that it was sent to."""
    return [part.queue_id for part in run.parts] or [run.queue_id]


def not_enough(copies: int, wanted: int) -> tuple[Reason, str, dict[str, str], int]:
    """The refusal when fewer members hold an operation than asked for (rulings.md 1)."""
    return (
        Reason.REASON_NOT_ENOUGH_COPIES,
        f"{copies} member(s) hold what is acknowledged, {wanted} are asked for; wait for the peer, or ask for fewer",
        {"copies": str(copies), "min_copies": str(wanted)},
        1000,
    )
