"""A simulated client whose messages go to a queue of another pair: by one call, alone or as a unit with what goes to a
queue here. Whoever died repeats the call under its id; `chaos.sim.judges.links` judges what came of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from chaos.history import Acked, Message
from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.judges.links import KEPT, TRANSMISSION, Sent
from chaos.sim.pair.books import payload_of
from chaos.sim.pair.run import FAR
from tandemq.client.outgoing import Outgoing
from tandemq.errors import TandemqError

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


def beside_of(message: Message) -> Message:
    """What goes to a queue here by the same unit."""
    return Message(message.producer, message.number + 1)


def number_of_plan(client: SimClient) -> int:
    """Its producer's number."""
    return int(client.plan.args.get("number", 0))
