"""The Produce stream: batches in, acknowledgements out, in any role of this member. Pulls no more than it can hold
unanswered.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import google_crc32c
import grpc
from google.protobuf.message import DecodeError

from failover.marks import Role
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import EnqueueDone, Failed, Moved
from replica.machine import PROXY_TARGET, EnqueueCall, Refused, columns_of
from replica.machine.plan.content import check_content
from replica.machine.state.rights import PRODUCE
from replica.node.counting import until_committed
from replica.rpc.refusals import abort, failure, refusal
from replica.services import forward
from replica.services.answers import ack_of, header_of
from replica.services.checks import problem_of_wait, stale_epoch, wait_ms
from replica.services.locality import is_remote, problem_of_origin, problem_of_remote
from replica.services.messages.onward import Entrance, batch_of, home_of, made, way_of
from replica.services.peer_clients import client_of
from replica.services.weighing import problem_of_frame
from tandemq.finding.names import is_full
from tandemq.v1.common_pb2 import Error, Reason
from tandemq.v1.queue_service_pb2 import (
    EnqueueAck,
    EnqueueReject,
    Goaway,
    ProduceOpened,
    ProduceRequest,
    ProduceResponse,
)

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.outcomes import Answer
    from replica.machine import Columns
    from replica.node.access import Asker
    from replica.node.members import Members
    from tandemq.v1.queue_service_pb2 import EnqueueBatch, ProduceOpen

UNANSWERED_BATCHES_MAX = 256
UNANSWERED_BYTES_MAX = 32 << 20
"""Of one stream: beyond it the stream is not read, and HTTP/2 flow control stops the producer."""
SUSPENDED_PATIENCE_S, PROBE_PATIENCE_S = 0.3, 1.0
"""How long unanswered batches wait at a member without a master before their producer is sent to look elsewhere. A
master that is suspended has lost peer and register, so its peer may well be master by now; a member in PROBE may be
about to take over itself, and needs the time between "connection lost" and "peer lost" for it."""


class BatchWaiter:
    """Waits for the answer to one batch of a stream."""

    __slots__ = ("cancelled", "count", "first_sequence", "pending", "queue", "size", "stream", "way")

    def __init__(self, stream: ProduceStream, batch: EnqueueBatch, size: int, way: Entrance) -> None:
        self.stream = stream
        self.queue, self.way = batch.queue, way
        self.first_sequence = batch.first_sequence
        self.count = len(batch.messages.payloads)
        self.size = size
        self.cancelled = False
        self.pending: PendingEnqueue | None = None
        """What waits for room, perhaps."""

    def answer(self, result: Answer) -> None:
        """The answer is here; it frees the batch's place."""
        stream = self.stream
        if isinstance(result, Failed) and PROXY_TARGET in result.metadata and self.queue == stream.queue:
            result = Moved(f"{self.queue} has become known as a proxy; open the stream again")
        if isinstance(result, EnqueueDone):
            ack = ack_of(self.queue, result)
            if self.way.onward is not None:
                ack.forwarded = self.way.queue
            stream.out.append(ack)
        elif isinstance(result, Failed):
            last = int(result.metadata.get("last_sequence", "0"))
            stream.out.append(
                EnqueueReject(
                    queue=self.queue,
                    first_sequence=self.first_sequence,
                    count=self.count,
                    error=failure(result),
                    last_sequence=last,
                )
            )
        elif isinstance(result, Moved):
            stream.goaway(result.message, home_of(stream.members, self.way))
        if not self.cancelled:
            self.cancelled = True
            stream.unanswered -= 1
            stream.unanswered_bytes -= self.size
            stream.waiters.discard(self)
            stream.room.set()
        stream.wake.set()


