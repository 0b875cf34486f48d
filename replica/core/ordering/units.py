"""Orders a unit of work, or answers its repetition, at the serving master; the machine decides whether it may be.

A unit is one record, so nothing of it is ever in doubt: it is in the log of whoever serves next, or nothing of it
happened (U11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.ordering.divergences import Between
from replica.core.ordering.enqueued import is_all_volatile, not_enough
from replica.core.state.effects import Note
from replica.core.state.outcomes import EnqueueDone, Failed, UnitDone
from replica.machine import Refused
from replica.machine.plan.unit import plan_unit
from replica.machine.plan.unit_identity import find_number
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import Transact, Waiter
    from replica.machine import UnitCall, UnitIdentity
    from replica.machine.plan.unit_identity import RepeatedNumber
    from tandemq.peer.v1.record_pb2 import EnqueueOp, ReplyOp


def order_unit(
    orders: Desk, waiter: Waiter, asked: Transact, lines: Collection[int], on_ordered: Callable[[], None] | None = None
) -> None:
    """Raises Refused with nothing done. `lines`: queues for whose room others wait (U7). `on_ordered` is called when
    its record is in the log, before anything follows from that; not for a repetition.
    """
    machine, call = orders.machine, asked.call
    found = machine.find_request(call.request_id, call.request_hash)
    repeated = find_number(machine.state, call.identity) if found is None else None
    settled: Sequence[int] = ()
    replies: Sequence[ReplyOp] = ()
    if found is not None:
        # Everything ordered so far is waited for: the unit may be ordered and not committed yet.
        entered, last, epoch = found.entered, orders.shared.log.last_index, found.epoch
        log_index = found.log_index
        wanted = _wanted(orders, call, entered, asked.min_copies)
    elif repeated is not None:  # what is in force now answers for it, whoever was master then
        entered, last, epoch = (), orders.shared.log.last_index, orders.shared.state.epoch
        log_index = 0
        wanted = _wanted(orders, call, (), asked.min_copies)
        if repeated.differs and call.identity is not None:
            _report(orders, call.identity, repeated)
    else:
        header = plan_unit(machine.state, orders.time_ms, call, lines)
        # What reactions put into queues is no answer to whoever puts.
        entered = [op for op in header.txn.enqueues if not op.internal]
        replies = header.txn.replies
        wanted = _wanted(orders, call, entered, asked.min_copies)
        if orders.copies < wanted:
            raise Refused(*not_enough(orders.copies, wanted))
        all_volatile = _is_volatile(header.txn.enqueues) and not replies
        body = asked.body if header.txn.enqueues or replies else b""
        if body:
            orders.check_space(len(body), all_volatile=all_volatile)
            orders.room_bytes -= len(body)
        epoch = orders.shared.state.epoch  # of the record; the next epoch may be the one that commits it
        for reply in replies:
            orders.replying.address(reply)
        last = log_index = orders.order(header, body, volatile_body=all_volatile)
        if on_ordered is not None:
            on_ordered()
        settled = [each.queue_id for part in (header.txn.settles, replies) for each in part]
    handles = [machine.handle_prefix(op.queue_id) for op in entered]

    def answer() -> None:
        copies = orders.copies
        if copies < wanted:
            # It is ordered: the refusal speaks of copies, and must not be taken for "not applied" (rulings.md 11).
            reason, message, metadata, retry_after_ms = not_enough(copies, wanted)
            metadata = {**metadata, "outcome": "stored"}
            orders.reply(waiter, Failed(reason, f"stored, but {message}", metadata, retry_after_ms))
            return
        pairs = zip(entered, handles, strict=True)
        puts = [_done(op, log_index, epoch, copies, prefix) for op, prefix in pairs]
        duplicate, volatile = found is not None or repeated is not None, _is_volatile(entered)
        names = [op.queue for op in entered]
        done = UnitDone(puts, epoch, copies, duplicate=duplicate, volatile=volatile, repeated=repeated, names=names)
        orders.reply(waiter, done)

    orders.when_committed(last, answer, orders.moved(waiter))
    # Now only: what is handed out is a later record, and answers run in log order.
    orders.parts.consumers.pump(settled)
    for reply in replies:
        orders.replying.on_ordered(reply)


def _report(orders: Desk, identity: UnitIdentity, repeated: RepeatedNumber) -> None:
    """K8: once a writer and mastership."""
    known, writer = repeated.known, identity.writer
    if known is None or not orders.divergences.add(Between.OUTPUTS, writer):
        return
    text = (
        f"unit {identity.number} of writer {writer} was sent again with other content: {repeated.digest:016x}, and the "
        f"first one was {known:016x}; the first one counts, and no more is said of this writer while this member serves"
    )
    facts = {
        "writer": writer,
        "number": str(identity.number),
        "digest": f"{repeated.digest:016x}",
        "first_digest": f"{known:016x}",
    }
    orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_DIVERGENCE, text, facts))


def _wanted(orders: Desk, call: UnitCall, entered: Sequence[EnqueueOp], min_copies: int) -> int:
    """Fewer are NOT_ENOUGH_COPIES to this caller (rulings.md 1). Whoever commits an open unit again names no queue."""
    machine = orders.machine
    named = (machine.queue_id(put.queue) for put in call.puts)
    numbers = [op.queue_id for op in entered] + [number for number in named if number is not None]
    numbers += [each.queue_id for each in call.reactions]
    two = any(machine.requires_two(number) for number in numbers)
    return max(min_copies, 2 if two else 1)


def _is_volatile(entered: Sequence[EnqueueOp]) -> bool:
    return bool(entered) and all(map(is_all_volatile, entered))


def _done(op: EnqueueOp, log_index: int, epoch: int, copies: int, handles: bytes) -> EnqueueDone:
    return EnqueueDone(
        0,
        op.count,
        op.first_index,
        log_index,
        epoch,
        copies,
        duplicate=False,
        refusals=(),
        downgraded=op.downgraded,
        volatile=is_all_volatile(op),
        queue_id=op.queue_id,
        handles=handles,
        doubles=[(double.ordinal, double.index) for double in op.duplicates],
    )
