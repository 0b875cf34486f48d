"""Carries out reactions: looks for what they ask for, turn by turn, and orders one record when all of it was looked at.
Decides nothing about mastership, and waits for nothing.

Between the last look and the record nothing can happen: both are one step. So what a consumer was given before is
locked, and what the reaction has removed is given to nobody (V4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.messages.bodies import batch_of
from replica.core.messages.copies import SOURCE
from replica.core.ordering.enqueued import is_all_volatile, not_enough
from replica.core.ordering.held_reaction import HeldReaction, Making
from replica.core.ordering.kept_looks import KEPT_BY, KEPT_IN, key_of
from replica.core.ordering.reaction import Used
from replica.core.ordering.reaction_looks import ReactionLooks, first_of, where
from replica.core.ordering.reaction_reports import exception_of, plan
from replica.core.ordering.sweeps import times_of
from replica.core.ordering.travelling import CONTENT_TYPE, message_of
from replica.core.state.outcomes import Failed, Moved, ReactionDone
from replica.machine import Refused, columns_of, milliseconds
from replica.machine.plan.content import check_counts
from replica.machine.plan.dropping import leaving_of
from replica.machine.plan.move import check_copy, ranges_of
from replica.machine.plan.react import (
    Copies,
    ReactCall,
    check_count,
    check_other,
    check_reactions,
    entering,
    kept_ms,
    plan_keep,
    plan_react,
    plan_report,
)
from replica.machine.plan.unit_identity import find_number
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.system_names import kept_queue
from tandemq.peer.v1.record_pb2 import ReactionCounts
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.orders import Orders
    from replica.core.ordering.reaction import Reaction
    from replica.core.ordering.reaction_reports import Addressed
    from replica.core.selection.selecting import Exact
    from replica.core.state.calls import Waiter
    from replica.core.state.shared import Shared
    from replica.machine import QueueState
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

BYTES_MAX = 4 << 20
"""Of one record's body: what a frame holds."""
KEPT_BYTES_MAX = 1 << 20
"""Of a reaction that is kept: what it makes of a message must fit into a record, whatever else that message says."""
READ_MAX = 64 << 20
"""Of the records that hold the targets, where they are read: in one step."""


