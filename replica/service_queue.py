"""QueueService: the calls of producers and consumers. Takes raw bytes, so that a call for the master is sent on as it
came.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from replica import bodies, forward, service_consume
from replica.answers import FutureWaiter, abort, entry_error, header_of, level_of, refusal
from replica.calls import Consumer, EnqueueCall, SettleCall
from replica.effects import EnqueueDone, Failed, LeaseDone, Moved, SettleDone
from replica.machine import Refused, columns_of, milliseconds
from replica.service_checks import problem_of_receiving, problem_of_ttl, stale_epoch
from replica.service_produce import ProduceStream
from tandemq.v1.common_pb2 import Completion, Reason
from tandemq.v1.common_pb2 import Warning as WarningKind
from tandemq.v1.queue_service_pb2 import (
    BrowsePageRequest,
    BrowsePageResponse,
    BrowseRequest,
    BrowseResponse,
    DequeueRequest,
    DequeueResponse,
    EnqueueBatch,
    EnqueueRequest,
    EnqueueResponse,
    EnqueueResult,
    SettleMode,
    SettleRequest,
    SettleResponse,
)

if TYPE_CHECKING:
    from replica.domain import Domain
    from replica.members import Members

SERVICE = "tandemq.v1.QueueService"
REQUEST_ID_BYTES = 16
DEQUEUE_BYTES = 4 << 20
DEQUEUE_MESSAGES_MAX = 10_000
BROWSE_PAGE = 100
BROWSE_PAGE_MAX = 1_000

Context = Any
M = TypeVar("M", bound=Message)


def fingerprint(*parts: bytes) -> int:
    """Tells a repetition of a unary call from another call under the same id."""
    chain = hashlib.blake2b(digest_size=8)
    for part in parts:
        chain.update(len(part).to_bytes(8, "big"))
        chain.update(part)
    return int.from_bytes(chain.digest(), "big")


async def parse(kind: type[M], request: bytes, context: Context) -> M:
    """The request, or BAD_REQUEST."""
    try:
        return kind.FromString(request)
    except DecodeError:
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, f"the request is not a {kind.DESCRIPTOR.full_name}"))


async def check_request_id(request_id: bytes, context: Context) -> None:
    """Every mutating call carries an identity."""
    if len(request_id) != REQUEST_ID_BYTES:
        text = f"request_id must have {REQUEST_ID_BYTES} bytes, new for each call and the same when it is repeated"
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))


def enqueue_batch(queue: str, request: EnqueueRequest) -> bytes:
    """The body of a unary call's record: the same bytes whenever the same call is repeated, at either member."""
    return EnqueueBatch(queue=queue, messages=bodies.batch_of(request.messages)).SerializeToString(deterministic=True)


