"""The Consume stream at the master: credit in, leased messages out, settles in, results out. At a replica the stream is
piped to the master.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol, TypeAlias

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from failover.marks import Role
from replica.core.messages import bodies
from replica.core.state.calls import Consumer, PendingCall
from replica.core.state.outcomes import Failed, FarLease, LeaseDone, Moved, ReplyDone, SettleDone
from replica.machine import SettleCall, milliseconds
from replica.node.standing import OpeningStream
from replica.rpc.refusals import abort, failure, refusal
from replica.services.answers import far_deliveries, header_of
from replica.services.checks import (
    is_immediate,
    problem_of_answer,
    problem_of_format,
    problem_of_receiving,
    stale_epoch,
)
from replica.services.filters import check, matcher_of
from replica.services.forward import ANSWER_S, member_of, park_s, pipe, time_left_s, wait_for_master
from replica.services.locality import problem_of_origin
from replica.services.messages.completion import reply_of
from replica.services.peer_clients import client_of
from replica.services.proxies.far_settling import FarFrames, any_far
from replica.services.which_domain import check_domain
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Error, Reason
from tandemq.v1.queue_service_pb2 import (
    ConsumeOpened,
    ConsumeProgress,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeSettled,
    DeliveryFormat,
    Goaway,
    SettleResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from replica.core.domain import Domain
    from replica.core.selection.filters import Filter
    from replica.core.state.outcomes import Answer
    from replica.core.state.shared import Shared
    from replica.machine import SegmentSlice
    from replica.node.members import Members
    from replica.services.proxies.far_settling import FarSettling
    from tandemq.v1.common_pb2 import ResponseHeader
    from tandemq.v1.queue_service_pb2 import ConsumeOpen, Deliveries

ServeSide: TypeAlias = (
    "Callable[[Members, ConsumeOpen, grpc.aio.ServicerContext[bytes, bytes], OpeningStream], Awaitable[bool]]"
)
"""Serves a consumer of a queue that has sides; False: it has none."""
CREDIT_MESSAGES_MAX = 1_000_000
CREDIT_BYTES_MAX = 64 << 20
UNSENT_FRAMES_MAX = 4_096
UNSENT_BYTES_MAX = 8 << 20
"""Frames that a consumer has caused and not taken: beyond it the stream is not read, so its credit does not grow."""


class SettleWaiter:
    """Waits for the results of one settle frame."""

    __slots__ = ("cancelled", "count", "settle_id", "stream")

    def __init__(self, stream: ConsumeStream, settle_id: int, count: int) -> None:
        self.stream = stream
        self.settle_id = settle_id
        self.count = count
        self.cancelled = False

    def answer(self, result: Answer) -> None:
        """One result a settlement; a refused frame refuses each of them."""
        stream = self.stream
        if isinstance(result, Moved):
            stream.goaway(result.message)
            return
        settled = ConsumeSettled(header=stream.header(), settle_id=self.settle_id)
        if isinstance(result, SettleDone):
            settled.results.extend(result.results)
        elif isinstance(result, ReplyDone):
            settled.results.append(SettleResult(settled=1))
        elif isinstance(result, Failed):
            settled.results.extend([SettleResult(error=failure(result))] * self.count)
        stream.push(ConsumeResponse(settled=settled))


class DeliverySource(Protocol):
    """Where the messages of a stream are, and what it says of that."""

    def header(self) -> ResponseHeader:
        """Of all that is said on the stream."""

    def place(self, queue: str, slices: Sequence[SegmentSlice]) -> tuple[str, Shared, Sequence[SegmentSlice]]:
        """What messages of a lease are there: the name of their queue, its domain, and where their bodies are. Raises
        CorruptRecord.
        """

    def sound(self, slices: Sequence[SegmentSlice], corrupt: CorruptRecord) -> Sequence[SegmentSlice] | Failed:
        """What is given of them where some are damaged; Failed: nothing more, ever. Raises `corrupt` where no damage
        is known.
        """


class OwnSource:
    """The domain that leases them, at its master."""

    def __init__(self, members: Members, domain: Domain) -> None:
        self._members, self._domain = members, domain

    def header(self) -> ResponseHeader:
        """See DeliverySource."""
        return header_of(self._members, self._domain)

    def place(self, queue: str, slices: Sequence[SegmentSlice]) -> tuple[str, Shared, Sequence[SegmentSlice]]:
        """See DeliverySource."""
        return queue, self._domain.shared, slices

    def sound(self, slices: Sequence[SegmentSlice], corrupt: CorruptRecord) -> Sequence[SegmentSlice] | Failed:
        """See DeliverySource."""
        damaged = self._domain.shared.damaged
        sound = [part for part in slices if part.log_index not in damaged]
        if len(sound) == len(slices):
            raise corrupt  # in memory: nothing was sent, and a second look would find the same
        return sound


class ConsumeStream:
    """One consumer's stream at the master."""

    def __init__(
        self,
        members: Members,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]  # serializers are bytes
        domain: Domain,
        open_: ConsumeOpen,
        asked: Filter | None,
        source: DeliverySource | None = None,
        far: FarSettling | None = None,
    ) -> None:
        self.members = members
        self.context = context
        self.source: DeliverySource = OwnSource(members, domain) if source is None else source
        self.far = FarFrames(far, domain)
        self.domain = domain
        self.cancelled = False
        self.spoke = False
        self.out: list[bytes] = []
        """Frames as they will be written: serialised once, which is also the only way to learn their size."""
        self.unsent_bytes = 0
        self.room = asyncio.Event()
        self.wake = asyncio.Event()
        self.leaving = False
        self.last_lease_id = open_.last_lease_id if open_.HasField("last_lease_id") else None
        self.segments = open_.format == DeliveryFormat.DELIVERY_FORMAT_SEGMENTS
        self.consumer = Consumer(
            waiter=self,
            queue=open_.queue,
            client_id=open_.client_id,
            duration_ms=milliseconds(open_.lease_duration) if open_.HasField("lease_duration") else 0,
            immediate=is_immediate(open_.settle_mode),
            member=member_of(members, context),
            wanted=matcher_of(members, domain, open_.queue, asked),
        )

    # -- what the core says ----------------------------------------------------------------------------------------

    def push(self, response: ConsumeResponse) -> None:
        """Queue a frame. A consumer that does not read is not read either, so what it can cause is bounded."""
        frame = response.SerializeToString()
        self.out.append(frame)
        self.unsent_bytes += len(frame)
        self.spoke = True
        self.wake.set()

    def sign(self) -> None:
        """A sign of life, for the whole connection (`replica.core.delivery.signs`); what waits to be written is one
        too.
        """
        if not self.out and not self.leaving:
            self.push(ConsumeResponse(progress=ConsumeProgress(header=self.header())))
            self.spoke = False

    def header(self) -> ResponseHeader:
        """Of all that is said on this stream."""
        return self.source.header()

    def goaway(self, message: str) -> None:
        """Ask the consumer to open a new stream, here or at the master."""
        if self.leaving:
            return
        self.leaving = True
        endpoint = self.members.master_endpoint(self.domain)
        error = Error(reason=Reason.REASON_NOT_MASTER, message=message)
        epoch = self.domain.shared.state.epoch
        self.push(ConsumeResponse(goaway=Goaway(error=error, master_endpoint=endpoint, epoch=epoch)))

    def answer(self, result: Answer) -> None:
        """The core has refused the consumer, or sends it away."""
        if isinstance(result, Moved):
            self.goaway(result.message)
        elif isinstance(result, Failed):
            self.leaving = True
            self.push(ConsumeResponse(goaway=Goaway(error=failure(result))))

    def deliver(self, done: LeaseDone | FarLease) -> None:
        """Messages under one lease."""
        if self.cancelled:
            return
        if isinstance(done, FarLease):
            self.consumer.credit_bytes -= sum(run.bytes for run in done.runs)
            self.push(far_deliveries(self.header(), done, segments=self.segments))
            return
        slices = done.slices
        while True:
            response = ConsumeResponse()
            try:
                self.consumer.credit_bytes -= self._fill(response.deliveries, done, slices)
            except CorruptRecord as corrupt:  # since the lease was planned: the others of it go out
                sound = self.source.sound(slices, corrupt)
                if isinstance(sound, Failed):
                    self.answer(sound)
                    return
                slices = sound
            else:
                break
        if len(slices) < len(done.slices):  # who is given nothing has nothing to give credit for
            left_out = sum(part.count for part in done.slices) - sum(part.count for part in slices)
            self.consumer.credit_messages += left_out
        self.push(response)

    def _fill(self, deliveries: Deliveries, done: LeaseDone, slices: Sequence[SegmentSlice]) -> int:
        """Returns the bytes of credit that it takes."""
        queue, shared, found = self.source.place(done.queue, slices)
        store = self.members.node.store
        deliveries.header.CopyFrom(self.header())
        deliveries.queue, deliveries.lease_id = queue, done.lease_id
        if self.segments:
            return bodies.fill_segments(store, shared, found, deliveries)
        for _ in bodies.fill_rows(store, shared, queue, done.lease_id, found, deliveries.messages):
            pass
        return sum(len(row.message.payload) for row in deliveries.messages)

    # -- the stream ------------------------------------------------------------------------------------------------

    async def run(self, entry: OpeningStream) -> None:
        """Until the consumer closes its side or is sent away. Gives the entry back once it is attached."""
        machine = self.domain.shared.machine
        duration_ms = self.consumer.duration_ms
        if not duration_ms and machine is not None:
            duration_ms = machine.lease_ms(self.consumer.queue)
        lease = Duration()
        lease.FromMilliseconds(duration_ms)
        opened = ConsumeOpened(header=self.header(), lease_duration=lease)
        node = self.members.node
        self.domain.attach(self.consumer, node.clock.now_ms(), self.last_lease_id)
        node.dispatch(self.domain)
        if not self.leaving:  # whoever is refused hears that first, and nothing of being served
            self.out.insert(0, ConsumeResponse(opened=opened).SerializeToString())
            self.unsent_bytes += len(self.out[0])
        self.wake.set()
        entry.leave()
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read())
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and not reader.cancelled() and reader.exception() is None:
                self.domain.consumers.detach(self.consumer)  # what was leased for it goes out; nothing more is leased
                self.leaving = True
                self.wake.set()
                await writer
            for task in (writer, reader):
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            self.cancelled = True
            writer.cancel()
            reader.cancel()
            self.far.close()
            self.domain.consumers.detach(self.consumer)

    async def _read(self) -> None:
        node = self.members.node
        while True:
            frame = await self.context.read()
            if not isinstance(frame, bytes):
                return
            try:
                request = ConsumeRequest.FromString(frame)
            except DecodeError:
                await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, "the frame is not a ConsumeRequest"))
            kind = request.WhichOneof("frame")
            if kind == "credit":
                consumer = self.consumer
                consumer.credit_messages = min(consumer.credit_messages + request.credit.messages, CREDIT_MESSAGES_MAX)
                consumer.credit_bytes = min(consumer.credit_bytes + request.credit.bytes, CREDIT_BYTES_MAX)
                self.domain.consumers.on_credit(consumer)
            elif kind == "settle":
                waiter = SettleWaiter(self, request.settle.settle_id, len(request.settle.settlements))
                call = SettleCall(self.consumer.queue, request.settle.settlements)
                if any_far(call.settlements):
                    await self.far.settle(call, waiter)
                else:
                    self.domain.submit(PendingCall(waiter, call), node.clock.now_ms())
            elif kind == "reply":
                reply = request.reply
                answering = SettleWaiter(self, reply.settle_id, 1)
                queue = self.domain.consumers.fan_in.answered_at(self.consumer.queue, reply.lease_id)
                if (problem := problem_of_answer(reply.message)) is not None:
                    answering.answer(problem)
                else:
                    answer = reply_of(queue, reply.lease_id, reply.index, reply.message)
                    self.domain.submit(PendingCall(answering, answer), node.clock.now_ms())
            elif kind == "ping":
                self.push(ConsumeResponse(progress=ConsumeProgress(header=self.header(), nonce=request.ping.nonce)))
            else:
                await abort(
                    self.context, refusal(Reason.REASON_BAD_REQUEST, "after open: credit, settle, reply or ping")
                )
            node.dispatch(self.domain)
            while self.unsent_bytes > UNSENT_BYTES_MAX or len(self.out) > UNSENT_FRAMES_MAX:
                self.room.clear()
                await self.room.wait()

    async def _write(self) -> None:
        while True:
            if not self.out:
                if self.leaving:
                    return
                self.wake.clear()
                await self.wake.wait()
                continue
            out, self.out = self.out, []
            for frame in out:
                await self.context.write(frame)
                self.unsent_bytes -= len(frame)
                self.room.set()


