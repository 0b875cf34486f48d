"""The commands of a script by which clients put messages with all that can be said of them, take them and give them
back, alone or in a unit of work, and what must hold of all these messages.

What the service does is repeated here (`replica.services.messages.open_units`): the puts of a unit are made into one
body as it commits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import google_crc32c

from replica.core.messages.bodies import batch_of
from replica.core.state.calls import (
    BeginUnit,
    CommitUnit,
    Consumer,
    PendingCall,
    PendingEnqueue,
    PutInUnit,
    RollbackUnit,
)
from replica.core.state.outcomes import EnqueueDone, Failed, LeaseDone, Moved, QueueDone, UnitBegun, UnitDone, UnitEnded
from replica.machine import EnqueueCall, Machine, QueueCall, SettleCall, columns_of, handle_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_ONE_WAY_ACK, QueueConfig
from tandemq.v1.queue_service_pb2 import (
    OUTCOME_ACK,
    OUTCOME_RELEASE,
    EnqueueBatch,
    EnqueueRequest,
    FinalState,
    Outcome,
    Settlement,
)
from tests.support.batching import name_of
from tests.support.checks import require
from tests.support.clients import Waiter, create, rows
from tests.support.grammar import CommandError, command
from tests.support.pair import Member
from tests.support.reading import Reading

QUEUES = ("q", "r", "s")
LEASE_MS, UNIT_MS, RETENTION_S, TRIES = 60_000, 30_000, 3_600, 3
NUMBERS = ("delay", "ttl", "priority")
COLUMNS = {
    "group": "group_ids",
    "call": "correlation_ids",
    "delay": "delays_ms",
    "ttl": "ttls_ms",
    "priority": "priorities",
    "inert": "inerts",
    "reply": "reply_tos",
}


class Taken(NamedTuple):
    """What a consumer was given."""

    queue: str
    lease_id: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


def said_of(text: str) -> dict[str, str]:
    """`group=g,inert` in words: what is said, and what of it."""
    return {name: value for name, _, value in (each.partition("=") for each in text.split(","))}


class Working(Reading):
    """Senders, consumers and units of work, each by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.put_as: dict[str, int] = {}
        """Messages: at which index each entered q, once that was answered; 0 elsewhere."""
        self.taken: dict[str, Taken] = {}
        """Messages that were given to somebody and not settled since."""
        self.done_with: set[str] = set()
        """Messages of which an acknowledgement was answered."""
        self.ids: dict[str, bytes] = {}
        """Of messages of q, once they were seen there."""
        self.units: dict[str, bytes] = {}
        self.requests_made = 0

    @command("given a pair for units and reactions")
    def given_a_pair_for_units(self) -> list[str]:
        """Both members are up and in step, with queues q, r and s; reactions are on at q, and handles of its messages
        say how they end. A message of q that was delivered three times for nothing is a dead letter.
        """
        self.pair.start()
        config = QueueConfig(reactions_enabled=True, queue_type=QUEUE_TYPE_ONE_WAY_ACK, max_deliveries=TRIES)
        config.completion_retention.FromSeconds(RETENTION_S)
        create(self.pair, "q", **{field.name: value for field, value in config.ListFields()})
        for name in QUEUES[1:]:
            create(self.pair, name)
        self.has_queue = True
        self.teller.take()
        self.teller.take_logs()
        return []

    # -- messages --------------------------------------------------------------------------------------------------

    @command("put OP into QUEUE at MEMBER")
    def put(self, name: str, queue: str, member: str) -> list[str]:
        """A message, and what its client hears."""
        return self._put(name, queue, member, "")

    @command("put OP into QUEUE at MEMBER and wait")
    def put_and_wait(self, name: str, queue: str, member: str) -> list[str]:
        """As above; where there is no room, its client waits for a minute."""
        return self._put(name, queue, member, "", wait_ms=60_000)

    @command("put OP into QUEUE at MEMBER with WITH")
    def put_with(self, name: str, queue: str, member: str, attributes: str) -> list[str]:
        """As above, with what is said of it: group, call (its correlation id), delay and ttl in ms, priority, reply
        (the queue for reports), inert.
        """
        return self._put(name, queue, member, attributes)

    def _put(self, name: str, queue: str, member: str, attributes: str, wait_ms: int = 0) -> list[str]:
        if name in self.put_as:
            raise CommandError(f"{name!r} was put already")
        self.put_as[name] = 0

        def on_answer(result: Any) -> None:
            if isinstance(result, EnqueueDone):
                reason = name_of(result.refusals[0][1]) if result.refusals else ""
                self.put_as[name] = result.first_index if queue == "q" else 0
                self.teller.say(
                    f"client: {name} " + (f"is refused, {reason}" if reason else f"is {result.first_index} of {queue}")
                )
            else:
                self.teller.say(f"client: {name}: {self._why(result)}")

        batch = EnqueueBatch(queue=queue, first_sequence=1, messages=self._row(name, attributes))
        body = batch.SerializeToString()
        hashed, columns = google_crc32c.value(body), columns_of(batch)
        call = EnqueueCall(queue, name.encode(), 1, columns, member, request_hash=hashed)
        until_ms = self.pair.wall_ms + wait_ms if wait_ms else 0
        self.member(member).submit(PendingEnqueue(Waiter(on_answer), call, body, full_until_ms=until_ms))
        return self._moved()

    def _row(self, name: str, attributes: str) -> MessageBatch:
        columns: dict[str, list[Any]] = {}
        for what, value in said_of(attributes).items() if attributes else ():
            if what not in COLUMNS:
                raise CommandError(f"nothing is known as {what!r}; known: {', '.join(COLUMNS)}")
            columns[COLUMNS[what]] = [int(value) if what in NUMBERS else value if what != "inert" else True]
        return MessageBatch(payloads=[f"{name}/1".encode()], **columns)

    @command("take COUNT of QUEUE at MEMBER")
    def take(self, count: str, queue: str, member: str) -> list[str]:
        """A consumer asks for so many, and waits until it has been given some: then it says which."""
        self._take(self.member(member), queue, int(count), b"", "consumer")
        return self._moved()

    def _take(self, member: Member, queue: str, count: int, unit: bytes, who: str) -> None:
        def on_answer(done: Any) -> None:
            if not isinstance(done, LeaseDone):
                self.teller.say(f"{who}: {self._why(done)}")
                return
            for row in rows(member.store, member.shared, queue, done.lease_id, done.slices):
                name = row.message.payload.decode().split("/")[0]
                require(name not in self.done_with, f"{name} was acknowledged, and came again")
                self.taken[name] = Taken(queue, done.lease_id, row.index)
                self.teller.say(f"{who}: {name}, {row.index} of {queue}")

        consumer = Consumer(
            Waiter(on_answer),
            queue,
            unit or b"taker",
            LEASE_MS,
            credit_messages=count,
            credit_bytes=1 << 30,
            member=member.name,
            one_shot=True,
            unit=unit,
        )
        member.attach(consumer)

    @command("acknowledge OP at MEMBER")
    def acknowledge_one(self, name: str, member: str) -> list[str]:
        """Its consumer is done with it."""
        return self._settle(name, member, OUTCOME_ACK)

    @command("give OP back at MEMBER")
    def give_back(self, name: str, member: str) -> list[str]:
        """Its consumer releases it."""
        return self._settle(name, member, OUTCOME_RELEASE)

    def _settle(self, name: str, member: str, outcome: Outcome) -> list[str]:
        if name not in self.taken:
            raise CommandError(f"nobody was given {name}")
        queue, lease_id, index = self.taken[name]

        def on_answer(result: Any) -> None:
            (answer,) = result.results if hasattr(result, "results") else (None,)
            if answer is None or answer.HasField("error"):
                reason = self._why(result) if answer is None else name_of(answer.error.reason)
                self.teller.say(f"consumer: {name}: {reason}")
            elif outcome == OUTCOME_ACK:
                self.done_with.add(name)

        ranges = [IndexRange(first=index, count=1)]
        settlement = Settlement(lease_id=lease_id, ranges=ranges, outcome=outcome)
        self.member(member).submit(PendingCall(Waiter(on_answer), SettleCall(queue, [settlement])))
        return self._moved()

    @command("look into QUEUE at MEMBER")
    def look_into(self, queue: str, member: str) -> list[str]:
        """What is there, by index, and what each waits for: nothing where it is ready."""
        found = [self._place_of(member, queue, row) for row in self._rows(self.member(member), queue)]
        return [*self.said(), f"{queue} at {member}: {', '.join(found) or 'nothing'}"]

    def _place_of(self, member: str, queue_name: str, row: Any) -> str:
        queue = self._machine(member).state.named(queue_name)
        name, index = row.message.payload.decode().split("/")[0] or "a report", row.index
        known = row.message.properties
        for what, text in (("tq_version", f"{name} version"), ("tq_outcome", f"{name}:")):
            if what in known:
                name = f"{text} {known[what].integer if what == 'tq_version' else known[what].text}"
        leases = [lease for lease in queue.leases.values() if index in lease.ranges]
        waits = "in a unit" if leases and leases[0].unit else "taken" if leases else ""
        waits = waits or ("delayed" if next(queue.delayed.runs(index, index + 1), None) else "")
        times = queue.deliveries.get(index, 0)
        counted = f", {times} deliveries for nothing" if times else ""
        return f"{name} at {index}{' ' + waits if waits else ''}{counted}"

    def _rows(self, member: Member, queue: str) -> list[Any]:
        machine: Machine = member.shared.machine
        queue_id = machine.queue_id(queue)
        if queue_id is None:
            return []
        slices = machine.segments_of(queue_id, machine.browse(queue_id, 0, 0), delivered=False)
        return list(rows(member.store, member.shared, queue, 0, slices))

    def note_ids(self) -> None:
        """Of what is in q now."""
        for row in self._rows(self.pair.master, "q") if self.pair.master is not None else ():
            self.ids.setdefault(row.message.payload.decode().split("/")[0], bytes(row.id))

    def _machine(self, member: str) -> Machine:
        machine: Machine = self.member(member).shared.machine
        return machine

    @command("ask at MEMBER what became of OP")
    def ask_what_became(self, member: str, name: str) -> list[str]:
        """By the handle that its sender has got; of a message of q."""
        if not self.put_as.get(name):
            raise CommandError(f"{name} has no handle: it was not put into q")
        machine = self._machine(member)
        queue_id = machine.queue_id("q")
        assert queue_id is not None
        (found,) = machine.progress(queue_id, [handle_of(machine.handle_prefix(queue_id), self.put_as[name])])
        how = FinalState.Name(found.final).removeprefix("FINAL_STATE_") if found.completed else "not ended"
        return [*self.said(), f"{name}: {how}"]

    @command("QUEUE holds at most COUNT")
    def limit(self, queue: str, count: str) -> list[str]:
        """An administrator sets its max_length."""
        return self._update(queue, max_length=int(count))

    def _update(self, queue: str, **config: Any) -> list[str]:
        waiter = Waiter()
        require(self.pair.master is not None, "nobody serves")
        call = QueueCall(QUEUE_ACTION_UPDATE, queue, QueueConfig(**config), mask=tuple(config))
        self.pair.master.submit(PendingCall(waiter, call))  # type: ignore[union-attr]  # asked above
        said = self._moved()
        require(isinstance(waiter.done, QueueDone), f"{queue} was not changed: {waiter.done}")
        return said

    # -- units -----------------------------------------------------------------------------------------------------

    @command("begin unit OP at MEMBER")
    def begin_unit(self, name: str, member: str) -> list[str]:
        """A unit of work that is open for half a minute."""

        def on_answer(done: Any) -> None:
            if isinstance(done, UnitBegun):
                self.units[name] = done.unit_id
            else:
                self.teller.say(f"unit {name}: {self._why(done)}")

        return self._ask_unit(member, BeginUnit(b"client", UNIT_MS), on_answer)

    @command("unit OP takes COUNT of QUEUE at MEMBER")
    def unit_takes(self, name: str, count: str, queue: str, member: str) -> list[str]:
        """They are locked for it, until its end."""
        self._take(self.member(member), queue, int(count), self._unit(name), f"unit {name}")
        return self._moved()

    @command("unit OP puts OP into QUEUE at MEMBER")
    def unit_puts(self, name: str, message: str, queue: str, member: str) -> list[str]:
        """Into the queue when it commits, and not before."""
        payload = f"{message}/1".encode()
        request = EnqueueRequest(queue=queue)
        request.messages.add(payload=payload)
        columns = columns_of(EnqueueBatch(messages=MessageBatch(payloads=[payload])))
        self.requests_made += 1
        request_id = self.requests_made.to_bytes(16, "big")
        call = PutInUnit(self._unit(name), queue, request_id, 1, columns, request.SerializeToString(), member)

        def on_answer(done: Any) -> None:
            if isinstance(done, Failed | Moved):
                self.teller.say(f"unit {name}: {self._why(done)}")

        return self._ask_unit(member, call, on_answer)

    @command("unit OP commits at MEMBER")
    def unit_commits(self, name: str, member: str) -> list[str]:
        """Its client asks for that, or once more what came of it; prints what it hears."""

        def on_answer(done: Any) -> None:
            if isinstance(done, UnitDone):
                puts = [f"{queue} {put.first_index}" for queue, put in zip(done.names, done.puts, strict=True)]
                again = ", as before" if done.duplicate else ""
                self.teller.say(f"unit {name}: committed{': ' if puts else ''}{', '.join(puts)}{again}")
            else:
                self.teller.say(f"unit {name}: {self._why(done)}")

        return self._ask_unit(member, self._commit_of(self._unit(name), member), on_answer)

    @command("unit OP rolls back at MEMBER")
    def unit_rolls_back(self, name: str, member: str) -> list[str]:
        """What it had taken is where it was."""

        def on_answer(done: Any) -> None:
            text = f"rolled back, {done.returned} returned" if isinstance(done, UnitEnded) else self._why(done)
            self.teller.say(f"unit {name}: {text}")

        return self._ask_unit(member, RollbackUnit(self._unit(name)), on_answer)

    def _unit(self, name: str) -> bytes:
        if name not in self.units:
            raise CommandError(f"no unit {name!r} was begun; begun: {', '.join(self.units) or 'nothing'}")
        return self.units[name]

    def _commit_of(self, unit_id: bytes, member: str) -> CommitUnit:
        unit = self.member(member).core.orders.units.find(unit_id)
        if unit is None:
            return CommitUnit(unit_id, -1, None, b"", 0, member)
        kept = [EnqueueRequest.FromString(put.request) for puts in unit.puts.values() for put in puts]
        batch = EnqueueBatch(messages=batch_of([row for each in kept for row in each.messages]))
        return CommitUnit(unit_id, unit.changes, columns_of(batch), batch.SerializeToString(), 0, member)

    def _ask_unit(self, member: str, call: Any, on_answer: Any) -> list[str]:
        self.member(member).submit(PendingCall(Waiter(on_answer), call))
        return self._moved()

    # -- what is said, and what must hold --------------------------------------------------------------------------

    def _why(self, done: Any) -> str:
        return name_of(done.reason) if isinstance(done, Failed) else "no answer, the role has moved"

    def _moved(self) -> list[str]:
        """What is not held moves, so that who asked has his answer."""
        self._run()
        return self.said()

    def check_queues(self) -> None:
        """At rest: no message is in two places, and none is left of what somebody is done with."""
        master = self.pair.master
        assert master is not None
        found = [row.message.payload for queue in QUEUES for row in self._rows(master, queue) if row.message.payload]
        twice = sorted({each for each in found if found.count(each) > 1})
        require(not twice, f"there twice: {twice}")
        left = {name for name in self.done_with if f"{name}/1".encode() in found}
        require(not left, f"acknowledged and still there: {left}")
