"""The commands of a script by which somebody stages rows and publishes them, and what must hold of them.

What the service does is repeated here (`replica.services.messages.stage`). One writer, whose batches are numbered by
the script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import google_crc32c

from replica.core.state.calls import PendingCall, Publish, StageRows
from replica.core.state.outcomes import Failed, PublishDone
from replica.machine import PublishCall, StageCall, columns_of
from replica.node.journal import history_id_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.checks import require
from tests.support.clients import Waiter, remaining
from tests.support.grammar import CommandError, command
from tests.support.reading import Reading

if TYPE_CHECKING:
    from tests.support.pair import Member

ROWS = 2
"""Of each part."""
WRITER, QUERY = "writer", "query"


@dataclass
class Batch:
    """Rows that are to enter the queue together."""

    name: str
    parts: int
    number: int = 0
    """0: not published yet."""
    attempts: int = 0
    """Stages that were made of it."""
    done: PublishDone | None = None
    history_id: bytes = b""
    """Of the pair that has published it."""
    told: list[str] = field(default_factory=list)
    """What its writer heard and nobody has said yet."""

    def rows(self) -> list[bytes]:
        return [f"{self.name}/{number}".encode() for number in range(1, self.parts * ROWS + 1)]

    def stage_id(self) -> bytes:
        return f"{self.name}-{self.attempts}".encode().ljust(16, b".")

    def on_answer(self, result: Any, history_id: bytes) -> None:
        if isinstance(result, PublishDone):
            self.done, self.history_id = result, history_id
            self.told.append(f"writer: {self.name} is published{' already' if result.duplicate else ''}")
        elif isinstance(result, Failed):
            reason = Reason.Name(result.reason).removeprefix("REASON_")
            self.told.append(f"writer: {self.name} is refused: {reason}")


class Writing(Reading):
    """One writer and its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: dict[str, Batch] = {}

    @command("stage OP in COUNT parts at MEMBER")
    def stage(self, name: str, count: str, member: str) -> list[str]:
        """A writer stages a batch there, two rows in each part, and waits until both members have it."""
        self.batches[name] = Batch(name, int(count))
        return self._stage(self.batches[name], self.member(member))

    @command("publish OP as batch COUNT at MEMBER")
    def publish(self, name: str, number: str, member: str) -> list[str]:
        """The writer publishes there what it has staged, and says which batch was its last; nothing is moved."""
        batch = self._batch(name)
        batch.number = int(number)
        self._publish(batch, self.member(member))
        return self._heard()

    @command("stage and publish OP again at MEMBER")
    def again(self, name: str, member: str) -> list[str]:
        """The writer does not know what became of the batch: it stages the rows anew, publishes them, and waits."""
        batch = self._batch(name)
        said = self._stage(batch, self.member(member))
        self._publish(batch, self.member(member))
        self._quietly_settle(500)
        return [*said, *self._heard()]

    @command("parts enter one by one at MEMBER")
    def one_by_one(self, name: str) -> list[str]:
        """A turn of that member puts one part into the queue, and the next one waits for its commit and the clock."""
        self.member(name).core.orders.publishing.turn_parts = 1
        return []

    @command("rows at MEMBER")
    def rows(self, name: str) -> list[str]:
        """What consumers of the queue may see there; of each batch all, in order, or nothing."""
        found = [payload for _, payload in remaining(self.member(name))]
        for batch in self.batches.values():
            there = [payload for payload in found if payload in batch.rows()]
            require(there in ([], batch.rows()), f"consumers at {name} see a part of {batch.name}: {there}")
        told = " ".join(payload.decode() for payload in found)
        return [*self.said(), *self._heard(), f"rows at {name}: {told or 'none'}"]

    def check_batches(self) -> None:
        """At rest: whoever heard nothing asks again; then each published batch is there once, whole and in order."""
        for batch in self.batches.values():
            if batch.number and batch.done is None:
                for member in self.pair.up:
                    self._publish(batch, member)
                    self.pair.settle(1_000)
        for member in self.pair.up if self.batches else ():
            self.rows(member.name)
            here = [batch for batch in self.batches.values() if batch.history_id in (b"", history_id_of(member.shared))]
            known = [batch for batch in here if batch.done is not None]
            require(
                not known or len(here) == len(self.batches),
                f"{known[0].name if known else ''} is published here, and follows a batch of another history",
            )
            for batch in here:
                found = [payload for _, payload in remaining(member) if payload in batch.rows()]
                decided = member.shared.machine.state.stages.writers.get(WRITER)
                known = decided is not None and batch.number and decided.batch >= batch.number
                require(not known or found == batch.rows(), f"{batch.name} is decided, and at {member.name} is {found}")
                require(batch.done is None or found == batch.rows(), f"{batch.name} is published, and {found} is there")

    def _batch(self, name: str) -> Batch:
        if name not in self.batches:
            raise CommandError(f"nobody has staged {name!r}; staged: {', '.join(self.batches) or 'nothing'}")
        return self.batches[name]

    def _stage(self, batch: Batch, member: Member) -> list[str]:
        batch.attempts += 1
        rows = batch.rows()
        for part in range(batch.parts):
            made = EnqueueBatch(queue="q", messages=MessageBatch(payloads=rows[part * ROWS : (part + 1) * ROWS]))
            self._submit(member, Waiter(), _stage_order(batch.stage_id(), part + 1, made, member.name))
        self._quietly_settle(100)
        return []

    def _publish(self, batch: Batch, member: Member) -> None:
        number, stage_id = batch.number, batch.stage_id()
        before = max((each.number for each in self.batches.values() if each.done and each is not batch), default=None)

        action = Publish(PublishCall(WRITER, QUERY, number, [stage_id], member.name, before), 0)
        self._submit(member, Waiter(lambda result: batch.on_answer(result, history_id_of(member.shared))), action)

    def _submit(self, member: Member, waiter: Waiter, action: StageRows | Publish) -> None:
        member.submit(PendingCall(waiter, action))

    def _heard(self) -> list[str]:
        lines = []
        for batch in self.batches.values():
            lines += batch.told
            batch.told = []
        return lines

    def _quietly_settle(self, milliseconds: int) -> None:
        self.pair.settle(milliseconds)
        self.said()
        self.end_of_step()


def _stage_order(stage_id: bytes, part: int, made: EnqueueBatch, member: str) -> StageRows:
    body, columns = made.SerializeToString(), columns_of(made)
    return StageRows(StageCall(stage_id, part, "q", columns, 0, google_crc32c.value(body), member), body)