class Reacting:
    """Of one domain at one member."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        read: Callable[[int], Stored | None],
        exact_of: Callable[[str], Exact],
    ) -> None:
        """`read`: a record from the store, by log index. `exact_of`: the index of a queue's ids."""
        self.shared = shared
        self.orders = orders
        self.read = copies.careful(read)
        self.exact_of = exact_of
        self.looks = ReactionLooks(shared, self.read)

    def turn(self, reaction: Reaction, waiter: Waiter, now_ms: int) -> bool:
        """A bounded look, and the record when everything was looked at; whether the call is over: the waiter hears of
        it when that is committed.
        """
        orders = self.orders
        orders.set_now(now_ms)
        if reaction.epoch not in (0, self.shared.state.epoch) or not self.shared.serving or self.shared.draining:
            orders.reply(waiter, Moved("the mastership moved while the call was under way; repeat it"))
            return True
        done: ReactionDone | Failed | None
        try:
            done = self._turn(reaction)
        except Refused as refused:
            done = Failed(refused.reason, refused.message, dict(refused.metadata), refused.retry_after_ms)
        if done is None:
            return False
        answer = done
        # A refusal too: what it rests on may be ordered and not committed yet.
        orders.when_committed(
            self.shared.log.last_index, lambda: self._answer(waiter, answer, reaction), orders.moved(waiter)
        )
        return True

    def _answer(self, waiter: Waiter, done: ReactionDone | Failed, reaction: Reaction) -> None:
        orders = self.orders
        if isinstance(done, ReactionDone):
            done = done._replace(copies=orders.copies)
            if orders.copies < reaction.min_copies:
                reason, message, metadata, retry_after_ms = not_enough(orders.copies, reaction.min_copies)
                # It is ordered: the refusal speaks of copies, and must not be taken for "not applied" (rulings.md 11).
                done = Failed(reason, f"done, but {message}", {**metadata, "outcome": "stored"}, retry_after_ms)
        orders.reply(waiter, done)

    # -- a turn ----------------------------------------------------------------------------------------------------

    def _turn(self, reaction: Reaction) -> ReactionDone | None:
        """None: there is more to look at."""
        orders, machine = self.orders, self.orders.machine
        if reaction.unit:
            held = orders.units.reaction(reaction)
            if held is not None:
                return self._held(held, duplicate=True)
        elif (found := machine.find_request(reaction.request_id, reaction.request_hash)) is not None:
            assert found.reaction is not None, "the fingerprint is that of a reaction"
            return ReactionDone(found.reaction, found.epoch, orders.copies, duplicate=True)
        if find_number(machine.state, reaction.identity) is not None:
            return ReactionDone(ReactionCounts(), self.shared.state.epoch, orders.copies, duplicate=True)
        queue_id = machine.queue_id(reaction.queue)
        if queue_id is None:
            text = f"there is no queue {reaction.queue!r}; create it first"
            raise Refused(Reason.REASON_QUEUE_NOT_FOUND, text)
        queue = machine.queue(queue_id)
        check_reactions(queue)
        if reaction.to or reaction.report_to:
            check_other(machine.state, queue, reaction.to, reaction.report_to)
        if reaction.queue_id != queue_id:  # it begins; or the queue was made anew meanwhile
            # What is hidden belongs to a publication, which is whole before anybody sees some of it.
            bound = machine.state.stages.seen(queue_id, queue.next_index - 1)
            reaction.begin(queue_id, bound, self.shared.state.epoch)
        if reaction.keep is not None:
            kept_ms(machine.state, reaction.keep.ttl_ms)
        if not self.looks.look(reaction, queue, self.exact_of(reaction.queue)):
            return None
        wanted = max(reaction.min_copies, 2 if queue.config.require_two else 1)
        if orders.copies < wanted:
            raise Refused(*not_enough(orders.copies, wanted))
        return self._hold(reaction, queue) if reaction.unit else self._act(reaction, queue)[0]

    def act_kept(self, reaction: Reaction, queue: QueueState, targets: Sequence[int]) -> RecordHeader | None:
        """One that is kept, on messages that fit it; None: none of them waits any more. Raises Refused.

        Reports that find no room, in the store too, hold up nothing here: else their message would go to a consumer.
        """
        reaction.fits = RangeSet(ranges_of(targets))
        waiting = where(reaction, queue).waiting
        if not waiting:
            return None
        silent = replace(reaction, report_to="")
        for attempt in (reaction, silent):
            try:
                return self._act_now(attempt, queue)
            except Refused as refused:
                if refused.reason == Reason.REASON_TXN_TOO_LARGE and len(targets) > 1:
                    raise  # fewer at once may have their reports
        return self._act_now(replace(silent, exceptions=pb.EXCEPTION_REPORT_NONE), queue)

    def _act_now(self, reaction: Reaction, queue: QueueState) -> RecordHeader:
        # Other queues may have these names by now.
        check_other(self.orders.machine.state, queue, reaction.to, reaction.report_to)
        return self._act(reaction, queue)[1]

    def _act(self, reaction: Reaction, queue: QueueState) -> tuple[ReactionDone, RecordHeader]:
        making, counts = self._found(reaction, queue)
        call, rows = self._call(reaction, queue, making, counts, making.exceptions, self.orders.room.lines)
        header = plan_react(self.orders.machine.state, self.orders.time_ms, call)
        return self._order(header, rows, counts, reaction), header

    def _found(self, reaction: Reaction, queue: QueueState) -> tuple[Making, ReactionCounts]:
        """What it acts on now."""
        here = where(reaction, queue)
        if reaction.first:
            targets = [first_of(queue, here.waiting)] if here.waiting else []
        else:
            check_count(queue, sum(high - low for low, high in here.waiting))
            targets = [index for low, high in here.waiting for index in range(low, high)]
        counts = ReactionCounts(locked=here.locked, dying=here.dying, inert=here.inert, refused=here.unread)
        making = self._made(reaction, queue, targets, counts)
        if reaction.used is not None and not making.targets:
            raise Refused(Reason.REASON_MESSAGE_NOT_FOUND, "none of them can be acted on")
        counts.applied = len(making.targets)
        acts_later = not reaction.first or not counts.applied
        counts.kept = reaction.keep is not None and acts_later
        counts.forwarded = reaction.goes_on is not None and acts_later
        return making, counts

    def _call(
        self,
        reaction: Reaction,
        queue: QueueState,
        making: Making,
        counts: ReactionCounts,
        exceptions: Sequence[Addressed],
        lines: Collection[int],
        taken: Collection[int] = (),
        lease_id: int = 0,
    ) -> tuple[ReactCall, list[Message]]:
        """And the rows of the record, in their order. Counts the reports that find no room."""
        state = self.orders.machine.state
        if making.targets and reaction.to and state.named(reaction.to).queue_id in lines:
            text = f"others wait for room in queue {reaction.to}; nothing is moved there before theirs"
            raise Refused(Reason.REASON_QUEUE_FULL, text, {"queue": reaction.to}, 100)
        reports = plan(state, self.orders.time_ms, reaction, counts, exceptions, lines, taken)
        made = self._copies(reaction, queue, making) if making.rows else None
        keeps, kept_rows = self._keeping(reaction, queue) if counts.kept else (None, [])
        forwards, going = self._going_on(reaction, queue, making.targets) if counts.forwarded else (None, [])
        call = ReactCall(
            queue.queue_id,
            making.targets,
            counts,
            reaction.request_id,
            reaction.request_hash,
            made,
            reports.ops,
            keeps,
            reaction.used if reaction.first else None,
            forwards,
            reaction.identity,
            lease_id,
        )
        return call, [*making.rows, *reports.rows, *kept_rows, *going]

    def _going_on(
        self, reaction: Reaction, queue: QueueState, targets: Sequence[int]
    ) -> tuple[EnqueueOp, list[Message]]:
        """V17: what enters the transmission queue, behind all that was sent before."""
        orders, to = self.orders, reaction.goes_on
        assert to is not None
        row = message_of(to)
        columns, full = columns_of(EnqueueBatch(messages=batch_of([row]))), queue.queue_id in orders.room.lines
        leaving = leaving_of(queue, ranges_of(targets))
        op = plan_report(orders.machine.state, orders.time_ms, queue.name, columns, full=full, leaving=leaving)
        # What it removes itself cannot be dropped for it as well.
        if op.refusals or (op.dropped and targets):
            text = f"the reaction finds no room in queue {queue.name}, by which it goes on; nothing was done"
            reason = op.refusals[0].reason if op.refusals else Reason.REASON_QUEUE_FULL
            raise Refused(reason, text, {"queue": queue.name})
        return op, [row]

    # -- in a unit of work -----------------------------------------------------------------------------------------

    def _hold(self, reaction: Reaction, queue: QueueState) -> ReactionDone:
        """V15: lock what it would act on. Raises Refused with nothing done."""
        making, counts = self._found(reaction, queue)
        state = self.orders.machine.state
        self._check_holdable(reaction, queue, making, counts)
        to = reaction.to if making.targets else ""
        enters = {state.named(name).queue_id for name in (to, reaction.report_to) if name}
        if making.targets and reaction.update is not None:
            enters.add(queue.queue_id)
        if counts.kept:
            enters.add(state.named(kept_queue(queue.name)).queue_id)
        held = HeldReaction(reaction, making, counts, frozenset(enters), self._call_of_commit)
        self.orders.units.hold(held)
        reaction.begin(reaction.queue_id, reaction.bound, reaction.epoch)  # what it has found is not needed any more
        return self._held(held, duplicate=False)

    def _check_holdable(self, reaction: Reaction, queue: QueueState, making: Making, counts: ReactionCounts) -> None:
        """What no commit could do is refused at once (U4). Room is looked for at the commit."""
        state, now_ms = self.orders.machine.state, self.orders.time_ms
        try:
            call, _ = self._call(reaction, queue, making, counts, making.exceptions, ())
            entering(state, now_ms, call, {queue.queue_id: leaving_of(queue, ranges_of(call.targets))}, 0)
        except Refused as refused:
            if refused.reason != Reason.REASON_QUEUE_FULL:
                raise
        counts.unreported = 0

    def _held(self, held: HeldReaction, *, duplicate: bool) -> ReactionDone:
        counts = ReactionCounts()
        counts.CopyFrom(held.counts)
        counts.applied = counts.unreported = 0
        targets = len(held.making.targets)
        return ReactionDone(counts, self.shared.state.epoch, self.orders.copies, duplicate=duplicate, held=targets)

    def _call_of_commit(
        self,
        held: HeldReaction,
        exceptions: Sequence[Addressed],
        lines: Collection[int],
        taken: Collection[int],
    ) -> tuple[ReactCall, list[Message]]:
        reaction, making = held.reaction, held.making
        state = self.orders.machine.state
        queue = state.numbered(reaction.queue_id)
        check_reactions(queue)
        check_other(state, queue, reaction.to, reaction.report_to)  # other queues may have these names by now
        for index, row, marked in zip(making.targets if making.rows else (), making.rows, making.marks, strict=True):
            row.persistent = not queue.copy_is_volatile(index, marked=marked)  # it may be on disk by now (R153)
            if reaction.update is not None:
                self._mark(row, reaction, queue)  # where it is kept is known now
        held.counts.unreported = 0
        return self._call(reaction, queue, making, held.counts, exceptions, lines, taken, held.lease_id)

    def _keeping(self, reaction: Reaction, queue: QueueState) -> tuple[EnqueueOp, list[Message]]:
        """V11: what enters the queue of those that are kept."""
        state, keep = self.orders.machine.state, reaction.keep
        assert keep is not None
        if len(keep.body) > KEPT_BYTES_MAX:
            text = f"the reaction has {len(keep.body)} bytes; one that is kept has {KEPT_BYTES_MAX} at most"
            raise Refused(Reason.REASON_MESSAGE_TOO_LARGE, text, {"limit": str(KEPT_BYTES_MAX)})
        row = Message(payload=keep.body, content_type=CONTENT_TYPE, persistent=True)
        row.ttl.FromMilliseconds(kept_ms(state, keep.ttl_ms))
        if reaction.named is not None:
            row.properties[SOURCE].text = reaction.named.source
        columns = columns_of(EnqueueBatch(messages=batch_of([row])))
        return plan_keep(state, self.orders.time_ms, queue, key_of(reaction), columns), [row]

    def _order(
        self, header: RecordHeader, rows: Sequence[Message], counts: ReactionCounts, reaction: Reaction
    ) -> ReactionDone:
        orders, entered = self.orders, header.txn.enqueues
        all_volatile, body = bool(entered) and all(map(is_all_volatile, entered)), b""
        if entered:
            body = copies.body_of(entered[0].queue if len(entered) == 1 else "", rows)
            if len(body) > BYTES_MAX:
                raise _too_large(BYTES_MAX, "its copies and reports")
            orders.check_space(len(body), all_volatile=all_volatile)
            orders.room_bytes -= len(body)
        epoch = self.shared.state.epoch
        orders.order(header, body, volatile_body=all_volatile)
        if counts.kept:  # before anybody is given what came while it looked
            orders.parts.kept.on_kept(reaction.queue_id, reaction.bound)
        # A group's next message may be ready now.
        queue_ids = [*(op.queue_id for op in header.txn.removes), *(op.queue_id for op in entered)]
        orders.parts.consumers.pump(dict.fromkeys(queue_ids))
        return ReactionDone(counts, epoch, orders.copies, duplicate=False)

    # -- what enters -----------------------------------------------------------------------------------------------

    def _made(self, reaction: Reaction, queue: QueueState, targets: list[int], counts: ReactionCounts) -> Making:
        """Of the targets, those that can be acted on, and the rows that follow from them. Reads them where it must."""
        reports = reaction.exceptions in (pb.EXCEPTION_REPORT_HEADERS, pb.EXCEPTION_REPORT_FULL)
        if not reaction.to and reaction.update is None and not reports:
            return Making(targets)
        making = Making([])
        ranges = [IndexRange(first=low, count=high - low) for low, high in ranges_of(targets)]
        slices = self.orders.machine.segments_of(queue.queue_id, ranges, delivered=False)
        size = 0
        for found in copies.stored_messages(self.shared.domain, slices, self._bounded()):
            try:
                row = self._row(reaction, queue, found)
            except Refused:
                counts.refused += 1
                continue
            making.targets.append(found.index)
            if row is not None:
                assert found.message is not None, "it is made of it"
                making.rows.append(row)
                making.marks.append(found.message.persistent)
                size += row.ByteSize()
            elif found.message is not None and found.message.reply_to:
                report = exception_of(found, queue.name, reaction.exceptions)
                making.exceptions.append(report)
                size += report.message.ByteSize()
            if size > BYTES_MAX:
                raise _too_large(BYTES_MAX, "its copies and reports")
        making.ends, making.begins = times_of(queue, making.targets) if making.rows else ((), ())
        return making

    def _row(self, reaction: Reaction, queue: QueueState, found: copies.FoundMessage) -> Message | None:
        """What enters in the place of one message; None: nothing does. Refused: it stays as it is."""
        if found.message is None:
            if not reaction.to and reaction.update is None:
                return None
            raise Refused(Reason.REASON_MESSAGE_NOT_FOUND, "its body cannot be read")
        volatile = queue.copy_is_volatile(found.index, marked=found.message.persistent)
        if reaction.update is not None:
            row = copies.changed(found, reaction.update, volatile=volatile)
            self._mark(row, reaction, queue)
            check_counts((len(row.properties),), 1)
            return row
        if not reaction.to:
            return None
        check_copy(self.orders.machine.state, reaction.to, len(found.message.payload), found.message.reply_to)
        return copies.copy_of(found.message, volatile=volatile)

    def _mark(self, row: Message, reaction: Reaction, queue: QueueState) -> None:
        """What a kept reaction has changed says so: neither it nor an older one acts on it again."""
        used = reaction.used
        if reaction.keep is not None and not reaction.first:
            store = self.orders.machine.state.named(kept_queue(queue.name))
            used = Used(store.queue_id, store.next_index)  # that it is about to have
        if used is not None:
            row.properties[KEPT_IN].integer, row.properties[KEPT_BY].integer = used

    def _copies(self, reaction: Reaction, queue: QueueState, making: Making) -> Copies:
        columns = columns_of(EnqueueBatch(messages=batch_of(making.rows)))
        ends, begins = making.ends, making.begins
        change = reaction.update
        if change is None:
            return Copies(reaction.to, columns, ends, begins)
        now_ms = self.orders.machine.state.at(self.orders.time_ms)
        if not change.HasField("payload"):
            columns = columns._replace(payload_bytes_max=0)  # it is here already, however it came
        if change.HasField("ttl"):
            ttl_ms = milliseconds(change.ttl)
            ends = [now_ms + ttl_ms if ttl_ms else 0] * len(ends)
        if change.HasField("delay"):
            delay_ms = milliseconds(change.delay)
            begins = [now_ms + delay_ms if delay_ms else 0] * len(begins)
        return Copies(queue.name, columns, ends, begins)

    def _bounded(self) -> Callable[[int], Stored | None]:
        size = 0

        def read(log_index: int) -> Stored | None:
            nonlocal size
            stored = self.read(log_index)
            size += len(stored.body) if stored is not None else 0
            if size > READ_MAX:
                raise _too_large(READ_MAX, "the records that hold its messages")
            return stored

        return read


def _too_large(limit: int, what: str) -> Refused:
    text = f"the reaction is too large: {what} have more than {limit} bytes; name fewer messages"
    return Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(limit)})
