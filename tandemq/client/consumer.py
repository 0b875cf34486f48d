"""Carries out receiving: one stream at a time with credit, a bounded buffer, and settlements that survive reconnects.

It decides nothing about ranges or frames (settling.py) nor about when to try again (retry.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from tandemq import retry
from tandemq.client.calls import QUEUE_SERVICE, Attempts, Moved
from tandemq.client.delivery import Delivery, DeliveryBatch, delivered
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_client_id
from tandemq.client.members import Members
from tandemq.client.outgoing import Attributes, to_message
from tandemq.client.receipts import domain_number
from tandemq.client.settling import Act, Lost, Range, Settling
from tandemq.client.streams import Ended, Stream, open_stream, run_both
from tandemq.errors import Closed, InDoubt, TandemqError, TimedOut, to_error
from tandemq.far_leases import is_far
from tandemq.v1 import queue_service_pb2

Mode = Literal["lease", "immediate"]
OWN_SIGN_S = 180.0  # a stream that hears nothing for so long asks, though others on its connection hear
UNCONFIRMED_MESSAGES_MAX = 1_000_000  # settled and unconfirmed; beyond it no more credit is given


class Consumer:
    """Receives messages of one queue. Belongs to one event loop; connects when it is first asked for a message.

    Order: delivery order, which is index order for first deliveries. At least once: after a broken stream, messages
    that were buffered here are still given although their lease may have gone, and members may give them again.
    Settlements are repeated until a member confirms them. When no member was reached for `timeout` seconds the
    consumer fails: who waits for a message or a confirmation gets the last error.
    """

    def __init__(
        self,
        members: Members,
        policy: retry.Policy,
        queue: str,
        *,
        client_id: bytes | str | None,
        credit_messages: int,
        credit_bytes: int,
        lease: timedelta | None,
        mode: Mode | None,
        on_lost: Callable[[Lost], None] | None,
        where: str | Where | None = None,
    ) -> None:
        if credit_messages < 1 or credit_bytes < 1:
            raise ValueError("credit is at least 1 message and 1 byte")
        self.queue = queue
        self.client_id = new_client_id(client_id)
        self.lost = 0  # messages whose settlement was refused
        self.redelivered = 0  # messages received that were delivered to somebody before
        self._on_lost = on_lost
        self._filter = to_filter(where)
        self._members, self._policy, self._lease, self._mode = members, policy, lease, mode
        self._credit_messages, self._credit_bytes = credit_messages, credit_bytes
        self._buffer: deque[DeliveryBatch] = deque()  # bounded by the credit
        self._current: Iterator[Delivery] = iter(())
        self._owed_messages = self._owed_bytes = 0  # taken by the application and not given as credit again
        self._settling = Settling()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()  # something to write
        self._arrived = asyncio.Event()  # the buffer is not empty, or the consumer failed
        self._confirmed: list[tuple[int, asyncio.Future[None]]] = []
        self._failed: TandemqError | None = None
        self._last_lease_id = 0  # highest that was received; lease ids rise with the log
        self._was_open = False
        self._opened = asyncio.Event()  # once, or failed
        self.connected = False  # a stream is open now; while it is not, it is being opened again
        self._closing = False
        self._quiet = asyncio.Event()  # while closing: no stream brings messages any more
        self._domain = members.masters.domain_of(queue) or "main"
        self._domain_number = 0
        self._read_at = self._loop.time()
        self._attempts: Attempts | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def opened(self) -> None:
        """Waits until a member serves this consumer, perhaps with nothing. Raises what it is refused with."""
        self._start()
        await self._opened.wait()
        if self._failed is not None:
            raise self._failed

    # -- receiving -----------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        while True:
            delivery = next(self._current, None)
            if delivery is not None:
                return delivery
            self._current = iter(await self._take())

    async def batches(self) -> AsyncIterator[DeliveryBatch]:
        """Deliveries as they came, a batch a time: the fast way. Ends when the consumer is closed."""
        while True:
            try:
                batch = await self._take()
            except StopAsyncIteration:
                return
            yield batch

    async def _take(self) -> DeliveryBatch:
        self._start()
        while not self._buffer:
            if self._failed is not None:
                if isinstance(self._failed, Closed):
                    raise StopAsyncIteration
                raise self._failed
            self._arrived.clear()
            await self._arrived.wait()
        batch = self._buffer.popleft()
        self._owed_messages += len(batch)
        self._owed_bytes += sum(map(len, batch.payloads))
        if self._is_credit_due():
            self._wake.set()
        return batch

    # -- settling ------------------------------------------------------------------------------------------------

    def settle_soon(self, act: Act, ranges: Sequence[Range]) -> None:
        """Gathers settlements for the next frame. Raises the consumer's error after it failed."""
        if self._failed is not None:
            raise self._failed
        self._settling.add(act, ranges)
        self._wake.set()

    async def settle_now(self, act: Act, ranges: Sequence[Range]) -> None:
        """Settles and waits for the confirmation. Raises LeaseLost when a member refused."""
        if self._failed is not None:
            raise self._failed
        self._start()
        future: asyncio.Future[None] = self._loop.create_future()
        self._settling.add(act, ranges, future)
        self._wake.set()
        await future

    def reply_soon(self, lease_id: int, index: int, payload: bytes, attributes: Attributes) -> None:
        """Gathers an answer for the next frame. Raises the consumer's error after it failed."""
        if self._failed is not None:
            raise self._failed
        self._settling.add_reply(lease_id, index, to_message(payload, attributes))
        self._wake.set()

    async def reply(self, delivery: Delivery, payload: bytes, **attributes: Unpack[Attributes]) -> None:
        """TWO_WAY: answers a request and waits for the confirmation. The first answer counts: raises AlreadyExists
        (ALREADY_REPLIED) for another one, LeaseLost when the request may be with somebody else.
        """
        if self._failed is not None:
            raise self._failed
        self._start()
        future: asyncio.Future[None] = self._loop.create_future()
        self._settling.add_reply(delivery.lease_id, delivery.index, to_message(payload, attributes), future)
        self._wake.set()
        await future

    async def settled(self) -> None:
        """Waits until everything settled so far is confirmed. Refusals are counted in `lost`, not raised."""
        if self._failed is not None and self._settling.messages:
            raise self._failed
        last = self._settling.seal()
        if self._settling.is_confirmed(last):
            return
        self._start()
        future: asyncio.Future[None] = self._loop.create_future()
        self._confirmed.append((last, future))
        self._wake.set()
        await future

    async def close(self) -> None:
        """Gives back what the application did not take, waits a bounded time for confirmations, and ends the stream.

        Never raises for settlements that stay unconfirmed: their leases end by time. May be called twice.
        """
        if self._failed is None:
            self._closing = True
            self._wake.set()
            try:
                async with asyncio.timeout(self._policy.attempt_s):
                    if self._task is not None:
                        await self._quiet.wait()  # what is given back before would come again, over the same stream
                    self._give_back()
                    await self.settled()
            except (TandemqError, TimeoutError):
                pass  # said above
            self._fail(Closed("CLOSED", f"consumer of {self.queue} was closed", definite=True))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _give_back(self) -> None:
        for delivery in self._current:
            delivery.release()
        while self._buffer:
            self._buffer.popleft().release()

    # -- the stream ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._task is None and self._failed is None:
            self._attempts = Attempts(self._members, self._policy, self._domain)
            self._task = self._loop.create_task(self._run(self._attempts), name=f"tandemq consumer {self.queue}")
            self._task.add_done_callback(self._ended)

    async def _run(self, attempts: Attempts) -> None:
        try:
            await self._attempt_all(attempts)
        except TandemqError as error:
            raise await self._members.explained(error, found_nobody=attempts.found_nobody) from error

    async def _attempt_all(self, attempts: Attempts) -> None:
        async for attempt in attempts.retrying():
            with attempt:
                await self._session(attempts)
                # It ended in order, because this consumer closes: nothing more comes. What is to be said goes out over
                # a stream without credit.
                self._quiet.set()
                while not self._settling.messages:
                    self._wake.clear()
                    await self._wake.wait()
                await self._session(attempts)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, TandemqError):
            self._fail(error)
        elif error is not None:  # a bug of ours must not leave anybody waiting
            self._fail(InDoubt("INTERNAL", f"the consumer's task ended: {error!r}"))
            self._loop.call_exception_handler({"message": "consumer task ended", "exception": error, "task": task})

    def _opening(self) -> bytes:
        opening = queue_service_pb2.ConsumeOpen(
            queue=self.queue,
            client_id=self.client_id,
            format=queue_service_pb2.DELIVERY_FORMAT_SEGMENTS,
            epoch=self._members.masters.epoch(self._domain),
            filter=self._filter,
        )
        if self._mode is not None:
            opening.settle_mode = to_mode(self._mode)
        if self._lease is not None:
            opening.lease_duration.FromTimedelta(self._lease)
        if self._was_open:
            # What an earlier stream was given after that died with it: the master takes it back at once.
            opening.last_lease_id = self._last_lease_id
        return queue_service_pb2.ConsumeRequest(open=opening).SerializeToString()

    async def _session(self, attempts: Attempts) -> None:
        endpoint = await attempts.located()
        channel = self._members.channel(endpoint)
        async with open_stream(channel, QUEUE_SERVICE + "Consume", endpoint) as stream:
            await stream.write(self._opening())
            first = queue_service_pb2.ConsumeResponse.FromString(
                await stream.read_first(
                    min(self._policy.attempt_s, attempts.remaining_s),
                    patience_s=attempts.remaining_s,
                    heard_s=lambda: self._members.heard_s(endpoint),
                )
            )
            if first.WhichOneof("frame") != "opened":
                self._on_frame(first)
                raise Moved("", f"{endpoint} did not answer the opening frame")
            header = first.opened.header
            self._read_at = self._loop.time()
            self._members.hear(endpoint, self._read_at)
            self._was_open = True
            self._opened.set()
            self._members.learn(header, self.queue)
            self._domain = attempts.domain = header.domain or self._domain
            self._domain_number = domain_number(self._domain)
            attempts.prefer_master(header.master_endpoint)
            attempts.progress()
            self._settling.opened()
            # A new stream starts without credit; what is buffered here was paid for by the old one.
            self._owed_messages = self._credit_messages - sum(map(len, self._buffer))
            self._owed_bytes = self._credit_bytes - sum(len(item) for batch in self._buffer for item in batch.payloads)
            self._wake.set()
            if self._closing:
                self._quiet.set()  # no credit is given here
            self.connected = True
            try:
                await run_both(lambda: self._read(stream, attempts), lambda: self._write(stream))
            finally:
                self.connected = False

    def _is_credit_due(self) -> bool:
        """Credit goes out in halves: a frame for each message would cost more than the message."""
        if self._closing or self._settling.messages > UNCONFIRMED_MESSAGES_MAX:
            return False
        return self._owed_messages * 2 >= self._credit_messages or self._owed_bytes * 2 >= self._credit_bytes

    async def _write(self, stream: Stream) -> None:
        # What an earlier stream did not confirm goes before any credit: a new master that does not know those leases
        # takes an acknowledgement while nobody holds the message, and with credit it would lease it to us again first.
        while (frame := self._settling.next_frame()) is not None:
            await stream.write(frame)
        while True:
            if self._is_credit_due():
                credit = queue_service_pb2.ConsumeCredit(
                    messages=max(0, self._owed_messages), bytes=max(0, self._owed_bytes)
                )
                self._owed_messages = min(0, self._owed_messages)
                self._owed_bytes = min(0, self._owed_bytes)
                await stream.write(queue_service_pb2.ConsumeRequest(credit=credit).SerializeToString())
            frame = self._settling.next_frame()
            if frame is not None:
                await stream.write(frame)
            elif self._closing and not self._quiet.is_set():
                await stream.half_close()
                await self._quiet.wait()  # the reader goes on to the end of the stream
            elif not self._is_credit_due():
                self._wake.clear()
                await self._woken(stream)

    async def _woken(self, stream: Stream) -> None:
        """Waits for work; asks a silent member for a sign of life, and leaves it when there is none."""
        patience_s = self._policy.attempt_s
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    await self._wake.wait()
                    return
            except TimeoutError:
                now_s = self._loop.time()
                heard_s = max(self._read_at, self._members.heard_s(stream.endpoint))
                # Members give their signs over any stream of a connection; now and then this one asks for its own.
                silent_s = max(now_s - heard_s, now_s - self._read_at - OWN_SIGN_S)
                if silent_s >= 2 * patience_s:
                    raise TimedOut(
                        "DEADLINE_EXCEEDED", f"{stream.endpoint} was silent for {silent_s:.1f} s", retryable=True
                    ) from None
                if silent_s >= patience_s:
                    ping = queue_service_pb2.ConsumePing(nonce=1)
                    await stream.write(queue_service_pb2.ConsumeRequest(ping=ping).SerializeToString())

    async def _read(self, stream: Stream, attempts: Attempts) -> None:
        while True:
            try:
                frame = await stream.read()
            except Ended:
                if self._closing and not self._quiet.is_set():
                    return  # as it was asked to
                raise
            self._read_at = self._loop.time()
            self._members.hear(stream.endpoint, self._read_at)
            attempts.progress()
            self._on_frame(queue_service_pb2.ConsumeResponse.FromString(frame))

    def _on_frame(self, response: queue_service_pb2.ConsumeResponse) -> None:
        match response.WhichOneof("frame"):
            case "deliveries":
                self._on_deliveries(response.deliveries)
            case "settled":
                self._on_settled(response.settled)
            case "progress":
                self._members.learn(response.progress.header)
            case "goaway":
                goaway = response.goaway
                self._members.masters.learn(self._domain, goaway.epoch, goaway.master_endpoint)
                if (refused := to_error(goaway.error)).reason != "NOT_MASTER":
                    raise refused  # the queue was closed, disabled or deleted: no other member would serve it
                raise Moved(self._members.master(self._domain), goaway.error.message)
            case _:
                return  # a newer member's word

    def _on_deliveries(self, deliveries: queue_service_pb2.Deliveries) -> None:
        self._members.learn(deliveries.header)
        if not is_far(deliveries.lease_id):  # those of other managers do not rise with the log here
            self._last_lease_id = max(self._last_lease_id, deliveries.lease_id)
        batch = delivered(deliveries, self._domain_number, self)
        if batch is None:
            return
        if deliveries.queue != self.queue:
            self._settling.note_home(deliveries.lease_id, deliveries.queue)
        self.redelivered += batch.redelivered
        self._buffer.append(batch)
        self._arrived.set()

    def _on_settled(self, settled: queue_service_pb2.ConsumeSettled) -> None:
        self._members.learn(settled.header)
        confirmed = self._settling.on_settled(settled)
        if confirmed.error is not None:
            raise confirmed.error
        for loss in confirmed.lost:
            self.lost += sum(count for _, count in loss.ranges)
            if self._on_lost is not None:
                self._on_lost(loss)
        for watcher, error in confirmed.watchers:
            settle_future(watcher.sink, error)
        while self._confirmed and self._settling.is_confirmed(self._confirmed[0][0]):
            settle_future(self._confirmed.pop(0)[1], None)
        self._wake.set()

    # -- the end -------------------------------------------------------------------------------------------------

    def _fail(self, error: TandemqError) -> None:
        if self._failed is not None:
            return
        self._failed = error
        self._opened.set()
        unsettled = error.in_doubt()
        for watcher in self._settling.give_up():
            settle_future(watcher.sink, unsettled)
        for _, future in self._confirmed:
            settle_future(future, unsettled)
        self._confirmed.clear()
        self._arrived.set()


def settle_future(future: asyncio.Future[Any], error: TandemqError | None) -> None:
    """Tells whoever waits, unless they stopped waiting."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def to_mode(mode: Mode) -> queue_service_pb2.SettleMode:
    """The value on the wire."""
    if mode == "immediate":
        return queue_service_pb2.SETTLE_MODE_IMMEDIATE
    if mode == "lease":
        return queue_service_pb2.SETTLE_MODE_LEASE
    raise ValueError(f"mode is 'lease' or 'immediate', not {mode!r}")
