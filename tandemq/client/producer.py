"""Carries out what an Outbox decides: one stream at a time, reconnecting, and a future for whoever waits.

It decides nothing about sequences or batches (outbox.py) nor about when to try again (retry.py). There is no timer on
the way of a message: what is waiting leaves as soon as the outbox has a batch for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, Unpack

from tandemq import retry
from tandemq.client.acks import Outcome, fail_entry, resolve
from tandemq.client.calls import QUEUE_SERVICE, Attempts, Moved
from tandemq.client.identity import new_client_id
from tandemq.client.members import Members
from tandemq.client.outbox import ENTRY_OVERHEAD_BYTES, Answer, Entry, Outbox, pieces
from tandemq.client.outgoing import Attributes, attributes_bytes, check_payload
from tandemq.client.receipts import Receipt, ReceiptRun, Receipts, checked, domain_number
from tandemq.client.room import Room
from tandemq.client.streams import Stream, open_stream, run_both
from tandemq.errors import Closed, InDoubt, ResourceExhausted, TandemqError, TimedOut, Unavailable
from tandemq.v1 import queue_service_pb2

PENDING_BYTES_MAX = 64 << 20
PENDING_MESSAGES_MAX = 1_000_000


class Producer:
    """Sends messages to one queue. Belongs to one event loop.

    Order: messages get indexes in the order of the calls. Retries: broken streams are reopened and unanswered batches
    sent again under the same identity, which has one effect; the application never repeats anything. When nothing was
    answered for `timeout` seconds although something is waiting, the producer fails for good: what was never sent gets
    Unavailable (definite), what was sent gets InDoubt, and every later call raises the same error.
    """

    def __init__(
        self,
        members: Members,
        policy: retry.Policy,
        queue: str,
        *,
        client_id: bytes | str | None,
        min_copies: int,
        max_batch_messages: int,
        max_batch_bytes: int,
        max_unanswered_batches: int,
        max_pending_bytes: int = PENDING_BYTES_MAX,
        max_pending_messages: int = PENDING_MESSAGES_MAX,
        full_wait: timedelta = timedelta(0),
    ) -> None:
        if (
            min(max_batch_messages, max_batch_bytes, max_unanswered_batches, max_pending_bytes, max_pending_messages)
            < 1
        ):
            raise ValueError("limits are at least 1")
        self.queue = queue
        self.client_id = new_client_id(client_id)
        self._generation = 0
        self._members, self._policy, self._min_copies = members, policy, min_copies
        # What waits for room together enters together, and how much the queue can hold is not known here yet.
        self._batch_messages_max = max_batch_messages if not full_wait else 1
        self._batch_bytes_max = max_batch_bytes
        self._full_wait = full_wait
        self._outbox = Outbox(
            queue,
            messages_max=max_batch_messages,
            bytes_max=max_batch_bytes,
            batches_max=max_unanswered_batches,
            # A batch that waits for room is unanswered as long as it waits; the next one takes its place behind it.
            holds_small=not full_wait,
        )
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()  # something to write, or something was answered
        self._idle = asyncio.Event()  # nothing waits and nothing is unanswered
        self._idle.set()
        self._room = Room(self._outbox, messages_max=max_pending_messages, bytes_max=max_pending_bytes)
        self._failed: TandemqError | None = None
        self._domain = members.masters.domain_of(queue) or "main"
        self._domain_number = 0
        self._progress_at = self._opened_at = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None
        self._attempts = Attempts(members, policy, self._domain)
        self._task = self._loop.create_task(self._run(), name=f"tandemq producer {queue}")
        self._task.add_done_callback(self._ended)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- sending -------------------------------------------------------------------------------------------------

    def send_nowait(self, payload: bytes, **attributes: Unpack[Attributes]) -> asyncio.Future[Receipt]:
        """Queues one message; the future has its receipt, or the error that refused it.

        Raises ResourceExhausted (BUFFER_FULL) when the producer's own bound is reached, and the producer's error once
        it failed. Cancelling the future does not take the message back.
        """
        if type(payload) is not bytes:
            check_payload(payload)
        size = len(payload) + ENTRY_OVERHEAD_BYTES + (attributes_bytes(attributes) if attributes else 0)
        if not self._room.has(size, 1):
            self._check()
            raise ResourceExhausted(
                "BUFFER_FULL",
                f"{self._outbox.messages} messages ({self._outbox.bytes} bytes) for {self.queue} are unanswered",
                definite=True,
            )
        return self._add(payload, attributes or None, size, 1)

    async def send(self, payload: bytes, **attributes: Unpack[Attributes]) -> Receipt:
        """Sends one message and waits for its receipt; first waits for room when the producer's bound is reached.

        Cancelling while it waits for the receipt does not take the message back.
        """
        if type(payload) is not bytes:
            check_payload(payload)
        size = len(payload) + ENTRY_OVERHEAD_BYTES + (attributes_bytes(attributes) if attributes else 0)
        if not self._room.has(size, 1):
            await self._room.wait(size, 1)
        receipt: Receipt = await self._add(payload, attributes or None, size, 1)
        return receipt

    async def send_many(self, payloads: Iterable[bytes], **attributes: Unpack[Attributes]) -> Receipts:
        """Sends many messages in order, all with the same attributes, and waits for all receipts.

        Costs one future a batch, and memory per run of answers. Raises PartlyRefused with the receipts when some were
        not accepted, or the one error that all have in common. Cancelling it does not take the messages back.
        """
        extra = attributes_bytes(attributes) if attributes else 0
        futures: list[asyncio.Future[list[Outcome]]] = []
        counts: list[int] = []
        for piece, size in pieces(
            payloads, ENTRY_OVERHEAD_BYTES + extra, self._batch_messages_max, self._batch_bytes_max
        ):
            if not self._room.has(size, len(piece)):
                await self._room.wait(size, len(piece))
            futures.append(self._add(piece, attributes or None, size, len(piece)))
            counts.append(len(piece))
        await _answered(futures)
        runs: list[ReceiptRun] = []
        errors: dict[int, TandemqError] = {}
        start = 0
        for future, count in zip(futures, counts, strict=True):
            failure = future.exception()
            if isinstance(failure, TandemqError):
                errors.update(dict.fromkeys(range(start, start + count), failure))
            else:
                for part in future.result():
                    if isinstance(part, ReceiptRun):
                        runs.append(part.moved(start))
                    else:
                        errors[part[0] + start] = part[1]
            start += count
        return checked(Receipts(start, runs, errors))

    def _add(
        self, payloads: bytes | list[bytes], attributes: Attributes | None, size: int, count: int
    ) -> asyncio.Future[Any]:
        self._check()
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._outbox.messages:
            self._progress_at = self._loop.time()
            self._attempts.progress()
            self._idle.clear()
            if self._watch is None:
                self._watch = self._loop.call_later(self._policy.total_s, self._watch_progress)
        if self._outbox.add(Entry(payloads, attributes, size, future), count):
            self._wake.set()
        return future

    async def flush(self) -> None:
        """Waits until everything sent so far is answered. Raises only when the producer failed."""
        await self._idle.wait()
        if self._failed is not None and not isinstance(self._failed, Closed):
            raise self._failed

    async def close(self) -> None:
        """Flushes, then ends the stream. Does not raise for messages: their futures do. May be called twice."""
        await self._idle.wait()
        self.abort()
        await asyncio.wait([self._task])

    def abort(self) -> None:
        """Ends at once: what is unanswered fails with Closed, in doubt when it was sent."""
        if self._failed is None:
            self._fail(Closed("CLOSED", f"producer for {self.queue} was closed", definite=True))
        self._task.cancel()

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed

    # -- the stream ----------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> bytes:
        """The client id on the wire: grows a suffix when its sequences cannot be used any more (Outbox.switching)."""
        return self.client_id + (b"~%d" % self._generation if self._generation else b"")

    async def _run(self) -> None:
        try:
            await self._attempt_all()
        except TandemqError as error:
            raise await self._members.explained(error, found_nobody=self._attempts.found_nobody) from error

    async def _attempt_all(self) -> None:
        async for attempt in self._attempts.retrying():
            with attempt:
                await self._wanted()
                try:
                    await self._session(await self._attempts.located())
                finally:
                    if self._idle.is_set():
                        self._attempts.progress()  # a stream that nobody needed is no failure

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, TandemqError):
            self._fail(error)
        elif error is not None:  # a bug of ours must not leave anybody waiting
            self._fail(InDoubt("INTERNAL", f"the producer's task ended: {error!r}"))
            self._loop.call_exception_handler({"message": "producer task ended", "exception": error, "task": task})

    async def _wanted(self) -> None:
        """An idle producer opens no stream and has no deadline."""
        if self._idle.is_set():
            while self._idle.is_set():
                self._wake.clear()
                await self._wake.wait()
            self._attempts.progress()

    async def _session(self, endpoint: str) -> None:
        channel = self._members.channel(endpoint)
        async with open_stream(channel, QUEUE_SERVICE + "Produce", endpoint) as stream:
            opening = queue_service_pb2.ProduceRequest(
                open=queue_service_pb2.ProduceOpen(
                    client_id=self._identity,
                    queue=self.queue,
                    min_copies=self._min_copies,
                    epoch=self._members.masters.epoch(self._domain),
                )
            )
            if self._full_wait:
                opening.open.full_wait.FromTimedelta(self._full_wait)
            if self._outbox.switching:
                self._generation += 1
                opening.open.client_id = self._identity
            await stream.write(opening.SerializeToString())
            first = queue_service_pb2.ProduceResponse.FromString(
                await stream.read_first(min(self._policy.attempt_s, self._attempts.remaining_s))
            )
            if first.WhichOneof("frame") != "opened":
                self._on_frame(first)
                raise Moved("", f"{endpoint} did not answer the opening frame")
            header = first.opened.header
            self._members.learn(header, self.queue)
            self._domain = self._attempts.domain = header.domain or self._domain
            self._domain_number = domain_number(self._domain)
            self._attempts.prefer_master(header.master_endpoint)
            self._outbox.opened(first.opened.last_sequence, first.opened.max_batches, first.opened.max_batch_bytes)
            if self._full_wait:
                self._outbox.limit(first.opened.max_batch_messages)
                self._attempts.progress()  # what waits for room is silent; `_watch_progress` knows for how long it may
            self._opened_at = self._loop.time()
            self._wake.set()
            await run_both(lambda: self._read(stream), lambda: self._write(stream))

    async def _write(self, stream: Stream) -> None:
        while True:
            frame, dropped = self._outbox.next_frame()
            if frame is not None:
                await stream.write(frame)
            elif dropped is not None:
                fail_entry(dropped, self._outbox.too_large(dropped))
                self._after_answer()
            else:
                self._wake.clear()
                await self._woken(stream)

    async def _woken(self, stream: Stream) -> None:
        """Waits for work; leaves a member that takes batches and answers none, for it may hang where others do not."""
        patience_s = 2 * self._policy.attempt_s + self._full_wait.total_seconds()
        # New messages may wake it too: whoever goes on sending must not wait for ever.
        silent_s = self._loop.time() - max(self._progress_at, self._opened_at)
        if not self._outbox.messages or silent_s < patience_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s - silent_s if self._outbox.messages else None):
                    await self._wake.wait()
                    return
            silent_s = self._loop.time() - max(self._progress_at, self._opened_at)
        raise TimedOut("DEADLINE_EXCEEDED", f"{stream.endpoint} answered no batch for {silent_s:.1f} s", retryable=True)

    async def _read(self, stream: Stream) -> None:
        while True:
            self._on_frame(queue_service_pb2.ProduceResponse.FromString(await stream.read()))

    def _on_frame(self, response: queue_service_pb2.ProduceResponse) -> None:
        match response.WhichOneof("frame"):
            case "ack":
                self._members.masters.learn(self._domain, response.ack.epoch, "")
                self._on_answer(self._outbox.on_ack(response.ack))
                for ack in response.more_acks:
                    self._on_answer(self._outbox.on_ack(ack))
            case "reject":
                self._on_answer(self._outbox.on_reject(response.reject))
            case "goaway":
                goaway = response.goaway
                self._members.masters.learn(self._domain, goaway.epoch, goaway.master_endpoint)
                raise Moved(self._members.master(self._domain), goaway.error.message)
            case _:
                return  # a newer member's word

    def _on_answer(self, answer: Answer) -> None:
        for batch in answer.done:
            resolve(batch, self._domain_number)
        for batch, error in answer.refused:
            for entry in batch.entries:
                fail_entry(entry, error)
        if answer.done or answer.refused:
            self._attempts.progress()
            self._after_answer()
        self._wake.set()
        if answer.reopen:
            raise answer.error or Moved("", "the identity of the producer is spent")

    def _after_answer(self) -> None:
        self._progress_at = self._loop.time()
        if not self._outbox.messages:
            self._idle.set()
        self._room.look()

    # -- the end -------------------------------------------------------------------------------------------------

    def _watch_progress(self) -> None:
        self._watch = None
        if self._failed is not None or not self._outbox.messages:
            return
        left_s = self._progress_at + self._policy.total_s + self._full_wait.total_seconds() - self._loop.time()
        if left_s > 0:
            self._watch = self._loop.call_later(left_s, self._watch_progress)
            return
        self._fail(None)
        self._task.cancel()

    def _fail(self, cause: TandemqError | None) -> None:
        """For good. `cause` None: out of time on an open stream."""
        if self._failed is not None:
            return
        if cause is not None and not cause.retryable:
            self._failed, unsent_error, sent_error = cause, cause, cause.in_doubt()
        else:
            last = cause or self._attempts.last_error
            patience_s = self._policy.total_s + self._full_wait.total_seconds()
            text = f"no answer for {patience_s:g} s" + (f"; last: {last}" if last is not None else "")
            unsent_error, sent_error = Unavailable("NO_PROGRESS", text, definite=True), InDoubt("NO_PROGRESS", text)
            self._failed = sent_error
        unsent, doubtful = self._outbox.give_up()
        for entry in unsent:
            fail_entry(entry, unsent_error)
        for entry in doubtful:
            fail_entry(entry, sent_error)
        self._room.look()
        self._idle.set()
        if self._watch is not None:
            self._watch.cancel()


async def _answered(futures: Sequence[asyncio.Future[list[Outcome]]]) -> None:
    """Each has a result or an error. Who is cancelled here leaves none behind whose error nobody would ask for."""
    try:
        await asyncio.wait(futures) if futures else None
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise
