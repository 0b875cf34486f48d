"""The commands of a script by which a consumer takes numbered batches, and what must hold of them.

What the service does is repeated here (`replica.services.admin.batches`): the master orders, and answers once it is
committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, QueueDone
from replica.machine import AckBatchCall, BatchCall, Machine, Refused
from replica.machine.features.batches import last_batch, open_batch
from tandemq.v1.common_pb2 import IndexRange, Reason
from tests.support.checks import require
from tests.support.clients import Waiter, rows
from tests.support.grammar import command
from tests.support.pair import Member
from tests.support.reading import Reading

CONSUMER, QUEUE, LEASE_MS = "spark", "q", 60_000


class Batching(Reading):
    """One consumer of the queue, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.numbered: dict[int, list[bytes]] = {}
        """What each number was when it was first told."""
        self.acknowledged: set[int] = set()
        """Numbers of which the consumer has heard so."""

    @command("take batch COUNT at MEMBER")
    def take_batch(self, count: str, name: str) -> list[str]:
        """The consumer asks for up to two messages under that number, or once more for what it is."""
        return self._ask(
            self.member(name),
            int(count),
            BatchCall(QUEUE, CONSUMER, int(count), 2, 1 << 20, LEASE_MS),
            lambda member: self._told(member, int(count)),
        )

    @command("acknowledge batch COUNT at MEMBER")
    def acknowledge_batch(self, count: str, name: str) -> list[str]:
        """All of it at once."""

        def told(_member: Member) -> str:
            self.acknowledged.add(int(count))
            self.reader.settled.update(self.numbered[int(count)])
            return "acknowledged"

        return self._ask(
            self.member(name),
            int(count),
            AckBatchCall(QUEUE, CONSUMER, int(count)),
            told,
        )

    def _told(self, member: Member, number: int) -> str:
        machine: Machine = member.shared.machine
        state = machine.state
        queue = state.named(QUEUE)
        if last_batch(state, queue, CONSUMER) < number:
            return "nothing to take"
        batch, lease = open_batch(state, queue, CONSUMER, number)
        ranges = [IndexRange(first=start, count=end - start) for start, end in batch.runs]
        slices = machine.segments_of(lease.queue_id, ranges)
        found = {row.message.payload: row.index for row in rows(member.store, member.shared, QUEUE, 0, slices)}
        first = self.numbered.setdefault(number, list(found))
        require(first == list(found), f"batch {number} was {first} and is {list(found)}")
        require(not self.reader.settled & set(found), f"batch {number} has what is acknowledged")
        self.reader.indexes.update(found)
        return ", ".join(payload.decode().split("/")[0] for payload in found)

    def _ask(
        self,
        member: Member,
        number: int,
        call: BatchCall | AckBatchCall,
        told: Callable[[Member], str],
    ) -> list[str]:
        waiter = Waiter()
        member.submit(PendingCall(waiter, call))
        self.pair.settle(200)
        try:
            match waiter.done:
                case QueueDone():
                    answer = told(member)
                case Failed(reason):
                    answer = name_of(reason)
                case _:
                    answer = "no answer yet"
        except Refused as refused:
            answer = name_of(refused.reason)
        return [*self.said(), f"batch {number} at {member.name}: {answer}"]


def name_of(reason: Any) -> str:
    return Reason.Name(reason).removeprefix("REASON_")
