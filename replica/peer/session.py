"""One connection to the peer while it lasts: reads and writes its three streams, and tells the domains when it begins
and ends.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Any, Protocol

import google_crc32c
import grpc
from google.protobuf.message import DecodeError

from failover.marks import Role
from replica.core.replication.op_frame import OpFrame
from replica.core.replication.sync_source import FRAME_BYTES_MAX, NeedRead, Phase
from replica.core.state.calls import PendingEnqueue
from replica.core.state.effects import CheckTransfer
from replica.machine import EnqueueCall, columns_of
from replica.peer.identity.duplicates import PeerRefused
from replica.peer.identity.starts import NUMBER_MAX
from replica.peer.transfer import Receiver, check_all, check_sent, frames_of, wait_for_begin
from replica.rpc.requests import fingerprint
from storage.errors import CorruptRecord, NewerFormat
from tandemq.ambient import monotonic_ms
from tandemq.peer.v1.peer_service_pb2 import DomainHeartbeat, HeartbeatFrame, Hello, PeerFrame, TransferFrame
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from replica.core.domain import Domain
    from replica.core.replication.sync_source import SyncSource
    from replica.node.loop import Node
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

log = logging.getLogger("tandemq.session")

FRAMES_UNANSWERED_MAX = 2
"""Frames of live records towards the peer: one is committed there while the next one travels."""

# What a frame raises that nobody meant as one: the peer's fault, never this member's state.
_MALFORMED = (DecodeError, ValueError, KeyError, IndexError, struct.error)


class PeerStream(Protocol):
    """What both ends of a bidi stream have in common."""

    async def read(self) -> object: ...

    async def write(self, message: Any, /) -> None: ...


def check_hello(frame: PeerFrame, own: Hello, expected_member: str) -> None:
    """Refuse whoever is not the other member of this pair (malformed frames included)."""
    if not frame.HasField("hello"):
        raise PeerRefused(Reason.REASON_BAD_REQUEST, "the first frame of a Data stream must be HELLO")
    hello = frame.hello
    if hello.pair != own.pair:
        text = f"this is pair {own.pair!r}, the caller belongs to {hello.pair!r}; check [peer] address"
        raise PeerRefused(Reason.REASON_WRONG_PAIR, text)
    if hello.member != expected_member:
        text = f"the other member is {expected_member!r}, the caller is {hello.member!r}; check [peer]"
        raise PeerRefused(Reason.REASON_WRONG_PAIR, text)
    if hello.instance_id == own.instance_id:
        text = "both members run on copies of one data directory; empty one of them"
        raise PeerRefused(Reason.REASON_WRONG_PAIR, text)
    if hello.incarnation >= NUMBER_MAX:
        text = f"the caller is start {hello.incarnation}; no member starts so often, {NUMBER_MAX} times"
        raise PeerRefused(Reason.REASON_BAD_REQUEST, text)
    if hello.protocol_min > own.protocol_max or hello.protocol_max < own.protocol_min:
        raise PeerRefused(
            Reason.REASON_NEWER_FORMAT,
            f"the peer speaks protocol {hello.protocol_min} to {hello.protocol_max}, "
            f"this member {own.protocol_min} to {own.protocol_max}; upgrade the older one",
        )


def is_busy(source: SyncSource) -> bool:
    """Whether live records had better wait for the next frame, whose cost hardly depends on how many are in it.

    The acknowledgement that ends this wakes the writer. What the peer has asked for again counts as not sent, and a
    commit index that answers its held requests does not wait.
    """
    commit_index = source.shared.progress.commit_index
    if source.phase is not Phase.LIVE or (source.held_open and source.commit_sent < commit_index):
        return False
    if len(source.in_flight) < FRAMES_UNANSWERED_MAX:
        return False
    unanswered = sum(source.peer_durable < last < source.cursor for last, _ in source.in_flight)
    return unanswered >= FRAMES_UNANSWERED_MAX


def held_call(frame: PeerFrame, member: str) -> PendingEnqueue:
    """The call that a Hold frame makes: a batch that the peer, `member`, holds for one of its clients."""
    hold = frame.hold
    batch = EnqueueBatch.FromString(hold.batch)
    crc = google_crc32c.value(hold.batch)
    call = EnqueueCall(
        hold.key.queue,
        b"" if hold.request_id else hold.key.client_id,
        hold.key.first_sequence,
        columns_of(batch),
        member,
        hold.request_id,
        fingerprint(hold.batch) if hold.request_id else crc,
    )
    return PendingEnqueue(None, call, hold.batch, hold.min_copies, batch_crc=crc)


class SessionListener(Protocol):
    """Who hears what the peer says, beside the domains."""

    def on_domain_hello(self, domain: Domain, hello: DomainHello) -> None:
        """Before the domain does."""

    def on_beat(self, frame: HeartbeatFrame) -> None:
        """A heartbeat."""

    def on_stale(self, domain: Domain) -> None:
        """A frame of a lower epoch."""

    def on_verify(self, domain: Domain, frame: PeerFrame) -> None:
        """A frame of a comparison: it needs the store."""


class Session:
    """Three streams and the tasks on them."""

    def __init__(
        self,
        node: Node,
        data: PeerStream,
        beat: PeerStream,
        transfer: PeerStream,
        listener: SessionListener,
        know: Callable[[Hello], None],
        *,
        heartbeat_s: float,
    ) -> None:
        self.node = node
        self.data = data
        self.beat = beat
        self.transfer = transfer
        self._listener = listener
        self._know = know
        """Each HELLO, before its domains: which process the peer is."""
        self.ended = asyncio.Event()
        self.heartbeat_s = heartbeat_s
        self.heard_ms = monotonic_ms()
        self.why = "closed"
        self.peer_left = False
        """The peer said that it goes away: an operator took it out."""
        self._tasks: list[asyncio.Task[None]] = []

    def close(self, why: str) -> None:
        """End the connection; `run` returns soon after."""
        if not self.ended.is_set():
            self.why = why
            self.ended.set()

    async def run(self, hello: Hello) -> str:
        """Until any stream ends; returns why."""
        node = self.node
        node.connect()
        for domain in node.paired():
            domain.on_connected()
        try:
            self._begin(hello)
            await self.ended.wait()
        finally:
            # Also when the handler itself is cancelled, which is how a server hears that the caller's connection broke.
            self._end()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception) and not self.node.failed.done():
                self.node.failed.set_result(result)  # a broken invariant of our own: stop, as in every other task
        return self.why

    def _begin(self, hello: Hello) -> None:
        try:
            self._on_hello(hello)
        except _MALFORMED as error:
            log.error("the peer's first frame cannot be taken, starting over: %r", error)
            self.close("malformed frame")
            return
        for work in (self._read_data(), self._write_data(), self._read_beats(), self._write_beats()):
            self._tasks.append(asyncio.create_task(self._guard(work)))
        self._tasks.append(asyncio.create_task(self._guard(self._read_transfer())))
        self._tasks.append(asyncio.create_task(self._guard(self._write_transfer())))

    def _end(self) -> None:
        """Nothing is awaited in here: the domains hear of it whatever ends the session."""
        node = self.node
        self.close("the peer's connection broke")
        node.disconnect()
        for task in self._tasks:
            task.cancel()
        now = monotonic_ms()
        for domain in node.paired():
            domain.on_disconnected(now)
            node.dispatch(domain)

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        """Whatever ends a stream ends the session; what is not the network's fault is said aloud."""
        why = "a task of it failed"
        try:
            await work
            why = "a stream was closed"
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            why = type(error).__name__
        except CorruptRecord as corrupt:
            log.error("a record cannot be taken or sent, starting over: %s", corrupt)
            why = "corrupt transfer"
        except NewerFormat as newer:
            log.error("the peer sent a record that this version cannot take, starting over: %s", newer)
            why = "newer format"
        except _MALFORMED as error:
            log.error("the peer sent a frame that cannot be taken, starting over: %r", error)
            why = "malformed frame"
        except grpc.aio.BaseError as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            self.close(why)  # in every case: a session without its reader beats on and carries nothing

    # -- Data ------------------------------------------------------------------------------------------------------

    def _on_hello(self, hello: Hello) -> None:
        self._know(hello)
        now = monotonic_ms()
        known = {part.domain: part for part in hello.domains}
        self.peer_left = bool(known) and all(part.role == Role.MAINTENANCE.value for part in hello.domains)
        for number, domain in self.node.domains.items():
            if number in known:
                self._listener.on_domain_hello(domain, known[number])
                domain.on_hello(known[number], now)
                self.node.dispatch(domain)

    async def _read_data(self) -> None:
        node = self.node
        while True:
            frame = await self.data.read()
            if not isinstance(frame, PeerFrame):
                return
            if frame.HasField("hello"):
                self._on_hello(frame.hello)
                continue
            domain = node.domains.get(frame.domain)
            if domain is None:
                log.warning(
                    "a frame of unknown domain %#x was dropped; do both members list the same domains?", frame.domain
                )
                continue
            if (frame.WhichOneof("frame") or "").startswith("verify_"):
                self._listener.on_verify(domain, frame)
                continue
            if not domain.on_frame(frame, node.clock.now_ms()):
                self._listener.on_stale(domain)
            node.dispatch(domain)

    async def _write_data(self) -> None:
        node = self.node
        while True:
            node.send_wake.clear()
            frames: list[PeerFrame | OpFrame] = [*node.outbox]
            node.outbox.clear()
            for domain in node.paired():
                if is_busy(domain.source):
                    continue
                pulled = domain.source.pull()
                if isinstance(pulled, NeedRead):
                    pulled = await self._read_stored(domain, pulled)
                frames.extend(pulled)
            if not frames:
                await node.send_wake.wait()
                continue
            for frame in frames:
                await self.data.write(frame)

    async def _read_stored(self, domain: Domain, need: NeedRead) -> list[PeerFrame | OpFrame]:
        loop = asyncio.get_running_loop()
        number = domain.shared.domain

        def scan() -> list[tuple[int, bytes]]:
            return self.node.store.scan(number, need.first, limit_records=1000, limit_bytes=FRAME_BYTES_MAX)

        rows = await loop.run_in_executor(None, scan)
        dense = [row for offset, row in enumerate(rows) if row[0] == need.first + offset and row[0] <= need.last]
        for log_index, record in dense:
            check_sent(domain.shared, log_index, record)
        if not dense:
            raise CorruptRecord(
                f"domain {domain.shared.name}: record {need.first} is neither in memory nor in the store"
            )
        return domain.source.frame_of_stored(dense)

    # -- Heartbeat -------------------------------------------------------------------------------------------------

    async def _write_beats(self) -> None:
        number, loop = 0, asyncio.get_running_loop()
        while True:
            number += 1
            now = monotonic_ms()
            began = self.node.write_began_ms
            beats = [
                DomainHeartbeat(
                    domain=d.shared.domain,
                    epoch=d.shared.state.epoch,
                    role=d.shared.role.value,  # type: ignore[arg-type]  # the enums share their numbers
                    durable_index=d.shared.progress.durable_index,
                    commit_index=d.shared.progress.commit_index,
                    passed=self.node.sides.beat(d),
                    asks=self.node.sides.asks.beat(d),
                )
                for d in self.node.paired()
            ]
            frame = HeartbeatFrame(
                number=number,
                heard_ago_ms=max(0, now - self.heard_ms),
                domains=beats,
                write_stall_ms=now - began if began else 0,
                room_bytes=max(0, min((d.orders.room_bytes for d in self.node.paired()), default=0)),
                full=any(d.orders.is_full for d in self.node.paired()),
            )
            await self.beat.write(frame)
            wake = self.node.beat_wake
            wake.clear()
            timer = loop.call_later(self.heartbeat_s, wake.set)
            await wake.wait()
            timer.cancel()

    async def _read_beats(self) -> None:
        node = self.node
        while True:
            frame = await self.beat.read()
            if not isinstance(frame, HeartbeatFrame):
                return
            self.heard_ms = monotonic_ms()
            self._listener.on_beat(frame)
            for beat in frame.domains:
                domain = node.domains.get(beat.domain)
                if beat.passed:
                    node.sides.on_beat(beat.domain, beat.passed)
                if beat.asks or node.sides.asks.peer:
                    node.sides.asks.on_beat(beat.domain, beat.asks)
                if domain is not None and beat.role == Role.MASTER.value:
                    domain.on_heartbeat(beat)
                    node.dispatch(domain)

    # -- Transfer --------------------------------------------------------------------------------------------------

    async def _write_transfer(self) -> None:
        transfers = self.node.transfers
        while True:
            domain, start = await transfers.get()
            if isinstance(start, CheckTransfer):
                try:
                    await check_all(self.node, domain, start)
                except CorruptRecord as corrupt:
                    if not domain.mastership.peer.on_not_whole(start.sync_id):
                        raise
                    log.error("domain %s: not everything can be sent anew: %s", domain.shared.name, corrupt)
                else:
                    domain.mastership.peer.on_checked(start.sync_id)
                self.node.dispatch(domain)
                continue
            log.info(
                "domain %s: sending %d queues up to log index %d",
                domain.shared.name,
                len(start.queues),
                start.log_index,
                extra=domain.shared.tags,
            )
            async for frame in frames_of(self.node, domain, start):
                if domain.source.sync_id != start.sync_id:
                    break
                await self.transfer.write(frame)

    async def _read_transfer(self) -> None:
        receivers: dict[int, Receiver] = {}
        while True:
            frame = await self.transfer.read()
            if not isinstance(frame, TransferFrame):
                return
            domain = self.node.domains.get(frame.domain)
            if domain is None or frame.WhichOneof("frame") == "member":
                continue
            receiver = receivers.get(frame.domain)
            if receiver is None or receiver.sync_id != frame.sync_id:
                if not await wait_for_begin(domain, frame.sync_id):
                    continue
                receiver = receivers[frame.domain] = Receiver(self.node, domain, frame.sync_id)
            if await receiver.on_frame(frame):
                log.info("domain %s: a full transfer has arrived", domain.shared.name, extra=domain.shared.tags)
                del receivers[frame.domain]


class Current:
    """The session with the peer, while there is one."""

    def __init__(self) -> None:
        self.session: Session | None = None

    def close(self, why: str) -> None:
        """End it, if there is one."""
        if self.session is not None:
            self.session.close(why)
