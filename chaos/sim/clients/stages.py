"""Simulated clients of staged rows: one stages and publishes batches, one watches a queue that nobody else takes from.

A writer that died stages its batch anew under other ids, and publishes it under the same number: as whoever restarts
does. What it wants published is written down before it asks; `chaos.sim.judges.publications` judges what came of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Acked, Message
from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.clients.senders import number_of_plan
from chaos.sim.judges.publications import Publication
from chaos.sim.pair.books import message_of, payload_of
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.places import JournalPosition
    from tandemq.client.staging import Published

CALL_NUMBERS, PART_NUMBERS = 100, 10
"""Of messages that a call, and a part of it, may use."""
ATTEMPTS = 3
BEFORE = 5
"""Batches that a writer has published to the pair that was there before."""
"""Stages of one batch in one life: the first ones may have been dropped because their time was over."""
Part = tuple[str, list[Message]]
"""Queue, rows."""


class Stager(SimClient):
    """Publishes one batch after the other, each until it is answered; now and then it drops its stages instead."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.asked_s: dict[int, float] = {}
        self.published = False
        """Some batch was, so that the name belongs to its query."""
        self.last: tuple[int | None, JournalPosition | None] = None, self.before
        """The last one that was answered, and where the journal was then: this pair must know of both."""
        if self.before is not None and plan.args.get("says") == "number":
            self.last = BEFORE, None

    @property
    def batch(self) -> int:
        return self.at + 1

    async def work(self, client: aio.Client) -> None:
        how = {"publish": self._publish, "abort": self._abort, "intrude": self._intrude}
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            try:
                await how[call.kind](client, call)
            except TandemqError as error:
                if self.finds_another_pair(error):
                    self.last = None, None
                    continue
                self.expects(error)
            self.at += 1

    def parts(self, call: Call) -> list[Part]:
        """What a call stages: its parts go to its queues in turn."""
        queues, first = str(call.args["queues"]).split(), self.at * CALL_NUMBERS
        rows = range(number_of(call, "rows", 1))
        return [
            (
                queues[part % len(queues)],
                [Message(number_of_plan(self), first + part * PART_NUMBERS + row) for row in rows],
            )
            for part in range(number_of(call, "parts", 1))
        ]

    async def _stage(self, client: aio.Client, call: Call, attempt: int) -> list[bytes]:
        """Each part in a stage of its own, or all in one; the ids."""
        ids: list[bytes] = []
        for place, (queue, messages) in enumerate(self.parts(call)):
            apart = bool(call.args.get("apart", False))
            if apart or not place:
                text = f"{self.plan.name}/{self.at}/{self.lives}/{attempt}/{place}"
                ids.append(hashlib.blake2b(text.encode(), digest_size=16).digest())
            rows, part = [payload_of(each) for each in messages], 1 if apart else place + 1
            ttl = timedelta(milliseconds=number_of(call, "ttl_ms")) if "ttl_ms" in call.args and not attempt else None
            seen = self.last[1]
            staged = await client.stage(queue, rows, stage_id=ids[-1], part=part, ttl=ttl, seen=seen)
            if seen is not None:
                self.went_on()
            if call.args.get("twice", False):
                again = await client.stage(queue, rows, stage_id=ids[-1], part=part, ttl=ttl)
                if (again.rows, again.payload_bytes) != staged[:2]:
                    text = f"{self.plan.name} was answered {staged}, and {again} of the same part"
                    self.run.violation("one effect and one answer", text)
        return ids

    async def _publish(self, client: aio.Client, call: Call) -> None:
        asked_s = self.asked_s.setdefault(self.at, self.now_s)
        wanted = self.memory.publications.want(self.plan.name, self.batch, self.parts(call))
        for attempt in range(ATTEMPTS):
            try:
                ids = await self._stage(client, call, attempt)
                if "ttl_ms" in call.args and not attempt:
                    await asyncio.sleep(number_of(call, "hold_ms") / 1000)
                number, seen = self.last
                done = await client.publish(
                    self.plan.name, self.plan.name, self.batch, ids, seen=seen, previous_batch=number
                )
            except TandemqError as error:
                if error.reason != "STAGE_NOT_FOUND" or "ttl_ms" not in call.args:
                    raise
                self.run.sometimes("a stage dropped because its time was over")
                continue
            self.published = True
            self.went_on()
            self.last = self.batch, done.position
            self._note(asked_s, wanted, done)
            await self._again(client, call, ids, done)
            return

    def _note(self, asked_s: float, wanted: Publication, done: Published) -> None:
        if done.duplicate:
            self.run.sometimes("a batch published again, and answered so")
        if wanted.placed:  # it has died since the answer
            if wanted.placed != done.queues:
                text = (
                    f"{wanted.writer} was answered {wanted.placed}, and {done.queues} when it published the batch again"
                )
                self.run.violation("one effect and one answer", text)
            return
        wanted.placed = done.queues
        self.run.count("batches published")
        placed = {each.queue: each.rows for each in done.queues}
        if placed != {queue: len(rows) for queue, rows in wanted.rows.items()}:
            text = f"batch {wanted.batch} of {wanted.writer} has {wanted.rows}, and the answer says {placed}"
            self.run.violation("a batch is whole", text)
            return
        header = self.header
        assert header is not None, "an answer has a header"
        is_modest = header.copies == 1 and not self.pair.members[header.member].is_serving
        for each in done.queues:
            if is_modest:
                indexes = range(each.first_index, each.last_index + 1)
                self.memory.invariants.modest.update((header.epoch, index) for index in indexes)
            if each.last_index - each.first_index + 1 == each.rows:  # else others sent between its parts
                acked = (
                    Acked(asked_s, self.now_s, message, each.first_index + place, header.epoch, header.copies)
                    for place, message in enumerate(wanted.rows[each.queue])
                )
                self.run.books[each.queue].sent(acked)

    async def _again(self, client: aio.Client, call: Call, ids: Sequence[bytes], done: Published) -> None:
        """The same batch once more: one effect, and the same places."""
        only = str(call.args.get("again", ""))
        if not only:
            return
        asked = client if only == "here" else self.connect(only)
        try:
            found = await asked.publish(self.plan.name, self.plan.name, self.batch, ids)
            state = await asked.writer_state(self.plan.name)
        finally:
            if asked is not client:
                await asked.close()
        if not found.duplicate or found.queues != done.queues:
            text = f"{self.plan.name} was answered {done}, and {found} when it published the batch again"
            self.run.violation("one effect and one answer", text)
        if state is None or (state.query_id, state.batch) != (self.plan.name, self.batch):
            self.run.violation("a writer is known", f"{self.plan.name} has published {self.batch}, and is {state}")

    async def _abort(self, client: aio.Client, call: Call) -> None:
        ids = await self._stage(client, call, 0)
        await client.abort_stages(ids)
        self._never("its stages were dropped", call)
        try:
            await client.publish(self.plan.name, self.plan.name, self.batch, ids)
        except TandemqError as error:
            if error.reason != "STAGE_NOT_FOUND":
                raise
        else:
            self.run.violation("what is dropped stays dropped", f"{self.plan.name} has published {self.batch}")

    async def _intrude(self, client: aio.Client, call: Call) -> None:
        if not self.published:
            return
        ids = await self._stage(client, call, 0)
        self._never("its writer belongs to another query", call)
        try:
            await client.publish(self.plan.name, "another query", self.batch, ids)
        except TandemqError as error:
            if error.reason != "WRITER_TAKEN":
                raise
        else:
            self.run.violation("a writer has one query", f"another one has published {self.batch}")

    def _never(self, why: str, call: Call) -> None:
        for queue, messages in self.parts(call):
            self.run.books[queue].refused.update(dict.fromkeys(messages, why))


class Watcher(SimClient):
    """Looks at a queue from which nobody takes: of each batch all its rows are there, or none."""

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            seen = {message_of(each.payload) async for each in client.browse(self.queue, from_index=0, max_messages=0)}
            for part in self.memory.publications.parts_in(self.queue, seen):
                self.run.violation("a batch is seen whole or not at all", f"{self.plan.name} sees {part}")
            self.at += 1
