"""A simulated twin: acts on what the side of its member gives it, sends what it makes by the outputs of `tandemq.twin`,
and keeps a place over its deaths. It takes the other one's where its side has lost its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from chaos.history import Message
from chaos.sim.clients.base import SimClient
from chaos.sim.judges import sides
from chaos.sim.judges.sides import MADE_BY, MADE_QUEUE, NAME, Kept
from chaos.sim.pair.books import Received, payload_of
from failover.marks import Role
from tandemq.errors import TandemqError
from tandemq.twin import Output
from tandemq.twin.outputs import Outputs

if TYPE_CHECKING:
    from chaos.sim.judges.memory import Memory
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import ClientPlan
    from tandemq import aio
    from tandemq.client.delivery import DeliveryBatch
    from tandemq.twin.digests import Compared

WRITER, OWNER = "twins", "of the plan"
TAKEN_S = 0.05
"""Before it asks for its side again, which its dead self has yet, or which its member takes for lost."""
DISK_S = 0.001
LEASE = timedelta(seconds=600)


class Twin(SimClient):
    """At the member that its plan names ("a", "b")."""

    def __init__(self, pair: Pair, memory: Memory, plan: ClientPlan) -> None:
        super().__init__(pair, memory, plan)
        self.place = str(plan.args["at"])
        self.member: SimMember = pair.members[list(pair.members)["ab".index(self.place)]]
        self.acted = self.epoch = 0
        self.unplaced: list[Received] = []
        """Given, and not known yet which message of the queue that was."""
        self.unsettled: deque[tuple[int, DeliveryBatch]] = deque()
        self.consumer: aio.Consumer | None = None

    @property
    def kept(self) -> Kept:
        return self.memory.sides.kept.get(self.member.name, Kept())

    def keep(self, kept: Kept) -> None:
        """On its disk."""
        self.memory.sides.kept[self.member.name] = kept

    async def work(self, client: aio.Client) -> None:
        while not self.is_stopping():
            try:
                if self.member.name in self.memory.sides.rejoining:  # it died after it had asked
                    await self._begin_anew(client)
                await self._stand(client)
            except TandemqError as error:
                if error.reason == "SIDE_LOST":
                    await self._begin_anew(client)
                elif error.reason == "TWIN_TAKEN":
                    await asyncio.sleep(TAKEN_S)
                else:
                    raise

    async def _stand(self, client: aio.Client) -> None:
        self.acted = self.kept.index
        self.unsettled.clear()
        outputs = Outputs(client, WRITER, OWNER, self._differs)
        await outputs.begin(*self.kept)
        if self.is_stopping():
            return  # `stop` has closed the consumer before this one
        at_side = self.connect(self.place)
        self.consumer = at_side.consumer(self.queue, credit_messages=int(self.plan.args.get("credit", 20)), lease=LEASE)
        begin = asyncio.create_task  # no group: it would not let a killed process go
        parts = [
            begin(self._act(self.consumer, outputs)),
            begin(outputs.run()),
            begin(self._save_now_and_then(outputs)),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done():
                    part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await at_side.close()
            if outputs.counts.duplicates or outputs.counts.skipped:
                self.run.sometimes(sides.KNOWN_OUTPUT)

    async def _act(self, consumer: aio.Consumer, outputs: Outputs) -> None:
        async with consumer:
            async for batch in consumer.batches():
                self._look(batch)
                for each in batch:
                    for problem in sides.given(self.memory.sides, self.member, each.index, each.payload, self.acted):
                        self.run.violation(NAME, problem)
                    if each.index > self.acted:
                        self.acted = each.index
                        if sides.makes(each.index):
                            outputs.add(each.index, [self._made_of(each.index, each.payload)])
                outputs.passed(self.acted)
                self.unsettled.append((self.acted, batch))
                await asyncio.sleep(int(self.plan.args.get("hold_ms", 0)) / 1000)

    def _look(self, batch: DeliveryBatch) -> None:
        run, domain = self.run, self.member.domain
        self.unplaced += [Received(each.index, each.payload, each.delivery_count) for each in batch]
        self._place()
        run.count("given at sides", len(batch))
        queue = sides.queue_of(self.member)
        if queue is not None and queue.selection is not None:
            run.count("given at sides by priority", sum(each.index > self.acted for each in batch))
        if domain is None:
            return
        epoch = domain.shared.state.epoch
        if domain.shared.role not in (Role.MASTER, Role.REPLICA):
            run.sometimes(sides.SUSPENDED_SIDE)
        if self.epoch and epoch > self.epoch:
            run.sometimes(sides.OVER_TAKEOVER)
        self.epoch = epoch

    def _place(self) -> None:
        """Books know messages by their indexes."""
        found = [(sides.index_of(self.memory.sides, self.pair, each.index), each) for each in self.unplaced]
        self.unplaced = [each for index, each in found if index is None]
        taken = [replace(each, index=index) for index, each in found if index is not None]
        self.book.took(self.now_s, self.plan.name, taken, 0, waited=False)

    @staticmethod
    def _made_of(index: int, payload: bytes) -> Output:
        return Output(MADE_QUEUE, payload_of(Message(MADE_BY, index)), {"correlation_id": payload.decode()})

    def _differs(self, compared: Compared) -> None:
        self.memory.sides.differences.append(f"the outputs of {self.plan.name} differ: {compared}")

    async def _save_now_and_then(self, outputs: Outputs) -> None:
        while True:
            await asyncio.sleep(int(self.plan.args.get("save_ms", 50)) / 1000)
            self._place()
            if sides.asked(self.pair):
                self.run.sometimes(sides.BY_QUESTION)
            for problem in sides.standing(self.memory.sides, self.pair):
                self.run.violation(NAME, problem)
            place = Kept(self.acted, outputs.chain, outputs.sent)
            await outputs.done(place.index)
            await asyncio.sleep(DISK_S)
            if place.index > self.kept.index:
                self.keep(place)
            while self.unsettled and self.unsettled[0][0] <= self.kept.index:
                self.unsettled.popleft()[1].ack()

    async def _begin_anew(self, client: aio.Client) -> None:
        """As docs/TWINS.md says: first the side, then the other one's state, so that nothing goes in between."""
        found, own = self.memory.sides, self.member.name
        found.rejoining.add(own)
        try:
            await client.restart_side(self.queue, own)
        except TandemqError as error:
            if error.reason != "INVALID_STATE":  # it died while it asked, and has asked
                raise
        self.run.sometimes(sides.PLACE_LOST)
        theirs = found.kept.get(self.member.peer, Kept())
        if theirs.index > self.kept.index:
            self.run.sometimes(sides.OTHERS_STATE)
            self.keep(theirs)
        found.rejoining.discard(own)
        await asyncio.sleep(TAKEN_S)  # until its member knows

    def is_done(self) -> bool:
        if self.is_stopping():
            return self.done
        queues = [sides.queue_of(member) for member in self.pair.members.values() if member.is_serving]
        return not self.down and all(
            queue is not None and queue.length == 0 and queue.given_end == self.kept.index + 1 for queue in queues
        )

    def stop(self) -> None:
        super().stop()
        if self.process is not None and self.consumer is not None:
            self.run.loop.spawn(self.process, self.consumer.close())
