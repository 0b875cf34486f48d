"""Producers and a consumer of the SDK on one queue, and what they were answered; it hurts nobody and judges nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from chaos.history import FAIL, OK, UNKNOWN, Acked, Delivered, History, Message, Operation, Settled
from chaos.observer import Observer
from chaos.pair import Pair
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.client.settling import Lost
from tandemq.errors import LeaseLost, TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin

QUEUE = "load"
TURN_S = 0.02
DRAIN_S = 60.0
EMPTY_S = 2.0  # beyond a lease: what is missing then is lost, and the checker says so
BATCHES_UNANSWERED_MAX = 8
CREDIT_MESSAGES = 500


@dataclass(slots=True)
class Workload:
    """Light load by default: two producers with 50 batches of 5 messages a second each, one consumer.

    With `patience_s` there is a client more that sends one message after the other by calls of its own, gives each up
    after that time, and goes on with the next: what it gave up has an unknown outcome.

    With `take_from` what is sent to `queue` is expected in another queue: somebody carries it there, at least once and
    with the payload as it is. Both queues are that somebody's; indexes of deliveries are then those of `take_from`.
    """

    cluster: Pair
    history: History = field(default_factory=History)
    producers: int = 2
    batch: int = 5
    interval_s: float = 0.02
    lease_s: int = 2
    padding: bytes = b""
    timeout_s: float = 60.0
    queue: str = QUEUE
    take_from: str = ""
    drain_s: float = DRAIN_S
    goes_on_s: float = 20.0  # a pair that acknowledges too little for so long stands still
    patience_s: float = 0.0
    late: bool = False  # nothing is received before the end: what is lost cannot have been delivered before
    alone: bool = True  # nobody else uses the pair: at the end its copies must be equal, not only whole
    began: bool = False  # the queue may be there
    observer: Observer = field(init=False)
    sent: list[int] = field(init=False)  # by producer
    longest_pause_s: float = 0.0  # between acknowledgements, while some were waited for
    part: str = "before the first message"  # what is under way, or was when the run was given up
    unanswered: list[int] = field(init=False)  # batches, by producer
    _last_ack_s: float = 0.0
    _over: bool = False
    _message_at: dict[int, Message] = field(default_factory=dict)
    _refused: set[tuple[int, int]] = field(default_factory=set)  # (lease, index)

    def __post_init__(self) -> None:
        self.observer = Observer(self.cluster, self.history)
        self.sent = [0] * (self.producers + bool(self.patience_s))
        self.unanswered = [0] * len(self.sent)

    @property
    def now_s(self) -> float:
        return self.observer.now_s

    @property
    def standing(self) -> str:
        """Where it stands, or stood when it was given up: what did not end, and the last that was heard."""
        last = f", the last at {self.history.acked[-1].at_s:.1f} s" if self.history.acked else ""
        waited = [f"{name}: {count}" for name, count in zip(self._names(), self.unanswered, strict=True) if count]
        history = self.history
        return (
            f"{self.part}; {len(history.acked)} were acknowledged{last}, {len(history.delivered)} deliveries, "
            f"{len(history.settled)} settled; batches without an answer: {', '.join(waited) or 'none'}"
        )

    def _names(self) -> list[str]:
        return [
            *(f"producer {number}" for number in range(self.producers)),
            *["impatient client"] * bool(self.patience_s),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Workload]:
        """Runs, watched, until the block ends; then sends no more and waits until everything was taken.

        At the end the pair must be whole and equal again. Raises TimeoutError when something was not taken in time.
        """
        async with self._connected(self.timeout_s, 2.0) as client:
            if not self.take_from:
                config = admin.QueueConfig()
                config.lease_duration.FromSeconds(self.lease_s)
                self.began = True
                await client.create_queue(self.queue, config)
            async with self.observer.watching():
                async with asyncio.TaskGroup() as tasks:
                    work = [self._produce(client, number) for number in range(self.producers)]
                    if self.patience_s:
                        work.append(self._produce_impatiently())
                    producing = {
                        tasks.create_task(each, name=name) for each, name in zip(work, self._names(), strict=True)
                    }
                    consuming = None if self.late else tasks.create_task(self._consume(client))
                    self.part = "sending"
                    yield self  # what is raised there ends the tasks: the group cancels them
                    self._over = True
                    await self._sent(producing)
                    self.part = "draining"
                    consuming = consuming or tasks.create_task(self._consume(client))
                    await self._drained(client)
                    self.part = "the end of the consumer"
                    consuming.cancel()
                self.part = "the end of the observer"
            self.part = "the end of the clients"
        self.part = "coming together: nothing more is sent"
        end = PairView.equal if self.alone else PairView.whole
        await self.cluster.wait_for(end, "whole and equal at the end" if self.alone else "whole at the end")
        await self.observer.last_look()

    async def goes_on(self, count: int = 50, deadline_s: float | None = None) -> None:
        """Returns when so many more messages were acknowledged. Raises TimeoutError."""
        deadline_s = deadline_s or self.goes_on_s
        before = len(self.history.acked)
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    if len(self.history.acked) >= before + count:
                        return
                    await asyncio.sleep(TURN_S)
        except TimeoutError as error:
            got = len(self.history.acked) - before
            raise TimeoutError(f"{got} messages were acknowledged in {deadline_s:g} s, of {count}") from error

    async def _sent(self, producing: set[asyncio.Task[None]]) -> None:
        """Returns when all have ended; what one of them raises is its group's."""
        while producing:
            self.part = f"the end of {', '.join(sorted(task.get_name() for task in producing))}"
            _, producing = await asyncio.wait(producing, return_when=asyncio.FIRST_COMPLETED)

    async def _produce(self, client: aio.Client, number: int) -> None:
        room = asyncio.Semaphore(BATCHES_UNANSWERED_MAX)
        async with client.producer(self.queue) as producer:
            answered = False
            try:
                async with asyncio.TaskGroup() as batches:
                    due_s = time.monotonic()
                    while not self._over:
                        await room.acquire()
                        first, self.sent[number] = self.sent[number], self.sent[number] + self.batch
                        batches.create_task(self._send(producer, number, first, room))
                        due_s = max(due_s + self.interval_s, time.monotonic())
                        await asyncio.sleep(due_s - time.monotonic())
                answered = True
            finally:
                if not answered:  # it was given up: a flush would wait for a pair that nobody heals meanwhile
                    producer.abort()

    async def _send(self, producer: aio.Producer, number: int, first: int, room: asyncio.Semaphore) -> None:
        messages = [Message(number, each) for each in range(first, first + self.batch)]
        asked_s = self.now_s
        self.unanswered[number] += 1
        try:
            receipts = await producer.send_many([b"%d:%d:%s" % (*each, self.padding) for each in messages])
        except (TandemqError, asyncio.CancelledError) as error:
            self._ended(f"producer {number}", "enqueue", asked_s, messages, error)
            raise
        self.unanswered[number] -= 1
        self._ended(f"producer {number}", "enqueue", asked_s, messages)
        at_s = self.now_s
        self.longest_pause_s = max(self.longest_pause_s, at_s - max(self._last_ack_s, asked_s))
        self._last_ack_s = at_s
        self.history.acked.extend(
            Acked(asked_s, at_s, message, receipt.index, receipt.epoch, receipt.copies)
            for message, receipt in zip(messages, receipts, strict=True)
        )
        room.release()

    def _connected(self, timeout_s: float, attempt_s: float) -> aio.Client:
        shown = self.cluster.credentials
        return aio.connect(self.cluster.target, timeout=timeout_s, attempt_timeout=attempt_s, credentials=shown)

    async def _produce_impatiently(self) -> None:
        number = self.producers
        async with self._connected(self.patience_s, self.patience_s) as client:
            while not self._over:
                message, self.sent[number] = Message(number, self.sent[number]), self.sent[number] + 1
                asked_s = self.now_s
                self.unanswered[number] = 1
                try:
                    [receipt] = await client.enqueue(self.queue, [b"%d:%d:%s" % (*message, self.padding)])
                except asyncio.CancelledError as error:
                    self._ended("impatient", "enqueue", asked_s, [message], error)
                    raise
                except TandemqError as error:
                    self.unanswered[number] = 0
                    self._ended("impatient", "enqueue", asked_s, [message], error)
                    await asyncio.sleep(self.interval_s)
                    continue
                self.unanswered[number] = 0
                self._ended("impatient", "enqueue", asked_s, [message])
                acked = Acked(asked_s, self.now_s, message, receipt.index, receipt.epoch, receipt.copies)
                self.history.acked.append(acked)
                await asyncio.sleep(self.interval_s)

    def _ended(
        self,
        client: str,
        verb: str,
        asked_s: float,
        messages: Sequence[Message],
        error: TandemqError | asyncio.CancelledError | None = None,
    ) -> None:
        outcome, detail = OK, ""
        if isinstance(error, TandemqError):
            outcome, detail = FAIL if error.definite else UNKNOWN, error.reason
        elif error is not None:
            outcome, detail = UNKNOWN, "GIVEN UP"  # the run was, before there was an answer
        self.history.operations.append(Operation(client, verb, asked_s, self.now_s, outcome, tuple(messages), detail))

    async def _consume(self, client: aio.Client) -> None:
        async with (
            client.consumer(
                self.take_from or self.queue,
                credit_messages=CREDIT_MESSAGES,
                lease=timedelta(seconds=self.lease_s),
                on_lost=self._on_refused,
            ) as consumer,
            asyncio.TaskGroup() as settling,
        ):
            async for batch in consumer.batches():
                at_s = self.now_s
                for delivery in batch:
                    message = self._read(delivery.payload)
                    self._message_at[delivery.index] = message
                    self.history.delivered.append(Delivered(at_s, message, delivery.index, delivery.delivery_count))
                settling.create_task(self._settle(batch))

    def _read(self, payload: bytes) -> Message:
        """Raises RuntimeError for what none of our producers sends."""
        parts = bytes(payload).split(b":", 2)
        if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
            raise RuntimeError(f"{bytes(payload[:40])!r} was delivered: nobody sent that to {self.queue}")
        return Message(int(parts[0]), int(parts[1]))

    async def _settle(self, batch: aio.DeliveryBatch) -> None:
        indexes, asked_s = [delivery.index for delivery in batch], self.now_s
        refused: TandemqError | None = None
        try:
            await batch.ack_async()
        except LeaseLost as error:
            refused = error  # _on_refused was given them; they come again
        at_s = self.now_s
        self._ended("consumer", "settle", asked_s, [self._message_at[index] for index in indexes], refused)
        done = (index for index in indexes if (batch.lease_id, index) not in self._refused)
        self.history.settled.extend(Settled(at_s, index) for index in done)

    def _on_refused(self, lost: Lost) -> None:
        for first, count in lost.ranges:
            self._refused.update((lost.act.lease_id, index) for index in range(first, first + count))

    async def _drained(self, client: aio.Client) -> None:
        """Returns when everything was settled, or when the queue has been empty for so long that no more can come."""
        empty_since_s, left = self.now_s, 0
        queues = [name for name in (self.queue, self.take_from) if name]
        try:
            async with asyncio.timeout(self.drain_s):
                while True:
                    left = sum([(await client.get_queue(name)).length for name in queues])
                    self.part = f"draining: {left} messages are left"
                    if left:
                        empty_since_s = self.now_s
                    elif self._is_all_taken() or self.now_s - empty_since_s > self.lease_s + EMPTY_S:
                        return
                    await asyncio.sleep(TURN_S)
        except TimeoutError as error:
            raise TimeoutError(
                f"{left} messages are left in {' and '.join(queues)}, {self.drain_s:g} s after the last was sent"
            ) from error

    def _is_all_taken(self) -> bool:
        if self.take_from:
            return {ack.message for ack in self.history.acked} <= {each.message for each in self.history.delivered}
        return len({each.index for each in self.history.settled}) >= len(self.history.acked)
