"""Carries the messages of one transmission queue to their manager. Batch n, leased here for as long as it takes, is
unit n of a writer there, and is acknowledged then (X3). A crash anywhere repeats the step under the same number.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from replica.core.messages import bodies
from replica.core.state.calls import PendingCall, Transact
from replica.core.state.outcomes import Failed, Moved
from replica.machine import (
    AckBatchCall,
    BatchCall,
    QueuePut,
    QueueSettling,
    SettleCall,
    UnitCall,
    columns_of,
    milliseconds,
)
from replica.machine.features.batches import holder, last_batch, open_batches
from replica.machine.plan.content import BATCH_PROPERTIES_MAX
from replica.machine.plan.lease import FOR_EVER
from replica.machine.state.system_names import CONSUMER
from replica.node.counting import until_committed
from replica.node.members import LOCAL
from replica.rpc.requests import fingerprint
from replica.services.answers import FutureWaiter
from replica.services.elsewhere import ensure, letters_of
from replica.services.links.far_side import LOOKS, FarSide
from replica.services.links.leaving import (
    Bound,
    dead_here,
    dead_reaction,
    has_no_place_there,
    is_final,
    is_of_one_of_many,
    is_reaction,
    leaving_of,
    report_of_refusal,
    without_place,
)
from storage.errors import CorruptRecord
from tandemq.ambient import monotonic_s
from tandemq.client.identity import new_request_id
from tandemq.errors import TandemqError, error_of, reason_name
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_RELEASE, EnqueueBatch, Outcome, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from replica.core.domain import Domain
    from replica.core.state.calls import AnyCall
    from replica.core.state.outcomes import Answer
    from replica.machine import Lease, NumberedBatch, QueueState
    from replica.machine.sets.ranges import Run
    from replica.machine.state.system_names import Destination
    from replica.node.members import Members
    from replica.operations.reports import Reports
    from tandemq import aio

log = logging.getLogger("tandemq.links")

BATCH_MESSAGES, BATCH_BYTES = 1_000, 1 << 20
"""Taken at once, where the queue does not say how many (X6)."""
BATCH_MESSAGES_MAX = 10_000
PIECE = 100
"""Messages read at a time, in some 4 ms."""
LOOK_S = 0.05
"""So often it is looked whether as many are there as go at once."""
SENT_BYTES_MAX, SENT_PROPERTIES_MAX = 4 << 20, BATCH_PROPERTIES_MAX // 2
"""Of one call: a batch is taken by its payloads, and properties may be far more. One message goes anyway."""
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.1, 5.0
DOUBT_S = 10.0
"""After this time no copy of a call that was not answered is under way any more: its deadline is over."""
NOTE_S = 10.0
"""So long a link stands still before an event says so."""


class NotHere(Exception):  # noqa: N818 - no fault: the mastership, or the queue, has gone
    """Whoever serves now goes on."""


class GivenBack(NamedTuple):
    """What became of the batches that were open. `silence`: why the target did not say what it has; then those that are
    in doubt were released only if that was asked for.
    """

    numbers: tuple[int, ...] = ()
    released: int = 0
    acknowledged: int = 0
    in_doubt: int = 0
    silence: str = ""


class Carrier:
    """One link: one order."""

    def __init__(
        self, members: Members, reports: Reports, domain: Domain, queue: QueueState, target: Destination
    ) -> None:
        self.members, self.reports = members, reports
        self.domain, self.queue, self.target = domain, queue.name, target
        self.queue_id = queue.queue_id
        self.is_sent_on = target.manager in members.routes
        """By another manager, to which names go as they are, full; else this manager reaches the target."""
        place = domain.shared.name if domain.shared.name != LOCAL else f"{LOCAL}@{members.member}"  # each has its own
        self.source = f"{members.pair or members.member}/{place}"
        self.writer = f"{CONSUMER}/{self.source}/{target}"
        self.wake = asyncio.Event()
        self.most = BATCH_MESSAGES_MAX
        """Fewer for a while, after a batch that did not go."""
        self.epoch = domain.shared.state.epoch
        self.far: FarSide | None = None
        """None: nobody has tried to reach the target yet."""
        self.turn = asyncio.Lock()
        """Held while a batch is on its way, and while an operator ends one."""
        self.doubt_s = monotonic_s()
        """When a call was last left without an answer, by whoever served before perhaps."""
        self.failures = 0
        self.since_s = 0.0
        self.why = ""
        """What stopped it last, while it stands still."""
        self.noted = False

    @property
    def serves(self) -> bool:
        """Whether it is this member's to carry."""
        machine = self.domain.shared.machine
        return self.domain.shared.serving and machine is not None and machine.queue_id(self.queue) == self.queue_id

    async def run(self, held: AbstractAsyncContextManager[aio.Client]) -> None:
        """As long as this member serves the queue."""
        async with held as client:
            domain = "" if self.is_sent_on else self.target.domain
            meant = self.target.manager if self.target.queue and not self.is_sent_on else ""
            far = self.far = FarSide(client, self.writer, self.members.pair or self.members.member, domain, meant)
            while self.serves:
                self.wake.clear()
                try:
                    await self._linger()
                    async with self.turn:
                        went = await self._turn(far)
                    if went:
                        self._went_on()
                    else:
                        await self.wake.wait()
                except NotHere:
                    continue
                except (TandemqError, CorruptRecord) as error:
                    await self._stand(error)

    async def _linger(self) -> None:
        """Until as many are there as go at once, or the first of them has waited long enough (X6)."""
        queue = self._queue()
        linger_s = milliseconds(queue.config.xmit_linger) / 1000
        if not linger_s or not queue.length or self._batches():
            return
        end_s = monotonic_s() + linger_s
        while (left_s := end_s - monotonic_s()) > 0:
            if self._queue().length >= _at_once(queue):
                return
            await asyncio.sleep(min(left_s, LOOK_S))

    # -- one batch -------------------------------------------------------------------------------------------------

    async def _turn(self, far: FarSide) -> bool:
        """False: there is nothing to carry."""
        if not await until_committed(self.domain):
            raise NotHere
        queue = self._queue()
        if not queue.length:
            return False
        self._look_at_epoch(far)
        if far.last is None:
            await far.ask(self._lineage())
        await self._settle_left(far, queue)
        batches = self._batches()
        if not batches:
            await self._take(far, queue)
            batches = self._batches()
            if not batches:
                return False
            self.doubt_s = monotonic_s() - DOUBT_S  # nobody has sent it yet
        number, batch, lease = batches[0]
        rows = await self._read(number, batch, lease)
        alone = next((place for place, row in enumerate(rows) if is_reaction(row)), None)
        if alone is None:
            await self._send(far, number, rows)
        elif len(rows) == 1:
            await self._react(far, number, rows[0])
        else:  # nobody has sent it so: what stands before the reaction goes first, and the reaction alone (V17)
            await self._cut(number, max(1, alone))
        await self._order(AckBatchCall(self.queue, CONSUMER, number))
        self.most = min(BATCH_MESSAGES_MAX, 2 * self.most)
        return True

    def _look_at_epoch(self, far: FarSide | None) -> None:
        """Between two epochs of this member another one may have carried: what it knows of that is of no use."""
        epoch = self.domain.shared.state.epoch
        if epoch != self.epoch:
            self.epoch, self.doubt_s = epoch, monotonic_s()
            if far is not None:
                far.last = None

    def _queue(self) -> QueueState:
        machine = self.domain.shared.machine
        if not self.serves or machine is None:
            raise NotHere
        return machine.queue(self.queue_id)

    def _batches(self) -> list[tuple[int, NumberedBatch, Lease]]:
        machine = self.domain.shared.machine
        queue = self._queue()
        assert machine is not None
        return open_batches(machine.state, queue, CONSUMER)

    async def _take(self, far: FarSide, queue: QueueState) -> None:
        machine = self.domain.shared.machine
        assert machine is not None
        assert far.last is not None
        number = max(last_batch(machine.state, queue, CONSUMER), far.last) + 1
        sound = self.domain.consumers.damage.sound
        # It may skip: here a backup may have come back that knows fewer numbers than the target does.
        most = min(self.most, _at_once(queue))
        call = BatchCall(self.queue, CONSUMER, number, most, BATCH_BYTES, FOR_EVER, sound, may_skip=True)
        await self._order(call)

    async def _read(self, number: int, batch: NumberedBatch, lease: Lease) -> list[Bound]:
        """Piece by piece: everybody else is served in between."""
        now_ms = self.members.node.clock.now_ms()
        store, shared = self.members.node.store, self.domain.shared
        rows, size, properties = list[Bound](), 0, 0
        for place, piece in enumerate(pieces_of(batch.runs)):
            if place:
                await asyncio.sleep(0)
            machine = shared.machine
            if machine is None or not self.serves or shared.state.epoch != self.epoch:
                raise NotHere
            slices = machine.segments_of(lease.queue_id, piece)
            for row in bodies.rows_of(store, shared, self.queue, lease.lease_id, slices):
                bound = leaving_of(row, now_ms, self.source, sent_on=self.is_sent_on, way=self.target.full_name)
                size += bound.message.ByteSize()
                properties += len(bound.message.properties)
                if rows and (size > SENT_BYTES_MAX or properties > SENT_PROPERTIES_MAX):
                    text = f"{batch.size} messages have more bytes or properties than go in one call"
                    await self._take_fewer(number, 2 * len(rows), error_of("TXN_TOO_LARGE", text))
                rows.append(bound)
        if len(rows) < batch.size:
            raise error_of("BATCH_GONE", f"{batch.size - len(rows)} messages have bodies that are not here now")
        return rows

    async def _send(self, far: FarSide, number: int, rows: list[Bound]) -> None:
        """Until it is there, or refused for a reason that may pass: then it raises."""
        while True:
            try:
                await far.put(number, rows, self._lineage())
            except TandemqError as error:
                if far.counts_on(error):
                    continue
                if not error.definite:
                    self.doubt_s = monotonic_s()
                elif len(rows) > 1 and (error.reason == "QUEUE_FULL" or is_of_one_of_many(rows, error)):
                    await self._take_fewer(number, len(rows), error)
                elif has_no_place_there(rows, error):
                    await self._lay_aside(number, rows[0], error)
                found = without_place(rows, error)
                if found is None:
                    raise
                rows = found
                continue
            return

    async def _react(self, far: FarSide, number: int, row: Bound) -> None:
        """A reaction on its way is a step of its own (V17): until it is done there, or among the dead letters there."""
        while True:
            try:
                await far.react(number, row, self._lineage())
            except TandemqError as error:
                if far.counts_on(error):
                    continue
                if not error.definite:
                    self.doubt_s = monotonic_s()
                if not error.definite or not is_final(error):
                    raise
                await self._bury(far, number, row, error)
            return

    async def _bury(self, far: FarSide, number: int, row: Bound, refusal: TandemqError) -> None:
        """A reaction that is refused for ever; who asked for it hears of it, where that has a place."""
        letter, report = dead_reaction(row, refusal), report_of_refusal(row, refusal.reason)
        if report is not None:
            try:
                await far.put(number, [letter, report], self._lineage())
            except TandemqError as error:
                if not error.definite:
                    self.doubt_s = monotonic_s()
                    raise
            else:
                return
        await self._send(far, number, [letter])

    def _lineage(self) -> str:
        machine = self.domain.shared.machine
        return machine.state.history_id.hex() if machine is not None else ""

    async def _take_fewer(self, number: int, count: int, error: TandemqError) -> None:
        """Nothing of it was done, nor will be by a copy of the call: what was taken goes under the next number, fewer
        at a time. More at once than the queue may hold would never go.
        """
        if monotonic_s() - self.doubt_s < DOUBT_S:
            raise error
        await self._cut(number, max(1, count // 2))

    async def _cut(self, number: int, most: int) -> NoReturn:
        """It goes under the next number, so many at a time."""
        self.most = most
        for each, _, lease in self._batches():
            if each == number:
                await self._settle(lease.lease_id, lease.ranges, OUTCOME_RELEASE)
        raise NotHere

    async def _lay_aside(self, number: int, row: Bound, error: TandemqError) -> None:
        """The only one of its batch is refused for ever, even as a dead letter there: it becomes one here."""
        if monotonic_s() - self.doubt_s < DOUBT_S:
            raise error
        dead = letters_of(self.members, self.domain)
        lack = await ensure(self.members, self.domain, dead)
        if isinstance(lack, Moved):
            raise NotHere
        if lack is not None:
            raise error_of(reason_name(lack.reason), lack.message, lack.metadata)
        letter = dead_here(row, self.target, error.reason)
        batch = EnqueueBatch(queue=dead, messages=bodies.columns_without_properties([letter]))
        bodies.add_properties(batch.messages, [letter])
        columns, body = columns_of(batch), batch.SerializeToString(deterministic=True)
        for each, _, lease in self._batches():
            if each == number:
                ranges = [IndexRange(first=start, count=end - start) for start, end in lease.ranges]
                settlement = Settlement(lease_id=lease.lease_id, ranges=ranges, outcome=OUTCOME_ACK)
                request_id = new_request_id()
                settles, puts = [QueueSettling(self.queue, [settlement])], [QueuePut(dead, columns)]
                unit = UnitCall(settles, puts, self.members.member, request_id, fingerprint(body))
                await self._order(Transact(unit, body, 0))
        raise NotHere

    async def _settle_left(self, far: FarSide, queue: QueueState) -> None:
        """What is left of a batch of which a volatile body was lost, or which an operator released: it has been sent
        when the target knows its number, even what waits again; else it goes under the next one, once no call can make
        it known any more (X4).
        """
        machine = self.domain.shared.machine
        assert machine is not None
        assert far.last is not None
        known = machine.state.batches.get((queue.queue_id, CONSUMER))
        for number, batch in list(known.open.items()) if known is not None else ():
            if holder(queue, batch) is not None:
                continue
            lease = queue.leases.get(batch.lease_id)
            if number <= far.last:
                await self._settle(batch.lease_id, batch.runs, OUTCOME_ACK)
            elif self._doubt_left_s(batch.runs) > 0:
                raise error_of("BATCH_GONE", f"a part of batch {number} is gone, and a call with it may be under way")
            elif lease is not None:
                await self._settle(lease.lease_id, lease.ranges, OUTCOME_RELEASE)

    def _doubt_left_s(self, runs: Iterable[Run]) -> float:
        """Until no copy of a call with these messages can be under way; a reaction may have looked for longer."""
        ranges = [IndexRange(first=start, count=end - start) for start, end in runs]
        looks = sum(each.count for each in ranges) == 1 and any(map(is_reaction, self._bound(ranges)))
        return self.doubt_s + DOUBT_S + (LOOKS.total_seconds() if looks else 0.0) - monotonic_s()

    def _bound(self, ranges: Sequence[IndexRange]) -> Iterator[Bound]:
        """Those that are here, with their bodies."""
        machine, node = self.domain.shared.machine, self.members.node
        assert machine is not None
        slices = machine.segments_of(self.queue_id, ranges, delivered=False)
        for row in bodies.rows_of(node.store, self.domain.shared, self.queue, 0, slices):
            yield leaving_of(row, node.clock.now_ms(), self.source, sent_on=self.is_sent_on, way=self.target.full_name)

    def _open(self) -> list[tuple[int, Lease]]:
        """By number: those that hold anything."""
        queue, machine = self._queue(), self.domain.shared.machine
        assert machine is not None
        known = machine.state.batches.get((queue.queue_id, CONSUMER))
        rows = sorted(known.open.items()) if known is not None else []
        return [(number, lease) for number, batch in rows if (lease := queue.leases.get(batch.lease_id))]

    async def give_back(self, *, unasked: bool) -> GivenBack:
        """Ends the batches that are open, for an operator (X4). Raises NotHere, and TandemqError for what is refused
        here.
        """
        async with self.turn:
            silence = ""
            try:
                last = await self._ask_for_certain()
            except TandemqError as error:
                silence, last = str(error), 0
            rows = self._open()
            numbers = tuple(number for number, _ in rows)
            if silence and not unasked:
                return GivenBack(numbers, in_doubt=sum(lease.ranges.size for _, lease in rows), silence=silence)
            released = acknowledged = 0
            for number, lease in rows:
                has, size = number <= last, lease.ranges.size
                await self._settle(lease.lease_id, list(lease.ranges), OUTCOME_ACK if has else OUTCOME_RELEASE)
                released, acknowledged = released + size * (not has), acknowledged + size * has
            if rows:
                text = f"batches {', '.join(map(str, numbers))} for {self.target} are ended by an operator"
                self._note(f"{text}: {acknowledged} messages are there, {released} go again", "")
            return GivenBack(numbers, released, acknowledged, released if silence else 0, silence)

    async def _ask_for_certain(self) -> int:
        """The last number there. What it has not by then it will not get by a call that is under way."""
        far = self.far
        self._look_at_epoch(far)
        if far is None:
            raise error_of("MANAGER_UNREACHABLE", f"nobody has tried to reach {self.target} yet; repeat the call")
        numbers = [number for number, _ in self._open()]
        if not numbers:
            return 0
        await far.ask(self._lineage())
        left_s = max((self._doubt_left_s(lease.ranges) for _, lease in self._open()), default=0.0)
        if left_s > 0 and (far.last is None or numbers[-1] > far.last):
            await asyncio.sleep(left_s)
            await far.ask(self._lineage())
        last, far.last = far.last or 0, None  # what is there now may be asked anew
        return last

    async def _settle(self, lease_id: int, runs: Iterable[Run], outcome: Outcome) -> None:
        ranges = [IndexRange(first=start, count=end - start) for start, end in runs]
        await self._order(SettleCall(self.queue, [Settlement(lease_id=lease_id, ranges=ranges, outcome=outcome)]))

    async def _order(self, call: AnyCall) -> Answer:
        if self.domain.shared.state.epoch != self.epoch:
            raise NotHere  # what it is about to order follows from what was so in an earlier one
        node, waiter = self.members.node, FutureWaiter()
        self.domain.submit(PendingCall(waiter, call), node.clock.now_ms())
        node.dispatch(self.domain)
        result = await waiter.future
        if isinstance(result, Moved):
            raise NotHere
        if isinstance(result, Failed):
            raise error_of(reason_name(result.reason), result.message, result.metadata)
        return result

    # -- standing still --------------------------------------------------------------------------------------------

    def _went_on(self) -> None:
        if self.noted:
            self._note(f"messages go to {self.target} again", "")
        self.failures, self.noted, self.why = 0, False, ""

    async def _stand(self, error: Exception) -> None:
        """The order is kept: nothing passes what is refused."""
        now_s, self.why = monotonic_s(), str(error)
        self.since_s = now_s if not self.failures else self.since_s
        if now_s - self.since_s >= NOTE_S and not self.noted:
            self.noted = True
            self._note(f"no message goes to {self.target} since {NOTE_S:.0f} s or more: {error}", str(error))
        self.failures += 1
        if self.far is not None:
            self.far.last = None  # whoever answers next may be another one
        await asyncio.sleep(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(self.failures, 10)))

    def _note(self, text: str, why: str) -> None:
        facts = {"queue": self.queue, "target": str(self.target), "why": why}
        kind = PairEventKind.PAIR_EVENT_KIND_FAULT if why else PairEventKind.PAIR_EVENT_KIND_LINK
        self.reports.note(kind, text, self.domain, facts)


def _at_once(queue: QueueState) -> int:
    return queue.config.xmit_batch or BATCH_MESSAGES


def pieces_of(runs: Iterable[Run]) -> Iterator[list[IndexRange]]:
    """The same messages in the same order, at most PIECE at a time."""
    piece, left = list[IndexRange](), PIECE
    for start, end in runs:
        while start < end:
            count = min(left, end - start)
            piece.append(IndexRange(first=start, count=count))
            start, left = start + count, left - count
            if not left:
                yield piece
                piece, left = [], PIECE
    if piece:
        yield piece
