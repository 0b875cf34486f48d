"""Decides which new messages are leased in the step that orders them, as the record behind theirs.

One frame to the peer and one commit carry both. The message is delivered when its own record is committed; as of any
lease, that record need not be (rulings.md 13). A member holds both records, the first, or none: the log has an order.

It is done in the plain case alone, where the lease that is ordered now is the one that would be ordered at the commit.
Of a queue there is one under way: what is ordered meanwhile is leased together, once it is committed
(docs/decisions/0057-leased-ahead.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.effects import Deliver
from replica.core.state.outcomes import LeaseDone
from replica.machine import SettleCall, lease_id_of
from replica.machine.plan.lease import Coming
from replica.machine.plan.settle import plan_settle
from tandemq.v1.queue_service_pb2 import OUTCOME_RELEASE, Settlement

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Consumer
    from replica.core.state.shared import Shared
    from replica.machine import Narrower
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader

COMING = Coming()


class Given(NamedTuple):
    """A lease that is ordered and not delivered."""

    consumer: Consumer
    queue_id: int
    lease_id: int
    messages: int


class Ahead:
    """The leases of one domain that wait for the commit of their messages."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        planned: Callable[[Consumer, Narrower | None], RecordHeader | None],
        pump: Callable[[Iterable[int]], None],
    ) -> None:
        self.shared = shared
        self.orders = orders
        self._planned, self._pump = planned, pump
        self.under_way: set[int] = set()
        """Queues that have one. Nobody is leased anything else of them meanwhile."""

    def lease(self, turn: deque[Consumer], op: EnqueueOp, log_index: int) -> None:
        """Messages are ordered by that record, the last one: lease them to the first in turn that has credit, if that
        is plain. What it has no credit for waits for the commit.
        """
        if not self._is_plain(op):
            return
        consumer = _first(turn)
        if consumer is None:
            return
        header = self._planned(consumer, COMING)
        if header is None:
            return
        count = sum(part.count for part in header.lease.ranges)
        lease_id = lease_id_of(self.shared.state.epoch, self.orders.order(header, leased=True))
        consumer.charge(count)
        self.under_way.add(op.queue_id)
        given = Given(consumer, op.queue_id, lease_id, count)
        self.orders.when_committed(log_index, lambda: self._on_committed(given), lambda: None)

    def _is_plain(self, op: EnqueueOp) -> bool:
        """Whether a lease at the commit would be of these messages, and nothing but a lease."""
        machine = self.orders.machine
        queue = machine.queue(op.queue_id)
        return not (
            op.queue_id in self.under_way
            or op.volatiles
            or queue.config.single_active
            or queue.groups is not None
            or not queue.open_members
            or not queue.config.dequeue_enabled
            or machine.state.stages.hidden
            or self.shared.damaged
            # What is there already goes first: a consumer that gets credit until the commit is given that.
            or any(level.size and level.first < op.first_index for level in queue.ready)
        )

    def _on_committed(self, given: Given) -> None:
        """The messages are: deliver what the lease still holds. Time, or an administrator, may have taken some."""
        consumer, queue_id, lease_id, messages = given
        self.under_way.discard(queue_id)
        machine = self.orders.machine
        ranges = machine.left_of_lease(lease_id)
        consumer.charge(sum(part.count for part in ranges) - messages)
        if not ranges:
            return
        if consumer.attached and not consumer.waiter.cancelled:
            slices = machine.segments_of(queue_id, ranges)
            done = LeaseDone(queue_id, consumer.queue, lease_id, slices, duplicate=False)
            self.shared.outbox.add(Deliver(consumer, done))
        elif self.orders.mastership.commit.can_commit:
            # Its stream has ended since: else they came again only when the lease ends.
            returned = Settlement(lease_id=lease_id, ranges=ranges, outcome=OUTCOME_RELEASE)
            call = SettleCall(machine.queue(queue_id).name, [returned])
            plan = plan_settle(machine.state, self.orders.time_ms, call)
            if plan.header is not None:
                self.orders.order(plan.header)
                self._pump([queue_id])


def _first(turn: deque[Consumer]) -> Consumer | None:
    """Who is served next, as `Consumers` would; the next one has his turn after it. None: somebody before it needs more
    than a plain lease, or nobody has credit.
    """
    for _ in range(len(turn)):
        consumer = turn[0]
        if (
            consumer.waiter.cancelled
            or consumer.one_shot
            or consumer.immediate
            or consumer.request_id
            or consumer.wanted is not None
        ):
            return None
        turn.rotate(-1)
        if consumer.credit_messages > 0 and consumer.credit_bytes > 0:
            return consumer
    return None
