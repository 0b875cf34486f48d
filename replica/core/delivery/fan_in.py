"""Who may wait at a macro queue, and which of its members serves him next. It is decided at each lease, over the
members as they are then; nothing of it is kept between two leases (R082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.delivery.far_heads import FarHeads
from replica.machine import Refused
from replica.machine.plan.fan_in import COMPARING, FarHead, asked_among, asked_in_order, check_takes
from replica.machine.plan.lease import immediate_problem
from replica.machine.plan.members import queues_of
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Consumer
    from replica.core.state.outcomes import FarLease
    from replica.core.state.shared import Shared
    from replica.machine import QueueState
    from replica.machine.state.macros import MacroQueue
    from tandemq.peer.v1.record_pb2 import RecordHeader

ENTERED_MAX = 10_000
"""Records whose time is known without reading them."""


class FanIn:
    """The macro queues of one domain, for its consumers."""

    def __init__(
        self,
        shared: Shared,
        orders: Orders,
        plan: Callable[[Consumer, int, int], RecordHeader | None],
        is_free: Callable[[int], bool],
        waiting_at: Callable[[int], list[Consumer]],
    ) -> None:
        """`plan`: a lease of what a member has for a consumer, of so many messages at most (0: any number).
        `is_free`: whether a queue may give anything now. `waiting_at`: who is at a macro queue, in turn.
        """
        self.shared = shared
        self.orders = orders
        self.far = FarHeads(shared, waiting_at)
        self._plan, self._is_free = plan, is_free
        self._entered: dict[int, int] = {}

    def is_macro(self, queue_id: int) -> bool:
        """Whether that number is a macro queue's."""
        return queue_id in self.orders.machine.state.macros.by_id

    def check(self, consumer: Consumer) -> int:
        """Number of the macro queue that it names. Refused where it cannot be served there."""
        state = self.orders.machine.state
        macro = state.macros.by_name[consumer.queue]
        check_takes(macro, producing=False)
        if consumer.immediate and (proxy := next(filter(None, map(state.proxies.by_id.get, macro.members)), None)):
            text = f"{macro.name} has a member at another manager ({proxy.target}), and what is removed at delivery"
            text = f"{text} would be lost with the master here: receive under a lease (LEASE), or from its members"
            raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": macro.name, "member": proxy.name})
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

    def plan(self, consumer: Consumer) -> RecordHeader | FarLease | None:
        """A lease of the first member that has something for it; None: none has, or it is not known yet. FarLease: of
        a queue of another manager, and on its way.
        """
        state = self.orders.machine.state
        macro = state.macros.by_id.get(consumer.queue_id)
        if macro is None:
            return None
        now_ms, immediate = self.orders.time_ms, bool(consumer.immediate)
        if not (far := self.far.of(state, macro)):
            for queue, most in asked_in_order(state, macro, now_ms, immediate=immediate):
                if (header := self._leased(consumer, macro, queue, most)) is not None:
                    return header
            return None
        heads = {each: head for each, member in far.items() if (head := member.head()) is not None}
        last = self.far.last(macro)
        for asked in asked_among(state, macro, now_ms, heads, self._entered_ms, immediate=immediate, last=last):
            if not isinstance(asked, FarHead):
                if (header := self._leased(consumer, macro, asked.queue, asked.most)) is not None:
                    self.far.gave_here(macro)
                    return header
            elif not asked.messages or not far[asked.proxy_id].gives_to(consumer):
                break
            else:
                most = asked.messages if macro.policy in COMPARING else 0
                return self.far.give(macro, far[asked.proxy_id], consumer, most)
        self.far.wake()
        return None

    def _leased(self, consumer: Consumer, macro: MacroQueue, queue: QueueState, most: int) -> RecordHeader | None:
        member = consumer.member or self.shared.member
        if member not in queue.open_members or not self._is_free(queue.queue_id):
            return None
        header = self._plan(consumer, queue.queue_id, most)
        if header is not None:
            header.lease.macro_id = macro.queue_id
        return header

    def _entered_ms(self, log_index: int) -> int:
        """When the messages of that record entered, by this pair's clock; of one that is damaged or gone: long ago, for
        its queue decides what becomes of it.
        """
        known = self._entered.get(log_index)
        if known is None:
            if len(self._entered) >= ENTERED_MAX:
                self._entered.clear()
            known = self._entered[log_index] = self._read_entered(log_index)
        return known

    def _read_entered(self, log_index: int) -> int:
        try:
            stored = self.orders.read(log_index)
        except CorruptRecord:
            return 0
        return stored.time_ms if stored is not None else 0

    def forget(self) -> None:
        """This member serves no more."""
        self.far.forget()
        self._entered.clear()


def _is_two_way(queue: QueueState) -> bool:
    return queue.config.queue_type == QUEUE_TYPE_TWO_WAY
