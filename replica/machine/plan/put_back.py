"""Decides what an administrator's batch becomes that puts messages back: all of it enters, or nothing; changes nothing.

A part that was refused would be remembered as executed, and the repetition would never bring it. What is there already
consumes its sequence and nothing more. Nothing is dropped to make room: that would take away what is newer.
"""

from __future__ import annotations

from collections.abc import Collection

from replica.machine.plan.columns import Columns
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


def put_back(queue: QueueState, columns: Columns, left_out: Collection[int]) -> tuple[list[record_pb2.Refusal], int]:
    """Entries that are there already, and the payload bytes of the others. Refused when one of them does not fit."""
    sizes = [size for ordinal, size in enumerate(columns.sizes) if ordinal not in left_out]
    config, payload_bytes = queue.config, sum(sizes)
    too_large = max(sizes, default=0) > config.max_message_bytes
    length, size = queue.length + len(sizes), queue.bytes + payload_bytes
    if too_large or length > config.max_length or (config.max_bytes and size > config.max_bytes):
        reason = common_pb2.REASON_MESSAGE_TOO_LARGE if too_large else common_pb2.REASON_QUEUE_FULL
        text = f"queue {queue.name} cannot take all that is put back: raise its limits, or close it to other producers"
        raise Refused(reason, text)
    there = common_pb2.REASON_INVALID_STATE
    return [record_pb2.Refusal(ordinal=ordinal, reason=there) for ordinal in sorted(left_out)], payload_bytes
