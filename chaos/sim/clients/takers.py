"""Simulated clients that receive: over the SDK's stream, by unary calls, by browsing.

What becomes of the messages of one delivery is a verb of the plan: ack, late (after the lease has ended), twice,
both (an ack, then a rejection), extend, release, reject, drop (nothing, until the lease ends).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.checker import READ_BOUND_S
from chaos.history import Message
from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.judges.proxy_points import SETTLED, Given
from chaos.sim.pair.books import Received, Repetition, message_of
from chaos.sim.pair.plan import Call, ClientPlan
from tandemq.client.delivery import MessageBatch
from tandemq.client.settling import Act, Lost, Range, merge
from tandemq.errors import Closed, LeaseLost, TandemqError
from tandemq.far_leases import is_far, lease_there
from tandemq.v1 import queue_service_pb2 as pb

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from tandemq import aio

VERBS = ("ack", "late", "twice", "both", "extend", "release", "reject", "drop")
LEASE_MS = 2_000
MILLISECOND = timedelta(milliseconds=1)
BROWSED = "a browser sees what there is"
ACK = Call(0, "take", {"then": "ack"})
"""What a stream does with what comes when its plan says nothing more."""

Settle = Callable[[Act, Sequence[Range]], Awaitable[set[int]]]
"""Carries out a settlement; the indexes that were refused."""


class Taker(SimClient):
    """What all that receive have in common."""

    @property
    def lease(self) -> timedelta:
        return timedelta(milliseconds=float(self.plan.args.get("lease_ms", LEASE_MS)))

    def wanted(self, batch: MessageBatch, most: int) -> None:
        """Nobody is given more than he asked for; 0 stands for one."""
        if len(batch) > max(1, most):
            text = f"{self.plan.name} was given {len(batch)} of {self.queue}, and wanted {most}"
            self.run.violation("no more than was asked for", text)

    def took(self, batch: MessageBatch, *, waited: bool, until_s: float = 0.0, call: int = 0) -> None:
        """Writes down what it was given; of a queue of another pair that is in the books there."""
        taken = [Received(each.index, each.payload, each.delivery_count) for each in batch]
        lease_id, asked_ms = lease_there(batch.lease_id), self.lease // MILLISECOND
        if is_far(batch.lease_id):
            given = Given(self.now_s, self.plan.name, call, lease_id, tuple(each.index for each in batch), asked_ms)
            self.memory.elsewhere.given.append(given)
            asked_ms = 0  # it was a head for a while before
            # Who takes heads is a consumer too: what goes back as it was is a first delivery later.
            self.run.book_of(batch.queue).consumers.add(self.queue)
        self.run.book_of(batch.queue).took(
            self.now_s, self.plan.name, taken, lease_id, waited=waited, until_s=until_s, asked_ms=asked_ms
        )

    async def carry_out(self, call: Call, batch: MessageBatch, settle: Settle) -> None:
        """What the plan says about these messages."""
        lease_id, then = batch.lease_id, str(call.args.get("then", "ack"))
        book = self.run.book_of(batch.queue)  # of the member, where it was a macro queue that gave it
        if not lease_id:
            return
        indexes = [each.index for each in batch]
        ack = Act(lease_id, pb.OUTCOME_ACK)
        if then == "late":
            await asyncio.sleep(self.lease.total_seconds() + number_of(call, "hold_ms") / 1000)
        if then == "extend":
            lost = await settle(Act(lease_id, pb.OUTCOME_EXTEND, extension=self.lease), batch.ranges())
            self.run.count("extended", len(indexes) - len(lost))
            await asyncio.sleep(number_of(call, "hold_ms") / 1000)
        if then == "release":
            book.releases.update(indexes)
            delay = timedelta(milliseconds=number_of(call, "delay_ms")) if "delay_ms" in call.args else None
            await settle(Act(lease_id, pb.OUTCOME_RELEASE, delay=delay), batch.ranges())
        elif then == "reject":
            book.done_with(self.now_s, indexes)
            book.rejecting.update(indexes)
            lost = await settle(Act(lease_id, pb.OUTCOME_REJECT, reason="the plan"), batch.ranges())
            done = [each.index for each in batch if each.index not in lost]
            book.rejected.update(done)
            book.settled(self.now_s, done)
        elif then != "drop":
            book.done_with(self.now_s, indexes)
            refused = await settle(ack, batch.ranges())
            done_now = [index for index in indexes if index not in refused]
            book.settled(self.now_s, done_now)
            book.acknowledged.update(done_now)
            if is_far(lease_id) and done_now:
                self.run.sometimes(SETTLED)
            if then == "late" and done_now:
                self.run.sometimes("acknowledged after the lease had ended, and accepted")
            if refused:
                self.run.sometimes("settling refused: the lease was lost")
            await self._settle_again(then, ack, batch, refused, settle)

    async def _settle_again(self, then: str, ack: Act, batch: MessageBatch, refused: set[int], settle: Settle) -> None:
        """What was confirmed once is confirmed again, and nothing else is."""
        done = {each.index for each in batch} - refused
        if then == "twice":
            lost = await settle(ack, batch.ranges())
            if done:
                self.run.sometimes("acknowledged twice")
            if lost & done:
                self.run.violation("a settlement is repeated", f"{sorted(lost & done)} of {self.queue} were refused")
        elif then == "both":
            self.run.book_of(batch.queue).rejecting.update(each.index for each in batch)
            lost = await settle(Act(ack.lease_id, pb.OUTCOME_REJECT), batch.ranges())
            if done:
                self.run.sometimes("acknowledged, then rejected")
            if done - lost:
                self.run.violation("one outcome", f"{sorted(done - lost)} of {self.queue} were acked and rejected")


class Consumer(Taker):
    """Takes messages over a stream; a verb of the plan for each batch, and then acks."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.consumer: aio.Consumer | None = None
        self.busy = False
        """With messages that it was given: nothing is given back under its hands."""

    async def work(self, client: aio.Client) -> None:
        refused: set[tuple[Act, int]] = set()

        def on_lost(lost: Lost) -> None:
            refused.update((lost.act, index) for first, count in lost.ranges for index in range(first, first + count))

        async def settle(act: Act, ranges: Sequence[Range]) -> set[int]:
            try:
                await consumer.settle_now(act, ranges)
            except LeaseLost:
                pass  # on_lost was given them
            except Closed:
                return set(_indexes(ranges))  # nobody knows
            return {index for index in _indexes(ranges) if (act, index) in refused}

        args = self.plan.args
        self.book.consumers.add(self.plan.name)
        consumer = self.consumer = client.consumer(
            self.queue,
            client_id=self.plan.name if args.get("named", False) else None,
            credit_messages=int(args.get("credit", 20)),
            lease=self.lease,
            mode="immediate" if self.book.kind == "immediate" else None,
            on_lost=on_lost,
        )
        self.busy = False
        async with consumer:
            if self.is_stopping():
                return
            async for batch in consumer.batches():
                if self.is_stopping():
                    return  # its lease ends by time
                self.wanted(batch, int(args.get("credit", 20)))
                self.busy = True
                self.took(batch, waited=False)
                call = self.calls[self.at] if self.at < len(self.calls) else ACK
                self.at += 1
                self.counted(call)
                await self.carry_out(call, batch, settle)
                self.busy = False
                if self.is_stopping():
                    return

    def is_done(self) -> bool:
        return not self.down if not self.is_stopping() else self.done

    def stop(self) -> None:
        super().stop()
        if self.process is not None and self.consumer is not None and not self.busy:
            self.run.loop.spawn(self.process, self.consumer.close())


