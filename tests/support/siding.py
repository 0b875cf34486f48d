"""The commands of a script by which two processes, one at each member, act on the messages of a queue with sides, and
what must hold of both: the same messages under the same numbers, none left out, and none there that no side needs.

What the service does is repeated here (`replica.services.messages.side`), and of `tandemq.twin` that outputs are units
under the processes' common name, numbered by their last input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from replica.core.state.calls import Consumer, PendingCall, Transact
from replica.core.state.outcomes import Failed, LeaseDone, UnitDone
from replica.machine import Refused, SettleCall, columns_of
from replica.machine.plan.unit import QueuePut, UnitCall
from replica.machine.plan.unit_identity import UnitIdentity
from replica.machine.state.system_names import side_queue
from tandemq.twin import Output
from tandemq.twin.digests import NONE, chained
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import LOCKSTEP_PLAIN, LOCKSTEP_SELECTED, REPLICATION_PRODUCER
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, EnqueueBatch, Settlement
from tests.support.batching import name_of
from tests.support.checks import require
from tests.support.clients import Waiter, create, rows
from tests.support.grammar import CommandError, command
from tests.support.own_domain import OwnDomain
from tests.support.working import Working

if TYPE_CHECKING:
    from tests.support.pair import Member

QUEUE, MADE, WRITER = "q", "r", "twins"
LEASE_MS, EVERYTHING, MARKED_MS = 60_000, 1_000, 2_500
"""The last one: until a record of the pair says how far both sides are."""
LOCKSTEPS = {"plain": LOCKSTEP_PLAIN, "selected": LOCKSTEP_SELECTED}


class Given(NamedTuple):
    """By a side, to its process."""

    number: int
    lease_id: int


@dataclass(eq=False)
class Process:
    """What one of the two knows."""

    at: str
    """Its member."""
    stream: tuple[int, Consumer] | None = None
    """And in which life of the member's process it was opened."""
    held: list[Given] = field(default_factory=list)
    acted: int = 0
    """Number of the last message that it has acted on."""
    settled: int = 0
    sent: int = 0
    """Of the last message whose outputs it knows to be in their queue."""
    chains: dict[int, int] = field(default_factory=lambda: {0: NONE})
    """Digest of all its outputs, by number of the last message that they were made of."""


