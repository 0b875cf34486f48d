"""Decides whether a consumer may wait at a queue as that is now; changes nothing but the name it is called by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import Refused, disabled, immediate_problem
from replica.machine.plan.sides import refuse_where_sides
from replica.machine.state.system_names import shown
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY

if TYPE_CHECKING:
    from replica.core.state.calls import Consumer
    from replica.machine import Machine


def check_queue(machine: Machine, own: str, consumer: Consumer) -> int:
    """Number of the queue that it names. Refused: there is none, it is not open where the consumer is attached (`own`:
    this member), it gives nothing, or not as it is asked to.
    """
    queue_id = machine.queue_id(consumer.queue)
    if queue_id is None:
        raise Refused(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {consumer.queue!r}; create it first")
    queue = machine.queue(queue_id)
    refuse_where_sides(queue, "each side is consumed by a Consume stream at its member")
    member = consumer.member or own
    if member not in queue.open_members:
        raise Refused(
            Reason.REASON_INVALID_STATE,
            f"queue {shown(consumer.queue)} is not open at {member}; open it there first",
        )
    # An alias may go while it consumes, and what it holds must still be settled.
    consumer.resolve(queue.name)
    if not queue.config.dequeue_enabled:
        raise disabled(shown(consumer.queue), queue.config, receiving=True)
    if consumer.immediate and queue.config.queue_type == QUEUE_TYPE_TWO_WAY:
        raise Refused(Reason.REASON_REPLY_REQUIRED, immediate_problem(consumer.queue))
    return queue_id
