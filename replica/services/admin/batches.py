"""BatchService: numbered batches over the wire. Requests become calls of the queue's domain; its master orders them
and reads what is in a batch. Decides nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from replica.core.messages import bodies
from replica.core.state.outcomes import Failed, Moved
from replica.machine import AckBatchCall, BatchCall, Refused
from replica.machine.features.batches import last_batch, open_batch, open_batches
from replica.node.counting import until_committed
from replica.node.seen_places import place_now, problem_of_seen
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.answers import Answered, header_of
from replica.services.locality import check_origin
from tandemq.v1 import batch_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange, Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from replica.core.domain import Domain
    from replica.machine import Lease, NumberedBatch
    from replica.rpc.handlers import Method
    from replica.services.admin.queues import AdminHandlers
    from tandemq.v1.journal_service_pb2 import JournalPosition

    Local = Callable[[Domain], Awaitable[Answered]]

SERVICE = "tandemq.v1.BatchService"
MESSAGES, MESSAGES_MAX = 1_000, 10_000
BYTES, BYTES_MAX = 16 << 20, 64 << 20
LEASE_MS = 600_000
PAGE_MESSAGES, PAGE_BYTES = 1_000, 1 << 20
TURN_MESSAGES = 100
"""Messages that are made into rows before others have their turn."""

_MOVED = Moved("the mastership moved while a batch was looked at; repeat the call")


class BatchHandlers:
    """The handlers of BatchService."""

    def __init__(self, admin: AdminHandlers) -> None:
        self.admin = admin
        self.members = admin.members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, Method] = {
            "LeaseBatch": unary(self.lease),
            "ReadBatch": unary(self.read),
            "AckBatch": unary(self.ack),
            "GetBatches": unary(self.get),
        }
        return generic_handler(SERVICE, methods)

    async def lease(self, request: bytes, context: Context) -> bytes:
        """See BatchService.LeaseBatch."""
        parsed = await parse(pb.LeaseBatchRequest, request, context)
        if (problem := self._problem_of_lease(parsed)) is not None:
            await abort(context, problem)
        duration_ms = parsed.lease_duration.ToMilliseconds() if parsed.HasField("lease_duration") else LEASE_MS

        async def local(domain: Domain) -> Answered:
            call = BatchCall(
                parsed.queue,
                parsed.consumer,
                parsed.number,
                parsed.max_messages or MESSAGES,
                parsed.max_bytes or BYTES,
                duration_ms,
                domain.consumers.damage.sound,
            )
            return await self.admin.run(domain, call, lambda _done: _taken(domain, parsed))

        return await self._forwarded("LeaseBatch", parsed.queue, request, context, local, parsed.seen)

    def _problem_of_lease(self, parsed: pb.LeaseBatchRequest) -> Failed | None:
        problem = ""
        lease_max_ms = self.members.node.limits.lease_ms_max
        duration = parsed.lease_duration
        if parsed.max_messages > MESSAGES_MAX:
            problem = f"max_messages is {parsed.max_messages}; a batch may have {MESSAGES_MAX} messages"
        elif parsed.max_bytes > BYTES_MAX:
            problem = f"max_bytes is {parsed.max_bytes}; a batch may have {BYTES_MAX} bytes"
        elif parsed.HasField("lease_duration") and not (
            0 <= duration.seconds <= lease_max_ms // 1000 and 0 < duration.ToMilliseconds() <= lease_max_ms
        ):
            problem = f"lease_duration must be more than 0 and at most {lease_max_ms // 1000} s"
        return refusal(Reason.REASON_BAD_REQUEST, problem) if problem else None

    async def ack(self, request: bytes, context: Context) -> bytes:
        """See BatchService.AckBatch."""
        parsed = await parse(pb.AckBatchRequest, request, context)

        async def local(domain: Domain) -> Answered:
            call = AckBatchCall(parsed.queue, parsed.consumer, parsed.number)
            return await self.admin.run(domain, call, lambda done: pb.AckBatchResponse(duplicate=done.duplicate))

        return await self._forwarded("AckBatch", parsed.queue, request, context, local, parsed.seen)

    async def get(self, request: bytes, context: Context) -> bytes:
        """See BatchService.GetBatches."""
        parsed = await parse(pb.GetBatchesRequest, request, context)

        async def local(domain: Domain) -> Answered:
            if not await until_committed(domain):
                return _MOVED
            machine = domain.shared.machine
            assert machine is not None
            try:
                queue = machine.state.named(parsed.queue)
            except Refused as refused:
                return Failed(refused.reason, refused.message, dict(refused.metadata))
            last = last_batch(machine.state, queue, parsed.consumer)
            found = open_batches(machine.state, queue, parsed.consumer)
            batches = [_words(number, batch, lease) for number, batch, lease in found]
            header = header_of(self.members, domain)
            return pb.GetBatchesResponse(
                header=header, last_number=last, batches=batches, position=place_now(domain.shared)
            ).SerializeToString()

        return await self._forwarded("GetBatches", parsed.queue, request, context, local, parsed.seen)

    async def read(self, request: bytes, context: Context) -> bytes:
        """See BatchService.ReadBatch."""
        parsed = await parse(pb.ReadBatchRequest, request, context)

        async def local(domain: Domain) -> Answered:
            return await self._read(domain, parsed)

        return await self._forwarded("ReadBatch", parsed.queue, request, context, local, parsed.seen)

    async def _read(self, domain: Domain, request: pb.ReadBatchRequest) -> Answered:
        if not await until_committed(domain):
            return _MOVED
        machine, store = domain.shared.machine, self.members.node.store
        assert machine is not None
        try:
            queue = machine.state.named(request.queue)
            batch, lease = open_batch(machine.state, queue, request.consumer, request.number)
        except Refused as refused:
            return Failed(refused.reason, refused.message, dict(refused.metadata))
        most = min(request.max_messages or PAGE_MESSAGES, PAGE_MESSAGES)
        # Taken down before another one has a turn: what is acknowledged meanwhile is read all the same.
        slices = machine.segments_of(lease.queue_id, _ranges(batch.runs, request.first, request.first + most))
        response = pb.ReadBatchResponse(
            header=header_of(self.members, domain), batch=_words(request.number, batch, lease), next=request.first
        )
        name, size = machine.queue(lease.queue_id).name, 0
        rows = bodies.rows_of(store, domain.shared, name, lease.lease_id, slices)
        for at, row in enumerate(rows):
            size += row.ByteSize()
            if response.messages and size > PAGE_BYTES:
                break
            response.messages.append(row)
            response.next += 1
            if at % TURN_MESSAGES == TURN_MESSAGES - 1:
                await asyncio.sleep(0)
        expected = min(most, max(0, batch.size - request.first))
        if len(response.messages) < expected and size <= PAGE_BYTES:
            text = f"batch {request.number} of queue {name} has bodies that are not here; read it again"
            return Failed(Reason.REASON_BATCH_GONE, text, {"number": str(request.number)})
        return response.SerializeToString()

    async def _forwarded(
        self, method: str, queue: str, request: bytes, context: Context, local: Local, seen: JournalPosition
    ) -> bytes:
        await check_origin(self.members, queue, context)
        path = f"BatchService/{method}"

        async def checked(domain: Domain) -> Answered:
            problem = await problem_of_seen(domain, seen)
            return problem if problem is not None else await local(domain)

        return await forward.unary(self.members, path, request, context, lambda: self.members.of_queue(queue), checked)


def _taken(domain: Domain, request: pb.LeaseBatchRequest) -> pb.LeaseBatchResponse:
    machine = domain.shared.machine
    assert machine is not None
    response = pb.LeaseBatchResponse(position=place_now(domain.shared))
    queue = machine.state.named(request.queue)
    if last_batch(machine.state, queue, request.consumer) >= request.number:
        batch, lease = open_batch(machine.state, queue, request.consumer, request.number)
        response.batch.CopyFrom(_words(request.number, batch, lease))
    return response


def _words(number: int, batch: NumberedBatch, lease: Lease) -> pb.LeasedBatch:
    taken = pb.LeasedBatch(number=number, count=batch.size, lease_id=lease.lease_id)
    if lease.duration_ms:
        taken.expires_at.FromMilliseconds(lease.expires_at_ms)
    return taken


def _ranges(runs: Iterable[tuple[int, int]], first: int, until: int) -> Sequence[IndexRange]:
    """The messages at these places of a batch, in its order."""
    found, at = [], 0
    for start, end in runs:
        low, high = max(first, at), min(until, at + end - start)
        if low < high:
            found.append(IndexRange(first=start + low - at, count=high - low))
        at += end - start
    return found
