"""Simulated clients that send: one over the SDK's stream, one by unary calls that it repeats under the same id.

After a death the first one goes on with new messages under its old client id; what was unanswered stays unknown. The
other one repeats its unanswered call, and must get one effect.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from chaos.history import Acked, Message
from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.judges.macro_points import EXPECTED as MACRO_REFUSES
from chaos.sim.judges.macro_points import MACRO, REPEATED
from chaos.sim.pair.books import payload_of
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.client.receipts import PartlyRefused, Receipt, Receipts
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.sim.pair.plan import Call
    from tandemq import aio


class Sender(SimClient):
    """What both have in common: numbers, and what is written down about an answer."""

    @property
    def who(self) -> int:
        return number_of_plan(self)

    def messages(self, first: int, call: Call) -> list[Message]:
        """Those of a call."""
        found = [Message(self.who, first + place) for place in range(number_of(call, "count", 1))]
        if self.is_volatile(call):
            self.book.volatile.update(found)
        if self.book.kind == "changed" and bool(call.args.get("persistent", False)):
            self.book.marked.update(found)
        if "group" in call.args:
            self.book.groups.update(dict.fromkeys(found, _group_of(call)))
        return found

    def attributes_of(self, call: Call) -> Attributes:
        """Of the messages of a call."""
        found: Attributes = {} if "persistent" not in call.args else {"persistent": bool(call.args["persistent"])}
        if "group" in call.args:
            found["group_id"] = _group_of(call)
        if "priority" in call.args:
            found["priority"] = number_of(call, "priority")
        return found

    def is_volatile(self, call: Call) -> bool:
        """Whether its messages are held in memory only."""
        return self.book.kind in ("volatile", "changed") or (
            self.book.kind == "conditional" and not bool(call.args.get("persistent", True))
        )

    def write_down(self, asked_s: float, messages: Sequence[Message], receipts: Receipts) -> None:
        """What was accepted is acknowledged; what was certainly refused must never appear."""
        at_s = self.now_s
        for place, message in enumerate(messages):
            error = receipts.errors.get(place)
            if error is not None:
                self.refused([message], error)
                continue
            receipt = receipts[place]
            if self.is_double(message, receipt):
                continue
            self.book.sent([Acked(asked_s, at_s, message, receipt.index, receipt.epoch, receipt.copies)])
            if receipt.copies < number_of_plan(self, "min_copies"):
                self.run.violation("copies as asked for", f"{message} was acknowledged on {receipt.copies}")

    def is_double(self, message: Message, receipt: Receipt) -> bool:  # noqa: ARG002  # for those who name dedup ids
        """It was not stored: another one of its dedup id was."""
        return False

    def refused(self, messages: Sequence[Message], error: TandemqError) -> None:
        """A refusal that is not certain says nothing."""
        if error.reason != "REQUEST_MISMATCH" or self.lives == 1:  # its dead self may have sent with the same number
            self._must_expect(error)
        self.run.count(f"refused.{error.reason}")
        if error.reason == "STORAGE_FULL":
            self.run.sometimes("sending refused for want of room")
        if error.reason == "NOT_ENOUGH_COPIES":
            stored = error.metadata.get("outcome") == "stored"
            self.run.sometimes("stored, but on fewer copies than asked for" if stored else "too few copies: refused")
        if error.definite:
            self.book.refused.update(dict.fromkeys(messages, error.reason))
        else:
            self.run.count("unknown", len(messages))

    def _must_expect(self, error: TandemqError) -> None:
        if self.book.kind != MACRO or error.reason not in MACRO_REFUSES:
            self.expects(error)


class Producer(Sender):
    """Sends without waiting, over one stream."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # handed on
        self.number = 0
        # A full batch does not wait for the answer to the one before it: half of the producers have many under way.
        stream = self.run.plan.stream(f"batches of {self.plan.name}")
        self._batch_messages = number_of_plan(self, "batch") or stream.choice((1, 2, 1_000, 1_000))

    async def work(self, client: aio.Client) -> None:
        producer = client.producer(
            self.queue,
            client_id=self.plan.name,
            min_copies=number_of_plan(self, "min_copies"),
            max_batch_messages=self._batch_messages,
        )
        sending: list[asyncio.Task[None]] = []  # no group: it would not let a killed process go
        async with producer:
            while self.at < len(self.calls):
                call = self.calls[self.at]
                await self.due(call)
                messages = self.messages(self.number, call)
                self.at, self.number = self.at + 1, self.number + len(messages)
                self.counted(call)
                sending.append(asyncio.create_task(self._send(producer, call, messages)))
            await asyncio.gather(*sending)

    async def _send(self, producer: aio.Producer, call: Call, messages: list[Message]) -> None:
        asked_s = self.now_s
        given = self.attributes_of(call)
        try:
            receipts = await producer.send_many([payload_of(message) for message in messages], **given)
        except PartlyRefused as partly:
            receipts = partly.receipts
        except TandemqError as error:
            self.refused(messages, error)
            return
        self.write_down(asked_s, messages, receipts)


