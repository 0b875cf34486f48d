"""Decides which new messages are leased in the step that orders them, as the record behind theirs.

One frame to the peer and one commit carry both. The message is delivered when its own record is committed; as of any
lease, that record need not be (rulings.md 13). A member holds both records, the first, or none: the log has an order.

It is done in the plain case alone, where the lease that is ordered now is the one that would be ordered at the commit.
Of a queue there is one under way: what is ordered meanwhile is leased together, once it is committed. One that waits
too long is taken back (docs/decisions/0057-leased-ahead.md).
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
    from collections.abc import Callable, Iterable, Sequence

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Consumer
    from replica.core.state.shared import Shared
    from replica.machine import Narrower
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader
    from tandemq.v1.common_pb2 import IndexRange

COMING = Coming()
WAIT_MS_MAX = 1_000
"""For a commit, which takes milliseconds. A disk that hangs is felt after seconds, and until then nothing else of the
queue is delivered. Half of a shorter lease: none ends, and counts as a delivery, that nobody was given.
"""


class Given(NamedTuple):
    """A lease that is ordered and not delivered."""

    consumer: Consumer
    queue_id: int
    lease_id: int
    messages: int
    until_ms: int
    """Domain time after which it is taken back; 0: as soon as something may be ordered."""


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
        self.under_way: dict[int, Given] = {}
        """By queue. Nobody is leased anything else of it meanwhile."""

    def lease(self, turn: deque[Consumer], op: EnqueueOp, log_index: int) -> None:
        """Messages are ordered by that record, the last one: lease them to the first in turn that has credit, if that
        is plain. What it has no credit for waits for the commit.
        """
        place = _first(turn) if self._is_plain(op) else None
        if place is None:
            return
        consumer = turn[place]
        header = self._planned(consumer, COMING)
        if header is None:
            return  # delayed or expired: it is still his turn
        turn.rotate(-place - 1)
        count = sum(part.count for part in header.lease.ranges)
        lease_id = lease_id_of(self.shared.state.epoch, self.orders.order(header, leased=True))
        consumer.charge(count)
        until_ms = header.time_ms + min(WAIT_MS_MAX, header.lease.duration_ms // 2)
        given = self.under_way[op.queue_id] = Given(consumer, op.queue_id, lease_id, count, until_ms)
        self.orders.when_committed(log_index, lambda: self._on_committed(given), lambda: None)

    def look(self) -> None:
        """At each tick, before time ends any lease: take back what waits for too long."""
        for given in [given for given in self.under_way.values() if self.orders.time_ms > given.until_ms]:
            self._take_back(given)

    def _is_plain(self, op: EnqueueOp) -> bool:
        """Whether a lease at the commit would be of these messages, and nothing but a lease."""
        machine = self.orders.machine
        queue = machine.queue(op.queue_id)
        return not (
            not op.first_index  # all of it was refused
            or op.queue_id in self.under_way
            or op.queue_id in machine.state.kept  # a kept reaction is asked first
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
        consumer, queue_id, lease_id, messages, _ = given
        if self.under_way.get(queue_id) is not given:
            return  # it was taken back
        machine = self.orders.machine
        ranges = machine.left_of_lease(lease_id)
        if not ranges or not self._is_timely(given, ranges):
            self._take_back(given)
            return
        del self.under_way[queue_id]
        consumer.charge(sum(part.count for part in ranges) - messages)
        slices = machine.segments_of(queue_id, ranges)
        done = LeaseDone(queue_id, consumer.queue, lease_id, slices, duplicate=False)
        self.shared.outbox.add(Deliver(consumer, done))

    def _is_timely(self, given: Given, ranges: Sequence[IndexRange]) -> bool:
        """Whether it would be leased now as it was: the stream is there, the lease is young, and nothing of it has
        expired.
        """
        consumer, time_ms = given.consumer, self.orders.time_ms
        return (
            consumer.attached
            and not consumer.waiter.cancelled
            and time_ms <= given.until_ms
            and not self.orders.machine.has_expired(given.queue_id, ranges, time_ms)
        )

    def _take_back(self, given: Given) -> None:
        """As if it had not been leased: else its messages came again only when the lease ends, as delivered before."""
        if not self.shared.serving or self.shared.draining:
            self.under_way[given.queue_id] = given._replace(until_ms=0)
            return
        del self.under_way[given.queue_id]
        given.consumer.charge(-given.messages)
        machine = self.orders.machine
        ranges = machine.left_of_lease(given.lease_id)
        if ranges:
            returned = Settlement(lease_id=given.lease_id, ranges=ranges, outcome=OUTCOME_RELEASE)
            call = SettleCall(machine.queue(given.queue_id).name, [returned])
            plan = plan_settle(machine.state, self.orders.time_ms, call)
            assert plan.header is not None, "what a lease holds can be returned"
            self.orders.order(plan.header)
        self._pump([given.queue_id])


def _first(turn: deque[Consumer]) -> int | None:
    """The place of who is served next, as `Consumers` would. None: somebody before it needs more than a plain lease, or
    nobody has credit.
    """
    for place, consumer in enumerate(turn):
        if (
            consumer.waiter.cancelled
            or consumer.one_shot
            or consumer.immediate
            or consumer.request_id
            or consumer.wanted is not None
        ):
            return None
        if consumer.credit_messages > 0 and consumer.credit_bytes > 0:
            return place
    return None