class Siding(Working):
    """Both processes, and what each number stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: dict[str, Process] = {}
        self.numbered: dict[int, str] = {}
        """Messages by the number under which a side gave them first."""
        self.made: dict[int, str] = {}
        """Outputs that are answered, by the number of their input."""

    @command("given a pair with LOCKSTEP sides")
    def given_a_pair_with_sides(self, lockstep: str) -> list[str]:
        """Both members are up and in step, with a queue q that has sides (replication PRODUCER) in that lockstep, and
        an ordinary queue r. No process is there yet.
        """
        self.pair.own_of = OwnDomain
        self.pair.start()
        create(self.pair, QUEUE, replication=REPLICATION_PRODUCER, lockstep=LOCKSTEPS[lockstep])
        create(self.pair, MADE)
        self.has_queue = True
        self.processes = {name: Process(name) for name in self.pair.members}
        self.teller.take()
        self.teller.take_logs()
        return []

    @command("the process at MEMBER asks for COUNT")
    def process_asks(self, member: str, count: str) -> list[str]:
        """It has room for so many messages more; prints what its side gives it. Where it has no stream, or that has
        broken, it opens one, and is given what it has not settled once more.
        """
        self._ask_side(member, int(count))
        return self._moved()

    def _ask_side(self, name: str, count: int) -> None:
        member, process = self.member(name), self._process(name)
        own = self._own_of(member)
        if process.stream is not None and process.stream[0] == member.incarnation and process.stream[1].attached:
            consumer = process.stream[1]
            consumer.credit_messages += count
            own.core.consumers.on_credit(consumer)
            own.dispatch(own.core)
            return
        queue = member.shared.machine.state.named(QUEUE)
        side = own.sides.open(
            member.core, queue, anew=True, client_id=name.encode(), connection=str(member.incarnation)
        )
        if side is None or isinstance(side, Refused):
            self.teller.say(f"process at {name}: {name_of(side.reason) if side is not None else 'not served yet'}")
            return
        process.held.clear()
        consumer = Consumer(
            Waiter(lambda done: self._on_given(member, process, done)),
            side,
            name.encode(),
            LEASE_MS,
            credit_messages=count,
            credit_bytes=1 << 30,
            connection=str(member.incarnation),
        )
        process.stream = member.incarnation, consumer
        own.core.attach(consumer, self.pair.wall_ms)
        own.dispatch(own.core)

    def _on_given(self, member: Member, process: Process, done: Any) -> None:
        if not isinstance(done, LeaseDone):
            self.teller.say(f"process at {process.at}: {self._why(done)}")
            return
        sides = self._own_of(member).sides
        of = sides.key(member.core, member.shared.machine.state.named(QUEUE))
        for row in rows(member.store, member.shared, QUEUE, done.lease_id, sides.slices(of, done.slices)):
            number, name = row.index, row.message.payload.decode().split("/")[0]
            known = self.numbered.setdefault(number, name)
            require(known == name, f"{number} is {name} at {member.name}, and was {known}")
            if not process.held and number <= process.settled:
                process.settled = number - 1  # the member's disk is another one: it goes on from what the pair has
            last = process.held[-1].number if process.held else process.settled
            require(number == last + 1, f"{member.name} gives {number} behind {last}")
            process.held.append(Given(number, done.lease_id))
            self.teller.say(f"process at {process.at}: {number} is {name}{' again' if number <= process.acted else ''}")
            if number > process.acted:
                process.acted = number
                process.chains[number] = chained(process.chains[number - 1], number, [self._made_of(number)])

    @command("the process at MEMBER settles up to COUNT")
    def process_settles(self, member: str, count: str) -> list[str]:
        """It is done with these, and its side is on its member's disk."""
        self._settle_side(member, int(count))
        return self._moved()

    def _settle_side(self, name: str, until: int) -> None:
        process, own = self._process(name), self._own_of(self.member(name))
        done = [each for each in process.held if each.number <= until]
        if not done or done[-1].number != until:
            raise CommandError(f"the process at {name} was not given {until}")
        settlements = [
            Settlement(lease_id=lease_id, ranges=[IndexRange(first=number, count=1)], outcome=OUTCOME_ACK)
            for number, lease_id in done
        ]
        waiter = Waiter()
        own.core.submit(PendingCall(waiter, SettleCall(side_queue(QUEUE), settlements)), self.pair.wall_ms)
        own.dispatch(own.core)
        require(
            hasattr(waiter.done, "results") and not any(each.HasField("error") for each in waiter.done.results),
            f"the side at {name} takes no settlement: {waiter.done}",
        )
        process.held = process.held[len(done) :]
        process.settled = until

    @command("the process at MEMBER dies")
    def process_dies(self, member: str) -> list[str]:
        """What it has not settled it forgets; its stream breaks."""
        process = self._process(member)
        if process.stream is not None:
            process.stream[1].waiter.cancelled = True
            self._own_of(self.member(member)).core.consumers.detach(process.stream[1])
        kept = {0: NONE, process.settled: process.chains[process.settled]}
        self.processes[member] = Process(member, None, [], process.settled, process.settled, process.settled, kept)
        return self._moved()

    @command("the heartbeat of MEMBER arrives")
    def heartbeat_arrives(self, member: str) -> list[str]:
        """At its peer, at once: how far its side is, and up to which number that asks."""
        self.pair.beat(self.member(member))
        return self._moved()

    @command("the process at MEMBER sends its outputs")
    def process_sends(self, member: str) -> list[str]:
        """One message into r for each message that it has acted on: a unit of work under the name that both have, up
        to its last one, and behind the last one that it knows to be there.
        """
        self._send_made(self._process(member))
        return self._moved()

    def _made_of(self, number: int) -> Output:
        return Output(MADE, f"of-{self.numbered[number]}/1".encode())

    def _send_made(self, process: Process) -> None:
        numbers = range(process.sent + 1, process.acted + 1)
        if not numbers:
            raise CommandError(f"the process at {process.at} has made nothing since")
        batch = EnqueueBatch(messages=MessageBatch(payloads=[self._made_of(each).payload for each in numbers]))
        identity = UnitIdentity(WRITER, "", process.acted, process.sent, process.chains[process.acted])
        self.requests_made += 1
        call = UnitCall(
            (),
            [QueuePut(MADE, columns_of(batch))],
            process.at,
            self.requests_made.to_bytes(16, "big"),
            self.requests_made,
            identity,
        )
        waiter = Waiter(lambda done: self._on_sent(process, numbers, done))
        self._serving_one().submit(PendingCall(waiter, Transact(call, batch.SerializeToString(), 0)))

    def _on_sent(self, process: Process, numbers: range, done: Any) -> None:
        who, which = f"process at {process.at}", f"outputs of {numbers[0]} to {numbers[-1]}"
        if isinstance(done, Failed) and "last_digest" in done.metadata:
            last = int(done.metadata["last_number"])
            known = int(done.metadata["last_digest"], 16)
            require(known == process.chains[last], f"the outputs up to {last} differ at {process.at}")
            process.sent = last
            self.teller.say(f"{who}: {which}: those up to {last} are there, and are the same")
            if process.acted > last:
                self._send_made(process)
        elif not isinstance(done, UnitDone):
            self.teller.say(f"{who}: {which}: {self._why(done)}")
        else:
            process.sent = numbers[-1]
            if done.duplicate:
                require(done.repeated is not None and not done.repeated.differs, f"{which} differ at {process.at}")
            else:
                self.made |= {each: self._made_of(each).payload.decode() for each in numbers}
            self.teller.say(f"{who}: {which} {'are there, and are the same' if done.duplicate else 'enter'}")

    @command("look at the sides at MEMBER")
    def look_at_sides(self, member: str) -> list[str]:
        """What that member knows of them: which message each number stands for that is chosen and not forgotten, and up
        to where both have passed.
        """
        queue = self._machine(member).state.named(QUEUE)
        passed = ", ".join(f"{name} has passed {number}" for name, number in sorted((queue.passed or {}).items()))
        chosen = ""
        if queue.selection is not None:
            found = queue.selection.runs(queue.selection.first, queue.selection.following)
            places = [start + at for _, start, end in found for at in range(end - start)]
            named = {
                row.index: row.message.payload.decode().split("/")[0] for row in self._rows(self.member(member), QUEUE)
            }
            numbered = [f"{queue.selection.first + at} is {named[place]}" for at, place in enumerate(places)]
            chosen = f"; chosen: {', '.join(numbered) or 'nothing'}"
        return [*self.said(), f"sides at {member}: {passed}{chosen}"]

    # -- the end ---------------------------------------------------------------------------------------------------

    def check_sides(self) -> None:
        """At rest both processes go on until nothing is left: each has acted on every message, in one order, all
        outputs are there once, and nothing stays in the queue.
        """
        if not self.processes:
            return
        for name, process in self.processes.items():
            self._ask_side(name, EVERYTHING)
            self.pair.settle(MARKED_MS)
            if process.held:
                self._settle_side(name, process.held[-1].number)
        self.pair.settle(MARKED_MS)
        sent = {name for name, index in self.put_as.items() if index}
        for process in self.processes.values():
            acted = {self.numbered[number] for number in range(1, process.acted + 1)}
            require(sent == acted, f"at {process.at}, of what was sent and what was acted on: {sorted(sent ^ acted)}")
            if process.acted > process.sent and self.made:
                self._send_made(process)
                self.pair.settle(200)
        left = [row.message.payload for row in self._rows(self._serving_one(), QUEUE)]
        require(not left, f"both sides have passed {left}, and it is there")
        found = [row.message.payload.decode() for row in self._rows(self._serving_one(), MADE)]
        require(found == [self.made[each] for each in sorted(self.made)], f"of the outputs there are {found}")

    # -- finding ---------------------------------------------------------------------------------------------------

    def _process(self, member: str) -> Process:
        if member not in self.processes:
            raise CommandError("no queue here has sides: begin with 'given a pair with LOCKSTEP sides'")
        return self.processes[member]

    def _own_of(self, member: Member) -> OwnDomain:
        assert isinstance(member.own, OwnDomain), "made with its process"
        return member.own

    def _serving_one(self) -> Member:
        require(self.pair.master is not None, "nobody serves")
        return self.pair.master  # type: ignore[return-value]  # asked above
