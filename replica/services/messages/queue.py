"""QueueService: the calls of producers and consumers. Takes raw bytes, so that a call for the master is sent on as it
came.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from replica.core.messages import bodies
from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, FarLease, LeaseDone, Moved, SettleDone
from replica.machine import PROXY_TARGET, EnqueueCall, Refused, SettleCall, milliseconds
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import filters, forward
from replica.services.answers import (
    Answered,
    FutureWaiter,
    far_response,
    forwarded_by,
    header_as_of,
    header_of,
    results_of,
)
from replica.services.browsing import BROWSE_PAGE_MAX, browse_pages
from replica.services.checks import (
    is_immediate,
    problem_of_format,
    problem_of_receiving,
    problem_of_ttl,
    problem_of_wait,
    stale_epoch,
    wait_ms,
    wait_s,
)
from replica.services.locality import check_origin
from replica.services.messages import consume, side
from replica.services.messages.completion import CompletionHandlers
from replica.services.messages.enqueue import SLICE_PROPERTIES, columns_and_body, problem_of_size
from replica.services.messages.one_way import OneWay
from replica.services.messages.open_units import OpenUnitHandlers
from replica.services.messages.produce import ProduceStream
from replica.services.messages.reactive import enqueue_reactive
from replica.services.messages.transact import WholeUnits
from replica.services.messages.watching import WatchHandlers
from replica.services.proxies.far_settling import any_far
from replica.services.which_domain import check_domain
from tandemq.finding.names import is_full
from tandemq.v1.common_pb2 import Level, Reason
from tandemq.v1.queue_service_pb2 import (
    DELIVERY_FORMAT_SEGMENTS,
    BrowsePageRequest,
    BrowsePageResponse,
    BrowseRequest,
    DequeueRequest,
    DequeueResponse,
    EnqueueRequest,
    EnqueueResponse,
    EnqueueResult,
    SettleRequest,
    SettleResponse,
)
from tandemq.v1.transaction_service_pb2 import TransactRequest, TransactResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.selection.filters import Filter
    from replica.machine import Columns
    from replica.node.members import Members
    from replica.services.messages.react import ReactionHandlers
    from replica.services.proxies.keeper import Keeper
    from tandemq.v1.queue_service_pb2 import Settlement

SERVICE = "tandemq.v1.QueueService"
DEQUEUE_BYTES = 4 << 20
DEQUEUE_MESSAGES_MAX = 10_000
WAIT_MS_MAX = 10 * 366 * 86_400_000
BROWSE_PAGE = 100


class QueueHandlers:
    """The handlers of QueueService."""

    def __init__(self, members: Members, reactions: ReactionHandlers, keeper: Keeper) -> None:
        """`reactions`: what a reactive message does. `keeper`: of what leads to other managers."""
        self.members, self.keeper = members, keeper
        self.reactions = reactions
        self.one_way = OneWay(members)
        self.units = OpenUnitHandlers(members)
        self.completions = CompletionHandlers(members, self.units)
        self.watches = WatchHandlers(members, self.completions)
        self.whole_units = WholeUnits(members)
        self._waiting: dict[bytes, Consumer] = {}
        """Dequeue calls that wait at this master, by request id: at most one of an id is handed messages."""

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        stream = grpc.stream_stream_rpc_method_handler
        return generic_handler(
            SERVICE,
            {
                "Enqueue": unary(self.enqueue),
                "Produce": stream(self.produce),
                "Dequeue": unary(self.dequeue),
                "Consume": stream(self.consume),
                "Settle": unary(self.settle),
                "Browse": grpc.unary_stream_rpc_method_handler(self.browse),
                "BrowsePage": unary(self.browse_page),
                **self.completions.methods(),
                **self.watches.methods(),
            },
        )

    # -- producing -------------------------------------------------------------------------------------------------

    async def produce(self, _requests: object, context: Context) -> None:
        """See QueueService.Produce."""
        await ProduceStream(self.members, context).run()

    async def enqueue(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Enqueue. At a replica it is held like a batch, so the body travels once."""
        node = self.members.node
        if (problem := problem_of_size(request, node.limits)) is not None:
            await abort(context, problem)
        parsed = await parse(EnqueueRequest, request, context, len(request))
        await check_request_id(parsed.request_id, context)
        if parsed.HasField("reaction"):
            return await enqueue_reactive(self.reactions, parsed, context)
        if is_full(parsed.queue) and not parsed.unit_id:
            return await self._elsewhere(parsed, context)
        if (problem := problem_of_ttl(parsed.messages) or problem_of_wait("wait", parsed.wait)) is not None:
            await abort(context, problem)
        if parsed.unit_id:
            return await self.units.enqueue(request, parsed, context)
        await check_origin(self.members, parsed.queue, context)
        try:
            columns, batch = await columns_and_body(parsed.queue, parsed.messages, node.limits)
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        left_ms = int(1000 * (forward.time_left_s(context, WAIT_MS_MAX) - forward.ANSWER_S))
        room_ms = min(wait_ms(parsed.wait), left_ms)
        full_until_ms = node.clock.now_ms() + room_ms if room_ms > 0 else 0
        domain = self.members.of_queue(parsed.queue)
        if self.one_way.takes(domain, parsed.queue):
            return await self._accept(domain, parsed, columns, batch, context)
        park_ms = max(1, int(1000 * forward.park_s(context, self.members.park_ms)))
        result = await self._order(parsed, columns, batch, park_ms, full_until_ms)
        if isinstance(result, Failed):
            if PROXY_TARGET in result.metadata:
                return await self._through_the_master(request, parsed, context)
            await abort(context, result)
        response = self._enqueued(self.members.of_queue(parsed.queue), parsed, result)
        tracked = [each.queue for each in result.members if each.handles]
        if result.handles:
            tracked = [result.member_queue or parsed.queue]
        for queue in tracked if full_until_ms else ():
            await self._wait_for_ends(queue, response, (full_until_ms - node.clock.now_ms()) / 1_000)
        return response.SerializeToString()

    async def _through_the_master(self, request: bytes, parsed: EnqueueRequest, context: Context) -> bytes:
        """The queue is a proxy, which this member did not know yet: a batch is held for queues alone."""

        async def local(_domain: Domain) -> Answered:
            text = f"{parsed.queue} has become known as a proxy; repeat the call"
            return Failed(Reason.REASON_NOT_MASTER, text, {"queue": parsed.queue}, 10)

        home = self.members.of_queue
        return await forward.unary(
            self.members, "QueueService/Enqueue", request, context, lambda: home(parsed.queue), local
        )

    async def _elsewhere(self, request: EnqueueRequest, context: Context) -> bytes:
        """By a full name: a unit of one put, whose messages may go on to another manager."""
        unit = TransactRequest(request_id=request.request_id, min_copies=request.min_copies, epoch=request.epoch)
        unit.puts.add(queue=request.queue, messages=request.messages)
        done = TransactResponse.FromString(await self.whole_units.transact(unit.SerializeToString(), context))
        (put,) = done.puts
        response = EnqueueResponse(header=done.header, results=put.results, duplicate=done.duplicate)
        response.forwarded = put.forwarded
        return response.SerializeToString()

    async def _order(
        self, request: EnqueueRequest, columns: Columns, batch: bytes, park_ms: int, full_until_ms: int
    ) -> EnqueueDone | Failed:
        """Have it ordered, here or at the master."""
        node = self.members.node
        while True:
            waiter = FutureWaiter()
            call = EnqueueCall(
                request.queue, b"", 0, columns, self.members.member, request.request_id, fingerprint(batch)
            )
            pending = PendingEnqueue(
                waiter, call, batch, request.min_copies, park_ms=park_ms, full_until_ms=full_until_ms
            )
            domain = self.members.of_queue(request.queue)
            if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
                return stale
            domain.submit(pending, node.clock.now_ms())
            node.dispatch(domain)
            try:
                result = await waiter.future
            finally:
                waiter.cancelled = True
                if full_until_ms and waiter.future.cancelled():  # with this handler: its caller has gone
                    domain.withdraw(pending, node.clock.now_ms())
                    node.dispatch(domain)
            if isinstance(result, (EnqueueDone, Failed)):
                return result

    async def _accept(
        self, domain: Domain, request: EnqueueRequest, columns: Columns, batch: bytes, context: Context
    ) -> bytes:
        """ONE_WAY: answered from memory, with index 0 (R015)."""
        results = self.one_way.results(domain, request.queue, columns)
        too_large = sum(result.HasField("error") for result in results)
        work = self._order(request, columns, batch, self.members.park_ms, 0)
        refused = await self.one_way.send(domain, request.queue, too_large, len(batch), work)
        if refused is not None:
            await abort(context, refused)
        header = header_of(self.members, domain)
        header.copies, header.level = 0, Level.LEVEL_UNSPECIFIED
        return EnqueueResponse(header=header, results=results).SerializeToString()

    async def _wait_for_ends(self, queue: str, response: EnqueueResponse, wait_s: float) -> None:
        """The queue's type completes later than STORED: wait for that in what is left of the call's time."""
        results = {result.handle: result for result in response.results if _is_of(result, queue)}
        until = asyncio.get_running_loop().time() + wait_s
        for status in await self.completions.ended(queue, list(results), until):
            if not status.HasField("error"):
                result = results[status.handle]
                result.completion, result.final_state = status.completion, status.final_state
                result.completed = status.completed
                if status.HasField("reply"):
                    result.reply.CopyFrom(status.reply)

    def _enqueued(self, domain: Domain, request: EnqueueRequest, done: EnqueueDone) -> EnqueueResponse:
        header = header_as_of(self.members, domain, done.epoch, done.copies, volatile=done.volatile)
        response = EnqueueResponse(header=header, duplicate=done.duplicate, member_queue=done.member_queue)
        response.forwarded = forwarded_by(done)
        response.results.extend(results_of(domain.shared.domain, request.queue, request.messages, done))
        return response

    # -- consuming -------------------------------------------------------------------------------------------------

    async def consume(self, _requests: object, context: Context) -> None:
        """See QueueService.Consume."""
        await consume.serve(self.members, context, side.serve, self.keeper.settling)

    async def dequeue(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Dequeue."""
        parsed = await parse(DequeueRequest, request, context)
        await check_request_id(parsed.request_id, context)
        problem = problem_of_receiving(parsed, self.members.node.limits.lease_ms_max) or problem_of_format(parsed)
        if problem is not None:
            await abort(context, problem)
        await check_origin(self.members, parsed.queue, context)
        if not parsed.unit_id:
            await check_domain(self.members, parsed.queue, "", context)
        asked = await filters.check(parsed.filter, context)
        if not parsed.client_id:
            parsed.client_id = parsed.unit_id or parsed.request_id
        home = await self.units.domain_of(parsed.unit_id, context) if parsed.unit_id else None
        until_s = asyncio.get_running_loop().time() + wait_s(parsed.wait)
        return await forward.unary(
            self.members,
            "QueueService/Dequeue",
            request,
            context,
            lambda: home or self.members.of_queue(parsed.queue),
            lambda domain: self._dequeue(domain, parsed, asked, until_s, context, request),
        )

    async def _dequeue(
        self,
        domain: Domain,
        request: DequeueRequest,
        asked: Filter | None,
        until_s: float,
        context: Context,
        data: bytes,
    ) -> Answered:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        if request.unit_id and (problem := self._problem_of_unit(domain, request, context, data)) is not None:
            return problem
        node = self.members.node
        waiter = FutureWaiter()
        consumer = Consumer(
            waiter=waiter,
            queue=request.queue,
            client_id=request.client_id,
            duration_ms=milliseconds(request.lease_duration) if request.HasField("lease_duration") else 0,
            immediate=is_immediate(request.settle_mode),
            credit_messages=min(request.max_messages or 1, DEQUEUE_MESSAGES_MAX),
            credit_bytes=min(request.max_bytes or DEQUEUE_BYTES, DEQUEUE_BYTES),
            one_shot=True,
            request_id=request.request_id,
            request_hash=fingerprint(*filter(None, (request.queue.encode(), request.unit_id))),
            wanted=filters.matcher_of(self.members, domain, request.queue, asked),
            member=forward.member_of(self.members, context),
            unit=request.unit_id,
        )
        self._take_the_place(domain, consumer)
        domain.attach(consumer, node.clock.now_ms())
        node.dispatch(domain)
        left_s = until_s - asyncio.get_running_loop().time()
        left_s = min(left_s, max(0.0, forward.time_left_s(context, 3_600_000) - 0.05))
        try:
            await filters.look_through(self.members, domain, consumer)
            if consumer.attached and domain.consumers.fan_in.far.macros:
                await self.keeper.far[domain.shared.name].heard(consumer)
            if consumer.attached and not waiter.future.done() and left_s > 0:
                await asyncio.wait((waiter.future,), timeout=left_s)
            if waiter.future.done():
                return await self._dequeued(domain, request, waiter.future.result())
            if consumer.attached:
                domain.consumers.detach(consumer)
                if not domain.mastership.commit.can_read or self.members.is_late():
                    # That there is nothing is an answer too: whoever may have been replaced does not give it.
                    return Moved("the mastership moved, or may have; repeat the call")
                if request.unit_id and (ended := domain.orders.units.problem_of(request.unit_id)) is not None:
                    return Failed(ended.reason, ended.message, ended.metadata, None)
                return DequeueResponse(header=header_of(self.members, domain)).SerializeToString()
            # Leased, and waiting for its commit: the messages are this caller's.
            return await self._dequeued(domain, request, await waiter.future)
        finally:
            waiter.cancelled = True
            domain.consumers.detach(consumer)
            if self._waiting.get(request.request_id) is consumer:
                del self._waiting[request.request_id]

    def _problem_of_unit(self, domain: Domain, request: DequeueRequest, context: Context, data: bytes) -> Failed | None:
        owners = self.units.owners
        return self.units.problem_of_domain(domain, request.queue) or owners.problem_of_call(
            domain, request.unit_id, context, "QueueService/Dequeue", data
        )

    def _take_the_place(self, domain: Domain, consumer: Consumer) -> None:
        """The newest caller of an id waits on; an older one, most likely gone, is answered that there was nothing."""
        older = self._waiting.get(consumer.request_id)
        if older is not None and older.attached:
            domain.consumers.detach(older)
            older.waiter.answer(LeaseDone(older.queue_id, older.queue, 0, (), duplicate=False))
        self._waiting[consumer.request_id] = consumer

    async def _dequeued(self, domain: Domain, request: DequeueRequest, result: object) -> Answered:
        if isinstance(result, (Failed, Moved)):
            return result
        if isinstance(result, FarLease):
            segments = request.format == DELIVERY_FORMAT_SEGMENTS
            return far_response(header_of(self.members, domain), result, segments=segments).SerializeToString()
        assert isinstance(result, LeaseDone)
        # Who is master, and in which epoch, is answered as it was when the messages were leased.
        header = header_of(self.members, domain)
        response = DequeueResponse(header=header, lease_id=result.lease_id, duplicate=result.duplicate)
        response.member_queue = result.member_queue
        queue = response.member_queue or request.queue
        if request.format == DELIVERY_FORMAT_SEGMENTS:
            bodies.fill_segments(self.members.node.store, domain.shared, result.slices, response)
            for segment in response.segments:
                segment.id_domain = domain.shared.domain
            return response.SerializeToString()
        rows = bodies.fill_rows(
            self.members.node.store, domain.shared, queue, result.lease_id, result.slices, response.messages
        )
        in_slice = 0
        for properties in rows:
            in_slice += properties
            # What is removed at delivery is gone from the store soon: it is read at once.
            if in_slice >= SLICE_PROPERTIES and result.lease_id:
                in_slice = 0
                await asyncio.sleep(0)
        return response.SerializeToString()

    async def settle(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Settle."""
        parsed = await parse(SettleRequest, request, context)
        await check_request_id(parsed.request_id, context)
        if parsed.unit_id:
            return await self.units.settle(request, parsed, context)
        return await forward.unary(
            self.members,
            "QueueService/Settle",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self._settle(domain, parsed),
        )

    async def _settle(self, domain: Domain, request: SettleRequest) -> Answered:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        if any_far(request.settlements):
            result = await self.keeper.settling.settle(
                domain,
                request.queue,
                request.settlements,
                request.request_id,
                lambda own: self._settle_here(domain, request, own),
            )
        else:
            result = await self._settle_here(domain, request, request.settlements)
        if isinstance(result, (Failed, Moved)):
            return result
        header = header_of(self.members, domain)
        return SettleResponse(header=header, results=result.results, duplicate=result.duplicate).SerializeToString()

    async def _settle_here(
        self, domain: Domain, request: SettleRequest, settlements: Sequence[Settlement]
    ) -> SettleDone | Failed | Moved:
        node = self.members.node
        waiter = FutureWaiter()
        parts = [part.SerializeToString(deterministic=True) for part in request.settlements]
        digest = fingerprint(request.queue.encode(), *parts)
        call = SettleCall(request.queue, settlements, request.request_id, digest)
        domain.submit(PendingCall(waiter, call), node.clock.now_ms())
        node.dispatch(domain)
        result = await waiter.future
        assert isinstance(result, (SettleDone, Failed, Moved))
        return result

    # -- browsing --------------------------------------------------------------------------------------------------

    async def browse(self, request: bytes, context: Context) -> None:
        """See QueueService.Browse: pages, so that nothing is pinned between two frames."""
        parsed = await parse(BrowseRequest, request, context)
        await check_origin(self.members, parsed.queue, context)
        await browse_pages(parsed, self.browse_page, context)

    async def browse_page(self, request: bytes, context: Context) -> bytes:
        """See QueueService.BrowsePage."""
        parsed = await parse(BrowsePageRequest, request, context)
        await check_origin(self.members, parsed.queue, context)
        await check_domain(self.members, parsed.queue, "", context)
        asked = await filters.check(parsed.filter, context)
        return await forward.unary(
            self.members,
            "QueueService/BrowsePage",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self._browse_page(domain, parsed, asked),
        )

    async def _browse_page(self, domain: Domain, request: BrowsePageRequest, asked: Filter | None) -> Answered:
        machine = domain.shared.machine
        queue_id = machine.queue_id(request.queue) if machine is not None else None
        if machine is None or queue_id is None:
            if machine is not None:
                why = machine.state.unnamed(request.queue)
                return Failed(why.reason, why.message, why.metadata, None)
            return refusal(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {request.queue!r}; create it first")
        limit = min(request.max_messages or BROWSE_PAGE, BROWSE_PAGE_MAX)
        if asked is not None:
            return await filters.browse_page(self.members, domain, machine, request, asked, limit)
        ranges = machine.browse(queue_id, request.from_index or 1, limit)
        slices = machine.segments_of(queue_id, ranges, delivered=False)
        seen = sum(part.count for part in ranges)
        following = ranges[-1].first + ranges[-1].count if ranges and seen >= limit else 0
        rows, following = bodies.page(self.members.node.store, domain.shared, request.queue, slices, following)
        header = header_of(self.members, domain)
        return BrowsePageResponse(header=header, messages=rows, next_index=following).SerializeToString()


def _is_of(result: EnqueueResult, queue: str) -> bool:
    """Whether it may be asked there what becomes of the message."""
    return bool(result.handle) and result.member_queue in ("", queue)
