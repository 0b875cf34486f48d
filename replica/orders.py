"""The master's part of a domain: turns calls into records and answers them when those are committed. Never decides who
is master.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from replica.calls import EnqueueCall, SettleCall
from replica.effects import EnqueueDone, Failed, Moved, Persist, QueueDone, Reply, SettleDone
from replica.log import HeldRef
from replica.machine import Fresh, Refused
from tandemq.peer.v1.peer_service_pb2 import HeldKey, HoldReject
from tandemq.v1.common_pb2 import Error, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.calls import Call, QueueCall, Waiter
    from replica.effects import LeaseDone
    from replica.machine import DuplicateRun, Machine
    from replica.replication import Replication
    from replica.shared import Shared
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

ENQUEUE_STORE_SHARE = 0.8
"""Share of the store above which enqueues are refused: settling needs pages too (reliability.md 6, rule 2)."""


class Waiting(NamedTuple):
    """An answer that a record's commit releases."""

    log_index: int
    answer: Callable[[], None]
    on_lost: Callable[[], None]
    """Called instead when this member follows another master before the commit."""


class Orders:
    """Ordering and answering at the master."""

    def __init__(self, shared: Shared, replication: Replication) -> None:
        self.shared = shared
        self.replication = replication
        self.waiting: deque[Waiting] = deque()
        self.now_ms = 0
        self.room_bytes = 1 << 62
        """What enqueues may still take of the store: set by the shell now and then, counted down here."""
        self.is_full = False
        self.volatile_bytes_max = 256 << 20
        self.freed_later: list[int] = []
        self.on_change: Callable[[Sequence[int]], None] = lambda _queue_ids: None
        """Told which queues may have something new for consumers."""
        self.repark: Callable[[EnqueueCall], None] = lambda _call: None

    @property
    def machine(self) -> Machine:
        """The queues' state; never asked for while it is being rebuilt."""
        machine = self.shared.machine
        assert machine is not None, "no call is executed while the queues' state is being rebuilt"
        return machine

    # -- records ---------------------------------------------------------------------------------------------------

    def order(
        self,
        header: RecordHeader,
        body: bytes = b"",
        *,
        volatile_body: bool = False,
        held: HeldRef | None = None,
        keep_bodies: bool = False,
    ) -> int:
        """Append a record, apply it, have it written and sent; returns its log index.

        `keep_bodies`: volatile bodies that it frees are still wanted, by a delivery that waits for the commit.
        """
        shared = self.shared
        entry = shared.log.build(header, body, shared.state.epoch, volatile_body=volatile_body, held=held)
        if volatile_body:
            shared.keep_body(entry.log_index, body)
        shared.effects.append(Persist(appends=(entry,)))
        freed = self.machine.apply(entry.log_index, entry.epoch, header).freed
        if keep_bodies:
            self.when_committed(entry.log_index, lambda: self.freed_later.extend(freed), lambda: None)
        else:
            shared.forget_bodies(freed)
        return entry.log_index

    def when_committed(self, log_index: int, answer: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Run `answer` once the record is committed, at once if it is. Answers run in log order."""
        if log_index <= self.shared.commit_index:
            answer()
            return
        assert not self.waiting or self.waiting[-1].log_index <= log_index
        self.waiting.append(Waiting(log_index, answer, on_lost))

    def on_committed(self) -> None:
        """The commit index has moved: make messages visible and release answers."""
        commit_index = self.shared.commit_index
        visible = self.machine.commit(commit_index)
        while self.waiting and self.waiting[0].log_index <= commit_index:
            self.waiting.popleft().answer()
        if visible:
            self.on_change(visible)

    def on_following(self) -> None:
        """Another member orders now: what is unanswered goes to it, or back to the caller."""
        waiting, self.waiting = self.waiting, deque()
        for item in reversed(waiting):  # each goes to the front of what is parked, so the oldest ends up first
            item.on_lost()

    # -- calls -----------------------------------------------------------------------------------------------------

    def execute(self, call: Call) -> None:
        """Order a call, or refuse it with nothing done."""
        try:
            if isinstance(call, EnqueueCall):
                self._enqueue(call)
            elif isinstance(call, SettleCall):
                self._settle(call)
            else:
                self._queue_action(call)
        except Refused as refused:
            self.refuse(call, refused)

    def refuse(self, call: Call, refused: Refused) -> None:
        """Answer a refusal, to the client or to the peer that holds the request."""
        metadata = dict(refused.metadata)
        if call.waiter is None and isinstance(call, EnqueueCall):
            error = Error(reason=refused.reason, message=refused.message, metadata=metadata)
            if refused.retry_after_ms is not None:
                error.retry_after.FromMilliseconds(refused.retry_after_ms)
            last = int(metadata.get("last_sequence", "0"))
            self.shared.send(hold_reject=HoldReject(key=held_key(call), error=error, last_sequence=last))
        else:
            self.reply(call.waiter, Failed(refused.reason, refused.message, metadata, refused.retry_after_ms))

    def reply(
        self, waiter: Waiter | None, result: EnqueueDone | LeaseDone | SettleDone | QueueDone | Failed | Moved
    ) -> None:
        """Answer whoever waits."""
        if waiter is not None:
            self.shared.effects.append(Reply(waiter, result))

    def reply_enqueued(self, waiter: Waiter | None, done: EnqueueDone, wanted: int) -> None:
        """Answer a batch that was executed, now or earlier; too few copies are never silent (rulings.md 1)."""
        if done.copies >= wanted:
            self.reply(waiter, done)
            return
        reason, message, metadata, retry_after_ms = not_enough(done.copies, wanted)
        # It is ordered: the refusal speaks of copies, and must not be taken for "not applied" (rulings.md 11).
        metadata = {**metadata, "outcome": "stored"}
        self.reply(waiter, Failed(reason, f"stored, but {message}", metadata, retry_after_ms))

    def _moved(self, waiter: Waiter | None) -> Callable[[], None]:
        return lambda: self.reply(waiter, Moved("the mastership moved while the call was under way; repeat it"))

    def _enqueue(self, call: EnqueueCall) -> None:
        machine = self.machine
        wanted = self.wanted_copies(call)
        plan = machine.plan_enqueue(
            now_ms=self.now_ms,
            queue=call.queue,
            client_id=call.client_id,
            first_sequence=call.first_sequence,
            request_id=call.request_id,
            request_hash=call.request_hash,
            columns=call.columns,
            member=call.member or self.shared.member,
        )
        if not isinstance(plan, Fresh):
            self._answer_repetition(call, plan.runs, wanted)
            return
        op = plan.header.enqueue
        all_volatile = is_all_volatile(op)
        # Only now: these refusals say "certainly not applied", which a repetition may not be told.
        self._check_means(call, wanted, all_volatile=all_volatile)
        self.room_bytes -= len(call.batch)
        held = None
        if call.waiter is None:
            held = HeldRef(call.request_id or call.client_id, call.queue, call.first_sequence)
        log_index = self.order(plan.header, call.batch, volatile_body=all_volatile, held=held)
        if call.waiter is None:
            return
        epoch = self.shared.state.epoch  # of the record; the next epoch may be the one that commits it

        def answer() -> None:
            done = enqueue_done(call, op, log_index, epoch, self.replication.copies)
            self.reply_enqueued(call.waiter, done, wanted)

        self.when_committed(log_index, answer, lambda: self.repark(call))

    def _check_means(self, call: EnqueueCall, wanted: int, *, all_volatile: bool) -> None:
        """Refuse what cannot be held as it was asked for; nothing of it is ordered yet."""
        copies = self.replication.copies
        if copies < wanted:
            raise Refused(*not_enough(copies, wanted))
        if self.is_full or self.room_bytes < len(call.batch):
            self.is_full = True  # for small ones too, until the shell has seen room again: no size slips past
            message = "the store has reached its enqueue limit; consume, or start the manager with a larger map_bytes"
            raise Refused(Reason.REASON_STORAGE_FULL, message, {}, 1000)
        if all_volatile and self.shared.volatile_bytes + len(call.batch) > self.volatile_bytes_max:
            limit = self.volatile_bytes_max
            message = f"{limit} bytes of volatile messages are in memory; consume, or raise volatile_bytes"
            raise Refused(Reason.REASON_STORAGE_FULL, message, {}, 1000)

    def wanted_copies(self, call: EnqueueCall) -> int:
        """Fewer are NOT_ENOUGH_COPIES to this caller (rulings.md 1)."""
        machine = self.machine
        queue_id = machine.queue_id(call.queue)
        require_two = queue_id is not None and machine.queue(queue_id).config.require_two
        return max(call.min_copies, 2 if require_two else 1)

    def _answer_repetition(self, call: EnqueueCall, runs: Sequence[DuplicateRun], wanted: int) -> None:
        if call.waiter is None:
            last = max(run.log_index for run in runs)
            self.shared.send(hold_reject=HoldReject(key=held_key(call), duplicate_of=last))
            return

        def answer() -> None:
            for run in runs:
                self.reply_enqueued(call.waiter, repeated(run, self.replication.copies), wanted)

        # Everything ordered so far is waited for, so that answers leave in log order.
        self.when_committed(self.shared.log.last_index, answer, lambda: self.repark(call))

    def _settle(self, call: SettleCall) -> None:
        machine = self.machine
        found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
        if found is not None:
            results, duplicate = list(found.results), True
        else:
            plan = machine.plan_settle(
                now_ms=self.now_ms,
                queue=call.queue,
                settlements=call.settlements,
                request_id=call.request_id,
                request_hash=call.request_hash,
            )
            results, duplicate = list(plan.results), False
            if plan.header is not None:
                self.order(plan.header)
                self.on_change([plan.header.settle.queue_id])
        # Waited for even when nothing changes: a result may rest on a settle that is ordered and not committed yet.
        done = SettleDone(results, duplicate)
        self.when_committed(self.shared.log.last_index, lambda: self.reply(call.waiter, done), self._moved(call.waiter))

    def _queue_action(self, call: QueueCall) -> None:
        machine = self.machine
        found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
        if found is not None:
            done = QueueDone(call.queue, found.removed, duplicate=True)
        else:
            header = machine.plan_queue(
                now_ms=self.now_ms,
                action=call.action,
                name=call.queue,
                config=call.config,
                mask=call.mask,
                expected_version=call.expected_version,
                member=call.member,
                members=call.members,
                open_members=call.open_members,
                if_empty=call.if_empty,
                request_id=call.request_id,
                request_hash=call.request_hash,
            )
            self.order(header)
            done = QueueDone(call.queue, header.queue.removed, duplicate=False)
            self.on_change([header.queue.queue_id])
        self.when_committed(self.shared.log.last_index, lambda: self.reply(call.waiter, done), self._moved(call.waiter))

    def expire(self) -> None:
        """Order what has ended by time: leases and messages."""
        if self.freed_later:
            freed, self.freed_later = self.freed_later, []
            self.shared.forget_bodies(freed)
        due = self.machine.next_due_ms()
        if due is None or due > self.now_ms:
            return
        header = self.machine.plan_expire(self.now_ms)
        if header is not None:
            self.order(header)
            self.on_change([self.machine.queue_id(name) or 0 for name in self.machine.names()])


def held_key(call: EnqueueCall) -> HeldKey:
    """Names a held request on the wire."""
    return HeldKey(client_id=call.request_id or call.client_id, queue=call.queue, first_sequence=call.first_sequence)


def is_all_volatile(op: EnqueueOp) -> bool:
    """Whether no message of the record is persistent: its body stays in memory."""
    return len(op.volatiles) > 0 and min(op.volatiles) == 1


def enqueue_done(call: EnqueueCall, op: EnqueueOp, log_index: int, epoch: int, copies: int) -> EnqueueDone:
    """The answer to a batch that was executed now."""
    return EnqueueDone(
        call.first_sequence,
        op.count,
        op.first_index,
        log_index,
        epoch,
        copies,
        duplicate=False,
        refusals=[(refusal.ordinal, refusal.reason) for refusal in op.refusals],
        downgraded=op.downgraded,
        volatile=is_all_volatile(op),
    )


def repeated(run: DuplicateRun, copies: int) -> EnqueueDone:
    """The first answer again."""
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
        volatile=run.downgraded,
    )


def not_enough(copies: int, wanted: int) -> tuple[Reason, str, dict[str, str], int]:
    """The refusal when fewer members hold an operation than asked for (rulings.md 1)."""
    return (
        Reason.REASON_NOT_ENOUGH_COPIES,
        f"{copies} member(s) hold what is acknowledged, {wanted} are asked for; wait for the peer, or ask for fewer",
        {"copies": str(copies), "min_copies": str(wanted)},
        1000,
    )
