"""Who waits for messages at the master, and who gets the next ones. Server state, never replicated; leases are records,
credit is not.

Consumers of a queue are served in turn. A leased delivery leaves at once, before its record is durable (rulings.md 13);
one that removes the message at delivery, and one that answers a Dequeue call, waits until its record is committed.
What is leased in the step that orders it waits until the message is committed (`ahead`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from replica.core.delivery.admission import check_queue
from replica.core.delivery.ahead import Ahead
from replica.core.delivery.damage import Damage
from replica.core.delivery.fan_in import FanIn
from replica.core.delivery.rounds import Rounds, deleted, taken
from replica.core.delivery.sole import Sole
from replica.core.selection.selecting import Exact
from replica.core.state.effects import Deliver
from replica.core.state.outcomes import Failed, FarLease, LeaseDone, Moved
from replica.machine import LeaseCall, Refused, SettleCall, lease_id_of
from replica.machine.plan.lease import plan_lease
from replica.machine.plan.settle import plan_settle
from replica.machine.views import counted, left_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import SETTLE_MODE_IMMEDIATE, Outcome, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from replica.core.mastership.mastership import Mastership
    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Consumer
    from replica.core.state.shared import Shared
    from replica.machine import Narrower, RequestAnswer
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

DELIVERY_MESSAGES_MAX = 2_000
"""Messages under one lease: bounds the work of one turn."""
DELIVERY_BYTES_MAX = 2 << 20
"""Payload bytes under one lease: bounds a frame."""
WAITERS_MAX = 100_000
"""Consumers of one domain, Dequeue calls that wait included; the next one is refused TOO_MANY_WAITERS. Streams have a
limit of their own before this one, `limits.consume_streams`.
"""


class Consumers:
    """The consumers of one domain."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        mastership: Mastership,
        is_whole: Callable[[int], bool],
        is_at_hand: Callable[[int], bool] | None,
    ) -> None:
        self.shared = shared
        self.orders = orders
        self.mastership = mastership
        self.turns: dict[int, deque[Consumer]] = {}
        self.exact: dict[int, Exact] = {}
        """By queue, once somebody has asked for a correlation or group id; made anew by each master."""
        self.count = self._arrivals = 0
        self.sole = Sole()
        self.damage = Damage(shared, is_whole)
        self.ahead = Ahead(shared, orders, self._planned, self.pump)
        self.fan_in = FanIn(shared, orders, self._plan, self._is_free, self._waiting_at)
        self._rounds = Rounds()
        self._is_at_hand = is_at_hand

    def attach(self, consumer: Consumer) -> None:
        """A consumer arrives. Refusals: no such queue, not open here, receiving disabled, too many."""
        try:
            self._attach(consumer)
        except Refused as refused:
            failed = Failed(refused.reason, refused.message, dict(refused.metadata), refused.retry_after_ms)
            self.orders.reply(consumer.waiter, failed)

    def _attach(self, consumer: Consumer) -> None:
        machine = self.orders.machine
        if self.count >= WAITERS_MAX:
            raise Refused(
                Reason.REASON_TOO_MANY_WAITERS,
                f"{WAITERS_MAX} consumers are attached already; repeat it later",
                {},
                1000,
            )
        consumer.enter(self._check_queue(consumer))
        if (found := self._given(consumer)) is not None:
            self._repeat(consumer, found)
            return
        if consumer.queue_id in machine.state.macros.by_id:
            self._wait_at_macro(consumer)
            return
        config = machine.queue(consumer.queue_id).config
        turn = self.turns.get(consumer.queue_id) or deque()
        if config.max_consumers:
            self._check_number(consumer, turn, config.max_consumers)
            turn = self.turns.get(consumer.queue_id) or deque()
        self.turns[consumer.queue_id] = turn
        self._arrivals += 1
        immediate = False if consumer.unit else consumer.immediate
        if immediate is None:
            immediate = machine.queue(consumer.queue_id).config.default_settle == SETTLE_MODE_IMMEDIATE
        consumer.attach(self._arrivals, immediate=immediate)
        self.count += 1
        if config.single_active:
            self.sole.place(turn, consumer)
        else:
            turn.append(consumer)
        self.pump([consumer.queue_id])

    def _wait_at_macro(self, consumer: Consumer) -> None:
        self._arrivals += 1
        consumer.attach(self._arrivals, immediate=bool(consumer.immediate))
        self.count += 1
        self.turns.setdefault(consumer.queue_id, deque()).append(consumer)
        self._pump_macro(consumer.queue_id)

    def _check_number(self, consumer: Consumer, turn: deque[Consumer], most: int) -> None:
        """A consumer that opens its stream again is no further one, though its old one may not have ended yet."""
        for other in [other for other in turn if other.waiter.cancelled]:
            self._remove(other)
        if len({other.client_id for other in turn} - {consumer.client_id}) >= most:
            if self.orders.machine.queue(consumer.queue_id).side is not None:
                raise taken(consumer.queue, self.shared.member)
            raise Refused(
                Reason.REASON_QUOTA_EXCEEDED,
                f"queue {consumer.queue} has {most} consumers, which is its max_consumers; wait until one leaves",
                {"max_consumers": str(most)},
            )

    def _check_queue(self, consumer: Consumer) -> int:
        machine = self.orders.machine
        if machine.queue_id(consumer.queue) is None and consumer.queue in machine.state.macros.by_name:
            return self.fan_in.check(consumer)
        return check_queue(machine, self.shared.member, consumer)

    def _check_unit(self, consumer: Consumer) -> int:
        """Messages that it may get; Refused where its unit is not open, or may have no more."""
        return self.orders.units.room_for_gets(consumer.unit, consumer.queue_id)

    def _given(self, consumer: Consumer) -> RequestAnswer | None:
        """What another call of its request id was given. Refused where its unit of work is not open, or may have no
        more: that alone is no reason to hide from a repetition what the unit's commit acknowledges.
        """
        if consumer.unit and (ended := self.orders.units.problem_of(consumer.unit)) is not None:
            raise ended
        found = self.orders.machine.find_request(consumer.request_id, consumer.request_hash)
        if found is None and consumer.unit:
            self._check_unit(consumer)
        return found

    def _repeat(self, consumer: Consumer, found: RequestAnswer) -> None:
        """A Dequeue call came again: the same messages, as far as they are still there."""
        machine = self.orders.machine
        # Nobody else can have had what was removed at delivery; what a lease held may be settled since, by whoever came
        # after it, and must not be delivered again.
        ranges = left_of(machine.queue(found.queue_id), found.ranges) if found.lease_id else found.ranges
        slices = machine.segments_of(found.queue_id, ranges)
        if found.delivery_counts:
            slices = counted(slices, found.ranges, found.delivery_counts)
        member_queue = machine.queue(found.queue_id).name if self.fan_in.is_macro(consumer.queue_id) else ""
        name = member_queue or consumer.queue
        done = LeaseDone(found.queue_id, name, found.lease_id, slices, duplicate=True, member_queue=member_queue)
        self.orders.when_committed(
            self.shared.log.last_index,
            lambda: self.orders.reply(consumer.waiter, done),
            lambda: self.orders.reply(consumer.waiter, Moved("the mastership moved; repeat the call")),
        )

    def resume(self, queue: str, client_id: bytes, last_lease_id: int) -> None:
        """A consumer is back and says which lease it received last: what it was given after that never reached it.

        Without this such messages would come again only when their lease ends, out of order by as much.
        """
        machine = self.orders.machine
        source_id = machine.source_id(queue)
        if source_id is None:
            return
        lost: dict[int, list[Settlement]] = {}
        for lease in machine.leases_above(source_id, client_id, last_lease_id):
            ranges = machine.left_of_lease(lease.lease_id)
            release = Settlement(lease_id=lease.lease_id, ranges=ranges, outcome=Outcome.OUTCOME_RELEASE)
            lost.setdefault(lease.queue_id, []).append(release)
        for queue_id, settlements in lost.items():
            call = SettleCall(machine.queue(queue_id).name, settlements)
            plan = plan_settle(machine.state, self.orders.time_ms, call)
            if plan.header is not None:
                self.orders.order(plan.header)

    def exact_of(self, queue: str) -> Exact:
        """The index of a queue's correlation and group ids; of a queue that is gone it is forgotten."""
        machine = self.orders.machine
        for queue_id in [known for known in self.exact if not machine.has_queue(known)]:
            del self.exact[queue_id]
        return self.exact.setdefault(machine.queue_id(queue) or 0, Exact())

    def on_macro(self, name: str) -> None:
        """It has other members now, or is gone: whoever cannot be served there now is sent away."""
        machine = self.orders.machine
        macro = machine.state.macros.by_name.get(name)
        if macro is not None:
            self._check_waiting(macro.queue_id)
            self._pump_macro(macro.queue_id)
            return
        for queue_id in [each for each in self.turns if not machine.has_queue(each) and not self.fan_in.is_macro(each)]:
            for consumer in [each for each in self.turns[queue_id] if each.queue == name]:
                self._remove(consumer)
                self.orders.reply(consumer.waiter, deleted(consumer))

    def on_queue(self, queue_id: int) -> None:
        """It was closed, disabled or deleted, perhaps: whoever could not attach now is sent away (R042, R163)."""
        for each in (queue_id, *self.orders.machine.state.macros.of_member.get(queue_id, ())):
            self._check_waiting(each)

    def _check_waiting(self, queue_id: int) -> None:
        for consumer in tuple(self.turns.get(queue_id, ())):
            try:
                self._check_queue(consumer)
            except Refused as refused:
                self.detach(consumer)
                self.orders.reply(consumer.waiter, Failed(refused.reason, refused.message, dict(refused.metadata)))

    def make_way(self, side_id: int, client_id: bytes, connection: str, *, anew: bool) -> Refused | None:
        """A stream of a side opens (K7): an older one of the same client id is over, for two would share one sequence.
        It has most likely broken; a process that lives hears of it (TWIN_TAKEN). Refused: where a consumer comes anew
        over the connection of the older one, that one lives.
        """
        turn = self.turns.get(side_id, ())
        older = [each for each in turn if each.client_id == client_id and not each.waiter.cancelled]
        if not older:
            return None
        refused = taken(older[0].queue, self.shared.member)
        if anew and any(each.connection == connection for each in older):
            return refused
        self.send_away(side_id, refused, older)
        return None

    def send_away(self, queue_id: int, refused: Refused, consumers: Iterable[Consumer] | None = None) -> None:
        """These, or all, are served there no more."""
        for consumer in tuple(self.turns.get(queue_id, ()) if consumers is None else consumers):
            self._remove(consumer)
            failed = Failed(refused.reason, refused.message, dict(refused.metadata))
            self.orders.reply(consumer.waiter, failed)

    def detach(self, consumer: Consumer) -> None:
        """A consumer leaves; its leases run on until they are settled or end."""
        self._remove(consumer)
        if consumer.queue_id in self.sole.active:
            self.pump([consumer.queue_id])

    def _remove(self, consumer: Consumer) -> None:
        turn = self.turns.get(consumer.queue_id)
        if consumer.attached and turn is not None:
            consumer.detach()
            self.count -= 1
            turn.remove(consumer)
            if not turn:
                del self.turns[consumer.queue_id]
                self.sole.forget(consumer.queue_id)

    def on_credit(self, consumer: Consumer) -> None:
        """A consumer can take more."""
        if consumer.attached:
            self.pump([consumer.queue_id])

    def pump(self, queue_ids: Iterable[int]) -> None:
        """Hand out what is ready, in turn, while there is credit."""
        if not self.turns or not self.mastership.commit.can_commit:
            return
        macros = self.orders.machine.state.macros
        for queue_id in queue_ids:
            if queue_id in macros.by_id:
                self._pump_macro(queue_id)
            elif queue_id in self.turns and self._is_free(queue_id):
                self._pump_queue(queue_id)
            if macros.of_member:
                for macro_id in macros.of_member.get(queue_id, ()):
                    self._pump_macro(macro_id)

    def _is_free(self, queue_id: int) -> bool:
        """Whether something of it may be leased now."""
        # What a consumer was leased ahead is delivered first: leases reach it in their order (`resume`).
        if self._is_at_hand is not None and not self._is_at_hand(queue_id):
            return False
        return queue_id not in self.ahead.under_way

    def lease_ahead(self, op: EnqueueOp, log_index: int) -> None:
        """These messages are ordered by that record, the last one, and not committed; see `ahead`."""
        turn = self.turns.get(op.queue_id)
        if turn and self.mastership.commit.can_commit:
            self.ahead.lease(turn, op, log_index)

    def pump_all(self) -> None:
        """After a pause of any kind."""
        self.pump(list(self.turns))

    def look(self) -> None:
        """At each tick, at some queues in turn; a Dequeue call ends by itself where its queue is gone."""
        for queue_id in (some := self._rounds.some(self.turns)):
            if not self.orders.machine.has_queue(queue_id) and not self.fan_in.is_macro(queue_id):
                for consumer in [other for other in self.turns.get(queue_id, ()) if not other.one_shot]:
                    self._remove(consumer)
                    self.orders.reply(consumer.waiter, deleted(consumer))
        self.pump(some)

    def _pump_sole(self, queue_id: int) -> None:
        machine = self.orders.machine
        while machine.has_ready(queue_id) and (turn := self.turns.get(queue_id)):
            consumer = self.sole.served(machine, queue_id, turn)
            if consumer is None:
                return
            if consumer.waiter.cancelled:
                self._remove(consumer)
                continue
            if (consumer.request_id or consumer.unit) and self._is_spent(consumer):
                continue
            header = self._plan(consumer) if consumer.credit_messages > 0 and consumer.credit_bytes > 0 else None
            if header is None:
                return
            self._lease(consumer, header)

    def _is_spent(self, consumer: Consumer) -> bool:
        """Its request id was used by another call while it waited: answered as if it had come after that one. Or its
        unit of work may get nothing any more.
        """
        try:
            found = self._given(consumer)
        except Refused as refused:
            self._remove(consumer)
            failed = Failed(refused.reason, refused.message, dict(refused.metadata), refused.retry_after_ms)
            self.orders.reply(consumer.waiter, failed)
            return True
        if found is None:
            return False
        self._remove(consumer)
        self._repeat(consumer, found)
        return True

    def _plan(self, consumer: Consumer, queue_id: int = 0, most: int = 0) -> RecordHeader | None:
        # A filter has read what it chose, as whoever goes round damage has.
        wanted = consumer.wanted or self.damage.narrower()
        header = self._planned(consumer, wanted, queue_id, most)
        if header is not None and wanted is None and self.damage.is_met(self.orders.machine, header.lease):
            header = self._planned(consumer, self.damage.sound, queue_id, most)
        return header

    def _planned(
        self, consumer: Consumer, wanted: Narrower | None, queue_id: int = 0, limit: int = 0
    ) -> RecordHeader | None:
        """`queue_id`: of the member, where it waits at a macro queue; and what that may give at once, if not 0."""
        queue_id = queue_id or consumer.queue_id
        state = self.orders.machine.state
        if state.kept:
            wanted = self.orders.parts.kept.past(queue_id, wanted)
        most, until_ms = min(consumer.credit_messages, limit or DELIVERY_MESSAGES_MAX, DELIVERY_MESSAGES_MAX), 0
        if consumer.unit:
            most, until_ms = min(most, self._check_unit(consumer)), self.orders.units.ends_ms(consumer.unit)
        call = LeaseCall(
            queue_id,
            most,
            min(consumer.credit_bytes, DELIVERY_BYTES_MAX),
            consumer.client_id,
            consumer.duration_ms,
            bool(consumer.immediate),
            consumer.request_id,
            consumer.request_hash,
            wanted,
            consumer.unit,
            until_ms,
        )
        return plan_lease(state, self.orders.time_ms, call)

    def _pump_queue(self, queue_id: int) -> None:
        machine = self.orders.machine
        if machine.is_single_active(queue_id):
            self._pump_sole(queue_id)
            return
        self.sole.forget(queue_id)
        idle = 0
        while True:
            turn = self.turns.get(queue_id)
            if not turn or idle >= len(turn) or not machine.has_ready(queue_id):
                return
            consumer = turn[0]
            turn.rotate(-1)
            if consumer.waiter.cancelled:
                self._remove(consumer)
                continue
            if (consumer.request_id or consumer.unit) and self._is_spent(consumer):
                continue
            if consumer.credit_messages <= 0 or consumer.credit_bytes <= 0:
                idle += 1
                continue
            header = self._plan(consumer)
            if header is None and consumer.wanted is not None:
                idle += 1  # nothing that fits it; the others may want what is there
                continue
            if header is None:
                return
            idle = 0
            self._lease(consumer, header)

    def _pump_macro(self, macro_id: int) -> None:
        """In turn, as at a queue; each of them is given what the members have then (R082)."""
        if not self.mastership.commit.can_commit:
            return
        idle = 0
        empty: set[tuple[str, bool]] = set()
        while (turn := self.turns.get(macro_id)) and idle < len(turn):
            consumer = turn[0]
            turn.rotate(-1)
            if consumer.waiter.cancelled:
                self._remove(consumer)
                continue
            if consumer.request_id and self._is_spent(consumer):
                continue
            if consumer.credit_messages <= 0 or consumer.credit_bytes <= 0:
                idle += 1
                continue
            kind = (consumer.member, bool(consumer.immediate))
            given = self.fan_in.plan(consumer) if kind not in empty else None
            if given is None:
                empty.add(kind)  # others may be served by members that are not open to it
                idle += 1
                continue
            idle = 0
            if isinstance(given, FarLease):
                consumer.charge(given.size)
                if consumer.one_shot:
                    self._remove(consumer)
            else:
                self._lease(consumer, given)

    def _waiting_at(self, macro_id: int) -> list[Consumer]:
        return [each for each in self.turns.get(macro_id, ()) if not each.waiter.cancelled]

    def take_back(self, consumer: Consumer, messages: int) -> None:
        """What was on its way to it from another manager does not come."""
        consumer.charge(-messages)
        if consumer.attached:
            self._pump_macro(consumer.queue_id)

    def _lease(self, consumer: Consumer, header: RecordHeader) -> None:
        machine = self.orders.machine
        op = header.lease
        if consumer.immediate:
            # Looked up before the record is applied: it takes the messages out of the index.
            slices = machine.segments_of(op.queue_id, op.ranges)
            log_index = self.orders.order(header, keep_bodies=True)
        else:
            # After: the count rises with the lease, and what this delivery says includes it.
            log_index = self.orders.order(header)
            slices = machine.segments_of(op.queue_id, op.ranges)
        lease_id = 0 if consumer.immediate else lease_id_of(self.shared.state.epoch, log_index)
        if consumer.unit:
            self.orders.units.on_got(lease_id, op)
        member_queue = machine.queue(op.queue_id).name if op.macro_id else ""
        name = member_queue or consumer.queue
        done = LeaseDone(op.queue_id, name, lease_id, slices, duplicate=False, member_queue=member_queue)
        consumer.charge(sum(part.count for part in op.ranges))
        if consumer.one_shot:
            self._remove(consumer)
            self.orders.when_committed(
                log_index,
                lambda: self.orders.reply(consumer.waiter, done),
                lambda: self.orders.reply(consumer.waiter, Moved("the mastership moved; repeat the call")),
            )
        elif consumer.immediate or machine.is_ordered(op.queue_id):
            # Else a new master that never heard of the lease would give the message, and the next of its group, to
            # others while this consumer is at work on it.
            self.orders.when_committed(log_index, lambda: self.shared.outbox.add(Deliver(consumer, done)), lambda: None)
        else:
            self.shared.outbox.add(Deliver(consumer, done))

    def on_following(self) -> None:
        """Another member is master: send everybody there."""
        turns, self.turns = self.turns, {}
        self.exact.clear()
        self.fan_in.forget()
        self.damage.forget()
        self.ahead.under_way.clear()
        self.sole.active.clear()
        self.count = 0
        for turn in turns.values():
            for consumer in turn:
                consumer.detach()
                self.orders.reply(consumer.waiter, Moved("the master is the other member; open the stream again"))
