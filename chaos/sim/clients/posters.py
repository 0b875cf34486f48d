"""Simulated clients of queues whose messages wait, die, are dropped or are moved: one sends with everything that a
message may ask for, one moves what is there to other queues. Those of `takers` receive.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.clients.senders import Caller
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from chaos.history import Message
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.outgoing import Attributes
    from tandemq.client.receipts import Receipt
    from tandemq.v1.queue_admin_service_pb2 import MoveMessagesResponse, RedriveQueueResponse

NOT_YET = frozenset({"QUEUE_NOT_FOUND", "QUEUE_FULL"})
"""A dead-letter queue is made when the first message dies."""


class Poster(Caller):
    """A caller whose messages wait, have priorities, expire, and have ids of their application."""

    def messages(self, first: int, call: Call) -> list[Message]:
        found = super().messages(first, call)
        wishes = self.book.wishes
        if "delay_ms" in call.args:
            wishes.delays_ms.update(dict.fromkeys(found, number_of(call, "delay_ms")))
        if "ttl_ms" in call.args:
            wishes.expiring.update(found)
        return found

    def attributes_of(self, call: Call) -> Attributes:
        found = super().attributes_of(call)
        if "delay_ms" in call.args:
            found["delay"] = timedelta(milliseconds=number_of(call, "delay_ms"))
        if "ttl_ms" in call.args:
            found["ttl"] = timedelta(milliseconds=number_of(call, "ttl_ms"))
        if "priority" in call.args:
            found["priority"] = number_of(call, "priority")
        if "line" in call.args:
            found["group_id"] = str(call.args["line"])
        if "place" in call.args:
            found["group_sequence"] = number_of(call, "place")
            found["last_in_group"] = bool(call.args["last"])
        if "inert" in call.args:
            found["inert"] = True
        if "id" in call.args:
            found["dedup_id"] = str(call.args["id"])
        return found

    def is_double(self, message: Message, receipt: Receipt) -> bool:
        if receipt.id:
            if receipt.handle:
                self.book.wishes.handles[receipt.index] = receipt.handle
            return False
        self.book.wishes.doubles[message] = receipt.index
        self.run.sometimes("a second message of one dedup id")
        return True

    def expects(self, error: TandemqError) -> None:
        if error.reason == "GROUP_MISMATCH":
            self.run.sometimes("a message did not fit its group")
        elif error.reason != "QUEUE_FULL":
            super().expects(error)


class Sweeper(SimClient):
    """Moves messages to another queue, or dead letters back; repeats a call under its id until it is answered."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.answers: dict[int, int] = {}
        """What the first answer to each call said."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._sweep(client, call)
            only = str(call.args.get("again", ""))
            if self.at in self.answers and only:
                asked = client if only == "here" else self.connect(only)
                await self._sweep(asked, call)
                if asked is not client:
                    await asked.close()
            self.at += 1

    async def _sweep(self, client: aio.Client, call: Call) -> None:
        name = hashlib.blake2b(f"{self.plan.name}/{self.at}".encode(), digest_size=16).digest()
        source, to = str(call.args["from"]), str(call.args.get("to", ""))
        found: MoveMessagesResponse | RedriveQueueResponse
        try:
            if call.kind == "redrive":
                found = await client.redrive_queue(source, to, request_id=name)
            else:
                most, where = number_of(call, "max"), str(call.args.get("where", "")) or None
                found = await client.move_messages(source, to, where, max_messages=most, request_id=name)
        except TandemqError as error:
            if error.reason not in NOT_YET:
                self.expects(error)
            return
        before = self.answers.setdefault(self.at, found.moved)
        if before != found.moved:
            text = f"{self.plan.name} got the answer that {before} were moved, and {found.moved} when it asked again"
            self.run.violation("one effect and one answer", text)
            return
        sweeps = self.run.books[source].wishes.sweeps
        if (name, found.moved) not in sweeps:
            sweeps.append((name, found.moved))
        if found.moved:
            self.run.count("swept", found.moved)
            self.run.sometimes("messages moved by an administrator")