class ProduceStream:
    """One producer's stream."""

    def __init__(self, members: Members, context: grpc.aio.ServicerContext) -> None:  # type: ignore[type-arg]  # serializers are bytes
        self.members = members
        self.context = context
        self.out: list[EnqueueAck | EnqueueReject | Goaway] = []
        self.wake = asyncio.Event()
        self.room = asyncio.Event()
        self.unanswered = 0
        self.unanswered_bytes = 0
        self.unsent = 0
        self.waiters: set[BatchWaiter] = set()
        self.closing = False
        self.full_wait_ms = 0
        self.queue = ""
        """That it was opened for: no proxy, as far as this member knew then."""
        self.is_remote = is_remote(context)

    async def run(self) -> None:
        """Until the producer has closed its side and everything is answered."""
        open_, way = await self._read_open()
        self.queue = open_.queue
        with self.members.attached.client(client_of(way.queue, self.context, producer=True)):
            await self._serve(open_, way)

    async def _serve(self, open_: ProduceOpen, way: Entrance) -> None:
        last_sequence = await self._last_sequence(open_, way)
        await self.context.write(self._opened(way, last_sequence).SerializeToString())
        writer = asyncio.create_task(self._write())
        watch = asyncio.create_task(self._watch_master(way))
        try:
            await self._read(open_)
            self.closing = True
            self.wake.set()
            await writer
        finally:
            writer.cancel()
            watch.cancel()
            self._leave()

    def _leave(self) -> None:
        """Nobody hears the answers any more: what still waits for room need not."""
        node = self.members.node
        for waiter in self.waiters:
            waiter.cancelled = True
        touched: dict[int, Domain] = {}
        for waiter in sorted(self.waiters, key=lambda waiter: waiter.first_sequence):
            if waiter.pending is not None:
                domain = home_of(self.members, waiter.way)
                domain.withdraw(waiter.pending, node.clock.now_ms())
                touched[domain.shared.domain] = domain
        for domain in touched.values():
            node.dispatch(domain)

    async def _read_open(self) -> tuple[ProduceOpen, Entrance]:
        """With the way of the queue that it names."""
        frame = await self.context.read()
        request = await self._parse(frame) if isinstance(frame, bytes) else ProduceRequest()
        if request.WhichOneof("frame") != "open":
            await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, "the first frame of Produce must be open"))
        if not 1 <= len(request.open.client_id) <= 64:
            await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, "open.client_id must have 1 to 64 bytes"))
        way = await self._way_at_open(request.open)
        domain = home_of(self.members, way)
        if (stale := stale_epoch(self.members, domain, request.open.epoch)) is not None:
            await abort(self.context, stale)
        if (problem := problem_of_wait("full_wait", request.open.full_wait)) is not None:
            await abort(self.context, problem)
        if (problem := problem_of_origin(self.members, way.queue, self.context)) is not None:
            await abort(self.context, problem)
        self.full_wait_ms = wait_ms(request.open.full_wait)
        return request.open, way

    async def _way_at_open(self, open_: ProduceOpen) -> Entrance:
        try:
            return way_of(self.members, open_.queue, open_.client_id)
        except Refused as refused:
            await abort(self.context, Failed(refused.reason, refused.message, refused.metadata, None))

    async def _parse(self, frame: bytes) -> ProduceRequest:
        if (problem := problem_of_frame(frame, self.members.node.limits)) is not None:
            await abort(self.context, problem)
        try:
            return ProduceRequest.FromString(frame)
        except DecodeError:
            await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, "the frame is not a ProduceRequest"))

    async def _last_sequence(self, open_: ProduceOpen, way: Entrance) -> int:
        """From the master alone, and committed: a replica may lag, what is only ordered may be lost with its master.
        A producer that numbers from such an answer would lose messages, or be refused.
        """
        members = self.members
        while True:
            domain = await forward.wait_for_master(members, lambda: home_of(members, way), self.context)
            if domain is not None:
                machine = domain.shared.machine
                last = machine.last_sequence(way.queue, way.client_id) if machine is not None else 0
                if not last or await until_committed(domain):
                    return last
                continue
            call: Any = members.channel().stream_stream(forward.QUERY + "QueueService/Produce")(
                metadata=forward.hop(members, self.context)
            )
            try:
                await call.write(ProduceRequest(open=open_).SerializeToString())
                frame = await call.read()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                frame = None
            finally:
                call.cancel()
            if isinstance(frame, bytes):
                return ProduceResponse.FromString(frame).opened.last_sequence
            await asyncio.sleep(0.02)  # the master has just gone: the next one is about to be known

    def _opened(self, way: Entrance, last: int) -> ProduceResponse:
        domain = home_of(self.members, way)
        opened = ProduceOpened(
            header=header_of(self.members, domain),
            last_sequence=last,
            max_batches=UNANSWERED_BATCHES_MAX,
            max_batch_bytes=self.members.node.limits.batch_bytes_max,
            max_batch_messages=_messages_max(domain, way.queue),
        )
        return ProduceResponse(opened=opened)

    async def _read(self, open_: ProduceOpen) -> None:
        node, access = self.members.node, self.members.access
        while True:
            frame = await self.context.read()
            if not isinstance(frame, bytes):
                return
            request = await self._parse(frame)
            if request.WhichOneof("frame") != "batch":
                await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, "only batches may follow open"))
            batch, body = request.batch, _body(frame, request.batch)
            asker = None if access is None else access.asker
            if asker is not None and asker.quoted is not None:
                await asker.quoted.batch(self.context, len(batch.messages.payloads), len(frame))
            if asker is not None and (problem := await self._problem_of_rights(asker, open_, batch)) is not None:
                self._waiter(batch, len(body), Entrance(batch.queue, open_.client_id)).answer(problem)
            elif is_full(batch.queue):
                await self._submit_by_full_name(open_, batch, body)
            else:
                self._submit(open_, self._waiter(batch, len(body), Entrance(batch.queue, open_.client_id)), batch, body)
            while self._is_full():
                self.room.clear()
                await self.room.wait()
            if node.failed.done():
                return

    async def _problem_of_rights(self, asker: Asker, open_: ProduceOpen, batch: EnqueueBatch) -> Failed | None:
        """The queue of the stream was asked about when it opened."""
        names = {batch.queue} - {open_.queue} | set(batch.messages.reply_tos) - {""}
        for name in sorted(names):
            if (problem := await asker.problem_of(self.context, "QueueService/Produce", PRODUCE, name)) is not None:
                return problem
        return None

    def _is_full(self) -> bool:
        """Batches without an answer, or answers that the producer does not take."""
        waiting = self.unanswered + len(self.out) + self.unsent
        return waiting >= UNANSWERED_BATCHES_MAX or self.unanswered_bytes > UNANSWERED_BYTES_MAX

    def _waiter(self, batch: EnqueueBatch, size: int, way: Entrance) -> BatchWaiter:
        waiter = BatchWaiter(self, batch, size, way)
        self.unanswered += 1
        self.unanswered_bytes += size
        self.waiters.add(waiter)
        return waiter

    async def _submit_by_full_name(self, open_: ProduceOpen, batch: EnqueueBatch, body: bytes) -> None:
        try:
            way = way_of(self.members, batch.queue, open_.client_id)
        except Refused as refused:
            waiter = self._waiter(batch, len(body), Entrance(batch.queue, open_.client_id))
            waiter.answer(Failed(refused.reason, refused.message, refused.metadata, None))
            return
        waiter = self._waiter(batch, len(body), way)
        if way.onward is not None:
            await self._submit_onward(open_, waiter, batch)
            return
        batch.queue = way.queue
        self._submit(open_, waiter, batch, batch.SerializeToString(deterministic=True))

    async def _submit_onward(self, open_: ProduceOpen, waiter: BatchWaiter, batch: EnqueueBatch) -> None:
        """Its order is kept: the stream is not read on meanwhile."""
        way = waiter.way
        try:
            columns, body = await batch_of(self.members, way, batch.messages)
        except Refused as refused:
            waiter.answer(Failed(refused.reason, refused.message, refused.metadata, None))
            return
        lack = await made(self.members, home_of(self.members, way), way)
        if lack is not None:
            waiter.answer(lack)
            return
        self._order(open_, waiter, columns, body)

    def _submit(self, open_: ProduceOpen, waiter: BatchWaiter, batch: EnqueueBatch, body: bytes) -> None:
        node = self.members.node
        if len(body) > node.limits.batch_bytes_max:
            message = f"a batch of {len(body)} bytes; the limit is {node.limits.batch_bytes_max}, see ProduceOpened"
            waiter.answer(refusal(Reason.REASON_MESSAGE_TOO_LARGE, message))
            return
        if self.is_remote and (problem := problem_of_remote(self.members, waiter.way.queue)) is not None:
            waiter.answer(problem)
            return
        try:
            columns = columns_of(batch)
            check_content(batch.messages)
        except Refused as refused:
            waiter.answer(Failed(refused.reason, refused.message, refused.metadata, None))
            return
        self._order(open_, waiter, columns, body)

    def _order(self, open_: ProduceOpen, waiter: BatchWaiter, columns: Columns, body: bytes) -> None:
        node, way = self.members.node, waiter.way
        crc = google_crc32c.value(body)
        call = EnqueueCall(
            way.queue,
            way.client_id,
            waiter.first_sequence,
            columns,
            self.members.member,
            request_hash=crc,
        )
        pending = PendingEnqueue(waiter, call, body, open_.min_copies, batch_crc=crc)
        if self.full_wait_ms:
            waiter.pending = pending
            pending.full_until_ms = node.clock.now_ms() + self.full_wait_ms
        domain = home_of(self.members, way)
        domain.submit(pending, node.clock.now_ms())
        node.dispatch(domain)

    async def _watch_master(self, way: Entrance) -> None:
        """Sends the producer away once no master is to be had here: a member that is cut off would hold it for good."""
        members, loop = self.members, asyncio.get_running_loop()
        lost_s: float | None = None
        while True:
            domain, changed = home_of(members, way), members.changed
            role = domain.shared.role
            if role is Role.MASTER or (role is Role.REPLICA and members.master_endpoint(domain)):
                lost_s = None
                await changed.wait()
                continue
            lost_s = loop.time() if lost_s is None else lost_s
            patience_s = SUSPENDED_PATIENCE_S if role is Role.MASTER_SUSPENDED else PROBE_PATIENCE_S
            if loop.time() >= lost_s + patience_s and self.unanswered:
                text = f"{members.member} sees no master of domain {domain.shared.name}; the other member may"
                self.goaway(text, domain)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await changed.wait()

    def goaway(self, message: str, domain: Domain) -> None:
        """Ask the producer to open a new stream and repeat what is unanswered. `domain`: whose epoch he is to know."""
        error = Error(reason=Reason.REASON_NOT_MASTER, message=message)
        endpoint, epoch = self.members.master_endpoint(domain), domain.shared.state.epoch
        self.out.append(Goaway(error=error, master_endpoint=endpoint, epoch=epoch))
        self.wake.set()

    async def _write(self) -> None:
        while True:
            if not self.out:
                if self.closing and not self.unanswered:
                    return
                self.wake.clear()
                await self.wake.wait()
                continue
            out, self.out = self.out, []
            at = 0
            while at < len(out):
                self.unsent = len(out) - at
                response, at = _pack(out, at)
                await self.context.write(response.SerializeToString())
            self.unsent = 0
            self.room.set()


