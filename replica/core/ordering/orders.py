"""The master's part of a domain: turns calls into records and answers them when those are committed. Never decides who
is master.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from replica.core.ordering.administration import order_beside, order_queue
from replica.core.ordering.divergences import Divergences
from replica.core.ordering.enqueued import (
    dealt_done,
    enqueue_done,
    held_key,
    homes_of,
    is_all_volatile,
    not_enough,
    repeated,
)
from replica.core.ordering.open_units import OpenUnits
from replica.core.ordering.publishing import Publishing
from replica.core.ordering.readers import report_expired
from replica.core.ordering.replying import Replying
from replica.core.ordering.room import Admission, Room
from replica.core.ordering.saving import Saving
from replica.core.ordering.steering import Steering
from replica.core.ordering.units import order_unit
from replica.core.state.calls import (
    AwaitOrdered,
    BeginUnit,
    CommitUnit,
    PendingEnqueue,
    Publish,
    PutInUnit,
    ReleaseWriter,
    ReplyInUnit,
    RollbackUnit,
    SendReply,
    SettleInUnit,
    StageRows,
    Transact,
    Unstage,
)
from replica.core.state.effects import Persist, Reply
from replica.core.state.log import HeldRef
from replica.core.state.outcomes import EnqueueDone, Failed, Moved, SettleDone
from replica.machine import Fresh, QueueCall, Refused, SettleCall
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.enqueue import plan_enqueue
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.settle_macro import plan_settle_macro
from replica.machine.plan.sides import may_wait
from replica.machine.plan.time import plan_expire
from replica.machine.state.dealing import dealt_run
from tandemq.over_quota import QUOTA
from tandemq.peer.v1.peer_service_pb2 import HoldReject
from tandemq.v1.common_pb2 import Error, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.mastership.mastership import Mastership
    from replica.core.messages.bodies import Stored
    from replica.core.ordering.desk import OrderParts
    from replica.core.state.calls import AnyCall, Call, PendingCall, Waiter
    from replica.core.state.outcomes import Answer
    from replica.core.state.shared import Shared
    from replica.machine import DuplicateRun, Machine
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader
    from tandemq.v1.queue_service_pb2 import SettleResult

ENQUEUE_STORE_SHARE = 0.8
"""Share of the store above which enqueues are refused: settling needs pages too (reliability.md 6, rule 2)."""


class WaitingAnswer(NamedTuple):
    """An answer that a record's commit releases."""

    log_index: int
    answer: Callable[[], None]
    on_lost: Callable[[], None]
    """Called instead when this member follows another master before the commit."""


