"""Sends what a twin made of its inputs, each output once whichever twin comes first, and compares the two (K8).

Outputs of inputs after `last` up to k are unit k of the twins' name. Whoever finds that his twin is further hears
number and digest of its last unit, compares, and goes on from there (docs/decisions/0070-twins.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tandemq.client.delivery import MessageBatch
from tandemq.client.outgoing import Outgoing
from tandemq.client.staging import WriterState
from tandemq.client.units import UnitReceipts
from tandemq.errors import InDoubt, Refused, ResourceExhausted, TandemqError, Unavailable
from tandemq.twin.digests import NONE, Compared, chained
from tandemq.twin.faults import OutputsMissing, OutputsOfOthers, TwinFault
from tandemq.twin.handling import REPLY, Output

UNIT_MESSAGES_MAX, UNIT_BYTES_MAX, UNIT_QUEUES_MAX = 2_000, 1 << 20, 50
"""Of one unit, where the outputs of one input are not more by themselves: a call of a few milliseconds."""
PENDING_MESSAGES_MAX, PENDING_BYTES_MAX = 20_000, 16 << 20
"""That are not acknowledged; beyond it no further input is taken."""
WAIT_S, WAIT_MAX_S = 0.05, 1.0
"""Before a unit is sent again that had no room, or no master."""
log = logging.getLogger("tandemq.twin")


class Transacting(Protocol):
    """The calls of a client that are needed here."""

    async def transact(
        self,
        taken: Sequence[MessageBatch],
        puts: Mapping[str, Sequence[bytes | Outgoing]],
        *,
        writer: str,
        number: int,
        after: int,
        query_id: str,
        digest: int,
    ) -> UnitReceipts: ...

    async def writer_state(self, writer: str, *, digests: bool) -> WriterState | None: ...


@dataclass(frozen=True, slots=True)
class _Made:
    index: int
    chain: int
    """Digest of all outputs up to these."""
    outputs: Sequence[Output]
    payload_bytes: int


@dataclass(slots=True)
class OutputCounts:
    """Since this process began."""

    made: int = 0
    """Messages."""
    sent: int = 0
    """Messages that this process was first with."""
    units: int = 0
    duplicates: int = 0
    """Units of which the twin had sent some or all already, as an answer said."""
    skipped: int = 0
    """Messages that were not sent, because the twin was known to be further."""
    compared: int = 0
    """Digests of the twin."""
    divergences: int = 0
    replies: int = 0
    """Requests that this process was first to answer."""
    late_replies: int = 0
    """Requests that had ended before."""


class Outputs:
    """Of one process. `on_differ` is called once, at the first digest that differs."""

    def __init__(self, client: Transacting, writer: str, owner: str, on_differ: Callable[[Compared], None]) -> None:
        self._client, self._writer, self._owner, self._on_differ = client, writer, owner, on_differ
        self.counts = OutputCounts()
        self.chain = NONE
        self.sent = 0
        """The last input with outputs that was acted on."""
        self.index = 0
        """The last input that was acted on."""
        self.last = 0
        """The writer's last number, as far as it is known."""
        self._equal = 0  # the input up to which both are known to have made the same, since `begin`
        self._base = NONE
        """Digest of all outputs up to `last`, or to where this process began."""
        self._pending: deque[_Made] = deque()
        self._messages = self._bytes = 0  # of them
        self._ahead: deque[tuple[int, int]] = deque()  # numbers of the twin that are not reached yet, and digests
        self._is_held = False
        self._inputs_max = UNIT_MESSAGES_MAX
        """Whose outputs go in one unit: fewer where a queue has no room for all of them at once."""
        self._wake = asyncio.Event()
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    async def begin(self, index: int, chain: int, sent: int) -> None:
        """From a snapshot behind input `index`. Raises OutputsMissing, OutputsOfOthers."""
        state = await self._client.writer_state(self._writer, digests=True)
        if state is not None and state.query_id != self._owner:
            raise self._of_others(state.query_id)
        self.last, known = (state.batch, state.digests) if state is not None else (0, {})
        self.index, self.chain, self.sent, self._base = index, chain, sent, chain
        self._pending.clear()
        self._messages = self._bytes = self._equal = 0
        if self.last < sent:
            raise self._missing(self.last, sent)
        self._ahead = deque((number, digest) for number, digest in known.items() if number >= max(sent, 1))
        self.passed(index)

    # -- what is made ------------------------------------------------------------------------------------------------

    def add(self, index: int, outputs: Sequence[Output]) -> None:
        """Of the next input that has any."""
        ahead = self._ahead
        if ahead and ahead[0][0] < index:
            self.passed(index - 1)
        self.chain, self.sent, self.index = chained(self.chain, index, outputs), index, index
        self.counts.made += len(outputs)
        if ahead and ahead[0][0] == index:
            self.passed(index)
        if index <= self.last:
            self.counts.skipped += len(outputs)
            return
        payload_bytes = sum([len(output.payload) for output in outputs])
        self._pending.append(_Made(index, self.chain, outputs, payload_bytes))
        self._messages += len(outputs)
        self._bytes += payload_bytes
        self._wake.set()

    def passed(self, index: int) -> None:
        """All up to there are acted on, and `add` has heard of those with outputs."""
        self.index = index
        while self._ahead and self._ahead[0][0] <= index:
            number, digest = self._ahead.popleft()
            self._compare(number, self.chain, digest)
        if self._watchers and not self._pending:
            self._release()

    def _compare(self, number: int, own: int, other: int) -> None:
        self.counts.compared += 1
        if self.counts.divergences:
            return
        if own == other:
            self._equal = max(self._equal, number)
            return
        self.counts.divergences += 1
        self._on_differ(Compared(number, own, other, self._equal))

    async def report(self, compared: Compared, note: Output) -> None:
        """Has operators of the pair hear of it too: of the same number with another digest nothing is executed, and
        the pair reports it. It has not heard of what this process compared by itself.
        """
        puts = {note.queue: [note.payload]}
        number, writer, owner = compared.number, self._writer, self._owner
        await self._client.transact(
            [], puts, writer=writer, number=number, after=number - 1, query_id=owner, digest=compared.own
        )

    # -- waiting -----------------------------------------------------------------------------------------------------

    @property
    def done_index(self) -> int:
        """All outputs of inputs up to there are in their queues."""
        return self._pending[0].index - 1 if self._pending else self.index

    async def done(self, index: int) -> None:
        """Until all outputs of inputs up to `index` are in their queues, sent by whichever twin."""
        if self.done_index < index:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((index, future))
            await future

    @property
    def is_full(self) -> bool:
        return self._messages > PENDING_MESSAGES_MAX or self._bytes > PENDING_BYTES_MAX

    async def room(self) -> None:
        """Until more may be made."""
        while self.is_full:
            await self.done(self._pending[len(self._pending) // 2].index)

    def _release(self) -> None:
        done = self.done_index
        for _, future in [each for each in self._watchers if each[0] <= done]:
            if not future.done():
                future.set_result(None)
        self._watchers = [each for each in self._watchers if each[0] > done]

    def hold(self) -> None:
        """Nothing more is sent: whoever stops at a difference is first with nothing that comes behind it."""
        self._is_held = True

    # -- sending -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """For ever. Raises what no repetition helps against."""
        wait_s = WAIT_S
        while True:
            while self._is_held or not self._pending:
                self._wake.clear()
                await self._wake.wait()
            unit = self._next()
            try:
                await self._send(unit)
                wait_s = WAIT_S
                self._inputs_max = min(2 * self._inputs_max, UNIT_MESSAGES_MAX)
            except (ResourceExhausted, Unavailable, InDoubt) as error:  # its number makes it safe to send it again
                if isinstance(error, ResourceExhausted) and len(unit) > 1:
                    self._inputs_max = len(unit) // 2  # a queue that is shorter than the unit never has room for it
                    continue
                log.warning("outputs up to input %d of %s wait: %s", unit[-1].index, self._writer, error)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, WAIT_MAX_S)

    def _next(self) -> list[_Made]:
        unit: list[_Made] = []
        messages = payload_bytes = 0
        queues: set[str] = set()
        for each in self._pending:
            messages, payload_bytes = messages + len(each.outputs), payload_bytes + each.payload_bytes
            queues |= {output.queue for output in each.outputs}
            is_large = messages > UNIT_MESSAGES_MAX or payload_bytes > UNIT_BYTES_MAX or len(queues) > UNIT_QUEUES_MAX
            if unit and (is_large or len(unit) >= self._inputs_max):
                break
            unit.append(each)
        return unit

    async def _send(self, unit: Sequence[_Made]) -> None:
        puts: dict[str, list[bytes | Outgoing]] = {}
        for each in unit:
            for queue, payload, attributes in each.outputs:
                puts.setdefault(queue, []).append(Outgoing(payload, attributes) if attributes else payload)
        if REPLY in puts:
            text = f"the handler answers one of inputs {unit[0].index} to {unit[-1].index}, whose queue is not TWO_WAY"
            raise TwinFault("NOT_TWO_WAY", text)
        number, chain = unit[-1].index, unit[-1].chain
        self.counts.units += 1
        try:
            done = await self._client.transact(
                [], puts, writer=self._writer, number=number, after=self.last, query_id=self._owner, digest=chain
            )
        except Refused as error:
            if error.reason != "SEQUENCE_GAP":
                raise
            self._on_gap(error)
            return
        if done.known_digest is not None:
            self._compare(number, chain, done.known_digest)
        if done.duplicate and not any(done.values()):
            self.counts.duplicates += 1
        else:
            self.counts.sent += sum(len(each.outputs) for each in unit)
            if self._equal == self.last and not self.counts.divergences:
                self._equal = number  # this process was first: what it made is what counts
        last = number
        if done.last_number > number:  # the answer has the digest of `number` alone
            state = await self._client.writer_state(self._writer, digests=True)
            last = state.batch if state is not None else done.last_number
            self._hear(last, state.digests.get(last) if state is not None else None)
        self._forget(last)

    def _on_gap(self, error: TandemqError) -> None:
        """The twin was first with some of it, or with more."""
        last = int(error.metadata["last_number"])
        if last < self.last:
            raise self._missing(last, self.last) from error
        if last == self.last:
            raise error  # something else is under way under this name
        self.counts.duplicates += 1
        digest = error.metadata.get("last_digest")
        self._hear(last, int(digest, 16) if digest is not None else None)
        self._forget(last)

    def _hear(self, last: int, digest: int | None) -> None:
        """The twin is as far as `last`: it is compared there, and this process sends nothing before."""
        if digest is None:
            return
        if last > self.index:
            self._ahead.append((last, digest))
        else:
            self._compare(last, self._as_of(last), digest)

    def _as_of(self, number: int) -> int:
        found = self._base
        for each in self._pending:
            if each.index > number:
                break
            found = each.chain
        return found

    def _forget(self, last: int) -> None:
        """What is known to be in the queues."""
        self.last = last
        while self._pending and self._pending[0].index <= last:
            made = self._pending.popleft()
            self._messages -= len(made.outputs)
            self._bytes -= made.payload_bytes
            self._base = made.chain
        self._release()

    def _of_others(self, owner: str) -> OutputsOfOthers:
        """Its inputs have the same numbers, and all that is made of these would be taken for known."""
        text = (
            f"{self._writer} has outputs of {owner or 'somebody else'} before, and these are of "
            f"{self._owner}; choose another name, or release the writer when nobody repeats those"
        )
        return OutputsOfOthers("WRITER_TAKEN", text, query_id=owner)

    def _missing(self, known: int, wanted: int) -> OutputsMissing:
        text = (
            f"the pair knows outputs of {self._writer} up to input {known}, and this process those up to {wanted} "
            "as sent: its writer was released, or an older copy of the pair was put back; begin with new state, or "
            "under another name"
        )
        return OutputsMissing("TWIN_OUTPUTS", text, last=str(known), wanted=str(wanted))
