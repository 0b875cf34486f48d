"""Takes everything that is left, of every queue, when a simulated run ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Message
from chaos.sim.clients.base import SimClient
from chaos.sim.judges.letters import DEAD, dead_letters_of
from chaos.sim.judges.links import LETTERS, LINK
from chaos.sim.judges.macro_points import BLOCKED, MACRO, SETTLED_AT_MACRO
from chaos.sim.judges.sides import SIDED
from chaos.sim.pair.books import ANSWERS, FATED, MOVING, REQUESTS, Received, message_of, payload_of
from chaos.sim.pair.plan import ClientPlan
from chaos.sim.pair.run import NEAR
from replica.core.messages.copies import REASON
from tandemq.client.delivery import MessageBatch
from tandemq.client.settling import Act
from tandemq.errors import LeaseLost, TandemqError
from tandemq.far_leases import is_far, lease_there
from tandemq.v1 import queue_service_pb2 as pb

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.books import Book
    from chaos.sim.pair.members import Pair
    from tandemq import aio
    from tandemq.client.macros import Macro

HEADS_S = 7.0
"""By then every lease of a head, and of a consumer that has died, has ended."""
COPIES_S = 2.0
"""For so long copies of the last answers may be on their way to the queue that was named for them."""
DRAIN_NUMBER = 999
"""Of whoever answers at the end."""


class Drain(SimClient):
    """Takes everything that is left, of every queue, at the end."""

    def __init__(self, pair: Pair, memory: Memory) -> None:
        name = "drain" if pair.run.pair_name == NEAR else f"drain of {pair.run.pair_name}"
        super().__init__(pair, memory, ClientPlan(name, "drain", ()))

    async def work(self, client: aio.Client) -> None:
        await self._empty_macros(client)
        for book in self.run.books:
            if book.kind in (LINK, SIDED, MACRO):
                continue  # it is the agent's, or its twins', or holds nothing itself
            if book.kind not in FATED:
                await self._empty(client, book.name)
            if book.rejecting and book.kind not in FATED:
                letters = dead_letters_of(book.name)
                self.run.books[letters].kind = DEAD
                await self._empty(client, letters)
        await self._empty_together(client)

    async def _empty_macros(self, client: aio.Client) -> None:
        """By their names first, while a member is closed: the others are emptied all the same. Then all are opened."""
        names = {book.name for book in self.run.books if book.kind == MACRO}
        if not names:
            return
        for macro in await client.list_macros():
            if macro.relationship != "CONSUMER":
                continue
            while True:
                ready = await self._ready(client, macro)
                wait_s = HEADS_S if any(name in self.run.proxied for name in ready) else 0.0
                if await self._take_some(client, macro.name, wait_s):
                    continue
                if ready:
                    self.run.violation(BLOCKED, f"messages of {ready} are ready, and {macro.name} gives none")
                break
        for name in sorted({member.queue for macro in await client.list_macros() for member in macro.members}):
            if name not in self.run.proxied and not (await client.get_queue(name)).open_members:
                await client.open_queue(name)

    async def _ready(self, client: aio.Client, macro: Macro) -> list[str]:
        """Open members that have something to give; those of another pair also what is leased, as heads perhaps."""
        found = [await client.get_queue(member.queue) for member in macro.members]
        return [
            info.name
            for info in found
            if info.open_members and (info.length if info.name in self.run.proxied else info.ready)
        ]

    async def _take_some(self, client: aio.Client, queue: str, wait_s: float) -> bool:
        """Of a macro queue, what one of its members gives; whether any did."""
        batch = await client.dequeue(queue, 1000, lease=timedelta(seconds=30), wait=timedelta(seconds=wait_s))
        if not batch:
            return False
        book, indexes = self.run.book_of(batch.queue), [each.index for each in batch]
        taken = [Received(each.index, each.payload, each.delivery_count) for each in batch]
        book.took(self.now_s, self.plan.name, taken, lease_there(batch.lease_id), waited=True)
        book.done_with(self.now_s, indexes)
        acks = [(Act(batch.lease_id, pb.OUTCOME_ACK), batch.ranges())]
        for lost in await client.settle(batch.queue if is_far(batch.lease_id) else queue, acks):
            raise lost.error
        book.settled(self.now_s, indexes)
        self.run.sometimes(SETTLED_AT_MACRO)
        return True

    async def _empty(self, client: aio.Client, queue: str) -> None:
        while True:
            if not await self._take_all(client, queue):
                return
            await asyncio.sleep(0.2)

    async def _empty_together(self, client: aio.Client) -> None:
        """Queues of which one fills another."""
        names = [book.name for book in self.run.books if book.kind in FATED]
        letters = [dead_letters_of(book.name) for book in self.run.books if book.kind == MOVING]
        for name in letters:
            self.run.books[name].kind = MOVING
        pause_s = COPIES_S if any(book.kind == ANSWERS for book in self.run.books) else 0.0
        known = -1
        while names:
            left = [name for name in (*names, *letters) if await self._take_all(client, name)]
            taken = sum(len(book.history.delivered) for book in self.run.books)
            if not left and taken == known:
                await self._ask(client)
                return
            known = -1 if left else taken
            await asyncio.sleep(0.2 if left else pause_s)

    async def _ask(self, client: aio.Client) -> None:
        """How each message ended that can be asked for: now all have."""
        for book in self.run.books:
            wishes = book.wishes
            known = await client.check_completions(book.name, wishes.handles.values()) if wishes.handles else []
            for index, found in zip(wishes.handles, known, strict=True):
                if found.error is not None and self.run.clocks_step:
                    continue  # so long ago, by that clock, that it is forgotten
                if found.error is not None or not found.completed:
                    self.run.violation("every message ends", f"{index} of {book.name}: {found}")
                else:
                    answer = found.reply.payload if found.reply is not None else b""
                    wishes.ends.setdefault(index, set()).add((found.final.name, answer))
                    self.run.count("ends asked for")

    async def _take_all(self, client: aio.Client, queue: str) -> bool:
        """What can be taken now; whether something is left."""
        while True:
            try:
                batch = await client.dequeue(queue, 1000, lease=timedelta(seconds=30))
            except TandemqError as error:
                if error.reason != "QUEUE_NOT_FOUND":
                    raise
                return False
            taken = [Received(each.index, each.payload, each.delivery_count) for each in batch]
            book = self.run.books[queue]
            book.took(self.now_s, self.plan.name, taken, batch.lease_id, waited=True)
            if queue == LETTERS:
                found = {message_of(each.payload): str(each.properties.get(REASON, "")) for each in batch}
                self.memory.links.reasons.update(found)
            if batch and book.kind == REQUESTS:
                await self._answer(client, book, batch)
            elif batch:
                book.done_with(self.now_s, [each.index for each in batch])
                await batch.ack()
                book.settled(self.now_s, [each.index for each in batch])
                if book.kind in FATED:
                    book.acknowledged.update(each.index for each in batch)
            else:
                info = await client.get_queue(queue)
                book.volatile_lost = info.volatile_lost_total
                if info.length:
                    await self._mend(client)
                return bool(info.length)

    async def _mend(self, client: aio.Client) -> None:
        """As an operator is advised: what is damaged at the master is delivered by the other member."""
        for member in self.pair.members.values():
            if member.is_serving and member.domain is not None and member.domain.shared.damaged:
                await client.handoff(reason=f"{member.name} is damaged")
                self.run.sometimes("handed over because of damage")

    async def _answer(self, client: aio.Client, book: Book, batch: MessageBatch) -> None:
        for each in batch:
            answer = payload_of(Message(DRAIN_NUMBER, each.index))
            given = book.wishes.answers.setdefault(each.index, {})
            given.setdefault(answer, False)
            try:
                await client.reply(book.name, batch.lease_id, each.index, answer)
            except LeaseLost:
                continue  # its time is over
            given[answer] = True
