"""Simulated clients whose messages go to a queue of another pair: by one call, over a stream, or in an open unit.

One call is alone, or a unit with what goes to a queue here. `chaos.sim.judges.links` judges what came of it.

Whoever died repeats a call of his own under its id. A stream and an open unit go on with new messages.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Acked, Message
from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.judges.links import KEPT, NOWHERE, ORDERS, TRANSMISSION, Sent
from chaos.sim.pair.books import payload_of
from chaos.sim.pair.run import FAR
from tandemq.client.outgoing import Outgoing
from tandemq.errors import TandemqError, UnitAborted

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.receipts import Receipts
    from tandemq.client.units import UnitReceipts


class Linker(SimClient):
    """Calls are `put`: `count` messages for the queue `to` of the other pair, `beside` as many for one here."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.asked_s: dict[int, float] = {}
        """When each call was made first, in an earlier life perhaps."""
        self.answers: dict[int, list[int]] = {}
        """The indexes in the first answer to each."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._put(client, call, self._messages(call))
            if (only := str(call.args.get("again", ""))) and self.at in self.answers:
                asked = client if only == "here" else self.connect(only)
                await self._put(asked, call, self._messages(call))
                if asked is not client:
                    await asked.close()
            self.at += 1

    def _messages(self, call: Call) -> list[Message]:
        first = 2 * sum(number_of(before, "count", 1) for before in self.calls[: self.at])
        return [Message(number_of_plan(self), first + 2 * place) for place in range(number_of(call, "count", 1))]

    async def _put(self, client: aio.Client, call: Call, messages: list[Message]) -> None:
        persistent, is_beside = bool(call.args.get("persistent", True)), bool(call.args.get("beside", False))
        links, to = self.memory.links, str(call.args["to"])
        asked_s = self.asked_s.setdefault(self.at, self.now_s)
        for message in messages:
            beside = beside_of(message) if is_beside else None
            links.sent.setdefault(message, Sent(to, persistent=persistent, beside=beside))
        try:
            done = await self._transact(client, to, messages, persistent=persistent, is_beside=is_beside)
        except TandemqError as error:
            self.expects(error)
            if error.definite and error.metadata.get("outcome") != "stored":
                links.refused.update(dict.fromkeys(messages, error.reason))
            return
        self._write_down(asked_s, messages, done[f"//{FAR}/{to}"], done.get(KEPT))

    async def _transact(
        self, client: aio.Client, to: str, messages: list[Message], *, persistent: bool, is_beside: bool
    ) -> UnitReceipts:
        name = hashlib.blake2b(f"link {self.plan.name}/{self.at}".encode(), digest_size=16).digest()
        puts = {f"//{FAR}/{to}": [Outgoing(payload_of(each), {"persistent": persistent}) for each in messages]}
        if is_beside:
            puts[KEPT] = [Outgoing(payload_of(beside_of(each)), {}) for each in messages]
        return await client.transact([], puts, request_id=name, forward=True)

    def _write_down(self, asked_s: float, messages: list[Message], going: Receipts, kept: Receipts | None) -> None:
        indexes = [receipt.index for receipt in going]
        if self.at in self.answers:
            if self.answers[self.at] != indexes:
                text = f"{self.plan.name} was answered {self.answers[self.at]}, then {indexes}"
                self.run.violation("one effect and one answer", text)
            return
        self.answers[self.at] = indexes
        self.run.count("sent to another pair", len(messages))
        for queue, named, receipts in (
            (TRANSMISSION, messages, going),
            (KEPT, [beside_of(each) for each in messages], kept or ()),
        ):
            self.run.books[queue].sent(
                Acked(asked_s, self.now_s, message, receipt.index, receipt.epoch, receipt.copies)
                for message, receipt in zip(named, receipts, strict=bool(receipts))
            )


class Streamer(SimClient):
    """Calls are `send`: `count` messages for the queue `to` of the other pair, over a stream for each."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.number = 0

    async def work(self, client: aio.Client) -> None:
        one, other = (
            client.producer(f"//{FAR}/{to}", forward=True, client_id=self.plan.name) for to in (ORDERS, NOWHERE)
        )
        sending: list[asyncio.Task[None]] = []  # no group: it would not let a killed process go
        async with one, other:
            while self.at < len(self.calls):
                call = self.calls[self.at]
                await self.due(call)
                count = number_of(call, "count", 1)
                to = str(call.args["to"])
                producer = one if to == ORDERS else other
                who = number_of_plan(self) - (to != ORDERS)  # one stream does not wait for the other
                messages = [Message(who, self.number + place) for place in range(count)]
                self.at, self.number = self.at + 1, self.number + count
                self.counted(call)
                sending.append(asyncio.create_task(self._send(producer, to, messages)))
            await asyncio.gather(*sending)

    async def _send(self, producer: aio.Producer, to: str, messages: list[Message]) -> None:
        links, asked_s = self.memory.links, self.now_s
        links.sent.update({message: Sent(to, persistent=True, beside=None) for message in messages})
        try:
            receipts = await producer.send_many([payload_of(message) for message in messages], persistent=True)
        except TandemqError as error:
            self.expects(error)
            if error.definite:
                links.refused.update(dict.fromkeys(messages, error.reason))
            return
        self.run.count("streamed to another pair", len(messages))
        self.run.books[TRANSMISSION].sent(
            Acked(asked_s, self.now_s, message, receipt.index, receipt.epoch, receipt.copies)
            for message, receipt in zip(messages, receipts, strict=True)
        )


class Forwarder(SimClient):
    """Calls are `unit`: one message for a queue here and one for the other pair, in a unit that is open meanwhile."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            going = Message(number_of_plan(self), 2 * self.at)
            self.at += 1
            await self._unit(client, call, going)

    async def _unit(self, client: aio.Client, call: Call, going: Message) -> None:
        links, asked_s, beside = self.memory.links, self.now_s, beside_of(going)
        links.sent[going] = Sent(ORDERS, persistent=True, beside=beside)
        unit = client.unit(timeout=timedelta(seconds=20))
        try:
            await unit.enqueue(KEPT, [payload_of(beside)])
            await unit.enqueue(f"//{FAR}/{ORDERS}", [Outgoing(payload_of(going), {"persistent": True})])
            await asyncio.sleep(number_of(call, "hold_ms") / 1000)
            if not call.args.get("commits", True):
                links.refused[going] = "rolled back"
                await unit.rollback()
                return
            receipts = await unit.commit()
        except UnitAborted as aborted:
            links.refused[going] = aborted.reason
            self.run.sometimes("an open unit was aborted")
            return
        except TandemqError as error:
            self.expects(error)
            return  # its timeout ends it, if its commit does not
        self.run.count("units sent to another pair")
        for queue, message in ((TRANSMISSION, going), (KEPT, beside)):
            (receipt,) = receipts[queue]
            self.run.books[queue].sent(
                [Acked(asked_s, self.now_s, message, receipt.index, receipt.epoch, receipt.copies)]
            )


def beside_of(message: Message) -> Message:
    """What goes to a queue here by the same unit."""
    return Message(message.producer, message.number + 1)


def number_of_plan(client: SimClient) -> int:
    """Its producer's number."""
    return int(client.plan.args.get("number", 0))
