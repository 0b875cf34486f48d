"""Carries out reactions: looks for what they ask for, turn by turn, and orders one record when all of it was looked at.
Decides nothing about mastership, and waits for nothing.

Between the last look and the record nothing can happen: both are one step. So what a consumer was given before is
locked, and what the reaction has removed is given to nobody (V4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages import copies
from replica.core.messages.bodies import batch_of
from replica.core.messages.copies import SOURCE
from replica.core.ordering.enqueued import is_all_volatile, not_enough
from replica.core.ordering.held_reaction import AtQueue, Beside, HeldReaction, Making, by_destination
from replica.core.ordering.kept_looks import PRINCIPAL, key_of
from replica.core.ordering.reaction import Reaction, total_of
from replica.core.ordering.reaction_looks import ReactionLooks, where
from replica.core.ordering.reaction_questions import Questions, check_queues, said_of, targets_of
from replica.core.ordering.reaction_reports import plan
from replica.core.ordering.reaction_rows import BYTES_MAX, Reads, Replacements, too_large
from replica.core.ordering.travelling import CONTENT_TYPE, message_of
from replica.core.state.outcomes import Failed, Moved, ReactionDone
from replica.machine import QueueState, Refused, columns_of
from replica.machine.plan.dropping import leaving_of
from replica.machine.plan.move import ranges_of
from replica.machine.plan.react import (
    DeniedHit,
    ReactCall,
    ReactHome,
    check_once,
    check_other,
    check_reactions,
    entering,
    kept_ms,
    plan_deny,
    plan_keep,
    plan_react,
    plan_report,
)
from replica.machine.plan.unit_identity import find_number
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.system_names import kept_queue
from tandemq.peer.v1.record_pb2 import ReactionCounts
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.held_reaction import Addressed
    from replica.core.ordering.orders import Orders
    from replica.core.selection.selecting import Exact
    from replica.core.state.calls import Waiter
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

KEPT_BYTES_MAX = 1 << 20
"""Of a reaction that is kept: what it makes of a message must fit into a record, whatever else that message says."""


class Home(NamedTuple):
    """A reaction at one queue."""

    reaction: Reaction
    queue: QueueState


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
        self.questions = Questions(orders, self.read)
        self.rows = Replacements(orders, self.read)

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
            first, *others = found.reactions  # the fingerprint is that of a reaction
            return ReactionDone(first, found.epoch, orders.copies, duplicate=True, others=tuple(others))
        if find_number(machine.state, reaction.identity) is not None:
            return ReactionDone(ReactionCounts(), self.shared.state.epoch, orders.copies, duplicate=True)
        homes = [Home(each, self._queue_of(each)) for each in reaction.homes]
        check_once([queue for _, queue in homes])
        for home, queue in homes:
            self._begin(home, queue)
        for home, queue in homes:
            if not self.looks.look(home, queue, self.exact_of(home.queue)):
                return None
        wanted = max(reaction.min_copies, 2 if any(queue.config.require_two for _, queue in homes) else 1)
        if orders.copies < wanted:
            raise Refused(*not_enough(orders.copies, wanted))
        # All of them: what is asked about at one queue is not asked again for another one.
        asks = [home.asking is not None and self.questions.find(home, home.asking, queue) for home, queue in homes]
        if any(asks):
            return None
        return self._hold(reaction, homes[0].queue) if reaction.unit else self._act(homes)[0]

    def _queue_of(self, reaction: Reaction) -> QueueState:
        machine = self.orders.machine
        queue_id = machine.queue_id(reaction.queue)
        if queue_id is None:
            raise machine.state.unnamed(reaction.queue)
        queue = machine.queue(queue_id)
        check_reactions(queue, reaction.queue)
        return queue

    def _begin(self, reaction: Reaction, queue: QueueState) -> None:
        """At one queue; or it was made anew meanwhile. Raises Refused."""
        state = self.orders.machine.state
        if reaction.to or reaction.report_to:
            check_other(state, queue, reaction.to, reaction.report_to)
        if reaction.queue_id != queue.queue_id:
            # What is hidden belongs to a publication, which is whole before anybody sees some of it.
            bound = state.stages.seen(queue.queue_id, queue.next_index - 1)
            reaction.begin(queue.queue_id, bound, self.shared.state.epoch)
        if reaction.keep is not None:
            kept_ms(state, queue, reaction.keep.ttl_ms)

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

    def deny_kept(self, denied: Sequence[tuple[Reaction, Sequence[int]]], queue: QueueState) -> list[int]:
        """V16: these are kept, and have no right to act on their targets: they never do, by one record. One alone
        reports that. How many of the targets of each still wait.
        """
        orders, state, hits = self.orders, self.orders.machine.state, list[DeniedHit]()
        for reaction, targets in denied:
            assert reaction.used is not None, "it is kept"
            reaction.fits = RangeSet(ranges_of(targets))
            hits.append(DeniedHit(*reaction.used, where(reaction, queue).waiting))
        counts = ReactionCounts(denied=sum(hit.count for hit in hits))
        silent = replace(denied[0][0], report_to="")
        for attempt in (denied[0][0], silent) if len(denied) == 1 else (silent,):
            if not counts.denied:
                break
            try:
                reports = plan(state, orders.time_ms, attempt, counts, (), Beside(orders.room.lines))
                header = plan_deny(state, orders.time_ms, queue, [hit for hit in hits if hit.count], reports.ops)
                self._order(header, reports.rows, [AtQueue(attempt, queue, Making([]), counts)])
            except Refused:
                continue  # the report has no place
            return [hit.count for hit in hits]
        return [0] * len(hits)

    def _act_now(self, reaction: Reaction, queue: QueueState) -> RecordHeader:
        # Other queues may have these names by now.
        check_other(self.orders.machine.state, queue, reaction.to, reaction.report_to)
        return self._act([Home(reaction, queue)])[1]

    def _act(self, homes: Sequence[Home]) -> tuple[ReactionDone, RecordHeader]:
        names, read = {queue.name for _, queue in homes}, self.rows.bounded()
        parts: list[AtQueue] = []
        size = 0
        for home, queue in homes:
            parts.append(self._found(home, queue, names, read, size))
            size += parts[-1].making.size
        exceptions = [each for part in parts for each in part.making.exceptions]
        call, rows = self._call(parts, exceptions, Beside(self.orders.room.lines))
        header = plan_react(self.orders.machine.state, self.orders.time_ms, call)
        return self._order(header, rows, parts), header

    def _found(
        self, reaction: Reaction, queue: QueueState, names: Collection[str], read: Reads, size: int = 0
    ) -> AtQueue:
        """What it acts on now at one queue. `names`: of all its queues. `size`: bytes of what enters for the others."""
        here = where(reaction, queue)
        targets = targets_of(reaction, queue, here.waiting)
        counts = ReactionCounts(locked=here.locked, dying=here.dying, inert=here.inert, refused=here.unread)
        if reaction.asking is not None:
            targets = said_of(reaction.asking, targets, counts)
        making = self.rows.made(reaction, queue, targets, counts, names, read, size)
        if reaction.used is not None and not making.targets:
            raise Refused(Reason.REASON_MESSAGE_NOT_FOUND, "none of them can be acted on")
        counts.applied = len(making.targets)
        acts_later = not reaction.first or not counts.applied
        counts.kept = reaction.keep is not None and acts_later
        counts.forwarded = reaction.goes_on is not None and acts_later
        return AtQueue(reaction, queue, making, counts)

    def _call(
        self,
        parts: Sequence[AtQueue],
        exceptions: Sequence[Addressed],
        beside: Beside,
        lease_id: int = 0,
    ) -> tuple[ReactCall, list[Message]]:
        """And the rows of the record, in their order. Counts the reports that find no room, at the first queue."""
        state, first = self.orders.machine.state, parts[0]
        reaction, total = first.reaction, total_of(part.counts for part in parts)
        entering = by_destination(parts)
        for to, leaving in entering.items():
            if leaving[0][1].updates[0] is None and state.named(to).queue_id in beside.lines:
                text = f"others wait for room in queue {to}; nothing is moved there before theirs"
                raise Refused(Reason.REASON_QUEUE_FULL, text, {"queue": to}, 100)
        used = {*beside.taken, *(part.queue.queue_id for part in parts)}
        reports = plan(state, self.orders.time_ms, reaction, total, exceptions, beside._replace(taken=used))
        first.counts.unreported = total.unreported
        check_queues(first.queue, len(entering))
        made = [self.rows.copies_of(to, leaving) for to, leaving in entering.items()]
        kept = [self._keeping(part.reaction, part.queue) for part in parts if part.counts.kept]
        forwards = self._going_on(reaction, first.queue, first.making.targets) if total.forwarded else None
        call = ReactCall(
            first.queue.queue_id,
            first.making.targets,
            first.counts,
            reaction.request_id,
            reaction.request_hash,
            made,
            reports.ops,
            [op for op, _ in kept],
            reaction.used if reaction.first else None,
            forwards[0] if forwards is not None else None,
            reaction.identity,
            lease_id,
            [ReactHome(part.queue.queue_id, part.making.targets, part.counts) for part in parts[1:]],
        )
        rows = [row for leaving in entering.values() for _, each in leaving for row in each.rows]
        going = [forwards[1]] if forwards is not None else []
        return call, [*rows, *reports.rows, *(row for _, row in kept), *going]

    def _going_on(self, reaction: Reaction, queue: QueueState, targets: Sequence[int]) -> tuple[EnqueueOp, Message]:
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
        return op, row

    # -- in a unit of work -----------------------------------------------------------------------------------------

    def _hold(self, reaction: Reaction, queue: QueueState) -> ReactionDone:
        """V15: lock what it would act on. Raises Refused with nothing done."""
        _, _, making, counts = self._found(reaction, queue, (queue.name,), self.rows.bounded())
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
            call, _ = self._call([AtQueue(reaction, queue, making, counts)], making.exceptions, Beside(()))
            entering(state, now_ms, call, {queue.queue_id: leaving_of(queue, ranges_of(call.targets))}, 0)
        except Refused as refused:
            if refused.reason != Reason.REASON_QUEUE_FULL:
                raise

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
        beside: Beside,
    ) -> tuple[ReactCall, list[Message]]:
        reaction, making = held.reaction, held.making
        state = self.orders.machine.state
        queue = state.numbered(reaction.queue_id)
        check_reactions(queue)
        check_other(state, queue, reaction.to, reaction.report_to)  # other queues may have these names by now
        for each in making.entering.values():
            for index, row, marked in zip(each.targets, each.rows, each.marks, strict=True):
                row.persistent = not queue.copy_is_volatile(index, marked=marked)  # it may be on disk by now (R153)
                if reaction.update is not None:
                    self.rows.mark(row, reaction, queue)  # where it is kept is known now
        held.counts.unreported = 0
        return self._call([AtQueue(reaction, queue, making, held.counts)], exceptions, beside, held.lease_id)

    def _keeping(self, reaction: Reaction, queue: QueueState) -> tuple[EnqueueOp, Message]:
        """V11: what enters the queue of those that are kept."""
        state, keep = self.orders.machine.state, reaction.keep
        assert keep is not None
        if len(keep.body) > KEPT_BYTES_MAX:
            text = f"the reaction has {len(keep.body)} bytes; one that is kept has {KEPT_BYTES_MAX} at most"
            raise Refused(Reason.REASON_MESSAGE_TOO_LARGE, text, {"limit": str(KEPT_BYTES_MAX)})
        row = Message(payload=keep.body, content_type=CONTENT_TYPE, persistent=True)
        row.ttl.FromMilliseconds(kept_ms(state, queue, keep.ttl_ms))
        if reaction.named is not None:
            row.properties[SOURCE].text = reaction.named.source
        if keep.principal:
            row.properties[PRINCIPAL].text = keep.principal
        columns = columns_of(EnqueueBatch(messages=batch_of([row])))
        return plan_keep(state, self.orders.time_ms, queue, key_of(reaction), columns), row

    def _order(self, header: RecordHeader, rows: Sequence[Message], parts: Sequence[AtQueue]) -> ReactionDone:
        orders, entered = self.orders, header.txn.enqueues
        all_volatile, body = bool(entered) and all(map(is_all_volatile, entered)), b""
        if entered:
            body = copies.body_of("", rows)  # each of its operations names its queue
            if len(body) > BYTES_MAX:
                raise too_large(BYTES_MAX, "its copies and reports")
            orders.check_space(len(body), all_volatile=all_volatile)
            orders.room_bytes -= len(body)
        epoch = self.shared.state.epoch
        orders.order(header, body, volatile_body=all_volatile)
        for part in parts:
            if part.counts.kept:  # before anybody is given what came while it looked
                orders.parts.kept.on_kept(part.queue.queue_id, part.reaction.bound)
        # A group's next message may be ready now.
        queue_ids = [*(op.queue_id for op in header.txn.removes), *(op.queue_id for op in entered)]
        orders.parts.consumers.pump(dict.fromkeys(queue_ids))
        first, *others = (part.counts for part in parts)
        return ReactionDone(first, epoch, orders.copies, duplicate=False, others=tuple(others))
