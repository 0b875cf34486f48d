"""A simulated consumer of numbered batches: it takes one, reads it, perhaps dies, reads it again, and acknowledges it.

What its machine keeps is what Spark writes down: at which number it is. That a number is the same rows for as long as
it can be read is asked at each reading; that it is finished once, by `chaos.sim.judges.publications`.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.clients.takers import LEASE_MS
from chaos.sim.pair.books import Received
from tandemq.client.settling import Act
from tandemq.errors import TandemqError
from tandemq.v1 import queue_service_pb2 as pb

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.batches import LeasedBatch

GONE = "BATCH_GONE"
LEASE_LOST = "a numbered batch that was gone"


Row: TypeAlias = tuple[int, bytes]
"""A message of a batch: its index, and what it says."""


class Batcher(SimClient):
    """Each call is one number, until it is acknowledged or gone."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.number = 1
        self.asked_s: dict[int, float] = {}
        """When each number was asked for first: its lease did not begin before."""
        self.rows: dict[int, tuple[Row, ...]] = {}
        """As each number was read first."""
        self.epochs: dict[int, int] = {}
        self.acking: set[int] = set()
        """Somebody has asked to acknowledge it, heard or not."""
        self.acked: set[int] = set()
        self.seen = self.before
        """Where the journal was when the last number was taken: this pair must know of it."""

    @property
    def lease(self) -> timedelta:
        return timedelta(milliseconds=float(self.plan.args.get("lease_ms", LEASE_MS)))

    async def work(self, client: aio.Client) -> None:
        self.book.consumers.add(self.plan.name)
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            try:
                await self._one(client, call)
            except TandemqError as error:
                if self.finds_another_pair(error):
                    self.seen = None
                    continue
                if error.reason == GONE:
                    self._gone()
                else:
                    self.expects(error)
            self.at += 1

    async def _one(self, client: aio.Client, call: Call) -> None:
        number, name = self.number, self.plan.name
        self.asked_s.setdefault(number, self.now_s)
        batch = await client.lease_batch(
            self.queue, name, number, max_messages=number_of(call, "max", 3), lease=self.lease, seen=self.seen
        )
        self.went_on()
        if batch is None:
            del self.asked_s[number]  # nothing was there: the number is still free
            self.run.count("empty")
            return
        self.seen = batch.position
        await self._read(client, number, batch)
        again = str(call.args.get("again", ""))
        if again:
            asked = client if again == "here" else self.connect(again)
            try:
                await self._read(asked, number, batch)
            finally:
                if asked is not client:
                    await asked.close()
        await asyncio.sleep(number_of(call, "hold_ms") / 1000)
        if call.args.get("then") == "drop":
            return  # the next call finds the same batch, until its lease has ended
        if call.args.get("then") == "part":
            await self._settle_one(client, number, batch)
            return
        await self._ack(client, number, twice=call.args.get("then") == "twice")

    async def _read(self, client: aio.Client, number: int, batch: LeasedBatch) -> None:
        found, deliveries = list[Row](), list[Received]()
        async for page in client.read_batch(self.queue, self.plan.name, number, seen=self.seen):
            found += [(each.index, bytes(each.payload)) for each in page]
            deliveries += [Received(each.index, bytes(each.payload), each.delivery_count) for each in page]
        epoch = client.epoch()
        known = self.rows.get(number)
        if known is None:
            self.rows[number], self.epochs[number] = tuple(found), epoch
            until_s = self.asked_s[number] + self.lease.total_seconds()
            self.book.took(self.now_s, self.plan.name, deliveries, batch.lease_id, waited=True, until_s=until_s)
        elif known != tuple(found):
            text = f"{number} of {self.plan.name} was {known}, and is {found}"
            self.run.violation("a number is one batch", text)
        else:
            self.run.sometimes("a numbered batch read again")
            if epoch > self.epochs[number]:
                self.run.sometimes("a numbered batch read again at the next master")
        if len(found) != batch.messages:
            text = f"{number} of {self.plan.name} has {batch.messages} messages, and {len(found)} were read"
            self.run.violation("a number is one batch", text)

    async def _ack(self, client: aio.Client, number: int, *, twice: bool) -> None:
        indexes = [index for index, _ in self.rows[number]]
        self.acking.add(number)
        self.book.done_with(self.now_s, indexes)
        await client.ack_batch(self.queue, self.plan.name, number, seen=self.seen)
        self.acked.add(number)
        self.book.settled(self.now_s, indexes)
        self.book.acknowledged.update(indexes)
        self.run.count("numbered batches finished")
        self.number += 1
        if twice:
            await client.ack_batch(self.queue, self.plan.name, number)  # a repetition is answered
            try:
                await client.lease_batch(self.queue, self.plan.name, number, lease=self.lease)
            except TandemqError as error:
                if error.reason != GONE:
                    raise
            else:
                self.run.violation("a number is finished once", f"{number} of {self.plan.name} is there again")

    async def _settle_one(self, client: aio.Client, number: int, batch: LeasedBatch) -> None:
        """One message by its lease: what is left is no batch any more."""
        first, _ = self.rows[number][0]
        self.acking.add(number)
        self.book.done_with(self.now_s, [first])
        lost = await client.settle(self.queue, [(Act(batch.lease_id, pb.OUTCOME_ACK), [(first, 1)])])
        if not lost:
            self.book.settled(self.now_s, [first])
            self.book.acknowledged.add(first)
        async for page in client.read_batch(self.queue, self.plan.name, number):
            text = f"{number} of {self.plan.name} gives {len(page)} messages, and one of it is done with"
            self.run.violation("a number is one batch", text)

    def _gone(self) -> None:
        """Its lease has ended, or an acknowledgement that nobody heard has finished it."""
        number = self.number
        ends_s = self.asked_s[number] + self.lease.total_seconds()
        if number in self.acked:
            self.run.violation("a repetition is answered", f"{number} of {self.plan.name} was acknowledged")
            return
        if self.now_s < ends_s and number not in self.acking and not self.run.clocks_step:
            text = f"{number} of {self.plan.name} is gone at {self.now_s:.3f} s, and was to last until {ends_s:.3f} s"
            self.run.violation("a number lasts as long as its lease", text)
        self.run.sometimes(LEASE_LOST)
        self.number += 1
