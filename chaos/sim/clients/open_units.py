"""A simulated client of units of work that are open over several calls: it takes, sends, and commits, rolls back, or
leaves the unit to its deadline. Who died while it committed asks again; `chaos.sim.judges.units` judges it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Acked
from chaos.sim.clients.base import number_of
from chaos.sim.clients.takers import Taker
from chaos.sim.judges.units import MADE_QUEUES, made_of
from chaos.sim.pair.books import Received, message_of, payload_of
from tandemq.client.calls import TRANSACTION_SERVICE
from tandemq.errors import LeaseLost, TandemqError, UnitAborted
from tandemq.v1 import transaction_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.history import Message
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.delivery import MessageBatch
    from tandemq.client.open_units import Unit
    from tandemq.v1.queue_service_pb2 import EnqueueRequest

Answer = dict[str, list[tuple[int, bytes]]]
"""By queue: index and id of each message."""


@dataclass(slots=True)
class Committing:
    """What a client was about to commit, over its deaths."""

    unit_id: bytes
    asked_s: float
    sources: list[Message]
    indexes: list[int]
    puts: list[EnqueueRequest]
    """That go with the commit."""


class Opener(Taker):
    """Each call of its plan is one unit."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.committing: Committing | None = None

    async def work(self, client: aio.Client) -> None:
        self.book.consumers.add(self.plan.name)
        if self.committing is not None:
            await self._ask_again(client, self.committing)
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            timeout = timedelta(milliseconds=number_of(call, "timeout_ms"))
            unit = client.unit(timeout=timeout, puts_at_commit=self.at % 2 == 1)
            try:
                await self._work_off(client, call, unit)
            except (LeaseLost, UnitAborted) as ended:
                self._on_aborted(unit.id, ended)
            except TandemqError as error:
                self.expects(error)
            self.committing = None
            self.at += 1

    async def _work_off(self, client: aio.Client, call: Call, unit: Unit) -> None:
        wait = timedelta(milliseconds=number_of(call, "wait_ms"))
        batch = await unit.dequeue(self.queue, number_of(call, "max", 1), wait=wait)
        taken = [Received(each.index, each.payload, each.delivery_count) for each in batch]
        # Nobody knows how long it is held: a takeover ends it at once, and counts nothing.
        self.book.took(self.now_s, self.plan.name, taken, batch.lease_id, waited=False)
        sources = [message_of(each.payload) for each in batch]
        for queue in MADE_QUEUES if batch else ():
            await unit.enqueue(queue, [payload_of(made_of(source)[queue]) for source in sources])
        await asyncio.sleep(number_of(call, "hold_ms") / 1000)
        end = str(call.args.get("end", "commit"))
        if end == "leave":
            return
        if end == "rollback" or not batch:
            await self._roll_back(unit, batch)
            return
        self.memory.units.want(sources)
        asked = self.committing = Committing(
            unit.id, self.now_s, sources, [each.index for each in batch], list(unit.held)
        )
        self.book.done_with(self.now_s, asked.indexes)
        done = await unit.commit()
        self.committing = None
        self.run.sometimes("an open unit committed")
        if asked.puts:
            self.run.sometimes("puts came with their commit")
        answer = {queue: [(each.index, each.id) for each in receipts] for queue, receipts in done.items()}
        epoch, copies = next(((each.epoch, each.copies) for receipts in done.values() for each in receipts), (0, 0))
        self._on_committed(asked, answer, epoch, copies)
        if only := str(call.args.get("repeat", "")):
            await self._once_more(client, only, unit.id, answer)

    async def _roll_back(self, unit: Unit, batch: MessageBatch) -> None:
        returned = await unit.rollback()
        if batch and returned == len(batch):
            self.run.sometimes("an open unit rolled back")
            self.book.counts(batch.lease_id)

    def _on_committed(self, asked: Committing, answer: Answer, epoch: int, copies: int) -> None:
        self.run.count("units")
        self.book.settled(self.now_s, asked.indexes)
        self.book.acknowledged.update(asked.indexes)
        self.memory.units.done.update(asked.sources)
        for queue, entries in answer.items():
            self.run.books[queue].sent(
                Acked(asked.asked_s, self.now_s, made_of(source)[queue], index, epoch, copies)
                for source, (index, _) in zip(asked.sources, entries, strict=True)
            )

    def _on_aborted(self, unit_id: bytes, ended: TandemqError) -> None:
        if unit_id and (ended.definite or isinstance(ended, LeaseLost)):
            self.run.sometimes("an open unit was aborted")
            self.memory.units.aborted.add(unit_id)

    async def _commit(self, client: aio.Client, unit_id: bytes, puts: Sequence[EnqueueRequest]) -> pb.CommitResponse:
        request = pb.CommitRequest(unit_id=unit_id, puts=puts)
        caller = client.links.own.caller
        return await caller.call(TRANSACTION_SERVICE + "Commit", request, pb.CommitResponse, queue=self.queue)

    async def _ask_again(self, client: aio.Client, asked: Committing) -> None:
        """It died while it committed, and has heard nothing."""
        try:
            reply = await self._commit(client, asked.unit_id, asked.puts)
        except UnitAborted:
            self.memory.units.aborted.add(asked.unit_id)  # whatever was asked before: nothing of it, ever
        except TandemqError as error:
            self.expects(error)
        else:
            self.run.sometimes("a commit asked for again by a client that had died")
            self._on_committed(asked, answer_of(reply), reply.header.epoch, reply.header.copies)
        self.committing = None
        self.at += 1

    async def _once_more(self, client: aio.Client, only: str, unit_id: bytes, before: Answer) -> None:
        asked = client if only == "here" else self.connect(only)
        try:
            after = answer_of(await self._commit(asked, unit_id, ()))
        except UnitAborted:
            after = {}
            self.memory.units.aborted.add(unit_id)
        finally:
            if asked is not client:
                await asked.close()
        if before != after:
            self.run.violation("one effect and one answer", f"{self.plan.name} was answered {before}, then {after}")


def answer_of(reply: pb.CommitResponse) -> Answer:
    """What two answers to one commit have in common."""
    return {put.queue: [(each.index, each.id) for each in put.results] for put in reply.puts}
