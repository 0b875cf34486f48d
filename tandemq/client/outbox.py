"""Decides which messages travel together, under which sequences, and what each answer means for those that wait.

It never writes to a stream, waits, or resolves a future: whoever owns the stream asks for the next frame and hands the
answers in. A batch is serialised once; a resend is the same bytes under the same sequences, never cut otherwise.
At most one small batch is unanswered: what comes meanwhile leaves with its answer, and a full batch never waits.
Sequences change in two cases: a batch before them was refused, which consumed none of its own (`_rewind`), or another
producer used the same client id (`_oust`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tandemq.client.outgoing import Attributes, check_payload, check_payloads, write_columns
from tandemq.errors import OUTCOME, STORED, InvalidRequest, TandemqError, to_error
from tandemq.v1 import common_pb2, queue_service_pb2

ENTRY_OVERHEAD_BYTES = 8  # tag and length of a payload in a batch
FRAME_OVERHEAD_BYTES = 512  # queue name (at most 255 bytes), sequence, tags
SMALL_BYTES = 64 << 10
"""What waits and has fewer bytes and fewer messages than a batch may have is small (docs/decisions/0052)."""


class Entry(NamedTuple):
    """What one call of the application sends: one message, or several that stay together."""

    payloads: bytes | list[bytes]
    attributes: Attributes | None
    size: int  # with overheads
    sink: Any  # the owner's; given the outcome by the owner


@dataclass(slots=True, eq=False)
class Batch:
    """Messages that were given sequences together."""

    entries: list[Entry]
    first: int  # sequence of its first message
    count: int
    size: int
    data: bytes  # the serialised ProduceRequest
    acks: list[queue_service_pb2.EnqueueAck] = field(default_factory=list)
    answered: int = 0  # messages that `acks` cover
    streams: int = 0  # streams on which it was written; above 1 an earlier copy may still be under way
    stream: int = 0  # the last of them
    orphaned: bool = False  # written under numbers that follow those of a refused batch
    small: bool = False  # all that waited, and less than a batch may have; not said of one that is never held back

    @property
    def end(self) -> int:
        return self.first + self.count

    def renumber(self, first: int) -> None:
        if first != self.first:
            request = queue_service_pb2.ProduceRequest.FromString(self.data)
            request.batch.first_sequence = first
            self.first, self.data = first, request.SerializeToString()
        self.orphaned = False


class Answer(NamedTuple):
    """What a frame from the member settled."""

    done: Sequence[Batch] = ()  # their acks are complete
    refused: Sequence[tuple[Batch, TandemqError]] = ()  # as a whole
    error: TandemqError | None = None
    # The stream is of no more use: `error` says why when a member asked for it; without an error a new identity is
    # needed (`switching`).
    reopen: bool = False


class Outbox:
    """The messages of one producer, from the application's call to the member's answer."""

    def __init__(
        self, queue: str, *, messages_max: int, bytes_max: int, batches_max: int, holds_small: bool = True
    ) -> None:
        """`holds_small` False: every batch leaves as soon as fewer than `batches_max` are unanswered."""
        self.queue = queue
        self._holds_small = holds_small
        self._messages_max, self._bytes_max, self._batches_max = messages_max, bytes_max, batches_max
        self._server_batches_max = batches_max
        self._server_messages_max = 0
        self._server_bytes_max = 0  # 0 until a member has said
        self._waiting: deque[Entry] = deque()
        self._unanswered: deque[Batch] = deque()  # by sequence
        self._written = 0  # how many of them, from the left, are on the present stream
        self._stream = 0
        self._next = 0  # sequence of the next new batch; 0 until a member has said
        self._last = 0  # highest executed sequence that the last reject named
        self._stale: list[Batch] = []  # written behind a refused batch; their answers come before anything is rewritten
        self._rewinding = False
        self.spent = False  # the identity may not be used for renumbered batches; see _rewind
        self._shared: TandemqError | None = None  # another producer uses the identity: the error that said so
        self._ousted: list[Batch] = []  # their sequences went to that one; they wait for a new identity
        self.messages = 0  # waiting and unanswered
        self.bytes = 0
        self._batched_messages = self._batched_bytes = 0  # those of them that are in batches
        self._is_holding = False  # the last look for a frame found little, and a small batch under way

    # -- what the application gives ------------------------------------------------------------------------------

    def add(self, entry: Entry, count: int) -> bool:
        """Whether it is worth asking for a frame: not while little waits for the answer to a small batch."""
        self._waiting.append(entry)
        self.messages += count
        self.bytes += entry.size
        return not (self._is_holding and self._is_little_waiting())

    # -- the stream ----------------------------------------------------------------------------------------------

    @property
    def switching(self) -> bool:
        """Whether the next stream needs a new identity: what was executed under the old one has its answers."""
        return self.spent and not any(batch.first <= self._last for batch in self._unanswered)

    def opened(self, last_sequence: int, batches_max: int, batch_bytes_max: int) -> None:
        """A stream is open; everything unanswered is to be written on it again."""
        self._server_batches_max = batches_max or self._batches_max
        self._server_bytes_max = batch_bytes_max
        self._stream += 1
        self._written = 0
        self._stale, self._rewinding = [], False
        if self.switching or not self._next:
            self.spent, self._shared = False, None
            self._last = last_sequence
            self._next = last_sequence + 1
            self._unanswered = deque(sorted((*self._ousted, *self._unanswered), key=lambda batch: batch.first))
            self._ousted = []
            for batch in self._unanswered:
                if batch.streams == 1:
                    batch.streams = 0  # its one copy was refused
                batch.renumber(self._next)
                self._next += batch.count
        for batch in self._unanswered:
            batch.acks, batch.answered = [], 0

    def limit(self, messages_max: int) -> None:
        """A queue that holds fewer messages than a batch may have: a larger batch would wait for room in vain."""
        self._server_messages_max = messages_max

    def next_frame(self) -> tuple[bytes | None, Entry | None]:
        """The next bytes to write, or an entry that no member would take and that has just been dropped, or neither."""
        self._is_holding = False
        if self._written < len(self._unanswered):
            batch = self._unanswered[self._written]
            if self._rewinding or (self.spent and batch.first > self._last):
                return None, None
            return self._write(batch), None
        limit = min(self._batches_max, self._server_batches_max)
        blocked = self._rewinding or self.spent or self._shared is not None
        if not self._waiting or not self._next or blocked or len(self._unanswered) >= limit:
            return None, None
        entry = self._waiting[0]
        if self._server_bytes_max and entry.size + FRAME_OVERHEAD_BYTES > self._server_bytes_max:
            self._waiting.popleft()
            self.messages -= count_of(entry)
            self.bytes -= entry.size
            return None, entry
        small = self._holds_small and self._is_little_waiting()
        if small and any(batch.small for batch in self._unanswered):
            self._is_holding = True
            return None, None
        batch = self._take()
        batch.small = small
        self._batched_messages += batch.count
        self._batched_bytes += batch.size
        self._unanswered.append(batch)
        return self._write(batch), None

    def _is_little_waiting(self) -> bool:
        """Whether all that waits is less than one batch may have."""
        messages_max, bytes_max = self._batch_limits()
        return self.messages - self._batched_messages < messages_max and self.bytes - self._batched_bytes < min(
            SMALL_BYTES, bytes_max
        )

    def _batch_limits(self) -> tuple[int, int]:
        """Messages and bytes that a new batch may have."""
        messages_max, bytes_max = self._messages_max, self._bytes_max
        if self._server_messages_max:
            messages_max = min(messages_max, self._server_messages_max)
        if self._server_bytes_max:
            bytes_max = min(bytes_max, self._server_bytes_max - FRAME_OVERHEAD_BYTES)
        return messages_max, bytes_max

    def too_large(self, entry: Entry) -> TandemqError:
        return InvalidRequest(
            "MESSAGE_TOO_LARGE",
            f"{entry.size} bytes; a batch for {self.queue} may have {self._server_bytes_max}",
            {"limit": str(self._server_bytes_max)},
            definite=True,
        )

    def _write(self, batch: Batch) -> bytes:
        self._written += 1
        if batch.stream != self._stream:
            batch.stream = self._stream
            batch.streams += 1
        return batch.data

    def _take(self) -> Batch:
        waiting = self._waiting
        messages_max, bytes_max = self._batch_limits()
        entries: list[Entry] = []
        payloads: list[bytes] = []
        size = 0
        plain = True
        for entry in waiting:
            given = entry.payloads
            more = len(given) if type(given) is list else 1
            if entries and (len(payloads) + more > messages_max or size + entry.size > bytes_max):
                break
            entries.append(entry)
            size += entry.size
            plain = plain and entry.attributes is None
            if type(given) is list:
                payloads.extend(given)
            else:
                payloads.append(given)  # type: ignore[arg-type]  # bytes: `type() is` narrows one way only
        request = queue_service_pb2.ProduceRequest()
        batch = request.batch
        batch.queue = self.queue
        batch.first_sequence = first = self._next
        batch.messages.payloads.extend(payloads)
        if not plain:
            write_columns(
                batch.messages, [entry.attributes for entry in entries], [count_of(entry) for entry in entries]
            )
        data = request.SerializeToString()
        for _ in entries:  # whatever could not be written is still there, and fails with the producer
            waiting.popleft()
        count = len(payloads)
        self._next += count
        return Batch(entries, first, count, size, data)

    # -- answers -------------------------------------------------------------------------------------------------

    def on_ack(self, ack: queue_service_pb2.EnqueueAck) -> Answer:
        """A batch, or a run of it, was executed. Answers to what nobody waits for are ignored."""
        batch = self._find(ack.queue, ack.first_sequence)
        if batch is None:
            return Answer()
        batch.acks.append(ack)
        batch.answered += ack.count
        if batch.answered < batch.count:
            return Answer()
        self._last = max(self._last, batch.end - 1)
        self._remove(batch)
        refused: list[tuple[Batch, TandemqError]] = []
        while self._shared is not None and self._ousted and self._ousted[0].first < batch.first:
            ousted = self._ousted.pop(0)  # under a new identity it would come behind what was sent after it
            self._forget(ousted)
            refused.append((ousted, self._shared))
        reopen = self._advance(batch, refused)
        return Answer(done=(batch,), refused=refused, reopen=reopen)

    def on_reject(self, reject: queue_service_pb2.EnqueueReject) -> Answer:
        """A batch was refused as a whole: what was written behind it has a gap before it now."""
        batch = self._find(reject.queue, reject.first_sequence)
        if batch is None:
            return Answer()
        error = to_error(reject.error)
        refused: list[tuple[Batch, TandemqError]] = []
        if error.metadata.get(OUTCOME) == STORED:
            # On fewer copies than asked for, but executed: as with an acknowledgement nothing behind it has a gap, and
            # refusals that name more may have overtaken it.
            self._last = max(self._last, reject.last_sequence)
            self._refuse(batch, error, refused)
            return Answer(refused=refused, reopen=self._advance(batch, refused))
        if error.retryable:
            return Answer(error=error, reopen=True)
        # A refusal that does not say how far the producer got must not take it back: what follows would get the
        # numbers, and the answers, of what was executed before.
        reason = reject.error.reason
        gap = reason == common_pb2.REASON_SEQUENCE_GAP
        if reason == common_pb2.REASON_DEDUP_EXPIRED and not self._last and batch.orphaned:
            gap = True  # the one before it was refused, perhaps on an earlier stream, so nobody knows this identity yet
        known = gap or "last_sequence" in reject.error.metadata
        self._last = reject.last_sequence if known else max(self._last, reject.last_sequence)
        if not self._rewinding:
            self._rewinding = True
            self._stale = list(self._unanswered)[: self._written]
            for each in self._stale:
                each.orphaned = each is not batch or each.orphaned
        # A member of an older version calls it a gap when a batch begins within what was executed.
        if reason == common_pb2.REASON_REQUEST_MISMATCH or (gap and batch.first <= reject.last_sequence):
            self._oust(batch, error, refused)
        elif not gap:
            self._refuse(batch, error, refused)
        return Answer(refused=refused, reopen=self._advance(batch, refused))

    def _oust(self, batch: Batch, error: TandemqError, refused: list[tuple[Batch, TandemqError]]) -> None:
        """Another producer's messages were executed under its sequences: one that used the client id before and died
        while its last batches were under way, or one that uses it now. This identity is given up.
        """
        self._shared = error
        if batch.streams > 1:
            self._refuse(batch, error, refused)
        else:
            self._take_out(batch)
            self._ousted.append(batch)
            self._ousted.sort(key=lambda ousted: ousted.first)

    def _refuse(self, batch: Batch, error: TandemqError, refused: list[tuple[Batch, TandemqError]]) -> None:
        """In doubt when an earlier copy may still be under way."""
        self._remove(batch)
        refused.append((batch, error if batch.streams <= 1 else error.in_doubt()))

    def _advance(self, batch: Batch, refused: list[tuple[Batch, TandemqError]]) -> bool:
        """Answers come in order: whatever was written before this batch gets none any more. True: reopen."""
        if batch in self._stale:
            del self._stale[: self._stale.index(batch) + 1]
        if self._rewinding and not self._stale:
            self._rewind(refused)
        if self._shared is not None and not self._unanswered:
            self.spent = True
        return self.switching

    def _rewind(self, refused: list[tuple[Batch, TandemqError]]) -> None:
        """Numbers what was certainly not executed from the last executed sequence on, and writes everything again.

        A batch that was also written on an earlier stream may have a copy under way; under a number that we give to
        other messages, that copy could be taken for them. Such batches go on under a new identity (`spent`), after
        those that were executed have got their answers under this one. Where another producer uses the identity, it may
        fill the gap before such a copy, and it is not known whether that is then executed: it is given up, in doubt.
        """
        self._rewinding = False
        self._written = 0
        for batch in self._unanswered:
            batch.acks, batch.answered = [], 0
        following = self._last + 1
        loose: list[Batch] = []
        for batch in self._unanswered:
            if batch.first <= self._last:
                following = max(following, batch.end)
            else:
                loose.append(batch)
        if self._shared is not None:
            self.spent = True
            for batch in loose:
                if batch.streams > 1:
                    self._refuse(batch, self._shared, refused)
            return
        first = following
        for batch in loose:
            if batch.first != first and batch.streams > 1:
                self.spent = True
                return
            first += batch.count
        for batch in loose:
            batch.renumber(following)
            following = batch.end
        self._next = following

    def _find(self, queue: str, sequence: int) -> Batch | None:
        if queue != self.queue:
            return None
        for batch in self._unanswered:
            if batch.first <= sequence < batch.end:
                return batch
        return None

    def _remove(self, batch: Batch) -> None:
        self._take_out(batch)
        self._forget(batch)

    def _take_out(self, batch: Batch) -> None:
        place = self._unanswered.index(batch)
        del self._unanswered[place]
        if place < self._written:
            self._written -= 1

    def _forget(self, batch: Batch) -> None:
        self.messages -= batch.count
        self.bytes -= batch.size
        self._batched_messages -= batch.count
        self._batched_bytes -= batch.size

    # -- the end -------------------------------------------------------------------------------------------------

    def give_up(self) -> tuple[list[Entry], list[Entry]]:
        """Empties the box: the entries that never left it, and those whose outcome is unknown."""
        clean = [*self._ousted, *(batch for batch in self._unanswered if not batch.streams)]
        unsent = [entry for batch in clean for entry in batch.entries]
        unsent.extend(self._waiting)
        doubtful = [entry for batch in self._unanswered if batch.streams for entry in batch.entries]
        self._waiting.clear()
        self._unanswered.clear()
        self._ousted.clear()
        self._written = self.messages = self.bytes = self._batched_messages = self._batched_bytes = 0
        return unsent, doubtful


def count_of(entry: Entry) -> int:
    """Messages in an entry."""
    return len(entry.payloads) if type(entry.payloads) is list else 1


def pieces(
    payloads: Iterable[bytes], overhead: int, messages_max: int, bytes_max: int
) -> Iterator[tuple[list[bytes], int]]:
    """Payloads in order, cut so that each piece fits a batch, with its size; a payload above the bound is alone."""
    if isinstance(payloads, (list, tuple)):
        # Nearly always all that a batch may have fits it: then nothing is done for a single message.
        check_payloads(payloads)  # before any of them is sent
        at = 0
        while at < len(payloads):
            piece = list(payloads[at : at + messages_max])
            size = sum(map(len, piece)) + overhead * len(piece)
            if size > bytes_max:
                piece, size = next(_one_by_one(piece, overhead, messages_max, bytes_max))
            yield piece, size
            at += len(piece)
        return
    yield from _one_by_one(payloads, overhead, messages_max, bytes_max)


def _one_by_one(
    payloads: Iterable[bytes], overhead: int, messages_max: int, bytes_max: int
) -> Iterator[tuple[list[bytes], int]]:
    piece: list[bytes] = []
    size = 0
    for payload in payloads:
        check_payload(payload)
        more = len(payload) + overhead
        if piece and (len(piece) >= messages_max or size + more > bytes_max):
            yield piece, size
            piece, size = [], 0
        piece.append(payload)
        size += more
    if piece:
        yield piece, size
