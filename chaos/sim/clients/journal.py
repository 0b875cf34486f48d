"""A simulated named reader of the journal: it registers, reads, says how far it is, dies, and goes on where it was.

Whatever it reads of a queue has no gap, unless the answer was that it lost its place; then it starts over, knowingly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.clients.base import SimClient, number_of
from chaos.sim.pair.books import message_of
from tandemq.client.journal import JournalKind
from tandemq.errors import TandemqError

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Call, ClientPlan
    from tandemq import aio
    from tandemq.client.journal import JournalPage
    from tandemq.client.places import JournalPosition

LOST, TRIMMED = "READER_LOST", "OUT_OF_RANGE"


class Reader(SimClient):
    """One name; its machine keeps how far it has read."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.position: JournalPosition | None = self.before
        """From where it reads on; None: from the place that the pair knows."""
        self.next_index = 0
        """Of the queue: what it must meet next; 0: whatever comes first."""
        self.registered = self.restart = False
        self.epoch_read = 0

    async def work(self, client: aio.Client) -> None:
        while self.at < len(self.calls):
            call = self.calls[self.at]
            await self.due(call)
            self.counted(call)
            try:
                await self._one(client, call)
            except TandemqError as error:
                self._refused(error)
            self.at += 1

    async def _one(self, client: aio.Client, call: Call) -> None:
        if not self.registered:
            await self._register(client)
        if call.args.get("forgets", False) and self.before is None:
            self.position = None
        if call.args.get("early", False) and self.before is not None:
            await client.advance_reader(self.plan.name, self.before)
            self.went_on()
        async for page in client.read_journal(
            (self.queue,),
            self.position,
            kinds=(JournalKind.ENQUEUED,) if call.args.get("only", False) else (),
            max_rows=number_of(call, "rows"),
            reader=self.plan.name,
        ):
            self.went_on()
            self._look(page)
            self.position = page.next
            epoch = client.epoch()
            if self.epoch_read and epoch > self.epoch_read:
                self.run.sometimes("a reader read on after a takeover")
            self.epoch_read = epoch
        if call.args.get("advance", True) and self.position is not None:
            self.memory.places.asks(self.plan.name, self.position.log_index)
            await client.advance_reader(self.plan.name, self.position)

    async def _register(self, client: aio.Client) -> None:
        places = self.memory.places
        places.forget(self.plan.name)  # where it begins is known when it is answered
        reader = await client.register_reader(self.plan.name, restart=self.restart)
        registered_ms = round(reader.registered_at.timestamp() * 1_000)
        places.begins(self.plan.name, reader.position.log_index, registered_ms)
        self.registered, self.restart = True, False

    def _look(self, page: JournalPage) -> None:
        seen = self.run.browsed.setdefault(self.queue, {})
        for row in page.rows():
            if row.kind is not JournalKind.ENQUEUED or row.queue != self.queue:
                continue
            if self.next_index and row.first > self.next_index:
                text = f"{self.plan.name} meets {row.first} of {self.queue}, and {self.next_index} is what follows"
                self.run.violation("a reader meets everything, or is refused", text)
            self.next_index = max(self.next_index, row.first + row.messages)
            self.run.count("journal rows read")
            if row.payload is not None:
                message = message_of(row.payload)
                known = seen.setdefault(row.first, message)
                if known != message:
                    text = f"{message} at {row.first} of {self.queue}, where {known} was"
                    self.run.violation("the journal never changes", text)

    def _refused(self, error: TandemqError) -> None:
        """It lost its place: said with a reason that somebody can know. Or it is that of another pair."""
        if self.finds_another_pair(error):
            self.position = None
            return
        if error.reason not in (LOST, TRIMMED):
            self.expects(error)
            return
        places, name = self.memory.places, self.plan.name
        if error.reason == TRIMMED and places.is_kept(name):
            self.run.violation("a reader's place is kept", f"{name}: {error}")
        if error.reason == LOST:
            self.run.sometimes("a reader that lost its place was refused")
            if not places.may_be_lost:
                self.run.violation("a reader's place is kept", f"{name}, within its limits: {error}")
        places.forget(name)
        self.registered, self.restart = False, True
        self.position, self.next_index = None, 0
