"""Makes the body of a record out of messages in rows. It has the same bytes whenever they are sent again, at either
member. What is too large is refused before it costs anything. Orders nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from replica.core.messages import bodies
from replica.machine import Refused, columns_of
from replica.machine.plan.content import check_content, check_counts
from replica.rpc.refusals import refusal
from replica.services.weighing import problem_of_request, too_many
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.state.outcomes import Failed
    from replica.machine import Columns, Limits
    from tandemq.v1.message_pb2 import Message

ROW_BYTES_MORE = 64
"""What a message may need more in rows than in columns: tags, lengths, two durations and a moment in nanoseconds."""
SLICE_PROPERTIES = 8_192
"""Copied at a time, about 10 ms: everybody else is served between two slices."""


def problem_of_size(request: bytes, limits: Limits) -> Failed | None:
    """What is wrong with a request before it is parsed. The exact limit is of the body, which is not made yet."""
    if len(request) > limits.batch_bytes_max + ROW_BYTES_MORE * limits.batch_messages_max:
        return refusal(Reason.REASON_MESSAGE_TOO_LARGE, _too_large(len(request), limits))
    return problem_of_request(request, limits)


def problem_of_unit_bytes(request: bytes, limits: Limits) -> Failed | None:
    """Of a unit, before it is parsed. The exact limit is of the body, which is not made yet."""
    if len(request) > limits.batch_bytes_max + ROW_BYTES_MORE * limits.batch_messages_max:
        return too_many("bytes", len(request), limits.batch_bytes_max)
    return None


async def columns_and_body(
    queue: str,
    rows: Sequence[Message],
    limits: Limits,
    too_large: Reason = Reason.REASON_MESSAGE_TOO_LARGE,
    *,
    managers: bool = False,
) -> tuple[Columns, bytes]:
    """What the machine must know of the messages, and the body of their record. Raises Refused.

    `queue`: named in the body; empty for messages of more than one.
    `too_large`: why a body beyond `batch_bytes_max` is refused.
    `managers`: see `check_content`.
    """
    if len(rows) > limits.batch_messages_max:
        text = f"{len(rows)} messages in a batch; it may have 1 to {limits.batch_messages_max}"
        raise Refused(Reason.REASON_BAD_REQUEST, text)
    counts = [len(row.properties) for row in rows]
    made = EnqueueBatch(queue=queue, messages=bodies.columns_without_properties(rows))
    if any(counts):
        check_counts(counts, len(rows), managers=managers)
        start = in_slice = 0
        for end, count in enumerate(counts, 1):
            in_slice += count
            if in_slice >= SLICE_PROPERTIES or end == len(counts):
                bodies.add_properties(made.messages, rows[start:end])
                start, in_slice = end, 0
                if end < len(counts):
                    await asyncio.sleep(0)
    check_content(made.messages, managers=managers)
    columns = columns_of(made)
    body = made.SerializeToString(deterministic=True)
    if len(body) > limits.batch_bytes_max:
        raise Refused(too_large, _too_large(len(body), limits))
    return columns, body


def _too_large(size: int, limits: Limits) -> str:
    return f"a batch of {size} bytes; the limit is {limits.batch_bytes_max}"
