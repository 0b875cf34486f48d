"""Carries out single calls about messages: sends, takes, settles and browses them. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta

from tandemq import retry
from tandemq.client.calls import QUEUE_SERVICE, Attempts
from tandemq.client.consumer import Mode, to_mode
from tandemq.client.delivery import MessageBatch, ReceivedMessage
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_client_id, new_request_id
from tandemq.client.links import Linked
from tandemq.client.outgoing import Outgoing, rows_of
from tandemq.client.parts import RowsPart
from tandemq.client.receipts import Receipts, checked, receipts_of
from tandemq.client.settling import Act, Lost, Range, to_settlement
from tandemq.client.waits import Wait, to_wait
from tandemq.errors import Denied, NotFound, TandemqError, to_error
from tandemq.finding.names import is_full, parse_place
from tandemq.v1 import queue_service_pb2


class ReceivedBatch(MessageBatch):
    """The answer of one dequeue: messages under one lease, settled by calls that wait for their answer."""

    __slots__ = ("_asked", "_client", "_member")

    def __init__(self, client: Linked, reply: queue_service_pb2.DequeueResponse, queue: str) -> None:
        super().__init__(_member_of(queue, reply.member_queue), reply.lease_id, [RowsPart(reply.messages)])
        self._client, self._asked, self._member = client, queue, reply.member_queue

    async def ack(self) -> None:
        """Done: remove them. Raises LeaseLost when the member refused some."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK))

    async def release(self, delay: timedelta | None = None) -> None:
        """Not done: give them to somebody, at their old places, after `delay`."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE, delay=delay))

    async def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason))

    async def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease))

    async def _settle(self, act: Act) -> None:
        if not self.lease_id or not self:
            return
        asked = [(act, self.ranges())]
        lost = await (self._at_macro(asked) if self._member else settle(self._client, self._asked, asked))
        for loss in lost:
            raise loss.error

    async def _at_macro(self, asked: Sequence[tuple[Act, Sequence[Range]]]) -> list[Lost]:
        """By the name that was asked: whoever may receive from a macro queue need have no right on its members. Where
        that is gone, or the member has left it, by the member's own.
        """
        try:
            lost = await _settle(self._client, self._asked, asked, self._member)
        except NotFound:
            return await settle(self._client, self.queue, asked)
        if lost:
            with contextlib.suppress(NotFound, Denied):
                return await settle(self._client, self.queue, [(each.act, each.ranges) for each in lost])
        return lost


def _member_of(queue: str, member: str) -> str:
    """Of a macro queue, the member that gave something, as one speaks of it from here."""
    if not member or not is_full(queue):
        return member or queue
    manager = parse_place(queue).manager
    return f"//{manager}/{member}" if manager else queue


async def enqueue(
    client: Linked,
    queue: str,
    messages: Iterable[bytes | Outgoing],
    *,
    min_copies: int = 0,
    wait: Wait | None = None,
    request_id: bytes | None = None,
) -> Receipts:
    """Sends up to 10,000 messages by one call. Raises PartlyRefused with the receipts when some were refused.

    wait: how long for room in a full queue, in the order in which calls came to the master; seconds, -1 for ever;
        by default not at all. All of them enter together; at the end of the wait, what has room.
    Repeating it with the same `request_id` (16 bytes; None: a new one) has one effect and the same answer.
    """
    request = queue_service_pb2.EnqueueRequest(
        queue=queue,
        request_id=request_id or new_request_id(),
        messages=rows_of(messages),
        min_copies=min_copies,
        epoch=client.links.epoch_of(queue),
    )
    if room_wait := to_wait(wait):
        request.wait.FromTimedelta(room_wait)
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "Enqueue", request, queue_service_pb2.EnqueueResponse, queue=queue, wait=room_wait
    )
    return checked(receipts_of(reply.header, reply.results, duplicate=reply.duplicate, epoch=reply.id_epoch))


async def dequeue(
    client: Linked,
    queue: str,
    max_messages: int = 1,
    *,
    max_bytes: int = 0,
    wait: Wait | None = None,
    lease: timedelta | None = None,
    mode: Mode | None = None,
    client_id: bytes | str | None = None,
    request_id: bytes | None = None,
    where: str | Where | None = None,
) -> ReceivedBatch:
    """Receives up to `max_messages`; waits for the first one for `wait`, by default not at all. May be empty.

    wait: seconds, -1 for ever.
    """
    request = queue_service_pb2.DequeueRequest(
        queue=queue,
        request_id=request_id or new_request_id(),
        max_messages=max_messages,
        max_bytes=max_bytes,
        client_id=new_client_id(client_id),
        epoch=client.links.epoch_of(queue),
        filter=to_filter(where),
    )
    if message_wait := to_wait(wait):
        request.wait.FromTimedelta(message_wait)
    if lease is not None:
        request.lease_duration.FromTimedelta(lease)
    if mode is not None:
        request.settle_mode = to_mode(mode)
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "Dequeue", request, queue_service_pb2.DequeueResponse, queue=queue, wait=message_wait
    )
    return ReceivedBatch(client, reply, queue)


async def settle(
    client: Linked, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]], *, request_id: bytes | None = None
) -> list[Lost]:
    """Settles leased messages; returns the settlements that were refused, an empty list when none was."""
    return await _settle(client, queue, settlements, "", request_id)


async def _settle(
    client: Linked,
    queue: str,
    settlements: Sequence[tuple[Act, Sequence[Range]]],
    member: str,
    request_id: bytes | None = None,
) -> list[Lost]:
    """`member`: of a macro queue, that which gave them; empty: the queue itself did, or its manager knows."""
    request = queue_service_pb2.SettleRequest(
        queue=queue,
        request_id=request_id or new_request_id(),
        settlements=[to_settlement(act, ranges, member) for act, ranges in settlements],
        epoch=client.links.epoch_of(queue),
    )
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "Settle", request, queue_service_pb2.SettleResponse, queue=queue
    )
    return [
        Lost(
            act,
            tuple((entry.first, entry.count) for entry in result.refused) or tuple(ranges),
            to_error(result.error),
        )
        for (act, ranges), result in zip(settlements, reply.results, strict=False)
        if result.HasField("error")
    ]


async def browse(
    client: Linked, queue: str, *, from_index: int = 0, max_messages: int = 0, where: str | Where | None = None
) -> AsyncIterator[ReceivedMessage]:
    """Reads messages without changing anything, lowest index first; 0 means from the first one, and all there are.

    A broken stream goes on behind the last message that was read.
    """
    (members, caller), queue = client.links.at(queue)
    attempts = Attempts(members, client.links.policy, members.masters.domain_of(queue) or "main")
    given = 0
    while True:
        request = queue_service_pb2.BrowseRequest(
            queue=queue,
            from_index=from_index,
            max_messages=max_messages - given if max_messages else 0,
            filter=to_filter(where),
        )
        try:
            async for reply in caller.stream(
                await attempts.located(), QUEUE_SERVICE + "Browse", request, queue_service_pb2.BrowseResponse, None
            ):
                attempts.progress()
                members.learn(reply.header, queue)
                for message in MessageBatch(queue, 0, [RowsPart(reply.messages)]):
                    given += 1
                    from_index = message.index + 1
                    yield message
            return
        except TandemqError as error:
            if retry.failure_of(error) is None or (max_messages and given >= max_messages):
                raise
            delay_s = attempts.failed(error)
            if attempts.exhausted:
                raise
            await asyncio.sleep(delay_s)
