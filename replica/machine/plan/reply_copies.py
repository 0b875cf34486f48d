"""Decides which requests may name a queue to which their answer is also sent (reply_to), and says what is owed;
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

REPLY_TO_BYTES_MAX = 255


def check_reply_tos(queue: QueueState, reply_tos: Sequence[str]) -> None:
    """Of a batch for a TWO_WAY queue; elsewhere it is for the consumer's eyes."""
    if queue.config.queue_type != admin_pb2.QUEUE_TYPE_TWO_WAY:
        return
    names = set(reply_tos)
    if not names.isdisjoint((queue.name, *queue.aliases)):
        text = f"reply_to is queue {queue.name} itself: each answer would be a request again; name another queue"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if (longest := max(len(name.encode()) for name in names)) > REPLY_TO_BYTES_MAX:
        text = f"a reply_to of {longest} bytes; a queue name has at most {REPLY_TO_BYTES_MAX}"
        raise Refused(common_pb2.REASON_BAD_NAME, text)


def addressed(queue: QueueState, reply_tos: Sequence[str]) -> list[int]:
    """1: the answer is also sent elsewhere; empty: no one is."""
    if queue.config.queue_type != admin_pb2.QUEUE_TYPE_TWO_WAY or not any(reply_tos):
        return []
    return [1 if name else 0 for name in reply_tos]


def is_addressed(queue: QueueState, index: int) -> bool:
    """The open request names a queue for a copy of its answer."""
    completions = queue.completions
    return completions is not None and completions.addressed.size > 0 and index in completions.addressed


def answer_log_index(queue: QueueState, index: int) -> int:
    """Of the record that answers a request, which is kept."""
    assert queue.completions is not None
    return queue.completions.read(index).log_index


def owed_of(state: State, queue_id: int) -> Mapping[str, Mapping[int, str]]:
    """By the queue that they are owed to: index of the request, correlation id. To read only."""
    queue = state.queues.get(queue_id)
    return queue.completions.owed if queue is not None and queue.completions is not None else {}
