"""Calls at a member that is not master: held at the replica until the master has ordered them, parked while there is
none. Orders nothing.

R121, R122: the batch travels to the master once; its ordering comes back as a record's head, and the body that is held
here completes it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from failover.marks import Role
from replica.core.ordering.enqueued import dealt_done, enqueue_done, held_key, homes_of, repeated
from replica.core.ordering.room import WAITING_BYTES_MAX
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import Failed, Moved
from replica.machine import Fresh, Refused
from replica.machine.plan.deal import plan_any
from replica.machine.state.dealing import dealt_run
from tandemq.peer.v1.peer_service_pb2 import Hold, HoldReject
from tandemq.v1.common_pb2 import Error, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.ordering.orders import Orders
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.calls import Call
    from replica.core.state.log import HeldRef
    from replica.core.state.progress import Pending
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame

PARKED_MAX = 10_000
"""Calls that wait for a master; the next one is refused TOO_MANY_WAITERS."""
JOINED_MAX = 64
"""Repetitions that wait with one held request."""
HELD_BYTES_MAX = 64 << 20
"""Bodies held for the master's ordering; beyond it calls are parked. Those that may wait for room have a limit of their
own (`WAITING_BYTES_MAX`), as they stay for longer."""

Key = tuple[bytes, str, int]


class Holding:
    """Held and parked calls of one domain."""

    def __init__(
        self, shared: Shared, orders: Orders, target: SyncTarget, held_call: Callable[[PeerFrame], PendingEnqueue]
    ) -> None:
        self.shared = shared
        self.orders = orders
        self.target = target
        self.parked: deque[Call] = deque()
        self.held: OrderedDict[Key, PendingEnqueue] = OrderedDict()
        self.held_bytes = 0
        self.waiting_bytes = 0
        """Of those, of calls that may wait for room."""
        self.joined: dict[Key, list[PendingEnqueue]] = {}
        """Repetitions of a held request that came while it is under way: answered with it."""
        self.repetitions: dict[Key, int] = {}
        """Held requests that the master had executed before, and the log index to reach before answering."""
        self._held_call = held_call
        """Makes a call of what the peer holds."""

    def __len__(self) -> int:
        return len(self.parked) + len(self.held)

    def park(self, pending: Call) -> None:
        """Keep a call until there is a master."""
        if len(self.parked) >= PARKED_MAX and pending.waiter is not None:  # what the peer holds is bounded there
            message = f"{PARKED_MAX} calls wait for a master already; repeat it later"
            self.orders.reply(pending.waiter, Failed(Reason.REASON_TOO_MANY_WAITERS, message, {}, 1000))
        else:
            if isinstance(pending, PendingEnqueue):
                pending.park()
            self.parked.append(pending)

    def park_first(self, calls: list[PendingEnqueue]) -> None:
        """Keep calls that waited here for room: they came before all that is parked, and the order begins anew."""
        for pending in calls:
            pending.park()
        self.parked.extendleft(reversed(calls))

    def on_hold(self, frame: PeerFrame) -> None:
        """At the master: order a batch that the peer holds for its client, refuse it, or let it wait in its turn."""
        orders = self.orders
        if not orders.shared.serving:
            return
        hold = frame.hold
        if not hold.batch:
            self._on_hold_withdrawn(hold)
            return
        try:
            pending = self._held_call(frame)
        except Refused as refused:
            error = Error(reason=refused.reason, message=refused.message, metadata=refused.metadata)
            self.shared.outbox.send(hold_reject=HoldReject(key=hold.key, error=error))
            return
        if hold.full_wait_ms:
            pending.wait_for_room(orders.now_ms + hold.full_wait_ms)
        if self.shared.draining:
            self.park(pending)
        else:
            orders.execute(pending)

    def _on_hold_withdrawn(self, hold: Hold) -> None:
        """The caller has gone. What is ordered, or about to be, is answered as ever."""
        key = hold.key
        pending = self.orders.room.leave_held(key.queue, (key.client_id, key.first_sequence))
        if pending is not None:
            gone = Refused(Reason.REASON_QUEUE_FULL, "its caller has gone while it waited for room")
            self.orders.refuse(pending, gone)

    def repark(self, pending: PendingEnqueue) -> None:
        """Keep a call that was ordered here and not committed: ahead of everything that came after it."""
        self.parked.appendleft(pending)

    def submit(self, pending: Call) -> None:
        """Take a call while another member, or nobody, is master."""
        if not isinstance(pending, PendingEnqueue):
            self.park(pending)
        elif pending.waiter is None:
            return  # it came over the link, whose holder sends it again to its new master
        elif self._is_following():
            self._unpark()
            if self.parked or self._is_over(pending):
                self.park(pending)
            else:
                self._hold(pending)
        else:
            self.park(pending)

    def _is_over(self, pending: PendingEnqueue) -> bool:
        """No more of its kind is held. Those that may wait for room are counted apart: they hold nobody else up."""
        if pending.full_until_ms:
            return self.waiting_bytes >= WAITING_BYTES_MAX
        return self.held_bytes - self.waiting_bytes >= HELD_BYTES_MAX

    def _unpark(self) -> None:
        """Send the master what is parked, oldest first, as far as it may be held."""
        while self.parked:
            pending = self.parked[0]
            if isinstance(pending, PendingEnqueue) and self._is_over(pending):
                return
            self.parked.popleft()
            if not isinstance(pending, PendingEnqueue):
                self.orders.reply(pending.waiter, Moved("the master is the other member; repeat the call"))
            elif pending.waiter is not None and not pending.waiter.cancelled:
                self._hold(pending)

    def _is_following(self) -> bool:
        return self.shared.role is Role.REPLICA and self.target.active and not self.target.full

    def _hold(self, pending: PendingEnqueue) -> None:
        previous = self.held.get(pending.key)
        if previous is not None and previous.batch != pending.batch:
            # The master's ordering names the identity, and completes it with the one body that is held here.
            message = "the same identity is under way with other content; use a new one for each call"
            self.orders.reply(pending.waiter, Failed(Reason.REASON_REQUEST_MISMATCH, message, {}))
            return
        if previous is not None:
            joined = self.joined.setdefault(pending.key, [])
            if len(joined) >= JOINED_MAX:
                # The oldest caller has most likely gone; it is asked to repeat the call, and loses nothing by it.
                self.orders.reply(joined.pop(0).waiter, Moved("the same request came again and again; repeat it"))
            joined.append(pending)
            if pending.full_until_ms > previous.full_until_ms:
                self.waiting_bytes += 0 if previous.full_until_ms else len(pending.batch)
                previous.wait_for_room(pending.full_until_ms)
                self._send(previous)  # the master lets it wait for longer, in the same place
            return
        self.held[pending.key] = pending
        self.held_bytes += len(pending.batch)
        if pending.full_until_ms:
            self.waiting_bytes += len(pending.batch)
        self._send(pending)

    def _send(self, pending: PendingEnqueue) -> None:
        wait_ms = max(0, pending.full_until_ms - self.orders.now_ms) if pending.full_until_ms else 0
        hold = Hold(
            key=held_key(pending),
            batch=pending.batch,
            request_id=pending.call.request_id,
            min_copies=pending.min_copies,
            full_wait_ms=wait_ms,
        )
        self.shared.outbox.send(hold=hold)

    def withdraw(self, pending: PendingEnqueue) -> None:
        """The caller has gone. Once nobody else waits with it the master need not keep its place, if it has one. It
        stays held until that is said.
        """
        held = self.held.get(pending.key)
        callers = [held, *self.joined.get(pending.key, ())] if held is not None else []
        if pending not in callers or not self._is_following():
            return
        if not any(_is_wanted(other) for other in callers if other is not pending):
            self.shared.outbox.send(hold=Hold(key=held_key(pending), request_id=pending.call.request_id))

    def held_body(self, key: HeldRef) -> bytes | None:
        """The body that a record without one needs."""
        pending = self.held.get(key)
        if pending is None:
            return None
        pending.on_named()
        return pending.batch

    def _release(self, key: Key) -> PendingEnqueue | None:
        pending = self.held.pop(key, None)
        self.repetitions.pop(key, None)
        if pending is not None:
            self.held_bytes -= len(pending.batch)
            if pending.full_until_ms:
                self.waiting_bytes -= len(pending.batch)
            if self.parked and self._is_following():
                self._unpark()
            for repetition in self.joined.pop(key, []):
                if _is_wanted(repetition):
                    self.submit(repetition)  # the master knows it by now and says what became of it
        return pending

    def forget_peers(self) -> None:
        """This member is not master any more: whoever is gets the peer's held requests from the peer."""
        self.parked = deque(each for each in self.parked if each.waiter is not None)

    # -- there is a master -----------------------------------------------------------------------------------------

    def on_following(self) -> None:
        """A master is known and takes held requests: send everything that waits, oldest first."""
        if not self._is_following():
            return
        self.repetitions.clear()
        for pending in self.held.values():
            self._send(pending)
        self._unpark()

    def on_serving(self) -> None:
        """This member is master: order everything that waits, held requests first (they came earlier)."""
        joined = [each for calls in self.joined.values() for each in calls]
        calls: list[Call] = [*self.held.values(), *joined, *self.parked]
        self.held.clear()
        self.joined.clear()
        self.held_bytes = self.waiting_bytes = 0
        self.repetitions.clear()
        self.parked.clear()
        for pending in calls:
            if pending.waiter is None or not pending.waiter.cancelled:
                self.orders.execute(pending)

    def on_hold_reject(self, reject: HoldReject) -> None:
        """The master refused a held request, or had executed it before."""
        key = (reject.key.client_id, reject.key.queue, reject.key.first_sequence)
        pending = self.held.get(key)
        if pending is None:
            return
        if reject.HasField("error"):
            self._release(key)
            error = reject.error
            retry_after_ms = error.retry_after.ToMilliseconds() if error.HasField("retry_after") else None
            self.orders.reply(pending.waiter, Failed(error.reason, error.message, dict(error.metadata), retry_after_ms))
        else:
            self.repetitions[key] = reject.duplicate_of
            self.answer_repetitions()

    def answer_repetitions(self) -> None:
        """Answer repetitions whose first execution is applied here and committed.

        Both are asked: what a restart applied from its own log need not be committed (P14).
        """
        machine = self.shared.machine
        if not self.repetitions or machine is None:
            return
        known = min(machine.applied_index, self.shared.progress.commit_index)
        for key in [key for key, log_index in self.repetitions.items() if log_index <= known]:
            pending = self._release(key)
            if pending is not None:
                self._answer_repetition(pending)

    def _answer_repetition(self, pending: PendingEnqueue) -> None:
        try:
            plan = plan_any(self.orders.machine.state, self.orders.time_ms, pending.call)
        except Refused as refused:
            self.orders.refuse(pending, refused)
            return
        if isinstance(plan, Fresh):
            # No master of ours says so: it knew the request at an index that is applied here. Nothing is claimed of it.
            self.orders.reply(pending.waiter, Moved("what the master said of this request does not fit; repeat it"))
            return
        orders = self.orders
        done = repeated(orders.machine, pending, plan.run, self._copies_of(plan.run.log_index))
        orders.reply_enqueued(pending.waiter, done, orders.wanted_at(pending, homes_of(plan.run)))

    def _copies_of(self, log_index: int) -> int:
        # What a master acknowledged alone is committed before it is durable here.
        return 2 if self.target.counts and log_index <= self.shared.progress.durable_index else 1

    def on_applied(self, record: Pending) -> None:
        """A committed record was applied here: answer the held request that it orders (P14: by the master's commit, not
        our fsync).
        """
        if not self.held:
            return
        kind = record.header.WhichOneof("op")
        if kind == "txn" and record.header.txn.HasField("deal"):
            self._on_dealt(record)
        elif kind == "enqueue":
            self._on_enqueued(record)

    def _on_dealt(self, record: Pending) -> None:
        """A batch that was sent to a macro queue, and that several members have now."""
        machine, op = self.orders.machine, record.header.txn
        caller = record.header.request_id or op.deal.client_id
        key = (caller, machine.state.macros.by_id[op.deal.macro_id].name, op.deal.first_sequence)
        pending = self._made_from(key, record)
        if pending is not None:
            run = dealt_run(record.log_index, record.epoch, op.deal, op.enqueues)
            done = dealt_done(machine, pending, run, self._copies_of(record.log_index), duplicate=not pending.named)
            wanted = self.orders.wanted_at(pending, [each.queue_id for each in op.enqueues])
            self.orders.reply_enqueued(pending.waiter, done, wanted)

    def _made_from(self, key: Key, record: Pending) -> PendingEnqueue | None:
        """The held request that was ordered by it, which is held no longer."""
        pending = self.held.get(key)
        if pending is None or record.header.request_hash not in (0, pending.call.request_hash):
            # Not made from it: another producer's batch under the same identity came to the master itself, and this
            # one's would be acknowledged without being stored. The master refuses it when it comes to it.
            return None
        self._release(key)
        return pending

    def _on_enqueued(self, record: Pending) -> None:
        op = record.header.enqueue
        machine = self.orders.machine
        queue, caller = machine.queue(op.queue_id), record.header.request_id or op.client_id
        macro = machine.state.macros.by_id[op.macro_id] if op.macro_id else None
        key = (caller, queue.name if macro is None else macro.name, op.first_sequence)
        if queue.aliases and key not in self.held:  # a batch is held under the name that its producer uses
            keys = ((caller, alias, op.first_sequence) for alias in queue.aliases)
            key = next((other for other in keys if other in self.held), key)
        pending = self._made_from(key, record)
        if pending is None:
            return
        copies = self._copies_of(record.log_index)
        handles = machine.handle_prefix(op.queue_id)
        done = enqueue_done(
            pending, op, record.log_index, record.epoch, copies, duplicate=not pending.named, handles=handles
        )
        self.orders.reply_enqueued(pending.waiter, done, self.orders.wanted_copies(pending, op.queue_id))

    def expire(self, now_ms: int) -> None:
        """Answer NO_MASTER to parked calls whose time is over, and forget those whose caller left."""
        if not self.parked:
            return
        keep: deque[Call] = deque()
        for pending in self.parked:
            if pending.waiter is not None and pending.waiter.cancelled:
                continue
            if isinstance(pending, PendingEnqueue) and pending.park_ms and not pending.parked_until_ms:
                pending.park(now_ms + pending.park_ms)
            until_ms = pending.parked_until_ms if isinstance(pending, PendingEnqueue) else 0
            if until_ms and until_ms <= now_ms:
                message = f"no master in domain {self.shared.name}: {self.shared.last_change}; repeat the call"
                self.orders.reply(pending.waiter, Failed(Reason.REASON_NO_MASTER, message, {}, 500))
            else:
                keep.append(pending)
        self.parked = keep


def _is_wanted(pending: PendingEnqueue) -> bool:
    """Its caller is there still."""
    return pending.waiter is not None and not pending.waiter.cancelled
