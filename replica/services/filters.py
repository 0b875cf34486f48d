"""Filters as the shell sees them: refused when they cannot work, given the store to read from, and run page by page.

What fits is decided in `selecting`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from replica.core.messages import bodies, copies
from replica.core.selection.filters import Filter, Read, filter_of
from replica.core.selection.selecting import LOOKS_MAX, Matcher, find
from replica.core.state.outcomes import Failed, Moved
from replica.machine import Refused
from replica.rpc.refusals import abort
from replica.services.answers import header_of
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_service_pb2 import BrowsePageRequest, BrowsePageResponse, EnqueueBatch

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.selection.selecting import ReadRecord
    from replica.core.state.calls import Consumer
    from replica.machine import Machine
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import DeliveredMessage, MessageFilter

PAGE_LOOKS_MAX = 100_000
"""Messages that one page of a filtered browse looks at; then it ends, perhaps empty, and says where to go on."""


def reader_of(members: Members, domain: Domain) -> ReadRecord:
    """Reads records for a filter: from memory, else from the store."""

    def read(log_index: int) -> Read | None:
        stored = bodies.read_stored(members.node.store, domain.shared, log_index)
        return None if stored is None else Read(EnqueueBatch.FromString(stored.body).messages, stored.time_ms)

    return read


async def check(asked: MessageFilter, context: Any) -> Filter | None:
    """None: nothing is limited. A filter that cannot work ends the call."""
    try:
        return filter_of(asked)
    except Refused as refused:
        await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))


def matcher_of(members: Members, domain: Domain, queue: str, asked: Filter | None) -> Matcher | None:
    """For a consumer at this master; None: it takes everything. What is damaged fits nobody here."""
    if asked is None or domain.shared.machine is None:
        return None
    exact = domain.consumers.exact_of(queue)
    return Matcher(asked, copies.careful(reader_of(members, domain)), exact, domain.shared.domain, members.pace)


async def look_through(members: Members, domain: Domain, consumer: Consumer) -> None:
    """Until something was found for it or all has been looked at; everybody else has as much of the loop.

    One of those who look does so for all of them: each turn serves everybody who waits at that queue.
    """
    matcher = consumer.wanted
    while matcher is not None and consumer.attached and matcher.looking:
        async with members.looking:
            await asyncio.sleep(members.pace.rest_s())
            if matcher.looking:
                domain.consumers.on_credit(consumer)
                members.node.dispatch(domain)


async def browse_page(
    members: Members, domain: Domain, machine: Machine, request: BrowsePageRequest, asked: Filter, limit: int
) -> bytes | Moved:
    """One page of what fits; Moved when the mastership went meanwhile, and with it what was looked through."""
    epoch = domain.shared.state.epoch
    queue_id = machine.queue_id(request.queue)
    at, looks, ranges = request.from_index or 1, PAGE_LOOKS_MAX, list[IndexRange]()
    read, room = reader_of(members, domain), limit
    pace = members.pace
    while at and room and looks > 0 and queue_id is not None and machine.has_queue(queue_id):
        if not pace.begin():
            await asyncio.sleep(pace.rest_s())  # everybody else has as much of the loop
            if not domain.shared.serving or domain.shared.state.epoch != epoch:
                return Moved("the mastership moved; repeat the call")
            continue
        held = machine.browse(queue_id, at, LOOKS_MAX)
        runs = [(part.first, part.first + part.count) for part in held]
        try:
            found = find(
                machine.queue(queue_id),
                asked,
                read,
                domain.shared.domain,
                held=runs,
                most=room,
                looks=LOOKS_MAX,
                over=pace.is_over,
            )
        finally:
            pace.end()
        ranges += [IndexRange(first=start, count=end - start) for start, end in found.ranges]
        room -= sum(end - start for start, end in found.ranges)
        looks -= LOOKS_MAX
        seen = sum(part.count for part in held)
        at = found.next_index or (runs[-1][1] if seen >= LOOKS_MAX else 0)
    rows: list[DeliveredMessage] = []
    if queue_id is not None and machine.has_queue(queue_id):
        slices = machine.segments_of(queue_id, ranges, delivered=False)
        rows, at = bodies.page(members.node.store, domain.shared, request.queue, slices, at)
    header = header_of(members, domain)
    return BrowsePageResponse(header=header, messages=rows, next_index=at).SerializeToString()