class QueueHandlers:
    """The handlers of QueueService."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self._waiting: dict[bytes, Consumer] = {}
        """Dequeue calls that wait at this master, by request id: at most one of an id is handed messages."""

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        stream = grpc.stream_stream_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Enqueue": unary(self.enqueue),
                "Produce": stream(self.produce),
                "Dequeue": unary(self.dequeue),
                "Consume": stream(self.consume),
                "Settle": unary(self.settle),
                "Browse": grpc.unary_stream_rpc_method_handler(self.browse),
                "BrowsePage": unary(self.browse_page),
            },
        )

    # -- producing -------------------------------------------------------------------------------------------------

    async def produce(self, _requests: object, context: Context) -> None:
        """See QueueService.Produce."""
        await ProduceStream(self.members, context).run()

    async def enqueue(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Enqueue. At a replica it is held like a batch, so the body travels once."""
        parsed = await parse(EnqueueRequest, request, context)
        await check_request_id(parsed.request_id, context)
        if (problem := problem_of_ttl(parsed.messages)) is not None:
            await abort(context, problem)
        batch = enqueue_batch(parsed.queue, parsed)
        try:
            columns = columns_of(EnqueueBatch.FromString(batch))
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        node = self.members.node
        if len(batch) > node.limits.batch_bytes_max:
            text = f"a batch of {len(batch)} bytes; the limit is {node.limits.batch_bytes_max}"
            await abort(context, refusal(Reason.REASON_MESSAGE_TOO_LARGE, text))
        while True:
            waiter = FutureWaiter()
            call = EnqueueCall(
                waiter,
                parsed.queue,
                b"",
                0,
                columns,
                batch,
                request_id=parsed.request_id,
                request_hash=fingerprint(batch),
                min_copies=parsed.min_copies,
                member=self.members.member,
            )
            domain = self.members.of_queue(parsed.queue)
            if (stale := stale_epoch(self.members, domain, parsed.epoch)) is not None:
                await abort(context, stale)
            domain.submit(call, node.clock.now_ms())
            node.dispatch(domain)
            try:
                result = await self._unparked(domain, call, waiter, context)
            finally:
                waiter.cancelled = True
            if isinstance(result, EnqueueDone):
                return self._enqueued(domain, parsed, result)
            if isinstance(result, Failed):
                await abort(context, result)

    async def _unparked(
        self, domain: Domain, call: EnqueueCall, waiter: FutureWaiter, context: Context
    ) -> EnqueueDone | Failed | Moved:
        """The answer; NO_MASTER when the call was still parked after the park time, for then it had no effect.

        One that is held or ordered may yet take effect: its caller's deadline ends the wait, in doubt (rulings.md 11).
        """
        wait_s = forward.park_s(context, self.members.park_ms)
        while True:
            try:
                result = await asyncio.wait_for(asyncio.shield(waiter.future), wait_s)
            except TimeoutError:
                if call in domain.holding.parked:
                    return Failed(*domain.no_master())
                wait_s = forward.LOOK_S
            else:
                assert isinstance(result, (EnqueueDone, Failed, Moved))
                return result

    def _enqueued(self, domain: Domain, request: EnqueueRequest, done: EnqueueDone) -> bytes:
        header = header_of(self.members, domain, volatile=done.volatile)
        header.epoch, header.copies = done.epoch, done.copies
        header.level = level_of(done.copies, volatile=done.volatile)
        response = EnqueueResponse(header=header, duplicate=done.duplicate)
        refused = dict(done.refusals)
        index = done.first_index
        number = domain.shared.domain
        for ordinal in range(len(request.messages)):
            if ordinal in refused:
                response.results.append(EnqueueResult(error=entry_error(refused[ordinal])))
                continue
            result = EnqueueResult(
                index=index,
                id=bodies.message_id(number, done.epoch, done.log_index, ordinal),
                completion=Completion.COMPLETION_STORED,
            )
            if done.downgraded and request.messages[ordinal].persistent:
                result.warning = WarningKind.WARNING_PERSISTENCE_DOWNGRADED
            response.results.append(result)
            index += 1
        return response.SerializeToString()

    # -- consuming -------------------------------------------------------------------------------------------------

    async def consume(self, _requests: object, context: Context) -> None:
        """See QueueService.Consume."""
        await service_consume.serve(self.members, context)

    async def dequeue(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Dequeue."""
        parsed = await parse(DequeueRequest, request, context)
        await check_request_id(parsed.request_id, context)
        if (problem := problem_of_receiving(parsed, self.members.node.limits.lease_ms_max)) is not None:
            await abort(context, problem)
        if not parsed.client_id:
            parsed.client_id = parsed.request_id
        return await forward.unary(
            self.members,
            "QueueService/Dequeue",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self._dequeue(domain, parsed, context),
        )

    async def _dequeue(self, domain: Domain, request: DequeueRequest, context: Context) -> bytes | Failed | Moved:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        node = self.members.node
        waiter = FutureWaiter()
        consumer = Consumer(
            waiter=waiter,
            queue=request.queue,
            client_id=request.client_id,
            duration_ms=milliseconds(request.lease_duration) if request.HasField("lease_duration") else 0,
            immediate=request.settle_mode == SettleMode.SETTLE_MODE_IMMEDIATE,
            credit_messages=min(request.max_messages or 1, DEQUEUE_MESSAGES_MAX),
            credit_bytes=min(request.max_bytes or DEQUEUE_BYTES, DEQUEUE_BYTES),
            one_shot=True,
            request_id=request.request_id,
            request_hash=fingerprint(request.queue.encode()),
            member=forward.member_of(self.members, context),
        )
        self._take_the_place(domain, consumer)
        domain.attach(consumer, node.clock.now_ms())
        node.dispatch(domain)
        wait_s = request.wait.ToMilliseconds() / 1000 if request.HasField("wait") else 0.0
        wait_s = min(wait_s, max(0.0, forward.time_left_s(context, 3_600_000) - 0.05))
        try:
            if consumer.attached and not waiter.future.done():
                try:
                    return self._dequeued(
                        domain, request, await asyncio.wait_for(asyncio.shield(waiter.future), wait_s)
                    )
                except TimeoutError:
                    pass
            if consumer.attached:
                domain.consumers.detach(consumer)
                return DequeueResponse(header=header_of(self.members, domain)).SerializeToString()
            # Leased, and waiting for its commit: the messages are this caller's.
            return self._dequeued(domain, request, await waiter.future)
        finally:
            waiter.cancelled = True
            domain.consumers.detach(consumer)
            if self._waiting.get(request.request_id) is consumer:
                del self._waiting[request.request_id]

    def _take_the_place(self, domain: Domain, consumer: Consumer) -> None:
        """The newest caller of an id waits on; an older one, most likely gone, is answered that there was nothing."""
        older = self._waiting.get(consumer.request_id)
        if older is not None and older.attached:
            domain.consumers.detach(older)
            older.waiter.answer(LeaseDone(older.queue_id, older.queue, 0, (), duplicate=False))
        self._waiting[consumer.request_id] = consumer

    def _dequeued(self, domain: Domain, request: DequeueRequest, result: object) -> bytes | Failed | Moved:
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, LeaseDone)
        rows = bodies.rows(self.members.node.store, domain.shared, request.queue, result.lease_id, result.slices)
        header = header_of(self.members, domain)
        response = DequeueResponse(header=header, lease_id=result.lease_id, messages=rows, duplicate=result.duplicate)
        return response.SerializeToString()

    async def settle(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Settle."""
        parsed = await parse(SettleRequest, request, context)
        await check_request_id(parsed.request_id, context)
        return await forward.unary(
            self.members,
            "QueueService/Settle",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self._settle(domain, parsed),
        )

    async def _settle(self, domain: Domain, request: SettleRequest) -> bytes | Failed | Moved:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        node = self.members.node
        waiter = FutureWaiter()
        parts = [part.SerializeToString(deterministic=True) for part in request.settlements]
        call = SettleCall(
            waiter, request.queue, request.settlements, request.request_id, fingerprint(request.queue.encode(), *parts)
        )
        domain.submit(call, node.clock.now_ms())
        node.dispatch(domain)
        result = await waiter.future
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, SettleDone)
        header = header_of(self.members, domain)
        return SettleResponse(header=header, results=result.results, duplicate=result.duplicate).SerializeToString()

    # -- browsing --------------------------------------------------------------------------------------------------

    async def browse(self, request: bytes, context: Context) -> None:
        """See QueueService.Browse: pages, so that nothing is pinned between two frames."""
        parsed = await parse(BrowseRequest, request, context)
        at, left = parsed.from_index, parsed.max_messages or (1 << 62)
        while left > 0:
            page_request = BrowsePageRequest(queue=parsed.queue, from_index=at, max_messages=min(left, BROWSE_PAGE_MAX))
            page = BrowsePageResponse.FromString(await self.browse_page(page_request.SerializeToString(), context))
            await context.write(BrowseResponse(header=page.header, messages=page.messages).SerializeToString())
            left -= len(page.messages)
            at = page.next_index
            if not at:
                return

    async def browse_page(self, request: bytes, context: Context) -> bytes:
        """See QueueService.BrowsePage."""
        parsed = await parse(BrowsePageRequest, request, context)
        return await forward.unary(
            self.members,
            "QueueService/BrowsePage",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self._browse_page(domain, parsed),
        )

    async def _browse_page(self, domain: Domain, request: BrowsePageRequest) -> bytes | Failed | Moved:
        machine = domain.shared.machine
        queue_id = machine.queue_id(request.queue) if machine is not None else None
        if machine is None or queue_id is None:
            return refusal(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {request.queue!r}; create it first")
        limit = min(request.max_messages or BROWSE_PAGE, BROWSE_PAGE_MAX)
        ranges = machine.browse(queue_id, request.from_index or 1, limit)
        slices = machine.segments_of(queue_id, ranges, delivered=False)
        rows = bodies.rows(self.members.node.store, domain.shared, request.queue, 0, slices, browsing=True)
        seen = sum(part.count for part in ranges)
        following = ranges[-1].first + ranges[-1].count if ranges and seen >= limit else 0
        header = header_of(self.members, domain)
        return BrowsePageResponse(header=header, messages=rows, next_index=following).SerializeToString()
