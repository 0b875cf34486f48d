"""Shows what an open unit of work has: a line about it, and the messages that its record will have. Decides nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tandemq.v1 import queue_service_pb2 as queue_pb2
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.ordering.open_unit import OpenUnit

SLICE_PUTS = 500
"""Read again at a time: everybody else is served between two slices."""


def row_of(domain: Domain, unit: OpenUnit, now_ms: int) -> pb.OpenUnit:
    """As ListUnits shows it."""
    machine = domain.shared.machine
    assert machine is not None, "who serves has the queues' state"
    names = sorted(machine.queue(each).name for each in unit.queue_ids if machine.has_queue(each))
    row = pb.OpenUnit(
        unit_id=unit.unit_id,
        client_id=unit.client_id,
        messages_locked=unit.locked,
        messages_put=unit.messages,
        calls=len(unit.asked),
        reactions=len(unit.reactions),
        queues=names,
    )
    row.age.FromMilliseconds(max(0, now_ms - unit.begun_ms))
    row.left.FromMilliseconds(max(0, unit.ends_ms - now_ms))
    return row


async def rows_of(unit: OpenUnit) -> list[Message]:
    """What it puts, queue by queue, and its answers behind that."""
    rows: list[Message] = []
    puts = [put for each in unit.puts.values() for put in each]
    for start in range(0, len(puts), SLICE_PUTS):
        if start:
            await asyncio.sleep(0)
        for put in puts[start : start + SLICE_PUTS]:
            rows += queue_pb2.EnqueueRequest.FromString(put.request).messages
    answers = [each.answer for replies in unit.replies.values() for each in replies]
    for start in range(0, len(answers), SLICE_PUTS):
        if start:
            await asyncio.sleep(0)
        rows += map(Message.FromString, answers[start : start + SLICE_PUTS])
    return rows
