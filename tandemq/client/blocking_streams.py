"""Carries a producer and a consumer over to threads: they hand work to the asyncio ones and wait for it.

Decides nothing but how much may be on its way between the threads. Safe to use from several threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from tandemq.client import aio
from tandemq.client.delivery import Delivery, DeliveryBatch
from tandemq.client.loop_thread import LoopThread
from tandemq.client.outbox import ENTRY_OVERHEAD_BYTES
from tandemq.client.outgoing import Attributes, attributes_bytes, check_payload
from tandemq.client.receipts import Receipt, Receipts
from tandemq.client.settling import Act, Range
from tandemq.errors import ResourceExhausted, TandemqError


class Producer:
    """Sends messages to one queue, blocking. Order within a thread is the order of its calls; see aio.Producer."""

    def __init__(self, thread: LoopThread, inner: aio.Producer, bytes_max: int, messages_max: int) -> None:
        self._thread, self._inner = thread, inner
        self._bytes_max, self._messages_max = bytes_max, messages_max
        self._lock = threading.Lock()
        self._handed: deque[tuple[bytes, Attributes, int, Future[Receipt]]] = deque()
        self._messages = self._bytes = 0  # given to send_nowait and not answered
        self._failed: TandemqError | None = None

    @property
    def queue(self) -> str:
        """Where it sends to."""
        return self._inner.queue

    @property
    def client_id(self) -> bytes:
        """What names it to the members."""
        return self._inner.client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, payload: bytes, **attributes: Unpack[Attributes]) -> Receipt:
        """Sends one message and waits for its receipt. For many messages use send_many or send_nowait."""
        return self._thread.run(self._inner.send(payload, **attributes))

    def send_nowait(self, payload: bytes, **attributes: Unpack[Attributes]) -> Future[Receipt]:
        """Queues one message; the future has its receipt or its error.

        Raises ResourceExhausted (BUFFER_FULL) when the bound is reached. Callbacks of the future run on the client's
        thread and must not block.
        """
        check_payload(payload)
        size = len(payload) + ENTRY_OVERHEAD_BYTES + (attributes_bytes(attributes) if attributes else 0)
        future: Future[Receipt] = Future()
        with self._lock:
            if self._messages and (self._messages >= self._messages_max or self._bytes + size > self._bytes_max):
                raise ResourceExhausted(
                    "BUFFER_FULL",
                    f"{self._messages} messages ({self._bytes} bytes) for {self.queue} are unanswered",
                    definite=True,
                )
            self._messages += 1
            self._bytes += size
            first = not self._handed
            self._handed.append((payload, attributes, size, future))
        if first:
            self._thread.call_soon(self._take_over)
        return future

    def _take_over(self) -> None:
        """On the loop's thread: everything that was handed since the last time, in order."""
        with self._lock:
            handed, self._handed = self._handed, deque()
        for payload, attributes, size, future in handed:
            try:
                inner = self._inner.send_nowait(payload, **attributes)
            except TandemqError as error:
                self._answered(size)
                future.set_exception(error)
                continue
            inner.add_done_callback(partial(self._pass_on, size, future))

    def _pass_on(self, size: int, future: Future[Receipt], done: asyncio.Future[Receipt]) -> None:
        self._answered(size)
        if not future.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    def _answered(self, size: int) -> None:
        with self._lock:
            self._messages -= 1
            self._bytes -= size

    def send_many(self, payloads: Iterable[bytes], **attributes: Unpack[Attributes]) -> Receipts:
        """Sends many messages in order and waits for all receipts; `payloads` is read on the client's thread."""
        return self._thread.run(self._inner.send_many(payloads, **attributes))

    def flush(self) -> None:
        """Waits until everything sent so far is answered. Raises only when the producer failed."""
        self._thread.run(self._inner_flush())

    async def _inner_flush(self) -> None:
        self._take_over()
        await self._inner.flush()

    def close(self) -> None:
        """Flushes, then ends the stream. May be called twice."""
        self._thread.run(self._inner_close())

    async def _inner_close(self) -> None:
        self._take_over()
        await self._inner.close()


