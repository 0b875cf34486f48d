"""Who may wait at a macro queue, and which of its members serves him next. It is decided at each lease, over the
members as they are then; nothing of it is kept between two leases (R082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import Refused
from replica.machine.plan.fan_in import asked_in_order, check_takes
from replica.machine.plan.lease import immediate_problem
from replica.machine.plan.members import queues_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Consumer
    from replica.core.state.shared import Shared
    from replica.machine import QueueState
    from tandemq.peer.v1.record_pb2 import RecordHeader


class FanIn:
    """The macro queues of one domain, for its consumers."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        plan: Callable[[Consumer, int, int], RecordHeader | None],
        is_free: Callable[[int], bool],
    ) -> None:
        """`plan`: a lease of what a member has for a consumer, of so many messages at most (0: any number).
        `is_free`: whether a queue may give anything now.
        """
        self.shared = shared
        self.orders = orders
        self._plan, self._is_free = plan, is_free

    def is_macro(self, queue_id: int) -> bool:
        """Whether that number is a macro queue's."""
        return queue_id in self.orders.machine.state.macros.by_id

    def check(self, consumer: Consumer) -> int:
        """Number of the macro queue that it names. Refused where it cannot be served there."""
        state = self.orders.machine.state
        macro = state.macros.by_name[consumer.queue]
        check_takes(macro, producing=False)
        if consumer.immediate and any(map(_is_two_way, queues_of(state, macro.members))):
            raise Refused(Reason.REASON_REPLY_REQUIRED, immediate_problem(macro.name), {"queue": macro.name})
        for what, asked in (("a filter", consumer.wanted is not None), ("a unit of work", bool(consumer.unit))):
            if asked:
                text = f"{macro.name} is a macro queue, which does not serve {what}; receive from its members"
                raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": macro.name})
        return macro.queue_id

    def answered_at(self, queue: str, lease_id: int) -> str:
        """The queue that a request of that lease is in, where it was received from a macro queue and is in a member of
        it; else the same.
        """
        state = self.orders.machine.state
        macro, lease = state.macros.by_name.get(queue), state.leases.get(lease_id)
        if macro is None or lease is None or lease.queue_id not in macro.members:
            return queue
        return state.queues[lease.queue_id].name

    def plan(self, consumer: Consumer) -> RecordHeader | None:
        """A lease of the first member that has something for it; None: none has."""
        state = self.orders.machine.state
        macro = state.macros.by_id.get(consumer.queue_id)
        if macro is None:
            return None
        member, now_ms = consumer.member or self.shared.member, self.orders.time_ms
        for queue, most in asked_in_order(state, macro, now_ms, immediate=bool(consumer.immediate)):
            if member not in queue.open_members or not self._is_free(queue.queue_id):
                continue
            header = self._plan(consumer, queue.queue_id, most)
            if header is not None:
                header.lease.macro_id = macro.queue_id
                return header
        return None


def _is_two_way(queue: QueueState) -> bool:
    return queue.config.queue_type == QUEUE_TYPE_TWO_WAY
