"""Makes a queue's volatile messages persistent after a change of its persistence, part by part, at the serving master;
never decides which.

A part is a SAVE record: each member that stores it stores the named bodies in the same transaction, so that whoever
has the record has them. What is left stands in the queues' state: a new master goes on where the records end. Who asked
for the change is answered when nothing is left, or by the next master when he repeats the call there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages import copies
from replica.core.state.effects import Note
from replica.core.state.outcomes import Failed, Moved, QueueDone
from replica.machine import Bodies, Refused, SaveLimits
from replica.machine.plan.columns import PERSISTENCE_PERSISTENT
from replica.machine.plan.save import plan_save
from replica.machine.plan.time import plan_volatile_lost
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import Waiter
    from replica.machine import QueueCall, SavePlan
    from tandemq.peer.v1.record_pb2 import QueueOp

PART = SaveLimits(records=1_000, body_bytes=2 << 20)
"""Of one record: about 20 ms of a group commit and of the loop, and the next one waits until it is committed. Twice as
much was no faster (a million messages: 1.2 s and 1.7 s), and held up others for twice as long. Where a record has a
range for each message, it has no more than `SaveLimits.pieces` of them.
"""
WAITING_MAX = 1_000
_CLOSING = (QueueAction.QUEUE_ACTION_CLOSE, QueueAction.QUEUE_ACTION_DESTROY)


class WaitingForSave(NamedTuple):
    """A caller that is answered when a queue's messages are saved."""

    queue_id: int
    waiter: Waiter
    done: QueueDone