class CarriedStream:
    """One consumer's stream at a replica. The replica gives the signs of its own connections: what the master says over
    the streams that are carried to it is for those, and for the way between the members.
    """

    def __init__(self, members: Members, context: grpc.aio.ServicerContext, queue: str) -> None:  # type: ignore[type-arg]  # serializers are bytes
        self.members, self.context, self.queue = members, context, queue
        self.spoke = False
        self._writing = asyncio.Lock()
        self._signing: asyncio.Task[None] | None = None
        self._opened = False
        """The master has answered: nothing may be said before that."""
        self._over = False

    async def write(self, frame: bytes) -> None:
        """What the master has said."""
        self.spoke = self._opened = True
        async with self._writing:
            await self.context.write(frame)

    async def hush(self) -> None:
        """No more signs. gRPC takes no status while a frame is on its way."""
        self._over = True
        if self._signing is not None:
            await asyncio.wait([self._signing])

    def sign(self) -> None:
        """As long as the master is heard. Once it is this member, the stream leads to one that may be hung, and would
        answer pings for ever: its consumer is sent away.
        """
        members = self.members
        domain = members.of_queue(self.queue)
        if not self._opened or self._over or self._writing.locked() or domain.shared.suspect:
            return
        if domain.shared.serving:
            self._over = True
            error = Error(reason=Reason.REASON_NOT_MASTER, message="the master has moved; open the stream again")
            away = Goaway(error=error, master_endpoint=members.endpoint, epoch=domain.shared.state.epoch)
            response = ConsumeResponse(goaway=away)
        elif domain.shared.role is Role.REPLICA:
            response = ConsumeResponse(progress=ConsumeProgress(header=header_of(members, domain)))
        else:
            return
        self._signing = asyncio.create_task(self._sign(response.SerializeToString()))

    async def _sign(self, frame: bytes) -> None:
        with contextlib.suppress(grpc.aio.BaseError, asyncio.InvalidStateError):  # its reader hears that it is over
            async with self._writing:
                await self.context.write(frame)

    async def run(self, frame: bytes) -> None:
        """Until either side ends it."""
        with self.members.streams.signed(self.context.peer(), self):
            await pipe(self.members, "QueueService/Consume", frame, self.context, self)
        await self.hush()


