"""The commands of a script by which publishers put up tables of routing weights, and what must hold of them.

What the service does is repeated here (`replica.services.admin.weights`): the master orders, and answers once it is
committed.
"""

from __future__ import annotations

from typing import Any

from replica.core.state.calls import PendingCall, ReadWeights
from replica.core.state.outcomes import Failed, QueueDone, WeightsDone
from replica.machine import DeleteWeightsCall, PublishWeightsCall, Refused, Window
from replica.machine.features.weights import table_as_of
from tandemq.v1.common_pb2 import Reason
from tests.support.checks import require
from tests.support.clients import Waiter
from tests.support.grammar import command
from tests.support.reading import Reading

TABLE, QUEUE, VALID_MS = "shares", "q", 3_600_000


class Weighing(Reading):
    """Publishers of one table, each by its name, and somebody who routes by it."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """The last one that anybody was told of; 0: that there is none."""
        self.gone = 0
        """The last one there could have been when somebody was told that there is none."""
        self.told_by: dict[int, str] = {}
        """Whose table each version was, as it was told."""
        self.requests = 0
        self.open = 0
        """Publications and deletions that nobody has answered: they may have been done."""

    @command("publish weights OP over version COUNT at MEMBER")
    def publish_weights(self, by: str, count: str, name: str) -> list[str]:
        """A publisher that has read this version, 0 for none, puts its table in the place of it; nothing is moved."""
        expected, self.requests = int(count), self.requests + 1
        request_id, member = self.requests.to_bytes(16, "big"), self.member(name)
        call = PublishWeightsCall(TABLE, ((QUEUE, 1.0),), 0, VALID_MS, expected, by, Window(), request_id, 1)

        def done(_result: Any) -> str:
            version = member.shared.machine.find_request(request_id, 1).version
            require(expected == self.version or self.open, f"{by} has replaced version {self.version} unread")
            self._hear_version(version, by)
            return f"version {version} is of {by}"

        return self._weigh(name, call, done, by, changes=True)

    @command("delete the weights of version COUNT at MEMBER")
    def delete_weights(self, count: str, name: str) -> list[str]:
        """Whoever routes is to go by his own counters; nothing is moved."""

        def done(_result: Any) -> str:
            self.version = 0
            return "there are none"

        return self._weigh(name, DeleteWeightsCall(TABLE, int(count), b"", 0), done, "", changes=True)

    @command("ask for the weights at MEMBER")
    def ask_for_weights(self, name: str) -> list[str]:
        """Somebody who routes reads the table; nothing is moved."""

        def done(result: Any) -> str:
            table = result.tables[0].table
            self._hear_version(table.version, table.published_by)
            return f"version {table.version} is of {table.published_by}"

        return self._weigh(name, ReadWeights(TABLE), done, "a reader", changes=False)

    def _hear_version(self, version: int, by: str) -> None:
        whose = self.told_by.setdefault(version, by)
        require(whose == by, f"version {version} was of {whose}, and is of {by}")
        require(version >= self.version, f"version {self.version} was told, and taken back: now it is {version}")
        require(version > self.gone, f"that there is none was told, and taken back: now it is {version}")
        self.version = version

    def _weigh(self, name: str, call: Any, done: Any, by: str, *, changes: bool) -> list[str]:
        self.open += changes

        def on_answer(result: Any) -> None:
            if isinstance(result, QueueDone | WeightsDone):
                self.open -= changes
                self.teller.say(f"weights at {name}: {done(result)}")
            elif isinstance(result, Failed):
                self.open -= changes
                reason = Reason.Name(result.reason).removeprefix("REASON_")
                if result.reason == Reason.REASON_WEIGHTS_NOT_FOUND:
                    self.gone = max(self.told_by, default=0)
                self.teller.say(f"weights at {name}: {by or 'a publisher'} is refused, {reason}")

        self.member(name).submit(PendingCall(Waiter(on_answer), call))
        return self.said()

    def check_weights(self) -> None:
        """At the end the table that was told last is there, or one that nobody was told of has taken its place."""
        master = self.pair.master
        if not self.version or master is None:
            return
        try:
            found = table_as_of(master.shared.machine.state, 0, TABLE).table.version
        except Refused:
            found = 0
        require(found == self.version or self.open, f"version {self.version} was told, and {found or 'none'} is there")