class Saving:
    """One domain at one member."""

    def __init__(self, orders: Desk, read: Callable[[int], Stored | None]) -> None:
        self.orders = orders
        self.read = read
        """A record from the store, by log index."""
        self.part = PART
        self.last_part = 0
        """Log index of the last SAVE that was ordered."""
        self.waiting: list[WaitingForSave] = []
        self.held_back = ""
        """Why nothing is saved now: reported once."""

    # -- who waits ---------------------------------------------------------------------------------------------------

    def check_room(self, queue_id: int) -> None:
        """Refused while nothing is changed, when the store has no room for all of it."""
        orders = self.orders
        bodies = orders.shared.volatile.bodies
        size = orders.shared.volatile.bytes
        if not self._fits(size):  # of all queues together; now exactly
            segments = orders.machine.queue(queue_id).segments
            size = sum(len(bodies.get(log_index, b"")) for log_index in segments.log_indexes())
        if not self._fits(size):
            text = (
                f"{size} bytes of volatile messages would have to be written, and the store has reached its enqueue "
                "limit or would pass it; consume, or start the manager with a larger map_bytes. Nothing is changed"
            )
            raise Refused(Reason.REASON_STORAGE_FULL, text, {"bytes": str(size)}, 1000)

    def _fits(self, size: int) -> bool:
        return not self.orders.is_full and size <= self.orders.room_bytes

    def holds(self, waiter: Waiter, call: QueueCall, done: QueueDone) -> bool:
        """Whether the answer to this call, now or earlier executed, has to wait for what is saved."""
        machine = self.orders.machine
        if not _asks(call) or not machine.state.saving:
            return False
        queue_id = machine.queue_id(call.name)
        if queue_id is None or queue_id not in machine.state.saving:
            return False
        if len(self.waiting) >= WAITING_MAX:
            # It is ordered: nothing that says "not applied" would be true.
            text = f"{WAITING_MAX} calls wait until messages are saved; that goes on, repeat the call to hear its end"
            self.orders.reply(waiter, Moved(text))
            return True
        self.waiting.append(WaitingForSave(queue_id, waiter, done))
        self.look()
        return True

    def on_following(self) -> None:
        """Another member orders now: it goes on, and answers whoever repeats the call there."""
        waiting, self.waiting = self.waiting, []
        self.last_part = 0
        for each in waiting:
            self.orders.moved(each.waiter)()

    def on_action(self, op: QueueOp) -> None:
        """One was ordered: who waits hears where messages went that he would be told are persistent."""
        mine = [each for each in self.waiting if each.queue_id == op.queue_id]
        if not mine:
            return
        queue = self.orders.machine.queue(op.queue_id) if self.orders.machine.has_queue(op.queue_id) else None
        if queue is not None and (op.action not in _CLOSING or queue.open_members):
            return
        what, reason = "closed at its last member", Reason.REASON_INVALID_STATE
        if queue is None:
            what, reason = "deleted", Reason.REASON_QUEUE_NOT_FOUND
        self.waiting = [each for each in self.waiting if each.queue_id != op.queue_id]
        for waiting in mine:
            text = f"queue {waiting.done.queue} was {what} while its messages were being made persistent"
            text = f"{text}: those that were not yet are gone"
            self._answer(waiting.waiter, Failed(reason, text, {"queue": waiting.done.queue}))

    def _release(self) -> None:
        left = self.orders.machine.state.saving
        over = [each for each in self.waiting if each.queue_id not in left]
        if over:
            self.waiting = [each for each in self.waiting if each.queue_id in left]
            for waiting in over:
                self._answer(waiting.waiter, waiting.done)

    def _answer(self, waiter: Waiter, done: QueueDone | Failed) -> None:
        orders = self.orders
        answer = lambda: orders.reply(waiter, done)  # noqa: E731 - beside its other end
        orders.when_committed(orders.shared.log.last_index, answer, orders.moved(waiter))

    # -- what is saved -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Time passes, at the serving master, or a change was ordered: one part, once the last one is committed."""
        orders = self.orders
        if orders.shared.volatile.saved:
            orders.shared.volatile.forget_saved()
        queues = tuple(orders.machine.state.saving)
        if not queues and not self.waiting:
            return
        if queues and self.last_part <= orders.shared.progress.commit_index:
            try:
                self._save_some(queues[0])
                self.held_back = ""
            except Refused as refused:
                self._hold_back(queues[0], refused.message)
        self._release()

    def _save_some(self, queue_id: int) -> None:
        orders, shared = self.orders, self.orders.shared
        bodies = shared.volatile.bodies

        def size_of(log_index: int) -> int | None:
            body = bodies.get(log_index)
            return None if body is None else len(body)

        asked = Bodies(size_of, lambda log_index: not shared.log.is_volatile(log_index), self._marks_of)
        plan = plan_save(orders.machine.state, queue_id, orders.time_ms, asked, self.part)
        if plan is None:
            return
        if not self._fits(plan.body_bytes):
            raise Refused(Reason.REASON_STORAGE_FULL, "the store has reached its enqueue limit")
        self._order(plan)

    def _marks_of(self, log_index: int) -> Sequence[int]:
        stored = copies.careful(self.read)(log_index)
        if stored is None:  # its producer may have marked all of it, and the other copy may be good
            return (PERSISTENCE_PERSISTENT,)
        return EnqueueBatch.FromString(stored.body).messages.persistence

    def _order(self, plan: SavePlan) -> None:
        orders, shared = self.orders, self.orders.shared
        orders.room_bytes -= plan.body_bytes
        found = [(log_index, shared.volatile.bodies[log_index]) for log_index in plan.log_indexes]
        self.last_part = orders.order(plan.header, bodies=found)
        if found:
            shared.volatile.save(self.last_part, plan.log_indexes)
        if plan.lost:
            # No other member has them either, for what it had was asked for before this one became master.
            shared.volatile.miss(plan.lost)
            lost = plan_volatile_lost(orders.machine.state, orders.time_ms, shared.volatile.has)
            if lost is not None:
                orders.order(lost)

    def _hold_back(self, queue_id: int, why: str) -> None:
        if self.held_back == why:
            return
        self.held_back = why
        queue = self.orders.machine.queue(queue_id)
        text = f"queue {queue.name}: {queue.volatile.size} messages wait to be made persistent: {why}"
        facts = {"queue": queue.name, "waiting": str(queue.volatile.size), "why": why}
        self.orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))


def _asks(call: QueueCall) -> bool:
    """Whether it is about the persistence; whoever changes something else has nothing to wait for."""
    if call.action != QueueAction.QUEUE_ACTION_UPDATE or call.config is None:
        return False
    return "persistence" in call.mask if call.mask else bool(call.config.persistence)