async def serve(
    members: Members,
    context: grpc.aio.ServicerContext,  # type: ignore[type-arg]  # serializers are bytes
    serve_side: ServeSide,
    far: FarSettling,
) -> None:
    """A Consume stream, wherever its master is, or at its side (`serve_side`) where its queue has sides. `far`: settles
    what members of a macro queue at other managers gave.
    """
    frame = await context.read()
    try:
        request = ConsumeRequest.FromString(frame) if isinstance(frame, bytes) else ConsumeRequest()
    except DecodeError:
        request = ConsumeRequest()
    if request.WhichOneof("frame") != "open":
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, "the first frame of Consume must be open"))
    open_ = request.open
    if not 1 <= len(open_.client_id) <= 64:
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, "open.client_id must have 1 to 64 bytes"))
    problem = problem_of_receiving(open_, members.node.limits.lease_ms_max) or problem_of_format(open_)
    problem = problem or problem_of_origin(members, open_.queue, context)
    problem = problem or members.streams.problem()
    if problem is not None:
        await abort(context, problem)
    asked = await check(open_.filter, context)
    with members.attached.client(client_of(open_.queue, context, producer=False)), members.streams.counted():
        entry = await _enter(members, open_.queue, context)
        try:
            await members.streams.door.pace()
            await _serve(members, open_, bytes(frame), asked, context, entry, serve_side, far)
        finally:
            entry.leave()


