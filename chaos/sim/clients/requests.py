"""Simulated clients of a two-way queue: one sends requests and waits for what becomes of them, one answers.

What a responder does with a request is a verb of the plan: reply, twice (the same answer again), other (then a second
one, which must be refused), late (after the lease has ended), reject, release, drop.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Acked, Message
from chaos.sim.clients.base import number_of
from chaos.sim.clients.senders import Sender, number_of_plan
from chaos.sim.clients.takers import Consumer, Dequeuer, Settle, Taker
from chaos.sim.pair.books import payload_of
from tandemq.client.completion import Final
from tandemq.client.delivery import Delivery
from tandemq.errors import NotFound, TandemqError

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.completion import Completion, Handle
    from tandemq.client.delivery import MessageBatch, ReceivedMessage
    from tandemq.client.outgoing import Attributes

REPLIES = ("reply", "reply", "twice", "other", "late", "reject", "release", "drop")
TOO_LATE = frozenset({"ALREADY_REPLIED", "LEASE_LOST", "TXN_ABORTED"})
ANSWERS_EACH = 100
"""Numbers that a call of a responder may use."""
LIFE_S = 60.0
"""A request has ended by then: its queue gives it up much sooner."""


class Requester(Sender):
    """Sends one request after the other, each under an id of its own, and asks until it has ended."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.asked_s: dict[int, float] = {}
        """When each was sent first, in an earlier life perhaps."""
        self.sent: set[int] = set()
        """Those whose acknowledgement was heard."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._request(client, call)
            self.at += 1

    async def _request(self, client: aio.Client, call: Call) -> None:
        message = Message(self.who, self.at)
        asked_s = self.asked_s.setdefault(self.at, self.now_s)
        name = hashlib.blake2b(f"{self.plan.name}/{self.at}".encode(), digest_size=16).digest()
        attributes: Attributes = {"reply_to": str(call.args["reply_to"])} if "reply_to" in call.args else {}
        try:
            wait = timedelta(milliseconds=number_of(call, "wait_ms"))
            handle = await client.send(self.queue, payload_of(message), wait=wait, request_id=name, **attributes)
        except TandemqError as error:
            self.refused([message], error)
            return
        header = self.header
        assert header is not None, "an answer has a header"
        self.book.wishes.handles[handle.index] = handle.value
        if self.at not in self.sent:
            self.sent.add(self.at)
            acked = Acked(asked_s, self.now_s, message, handle.index, header.epoch, header.copies)
            self.book.sent([acked])
        try:
            self._ended(handle, await handle.wait(LIFE_S))
        except NotFound:
            self._ended(handle, handle.completion)
        only = str(call.args.get("again", ""))
        if only:
            asked = client if only == "here" else self.connect(only)
            (found,) = await asked.check_completions(self.queue, [handle.value])
            self._ended(handle, found)
            if asked is not client:
                await asked.close()

    def _ended(self, handle: Handle, found: Completion) -> None:
        if found.error is not None and self.run.clocks_step:
            return  # so long ago, by that clock, that it is forgotten
        if found.error is not None or not found.completed:
            self.run.violation("every request ends", f"{handle.index} of {self.queue}: {found}")
            return
        payload = found.reply.payload if found.reply is not None else b""
        self.book.wishes.ends.setdefault(handle.index, set()).add((found.final.name, payload))
        if found.final is Final.REPLIED:
            self.run.count("answers heard")
            self.run.sometimes("a request answered")
        elif found.final is Final.REPLY_TIMEOUT:
            self.run.sometimes("a request that nobody answered in time")


class Answering(Taker):
    """What those have in common who answer requests."""

    @abstractmethod
    async def send(self, batch: MessageBatch, each: ReceivedMessage, answer: bytes, name: bytes) -> None:
        """The answer to one of them; `name` of the call, where it is one."""

    async def carry_out(self, call: Call, batch: MessageBatch, settle: Settle) -> None:
        then = str(call.args.get("then", "reply"))
        if then in ("reject", "release", "drop"):
            await super().carry_out(call, batch, settle)
            return
        if then == "late":
            await asyncio.sleep(self.lease.total_seconds() + number_of(call, "hold_ms") / 1000)
        for place, each in enumerate(batch):
            first = self.at * ANSWERS_EACH + 2 * place
            done = await self._reply(batch, each, first)
            if then == "twice":
                again = await self._reply(batch, each, first)
                if done and not again:
                    self.run.violation("an answer is repeated", f"{each.index} of {self.queue} was refused")
            elif then == "other":
                other = await self._reply(batch, each, first + 1)
                if done and other:
                    self.run.violation("one answer", f"{each.index} of {self.queue} has two")
                if done:
                    self.run.sometimes("an answer refused: there is one")

    async def _reply(self, batch: MessageBatch, each: ReceivedMessage, number: int) -> bool:
        """Whether it was taken."""
        answer = payload_of(Message(number_of_plan(self), number))
        given = self.book.wishes.answers.setdefault(each.index, {})
        given.setdefault(answer, False)
        self.book.done_with(self.now_s, [each.index])
        name = hashlib.blake2b(f"{self.plan.name}/{self.at}/{number}/{each.index}".encode(), digest_size=16).digest()
        try:
            await self.send(batch, each, answer, name)
        except TandemqError as error:
            if error.reason not in TOO_LATE:
                self.expects(error)
            self.run.count(f"answer refused.{error.reason}")
            return False
        if not given[answer]:
            given[answer] = True
            self.book.settled(self.now_s, [each.index])
        return True


class Responder(Answering, Dequeuer):
    """Takes requests by unary calls, and answers by them or by units of work. What it repeats is a call."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.client: aio.Client | None = None
        self.by_units: set[bytes] = set()

    async def work(self, client: aio.Client) -> None:
        self.client = client
        await super().work(client)

    async def send(self, batch: MessageBatch, each: ReceivedMessage, answer: bytes, name: bytes) -> None:
        assert self.client is not None
        if name[0] % 2 or name in self.by_units:
            await self.client.reply(self.queue, batch.lease_id, each.index, answer, request_id=name)
            return
        self.by_units.add(name)
        async with self.client.unit() as unit:
            await unit.reply(self.queue, batch.lease_id, each.index, answer)
        self.run.sometimes("an answer given by a unit")


class Answerer(Answering, Consumer):
    """Takes requests over a stream, and answers over it."""

    async def send(self, batch: MessageBatch, each: ReceivedMessage, answer: bytes, name: bytes) -> None:  # noqa: ARG002
        assert self.consumer is not None
        assert isinstance(each, Delivery)
        await self.consumer.reply(each, answer)