def _pack(out: list[EnqueueAck | EnqueueReject | Goaway], at: int) -> tuple[ProduceResponse, int]:
    """One frame: an answer and all acks that follow it directly. A frame costs the same whatever is in it."""
    first = out[at]
    at += 1
    if isinstance(first, EnqueueReject):
        return ProduceResponse(reject=first), at
    if isinstance(first, Goaway):
        return ProduceResponse(goaway=first), at
    response = ProduceResponse(ack=first)
    while at < len(out) and isinstance(out[at], EnqueueAck):
        response.more_acks.append(out[at])  # type: ignore[arg-type]  # narrowed by the loop's condition
        at += 1
    return response, at


def _messages_max(domain: Domain, name: str) -> int:
    """What the queue can hold, as far as it is known here and worth sending."""
    machine = domain.shared.machine
    queue_id = machine.queue_id(name) if machine is not None else None
    if machine is None or queue_id is None:
        return 0
    return min(machine.queue(queue_id).config.max_length, machine.state.limits.batch_messages_max)


def _body(frame: bytes, batch: EnqueueBatch) -> bytes:
    """The bytes of the batch inside its frame, as they arrived: tag 0x12, length, bytes."""
    if frame[0] == 0x12:
        length = shift = 0
        at = 1
        while at < len(frame):
            byte = frame[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if byte < 0x80:
                break
        if at + length == len(frame):
            return frame[at:]
    return batch.SerializeToString(deterministic=True)  # legal but unusual encoding: written anew, once