class Orders:
    """Ordering and answering at the master."""

    def __init__(
        self,
        shared: Shared,
        mastership: Mastership,
        parts: OrderParts,
        read: Callable[[int], Stored | None],
        volatile_bytes_max: int,
    ) -> None:
        self.shared, self.read = shared, read
        self.mastership = mastership
        self.parts = parts
        self.waiting: deque[WaitingAnswer] = deque()
        self.room, self.replying, self.units = Room(self), Replying(self, read), OpenUnits(shared, self)
        self.steering = Steering()
        self.saving, self.publishing = Saving(self, read), Publishing(self, read)
        self.now_ms, self._behind_ms = 0, 0  # by this member's clock; what that is behind the domain's time
        self.room_bytes = 1 << 62
        """What enqueues may still take of the store, by `on_room`; counted down in between."""
        self.is_full = False
        self.again_bytes = 0
        """With no more room than this, sending would not be allowed again."""
        self.volatile_bytes_max = volatile_bytes_max
        self.freed_later: list[int] = []
        self.touched: Sequence[int] = ()
        """Queues that the last record was about."""
        self.divergences = Divergences()

    @property
    def machine(self) -> Machine:
        """The queues' state; never asked for while it is being rebuilt."""
        machine = self.shared.machine
        assert machine is not None, "no call is executed while the queues' state is being rebuilt"
        return machine

    @property
    def copies(self) -> int:
        """Members that hold what is committed now."""
        return self.mastership.commit.copies

    @property
    def time_ms(self) -> int:
        """The domain's time: goes on from the last record's where the clock of its writer was ahead (rulings.md 14)."""
        return self.now_ms + self._behind_ms

    def set_now(self, now_ms: int) -> None:
        """By this member's clock."""
        self.now_ms = now_ms

    def set_time(self) -> None:
        """A takeover: the domain's time meets this member's clock."""
        self._behind_ms = max(0, self.machine.state.time_ms - self.now_ms)

    # -- records ---------------------------------------------------------------------------------------------------

    def order(
        self,
        header: RecordHeader,
        body: bytes = b"",
        *,
        body_crc: int | None = None,
        volatile_body: bool = False,
        held: HeldRef | None = None,
        keep_bodies: bool = False,
        bodies: Sequence[tuple[int, bytes]] = (),
        leased: bool = False,
    ) -> int:
        """Append a record, apply it, have it written and sent; returns its log index.

        `body_crc`: its CRC32C, where it is known.
        `keep_bodies`: volatile bodies that it frees are still wanted, by a delivery that waits for the commit.
        `bodies`: of earlier records, written with this one.
        `leased`: it is a lease of what the record before it has ordered in this step.
        """
        shared, machine = self.shared, self.machine
        epoch = shared.state.epoch
        entry = shared.log.build(header, body, epoch, volatile_body=volatile_body, held=held, body_crc=body_crc)
        if volatile_body:
            shared.volatile.keep(entry.log_index, body)
        state = machine.state
        unhurried = bool(state.own_sides) and may_wait(state, header)
        shared.outbox.add(Persist(appends=(entry,), bodies=bodies, leased=int(leased), unhurried=unhurried))
        queue_ids, freed, _ = machine.apply(entry.log_index, entry.epoch, header)
        self.touched = queue_ids
        if state.kept:
            self.parts.kept.on_ordered(header, queue_ids)
        if self.room.lines:
            self.room.on_applied(queue_ids, changed=header.WhichOneof("op") == "queue")
        completing = self.parts.completing
        if completing.asked:
            completing.on_applied(queue_ids)
        watching = self.parts.watching
        if watching.watched:
            watching.on_applied(queue_ids)
        if keep_bodies:
            self.when_committed(entry.log_index, lambda: self.freed_later.extend(freed), lambda: None)
        else:
            shared.volatile.forget(freed)
        return entry.log_index

    def when_committed(self, log_index: int, answer: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Run `answer` once the record is committed, at once if it is. Answers run in log order."""
        if log_index <= self.shared.progress.commit_index:
            answer()
            return
        assert not self.waiting or self.waiting[-1].log_index <= log_index
        self.waiting.append(WaitingAnswer(log_index, answer, on_lost))

    def on_committed(self) -> None:
        """The commit index has moved: make messages visible and release answers."""
        commit_index = self.shared.progress.commit_index
        visible = self.machine.commit(commit_index)
        while self.waiting and self.waiting[0].log_index <= commit_index:
            self.waiting.popleft().answer()
        if visible:
            self.parts.consumers.pump(visible)
        if self.parts.watching.watched:
            self.parts.watching.look()

    def on_following(self) -> None:
        """Another member orders now: what is unanswered goes to it, or back to the caller."""
        self.saving.on_following()
        self.publishing.on_following()
        self.replying.on_following()
        self.divergences.on_following()
        waiting, self.waiting = self.waiting, deque()
        for item in reversed(waiting):  # each goes to the front of what is parked, so the oldest ends up first
            item.on_lost()

    # -- calls -----------------------------------------------------------------------------------------------------

    def execute(self, pending: Call) -> None:
        """Order a call, or refuse it with nothing done."""
        try:
            if isinstance(pending, PendingEnqueue):
                self._enqueue(pending)
            else:
                self._execute(pending.waiter, pending.call)
        except Refused as refused:
            if isinstance(pending, PendingEnqueue) or refused.retry_after_ms is not None:
                self.refuse(pending, refused)  # it says "not applied", or what lacks for now: no takeover undoes that
            else:
                self._refuse_later(pending, refused)

    def _execute(self, waiter: Waiter, call: AnyCall) -> None:
        match call:
            case SettleCall():
                self._settle(waiter, call)
            case SendReply():
                self.replying.order(waiter, call)
            case Transact():
                order_unit(self, waiter, call, self.room.lines)
            case BeginUnit() | PutInUnit() | SettleInUnit() | ReplyInUnit() | CommitUnit() | RollbackUnit():
                self.units.execute(waiter, call, self.room.lines)
            case QueueCall():
                order_queue(self, self.saving, waiter, call)
            case StageRows() | Publish() | Unstage() | ReleaseWriter() | AwaitOrdered():
                self.publishing.execute(waiter, call)
            case _:
                order_beside(self, waiter, call)

    def _refuse_later(self, pending: PendingCall, why: Refused) -> None:
        """Once all that the refusal may rest on is committed: what it says is there, or is not, stays so."""
        last = self.shared.log.last_index
        self.when_committed(last, lambda: self.refuse(pending, why), self.moved(pending.waiter))

    def refuse(self, pending: Call, refused: Refused) -> None:
        """Answer a refusal, to the client or to the peer that holds the request."""
        metadata = dict(refused.metadata)
        if (kind := metadata.get(QUOTA)) is not None:
            self.shared.limits.kept_quotas.note_refusal(kind)
        if isinstance(pending, PendingEnqueue) and pending.call.first_sequence:
            # A producer numbers what follows from here: with nothing it would begin anew among its own.
            metadata.setdefault(
                "last_sequence", str(self.machine.last_sequence(pending.call.queue, pending.call.client_id))
            )
        if pending.waiter is None and isinstance(pending, PendingEnqueue):
            error = Error(reason=refused.reason, message=refused.message, metadata=metadata)
            if refused.retry_after_ms is not None:
                error.retry_after.FromMilliseconds(refused.retry_after_ms)
            last = int(metadata.get("last_sequence", "0"))
            self.shared.outbox.send(hold_reject=HoldReject(key=held_key(pending), error=error, last_sequence=last))
        else:
            self.reply(
                pending.waiter,
                Failed(refused.reason, refused.message, metadata, refused.retry_after_ms, refused.unseen),
            )

    def reply(self, waiter: Waiter | None, result: Answer) -> None:
        """Answer whoever waits."""
        if waiter is not None:
            self.shared.outbox.add(Reply(waiter, result))

    def reply_enqueued(self, waiter: Waiter | None, done: EnqueueDone, wanted: int) -> None:
        """Answer a batch that was executed, now or earlier; too few copies are never silent (rulings.md 1)."""
        if done.copies >= wanted:
            self.reply(waiter, done)
            return
        reason, message, metadata, retry_after_ms = not_enough(done.copies, wanted)
        # It is ordered: the refusal speaks of copies, and must not be taken for "not applied" (rulings.md 11).
        metadata = {**metadata, "outcome": "stored"}
        if done.first_sequence:
            metadata["last_sequence"] = str(done.first_sequence + done.count - 1)
        self.reply(waiter, Failed(reason, f"stored, but {message}", metadata, retry_after_ms))

    def moved(self, waiter: Waiter | None) -> Callable[[], None]:
        return lambda: self.reply(waiter, Moved("the mastership moved while the call was under way; repeat it"))

    def _again(self, pending: PendingEnqueue) -> Callable[[], None]:
        """When another member orders: the call goes to it, unless only its maker can make it anew."""
        return (
            self.moved(pending.waiter)
            if pending.call.left_out is not None
            else lambda: self.parts.holding.repark(pending)
        )

    def execute_now(self, pending: PendingEnqueue, *, full: bool) -> None:
        """Order a call that has waited for room, or refuse it. `full`: it finds none, whatever there is."""
        try:
            self._enqueue(pending, waits=False, full=full)
        except Refused as refused:
            self.refuse(pending, refused)

    def _enqueue(self, pending: PendingEnqueue, *, waits: bool = True, full: bool = False) -> None:
        if waits and self.room.lines and self.room.join(pending):
            return
        wanted = self.wanted_copies(pending)
        state, call = self.machine.state, pending.call
        macro = state.macros.by_name.get(call.queue) if state.macros.by_name else None
        if macro is None:
            plan = plan_enqueue(state, self.time_ms, call, full=full)
        else:
            ranked = self.steering.ranked(state, macro, self.time_ms)
            far = self.steering.far.view(state, macro)
            plan, waits = plan_deal(state, self.time_ms, macro, call, self.room.lines, ranked, far), False
        if not isinstance(plan, Fresh):
            self._answer_repetition(pending, plan.run, self.wanted_at(pending, homes_of(plan.run)))
            return
        if macro is not None and plan.header.HasField("txn"):
            self._order_dealt(pending, plan.header)
            self.steering.chose(macro, 0, self.time_ms, weighed=plan.header.txn.deal.weighed > 0)
            return
        op = plan.header.enqueue
        if macro is not None:
            wanted = self.wanted_copies(pending, op.queue_id)
        all_volatile = is_all_volatile(op)
        # Only now: these refusals say "certainly not applied", which a repetition may not be answered.
        self._check_means(pending, wanted, all_volatile=all_volatile)
        if waits and (op.refusals or self.room.lines):
            admission = self.room.admit(pending, op)
            if admission is Admission.WAITS:
                return
            if admission is Admission.FULL:
                self._enqueue(pending, waits=False, full=True)
                return
        if macro is not None and op.first_index:
            self.steering.chose(macro, op.queue_id, self.time_ms, weighed=op.weighed > 0)
        self.room_bytes -= len(pending.batch)
        held = None
        if pending.waiter is None:
            held = HeldRef(*pending.key)
        log_index = self.order(
            plan.header, pending.batch, body_crc=pending.batch_crc, volatile_body=all_volatile, held=held
        )
        if pending.waiter is not None:
            self._answer_enqueued(pending, op, log_index, wanted)
        self.parts.consumers.lease_ahead(op, log_index)

    def _order_dealt(self, pending: PendingEnqueue, header: RecordHeader) -> None:
        """A batch that a macro queue has dealt to several members."""
        ops = header.txn.enqueues
        wanted = self.wanted_at(pending, [op.queue_id for op in ops])
        entering = [op for op in ops if op.first_index]
        all_volatile = bool(entering) and all(map(is_all_volatile, entering))
        self._check_means(pending, wanted, all_volatile=all_volatile)
        self.room_bytes -= len(pending.batch)
        held = HeldRef(*pending.key) if pending.waiter is None else None
        epoch = self.shared.state.epoch  # of the record; the next epoch may be the one that commits it
        log_index = self.order(header, pending.batch, body_crc=pending.batch_crc, volatile_body=all_volatile, held=held)
        if pending.waiter is None:
            return
        run = dealt_run(log_index, epoch, header.txn.deal, ops)

        def answer() -> None:
            done = dealt_done(self.machine, pending, run, self.mastership.commit.copies, duplicate=False)
            self.reply_enqueued(pending.waiter, done, wanted)

        self.when_committed(log_index, answer, self._again(pending))

    def _answer_enqueued(self, pending: PendingEnqueue, op: EnqueueOp, log_index: int, wanted: int) -> None:
        epoch = self.shared.state.epoch  # of the record; the next epoch may be the one that commits it
        handles = self.machine.handle_prefix(op.queue_id)

        def answer() -> None:
            done = enqueue_done(pending, op, log_index, epoch, self.mastership.commit.copies, handles=handles)
            self.reply_enqueued(pending.waiter, done, wanted)

        self.when_committed(log_index, answer, self._again(pending))

    def _check_means(self, pending: PendingEnqueue, wanted: int, *, all_volatile: bool) -> None:
        """Refuse what cannot be held as it was asked for; nothing of it is ordered yet."""
        copies = self.mastership.commit.copies
        if copies < wanted:
            raise Refused(*not_enough(copies, wanted))
        self.check_space(len(pending.batch), all_volatile=all_volatile)

    def check_space(self, size: int, *, all_volatile: bool) -> None:
        """Refuse what the store, or the memory of volatile messages, has no place for."""
        if self.is_full or self.room_bytes < size:
            self.is_full = True  # for small ones too, until the shell has seen room again: no size slips past
            message = "the store has reached its enqueue limit; consume, or start the manager with a larger map_bytes"
            raise Refused(Reason.REASON_STORAGE_FULL, message, {}, 1000)
        if all_volatile and self.shared.volatile.bytes + size > self.volatile_bytes_max:
            limit = self.volatile_bytes_max
            message = f"{limit} bytes of volatile messages are in memory; consume, or raise volatile_bytes"
            raise Refused(Reason.REASON_STORAGE_FULL, message, {}, 1000)

    def on_room(self, room_bytes: int, again_bytes: int) -> None:
        """How much room the store has for enqueues now, and above how much of it sending is allowed again."""
        self.room_bytes, self.again_bytes = room_bytes, again_bytes
        if room_bytes > again_bytes:
            self.is_full = False

    def on_appended(self, size: int) -> None:
        """So many bytes of records are on their way to the disk. A master has counted them when it took them."""
        if not self.shared.serving:
            self.room_bytes -= size

    def wanted_copies(self, pending: PendingEnqueue, queue_id: int | None = None) -> int:
        """Fewer are NOT_ENOUGH_COPIES to this caller (rulings.md 1). `queue_id`: of a member of the macro queue."""
        require_two = self.machine.requires_two(queue_id or pending.call.queue)
        return max(pending.min_copies, 2 if require_two else 1)

    def wanted_at(self, pending: PendingEnqueue, queue_ids: Sequence[int]) -> int:
        """Of a batch that enters these queues; 0: the one that it was sent to."""
        return max(self.wanted_copies(pending, queue_id) for queue_id in queue_ids)

    def _answer_repetition(self, pending: PendingEnqueue, run: DuplicateRun, wanted: int) -> None:
        if pending.waiter is None:
            self.shared.outbox.send(hold_reject=HoldReject(key=held_key(pending), duplicate_of=run.log_index))
            return

        def answer() -> None:
            done = repeated(self.machine, pending, run, self.mastership.commit.copies)
            self.reply_enqueued(pending.waiter, done, wanted)

        # Everything ordered so far is waited for, so that answers leave in log order.
        self.when_committed(self.shared.log.last_index, answer, self._again(pending))

    def _settle(self, waiter: Waiter, call: SettleCall) -> None:
        machine = self.machine
        found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
        if found is not None:
            results, duplicate = list(found.results), True
        else:
            results, duplicate = self._ordered_settlements(call), False
        # Waited for even when nothing changes: a result may rest on a settle that is ordered and not committed yet.
        done = SettleDone(results, duplicate)
        self.when_committed(self.shared.log.last_index, lambda: self.reply(waiter, done), self.moved(waiter))

    def _ordered_settlements(self, call: SettleCall) -> list[SettleResult]:
        state = self.machine.state
        if state.macros.by_name and call.queue in state.macros.by_name:
            headers, results = plan_settle_macro(state, self.time_ms, call)
        else:
            plan = plan_settle(state, self.time_ms, call)
            headers, results = [] if plan.header is None else [plan.header], plan.results
        # All before anybody is handed anything: a lease between two of them may take what the next one settles.
        for header in headers:
            self.order(header)
        self.parts.consumers.pump([header.settle.queue_id for header in headers])
        return list(results)

    def expire(self) -> None:
        """Order what time brings: leases and messages that end, messages that become persistent."""
        self.saving.look()
        self.publishing.look()
        self.units.look()
        if self.freed_later:
            freed, self.freed_later = self.freed_later, []
            self.shared.volatile.forget(freed)
        header = plan_expire(self.machine.state, self.time_ms)
        if header is not None:
            self.publishing.report_expired(header.expire.stage_ids)
            self.order(header)
            report_expired(self.shared, header.expire.readers)
            self.parts.consumers.pump(self.touched)