class Consumer:
    """Receives messages of one queue, blocking: iterate it, or its batches(). See aio.Consumer.

    Deliveries may be settled in any thread; `ack()` and its like return at once, `settled()` waits for all of them.
    """

    def __init__(self, thread: LoopThread, inner: aio.Consumer) -> None:
        self._thread, self._inner = thread, inner
        self._batches = inner.batches()
        self._lock = threading.Lock()
        self._taking = threading.Lock()  # one thread at a time waits for a batch
        self._current: Iterator[Delivery] = iter(())
        self._handed: list[tuple[Act, Sequence[Range]] | tuple[int, int, bytes, Attributes]] = []
        self._failed: TandemqError | None = None

    @property
    def queue(self) -> str:
        """Where it receives from."""
        return self._inner.queue

    @property
    def lost(self) -> int:
        """Messages whose settlement was refused so far."""
        return self._inner.lost

    @property
    def redelivered(self) -> int:
        """Messages received so far that were delivered to somebody before."""
        return self._inner.redelivered

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        with self._taking:
            while True:
                delivery = next(self._current, None)
                if delivery is not None:
                    return delivery
                batch = self._next_batch()
                if batch is None:
                    raise StopIteration
                self._current = iter(batch)

    def batches(self) -> Iterator[DeliveryBatch]:
        """Deliveries as they came, a batch a time: the fast way. Ends when the consumer is closed."""
        while True:
            with self._taking:
                batch = self._next_batch()
            if batch is None:
                return
            yield batch

    def _next_batch(self) -> DeliveryBatch | None:
        batch = self._thread.run(self._take())
        return None if batch is None else batch.settled_by(self)

    async def _take(self) -> DeliveryBatch | None:
        return await anext(self._batches, None)

    def settle_soon(self, act: Act, ranges: Sequence[Range]) -> None:
        """Hands settlements over. Raises the consumer's error after it failed."""
        if self._failed is not None:
            raise self._failed
        with self._lock:
            first = not self._handed
            self._handed.append((act, ranges))
        if first:
            self._thread.call_soon(self._take_over)

    def _take_over(self) -> None:
        """On the loop's thread: everything that was handed since the last time."""
        with self._lock:
            handed, self._handed = self._handed, []
        try:
            for item in handed:
                if len(item) == 2:
                    self._inner.settle_soon(*item)
                else:
                    self._inner.reply_soon(*item)
        except TandemqError as error:
            self._failed = error

    async def settle_now(self, act: Act, ranges: Sequence[Range]) -> None:
        """For `ack_async` in an event loop of the application."""
        await asyncio.wrap_future(self._thread.submit(self._inner.settle_now(act, ranges)))

    def ack(self, item: Delivery | DeliveryBatch) -> None:
        """Acknowledges and waits for the confirmation; raises LeaseLost when a member refused."""
        self._thread.run(item.ack_async())

    def reply_soon(self, lease_id: int, index: int, payload: bytes, attributes: Attributes) -> None:
        """Hands an answer over. Raises the consumer's error after it failed."""
        if self._failed is not None:
            raise self._failed
        with self._lock:
            first = not self._handed
            self._handed.append((lease_id, index, payload, attributes))
        if first:
            self._thread.call_soon(self._take_over)

    def reply(self, delivery: Delivery, payload: bytes, **attributes: Unpack[Attributes]) -> None:
        """TWO_WAY: answers a request and waits for the confirmation; see aio.Consumer.reply."""
        self._thread.run(self._inner.reply(delivery, payload, **attributes))

    def opened(self) -> None:
        """Waits until a member serves this consumer, perhaps with nothing. Raises what it is refused with."""
        self._thread.run(self._inner.opened())

    def settled(self) -> None:
        """Waits until everything settled so far is confirmed. Refusals are counted in `lost`, not raised."""
        self._thread.run(self._inner_settled())

    async def _inner_settled(self) -> None:
        self._take_over()
        if self._failed is not None:
            raise self._failed
        await self._inner.settled()

    def close(self) -> None:
        """Gives back what was not taken, waits a bounded time for confirmations. May be called twice."""
        self._thread.run(self._inner_close())

    async def _inner_close(self) -> None:
        self._take_over()
        if self._failed is None:
            for delivery in self._current:
                delivery.release()
            self._take_over()
        await self._inner.close()
