"""A simulated client of units of work: what it takes from one queue goes, and what it makes of it comes into two
others, by one call. Whoever died repeats the call under its id; `chaos.sim.judges.units` judges what came of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from chaos.history import Acked
from chaos.sim.clients.base import number_of
from chaos.sim.clients.takers import Dequeuer
from chaos.sim.judges.units import MADE_QUEUES, made_of
from chaos.sim.pair.books import message_of, payload_of
from tandemq.errors import LeaseLost, TandemqError

if TYPE_CHECKING:
    from chaos.history import Message
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.delivery import MessageBatch
    from tandemq.client.receipts import Receipts
    from tandemq.client.units import UnitReceipts


Answer = dict[str, list[tuple[int, bytes]]]
"""By queue: index and id of each message."""


class Worker(Dequeuer):
    """Takes messages, and settles each delivery by one unit that puts what it makes of them into both queues."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.unit_asked_s: dict[int, float] = {}
        """When each unit was asked for first, in an earlier life perhaps."""
        self.answers: dict[int, Answer] = {}
        """The first answer to each."""
        self.last: int | None = 0
        """Its last number; None: a call was lost, and the pair is asked for it."""
        self.after: dict[int, int] = {}
        """What each unit named as the number before it, in an earlier life perhaps."""

    async def work(self, client: aio.Client) -> None:
        self.book.consumers.add(self.plan.name)
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            # What he took before he died is settled perhaps: it is not asked for again.
            batch = self.given[self.at] if self.at in self.unit_asked_s else await self._take(client, call)
            if batch:
                await self._work_off(client, call, batch)
            self.at += 1

    async def _work_off(self, client: aio.Client, call: Call, batch: MessageBatch) -> None:
        await asyncio.sleep(number_of(call, "hold_ms") / 1000)
        sources = [message_of(each.payload) for each in batch]
        self.memory.units.want(sources)
        indexes = [each.index for each in batch]
        asked_s = self.unit_asked_s.setdefault(self.at, self.now_s)
        self.book.done_with(asked_s, indexes)
        try:
            if self.at not in self.after:
                self.after[self.at] = await self._last(client)
            done = await self._transact(client, batch, sources)
        except LeaseLost:
            self.run.sometimes("a unit refused: the lease was lost")
            return
        except TandemqError as error:
            self.last = None
            self.expects(error)
            return
        self.last = self.at + 1
        if self.at in self.answers:  # it died while it asked again
            self._compare(done)
            return
        self.answers[self.at] = answer_of(done)
        self.run.count("units")
        self.book.settled(self.now_s, indexes)
        self.book.acknowledged.update(indexes)
        self.memory.units.done.update(sources)
        for queue, receipts in done.items():
            self.run.books[queue].sent(
                Acked(asked_s, self.now_s, made_of(source)[queue], receipt.index, receipt.epoch, receipt.copies)
                for source, receipt in zip(sources, receipts, strict=True)
            )
        if only := str(call.args.get("repeat", "")):
            await self._once_more(client, only, batch)

    async def _last(self, client: aio.Client) -> int:
        """Its last number, by the pair where an answer was lost."""
        if self.last is None:
            known = await client.writer_state(self.plan.name)
            self.last = known.batch if known is not None else 0
        return self.last

    async def _transact(
        self, client: aio.Client, batch: MessageBatch, sources: list[Message], request: str = ""
    ) -> UnitReceipts:
        name = hashlib.blake2b(f"unit {self.plan.name}/{self.at}{request}".encode(), digest_size=16).digest()
        puts = {queue: [payload_of(made_of(source)[queue]) for source in sources] for queue in MADE_QUEUES}
        number, after = self.at + 1, self.after[self.at]
        return await client.transact(
            [batch], puts, request_id=name, writer=self.plan.name, number=number, after=after, query_id="of the plan"
        )

    async def _once_more(self, client: aio.Client, only: str, batch: MessageBatch) -> None:
        asked = client if only == "here" else self.connect(only)
        sources = [message_of(each.payload) for each in batch]
        try:
            again = await self._transact(asked, batch, sources)
            self.run.sometimes("a unit repeated after its answer, at either member")
            self._compare(again)
            await self._by_number(asked, batch, sources)
        finally:
            if asked is not client:
                await asked.close()

    async def _by_number(self, client: aio.Client, batch: MessageBatch, sources: list[Message]) -> None:
        """Once more under another request id, as if the first one were forgotten."""
        try:
            again = await self._transact(client, batch, sources, " by its number")
        except LeaseLost:
            found = "was taken for a new one"
        except TandemqError as error:
            self.expects(error)
            return
        else:
            found = "" if again.duplicate and not again.differs else "was executed, or is said to differ"
        self.run.sometimes("a unit known by its number alone")
        if found:
            self.run.violation("a number is executed once", f"unit {self.at + 1} of {self.plan.name} {found}")

    def _compare(self, again: dict[str, Receipts]) -> None:
        before, after = self.answers[self.at], answer_of(again)
        if before != after:
            self.run.violation("one effect and one answer", f"{self.plan.name} was answered {before}, then {after}")


def answer_of(done: dict[str, Receipts]) -> Answer:
    """What two answers to one unit have in common."""
    return {queue: [(each.index, each.id) for each in receipts] for queue, receipts in done.items()}
