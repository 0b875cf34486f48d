"""What a client asks of a member in this process, as its SDK would, without the network: one answer or one refusal."""

from __future__ import annotations

import asyncio
from typing import Any

from tandemq.v1 import common_pb2, message_pb2, queue_admin_service_pb2, queue_service_pb2
from tests.fuzz.world import AbortedError, Context

CALL_S = 0.2


class Client:
    """Calls at one pair, numbered so that each has an identity of its own."""

    def __init__(self, handler_of: Any) -> None:
        self._handler_of = handler_of
        self._requests = 0

    async def call(self, member: str, service: str, method: str, request: Any) -> bytes | None:
        """The reply; None when it was refused or not answered in time."""
        if "request_id" in request.DESCRIPTOR.fields_by_name:
            self._requests += 1
            request.request_id = self._requests.to_bytes(16, "big")
        handler = self._handler_of(member, f"/tandemq.v1.{service}/{method}")
        try:
            async with asyncio.timeout(CALL_S):
                reply: bytes = await handler.unary_unary(request.SerializeToString(), Context(seconds=CALL_S))
                return reply
        except (AbortedError, TimeoutError):
            return None

    async def create(self, member: str, queue: str, **attributes: Any) -> bool:
        config = queue_admin_service_pb2.QueueConfig(**attributes)
        request = queue_admin_service_pb2.CreateQueueRequest(name=queue, config=config)
        return await self.call(member, "QueueAdminService", "CreateQueue", request) is not None

    async def send(self, member: str, queue: str, payloads: list[bytes], **more: Any) -> bool:
        messages = [message_pb2.Message(payload=payload, **more) for payload in payloads]
        request = queue_service_pb2.EnqueueRequest(queue=queue, messages=messages)
        return await self.call(member, "QueueService", "Enqueue", request) is not None

    async def receive(self, member: str, queue: str, count: int, *, ack: bool) -> int:
        """How many messages were received."""
        request = queue_service_pb2.DequeueRequest(queue=queue, max_messages=count, client_id=b"c")
        data = await self.call(member, "QueueService", "Dequeue", request)
        if data is None:
            return 0
        reply = queue_service_pb2.DequeueResponse.FromString(data)
        if ack and reply.lease_id:
            ranges = [common_pb2.IndexRange(first=row.index, count=1) for row in reply.messages]
            settlement = queue_service_pb2.Settlement(
                lease_id=reply.lease_id, ranges=ranges, outcome=queue_service_pb2.OUTCOME_ACK
            )
            settle = queue_service_pb2.SettleRequest(queue=queue, settlements=[settlement])
            await self.call(member, "QueueService", "Settle", settle)
        return len(reply.messages)