class Dequeuer(Taker):
    """Takes messages by unary calls, each repeated under its id until it is answered, and sometimes after that."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.given: dict[int, MessageBatch] = {}
        """The first answer to each call."""
        self.homes: dict[int, str] = {}
        """Lease: the queue that gave it, or its proxy."""
        self.asked_s: dict[int, float] = {}
        """When each call was made first, in an earlier life perhaps: its lease did not begin before."""

    async def work(self, client: aio.Client) -> None:
        async def settle(act: Act, ranges: Sequence[Range]) -> set[int]:
            name = self.homes[act.lease_id] if self.plan.args.get("by_member") else self.queue
            lost = await client.settle(name, [(act, ranges)])
            for each in lost:
                self.expects(each.error)
            return {index for each in lost for index in _indexes(each.ranges)}

        self.book.consumers.add(self.plan.name)
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            batch = await self._take(client, call)
            self.at += 1
            if batch:
                await self.carry_out(call, batch, settle)

    async def _take(self, client: aio.Client, call: Call) -> MessageBatch:
        if self.at in self.given:  # it died while it asked again
            await self._again(client, call, self.given[self.at])
            return self.given[self.at]
        asked_s = self.now_s
        self.asked_s.setdefault(self.at, asked_s)
        batch = await self._ask(client, call)
        if batch is None:
            return MessageBatch(self.queue, 0, ())
        self.answered(asked_s)
        self.took(batch, waited=True, until_s=self._until_s(), call=self.at + 1)
        self.homes[batch.lease_id] = batch.queue
        if not batch:
            self.run.count("empty")
            return batch
        self.wanted(batch, number_of(call, "max", 1) or 1)  # 0 asks for one, as an unset field does
        self.given[self.at] = batch
        if call.args.get("again"):
            await self._again(client, call, batch)
        return batch

    async def _ask(self, client: aio.Client, call: Call) -> MessageBatch | None:
        """None: what it was given before an answer was lost is damaged where it asked again."""
        name = hashlib.blake2b(f"{self.plan.name}/{self.at}".encode(), digest_size=16).digest()
        try:
            return await client.dequeue(
                self.queue,
                number_of(call, "max", 1),
                wait=timedelta(milliseconds=number_of(call, "wait_ms")),
                lease=self.lease,
                mode="immediate" if self.book.kind == "immediate" else None,
                client_id=self.plan.name,
                request_id=name,
            )
        except TandemqError as error:
            if not self.is_damage(error):
                raise
            return None

    async def _again(self, client: aio.Client, call: Call, known: MessageBatch) -> None:
        asked, only = client, str(call.args["again"])
        if only in ("a", "b"):
            asked = self.connect(only)
        batch = await self._ask(asked, call)
        # A master that does not know yet that it was replaced has nothing to give, for as long as reads may be old; its
        # answer names its epoch. Clients that go on, and not anew as here, name theirs and are not answered by it.
        outdated = not batch and asked.epoch() < client.epoch()
        if asked is not client:
            await asked.close()
        if batch is None or is_far(known.lease_id) or is_far(batch.lease_id):
            return  # heads of another pair are no record here: they may be others, and these come again (M7)
        if batch:
            self.run.sometimes("a Dequeue repeated after its answer, at either member")
        before = {each.index: each.payload for each in known}
        after = {each.index: each.payload for each in batch}
        # As far as they are still there: somebody else may have settled them after the lease ended.
        strange = [index for index, payload in after.items() if before.get(index) != payload]
        if strange or (batch and batch.lease_id != known.lease_id):
            self.run.violation(
                "one effect and one answer",
                f"{self.plan.name} was given {sorted(before)} under {known.lease_id}, and {sorted(after)} "
                f"under {batch.lease_id} when it asked {only} again",
            )
        if known.lease_id and self.now_s < self._until_s() and not outdated:
            held = {each.index: message_of(each.payload) for each in known}
            self.run.book_of(known.queue).repetitions.append(Repetition(self.plan.name, held, frozenset(after)))

    def _until_s(self) -> float:
        """The lease of this call did not begin before it was made, and no failover makes it shorter."""
        return self.asked_s[self.at] + self.lease.total_seconds()


class Browser(SimClient):
    """Reads without taking."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._browse(client, call)
            self.at += 1

    async def _browse(self, client: aio.Client, call: Call) -> None:
        try:
            await self._look_through(client, call)
        except TandemqError as error:
            if not self.is_damage(error):
                raise

    async def _look_through(self, client: aio.Client, call: Call) -> None:
        seen, last = self.run.browsed.setdefault(self.queue, {}), 0
        asked_s, first, most = self.now_s, number_of(call, "from"), number_of(call, "max")
        found: set[int] = set()
        async for each in client.browse(self.queue, from_index=first, max_messages=most):
            found.add(each.index)
            message: Message = message_of(each.payload)
            known = seen.setdefault(each.index, message)
            if each.index <= last or known != message:
                self.run.violation(BROWSED, f"{message} at {each.index} after {last}, where {known} was")
            last = each.index
        if not first and not most:
            self._judge(found, asked_s)

    def _judge(self, found: set[int], asked_s: float) -> None:
        """All that was acknowledged before is there, as nobody has asked to settle it yet."""
        if any(member.domain is not None and member.domain.shared.damaged for member in self.pair.members.values()):
            return  # what is damaged is given to nobody
        for ack in self.book.history.acked:
            if ack.at_s + READ_BOUND_S < asked_s and ack.index not in found and ack.index not in self.book.done:
                self.run.violation(BROWSED, f"{ack.message} is at {ack.index} of {self.queue}, and was not listed")
                return


def _indexes(ranges: Sequence[Range]) -> list[int]:
    return [index for first, count in merge(ranges) for index in range(first, first + count)]