async def _enter(members: Members, queue: str, context: grpc.aio.ServicerContext) -> OpeningStream:  # type: ignore[type-arg]  # serializers are bytes
    """Its turn among those that come. Where there is a master that takes as long as it takes; else it is refused as any
    call is that has waited for one.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + park_s(context, members.park_ms)
    places = members.streams.door.places[members.door_of(queue)]
    while True:
        try:
            async with asyncio.timeout_at(until_s):
                await places.acquire()
        except TimeoutError:
            domain = members.of_queue(queue)
            if not members.master_endpoint(domain) or time_left_s(context, members.park_ms) < ANSWER_S:
                await abort(context, Failed(*domain.no_master()))
            until_s = loop.time() + park_s(context, members.park_ms)
            continue
        if members.master_endpoint(members.of_queue(queue)):
            until_s = loop.time() + park_s(
                context, members.park_ms
            )  # so far it has waited for others, not for a master
        return OpeningStream(places, until_s)


async def _serve(
    members: Members,
    open_: ConsumeOpen,
    frame: bytes,
    asked: Filter | None,
    context: grpc.aio.ServicerContext,  # type: ignore[type-arg]  # serializers are bytes
    entry: OpeningStream,
    serve_side: ServeSide,
    far: FarSettling,
) -> None:
    if await serve_side(members, open_, context, entry):
        return
    await check_domain(members, open_.queue, "", context)
    domain = await wait_for_master(members, lambda: members.of_queue(open_.queue), context, entry.until_s)
    if domain is None:
        entry.leave()  # what opens it is the master's affair, which may take its time
        await CarriedStream(members, context, open_.queue).run(frame)
    else:
        if (stale := stale_epoch(members, domain, open_.epoch)) is not None:
            await abort(context, stale)
        await _check_queue(members, domain, open_, context)
        stream = ConsumeStream(members, context, domain, open_, asked, far=far)
        with members.streams.signed(context.peer(), stream):
            await stream.run(entry)


async def _check_queue(members: Members, domain: Domain, open_: ConsumeOpen, context: grpc.aio.ServicerContext) -> None:  # type: ignore[type-arg]  # serializers are bytes
    machine = domain.shared.machine
    if machine is not None and not machine.knows(open_.queue):
        message = f"there is no queue {open_.queue!r} at {members.pair or members.member}; create it first"
        await abort(context, refusal(Reason.REASON_QUEUE_NOT_FOUND, message))