class Caller(Sender):
    """Sends by unary calls, one after the other; each has one effect and one answer, however often it is asked for."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # handed on
        self.asked_s: dict[int, float] = {}
        """When each call was made first."""
        self.receipts_of: dict[int, Receipts] = {}
        """The first answer to each call."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            await self._enqueue(client, call)
            self.at += 1

    async def _enqueue(self, client: aio.Client, call: Call) -> None:
        first = sum(number_of(before, "count", 1) for before in self.calls[: self.at])
        messages = self.messages(first, call)
        asked_s = self.asked_s.setdefault(self.at, self.now_s)  # in an earlier life, if it died meanwhile
        if self.at in self.receipts_of:  # it died while it asked again
            await self._again(client, call, messages, self.receipts_of[self.at])
            return
        try:
            receipts = await self._ask(client, call, messages)
        except TandemqError as error:
            self.refused(messages, error)
            return
        self.receipts_of[self.at] = receipts
        self.write_down(asked_s, messages, receipts)
        if not receipts.errors and call.args.get("again"):
            await self._again(client, call, messages, receipts)

    async def _ask(self, client: aio.Client, call: Call, messages: list[Message]) -> Receipts:
        attributes = self.attributes_of(call)
        name = hashlib.blake2b(f"{self.plan.name}/{self.at}".encode(), digest_size=16).digest()
        outgoing = [Outgoing(payload_of(message), attributes) for message in messages]
        try:
            return await client.enqueue(
                self.queue, outgoing, min_copies=number_of_plan(self, "min_copies"), request_id=name
            )
        except PartlyRefused as partly:
            return partly.receipts

    async def _again(self, client: aio.Client, call: Call, messages: list[Message], known: Receipts) -> None:
        """The same call once more, here or at one member: one effect, one answer."""
        asked, only = client, str(call.args["again"])
        if only in ("a", "b"):
            asked = self.connect(only)
        try:
            receipts = await self._ask(asked, call, messages)
        except TandemqError as error:
            self.expects(error)
            return
        finally:
            if asked is not client:
                await asked.close()
        self.run.count("repeated")
        of_macro = self.book.kind == MACRO
        self.run.sometimes(REPEATED if of_macro else "a request repeated after its answer, at either member")
        before, after = [receipt.index for receipt in known], [receipt.index for receipt in receipts]
        if before != after:
            self.run.violation(
                "one effect and one answer",
                f"{self.plan.name} was answered {before}, and {after} when it asked {only} again",
            )


def _group_of(call: Call) -> str:
    return f"group-{number_of(call, 'group')}"


def number_of_plan(client: SimClient, name: str = "number") -> int:
    """A number among the client's arguments."""
    return int(client.plan.args.get(name, 0))
