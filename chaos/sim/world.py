"""One simulated run: builds machines, members and clients from a plan, lets faults strike, heals, drains, and checks.

Phases: both members start and pair; the safety phase, in which the plan's faults strike while its clients work; then
everything is healed, and within a bounded virtual time the pair must be whole and every client done; then the queue is
drained and every check is made. A check that fails ends nothing: the outcome lists all of them.

Settings of a plan: `link_ms` (mean delay of a packet, 0.2), `wait_ms` (how long the pair may take to be whole, 90,000),
`judge` (who says which member lives: "register", "classifier" with a register, "alone" without one), `epoch` (the last
one that was claimed before the pair was formed, by nobody who lived to commit it), `checkpoint_bytes` (of log between
two checkpoints, 64 MiB: none in a run), `ring_bytes` (of log in memory, 64 MiB: all of it), `move_max` (messages that
one record moves), `journal_bytes` and `reader_bytes` (of log that is kept for nobody, and for named readers alone; as
the product has them, which no run reaches), `rebuilt` (1: a pair of the same names was there before, and clients with
`before` go on from where they were in it).
"""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING

from chaos.history import History, Message, Recorded
from chaos.sim import client_admins, client_senders, client_takers, clients, ending, faults, parts
from chaos.sim.books import Books
from chaos.sim.checking import check
from chaos.sim.coverage import Coverage
from chaos.sim.disk import Disk
from chaos.sim.invariants import Invariants
from chaos.sim.judging import Judging, Oracle
from chaos.sim.loop import Process, make_loop
from chaos.sim.member import REGISTER, SimMember
from chaos.sim.net import Network
from chaos.sim.outside import Machine, SimAmbient
from chaos.sim.places import Places
from chaos.sim.plan import Outcome, Plan, TraceEvent
from chaos.sim.publications import Publications
from chaos.sim.register import Route, SimRegister
from chaos.sim.rows import Steps, watching
from chaos.sim.telling import Teller, told_register
from failover.marks import DataMark
from failover.register import RegisterState
from replica.members import MAIN
from replica.seen_places import place_now
from tandemq import ambient
from tandemq.client.places import JournalPosition
from tandemq.config import Limits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from chaos.sim.weights import Told
    from failover.register import Register
    from storage.store import WriteBatch

MEMBERS = ("a", "b")
SETUP = "setup"
assert {SETUP, "producer", "consumer"} <= clients.ROLES.keys(), (client_admins, client_senders)
START_S = 0.3
"""When clients begin, if the pair is whole by then."""
LINK_MS = 0.2
WAIT_MS = 90_000
TURN_S = 0.05


class World:
    """Everything of one run. `run` once. Raises ValueError for a plan that cannot be carried out."""

    def __init__(self, plan: Plan, *, keep_trace: bool = False) -> None:
        check(plan)
        self.plan = plan
        self.outcome = Outcome(plan)
        self.keep_trace = keep_trace
        self.loop = make_loop()
        self.ambient = SimAmbient(self.loop)
        self.ambient.streams[""] = plan.stream("world")
        self.network = Network(self.loop, plan.stream, float(plan.settings.get("link_ms", LINK_MS)) / 1000)
        self.coverage = Coverage(self)
        self.network.on_arrived = self.coverage.on_arrived
        if keep_trace:
            self.network.on_item = Teller(self).on_item
        self.earlier: JournalPosition | None = None
        """Where its clients were in the journal of the pair that was there before."""
        self.weights: list[Told] = []
        """What publishers and readers of routing weights asked and heard, in the order of their asking."""
        self.registers = SimRegister(plan.stream("register"))
        self.registers.on_change = self._on_register
        if "epoch" in plan.settings:
            self.registers.begin_at(MAIN, int(plan.settings["epoch"]), MEMBERS[0])
        self.judge = str(plan.settings.get("judge", REGISTER))
        self.meet_ms = int(plan.settings.get("meet_ms", 0))
        sizes = ("checkpoint_bytes", "journal_bytes", "reader_bytes")
        self.limits = Limits(**{name: int(plan.settings[name]) for name in sizes if name in plan.settings})
        self.oracle = Oracle(self._is_alive)
        self.members = {name: self._member(name) for name in MEMBERS}
        self.steps = Steps(self.sometimes)
        self._begin()
        self.healed = False
        self.is_harmed = False
        """What was acknowledged may be on one disk alone, until the pair has been whole again."""

    def _begin(self) -> None:
        """Nothing was seen of this pair yet, and nobody has worked with it."""
        self.history = History()
        """Of the pair; what was seen of each queue is in the books."""
        self.books = Books()
        self.browsed: dict[str, dict[int, Message]] = {}
        """By queue and index, over all browsers."""
        self.invariants = Invariants(self)
        self.places = Places(self, may_be_lost="reader_bytes" in self.plan.settings)
        self.publications = Publications()
        for member in self.members.values():
            self._watch(member)
        self.clients = [clients.make(self, each) for each in client_admins.with_setup(self.plan.clients)]

    def _member(self, name: str) -> SimMember:
        disk = Disk(name, self.plan.stream(f"disk {name}"), self.loop.time)
        route = Route(name, self.registers, self.plan.stream(f"route {name}"))
        judging = Judging(self.oracle, self.plan.stream(f"classifier {name}"))
        machine = Machine(name, disk)
        disk.on_struck = route.on_struck = lambda kind: self.count(f"fault.{kind}")
        machine.on_event = self.coverage.on_event
        return SimMember(self, machine, route, judging, next(other for other in MEMBERS if other != name))

    def _watch(self, member: SimMember) -> None:
        machine, invariants, places = member.machine, self.invariants, self.places

        def on_commit(batch: WriteBatch) -> None:
            invariants.on_commit(machine.name, batch)
            places.on_commit(machine.name, batch)

        machine.disk.on_commit = on_commit

        def on_open() -> None:
            assert member.domain is not None
            invariants.watch(member, member.domain)

        machine.on_open = on_open

    def _is_alive(self, name: str) -> bool:
        """Also of a process that is paused: it may go on at any moment, and was master a moment ago."""
        return self.members[name].process is not None

    def process(self, name: str, stream: random.Random) -> Process:
        """A process of that name, whose chance is that stream."""
        self.ambient.streams[name] = stream
        return Process(name)

    @property
    def clocks_step(self) -> bool:
        """Then a new master may be a day ahead of the one before, and with it the domain's time."""
        return any(fault.kind == "clock" for fault in self.plan.faults)

    # -- what is told --------------------------------------------------------------------------------------------------

    def count(self, name: str, by: int = 1) -> None:
        """One more of those."""
        counters = self.outcome.counters
        counters[name] = counters.get(name, 0) + by

    def sometimes(self, point: str) -> None:
        """A named point of the coverage was met."""
        coverage = self.outcome.coverage
        coverage[point] = coverage.get(point, 0) + 1

    def violation(self, name: str, text: str) -> None:
        """A rule does not hold. What is ended because the run is over breaks none."""
        if self.loop.buried:
            return
        self.outcome.violations.append(f"{name}: {text}")
        self.note("", "violation", f"{name}: {text}")

    def note(self, who: str, what: str, text: str, to: str = "") -> None:
        """A line of the story, if somebody reads it."""
        if self.keep_trace:
            self.outcome.trace.append(TraceEvent(self.loop.now * 1000, who, what, text, to))

    def _on_register(self, domain: str, before: Register, after: Register) -> None:  # noqa: ARG002  # see SimRegister
        self.note("register", "note", f"{domain} {told_register(after)}")
        if domain == MAIN:
            now, committed = self.loop.now, after.state is RegisterState.COMMITTED
            in_sync = tuple(sorted(after.in_sync_set))
            self.history.recorded.append(
                Recorded(now, now, after.version, after.epoch, after.holder, in_sync, committed)
            )

    # -- the phases ----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """See the module."""
        collecting = gc.isenabled()
        gc.disable()  # else what a dead process left would be closed at any moment
        ambient.install(self.ambient)
        try:
            with watching(self.sometimes), self._parts():
                self._run()
        finally:
            self.loop.bury()
            ambient.install(ambient.MACHINE)
            if collecting:
                gc.enable()
        return self.outcome

    def _parts(self) -> AbstractContextManager[None]:
        move_max, ring_bytes = (int(self.plan.settings.get(name, 0)) for name in ("move_max", "ring_bytes"))
        return parts.of(move_max, ring_bytes)

    def _run(self) -> None:
        loop, plan = self.loop, self.plan
        if not self._is_made():
            return self._end()
        if plan.settings.get("rebuilt"):
            self._lose_everything()
            if not self._is_made():
                return self._end()
        for client in self.clients:
            if client.plan.role != SETUP:
                client.start()
        began = loop.now
        for fault in plan.faults:
            loop.at(began + fault.at_ms / 1000, None, faults.strike, self, fault)
        loop.run(began + plan.safety_ms / 1000)
        self._heal()
        wait_s = float(plan.settings.get("wait_ms", WAIT_MS)) / 1000
        if not self._until(lambda: self.is_whole() and all(client.is_done() for client in self.clients), wait_s):
            waiting = [client.plan.name for client in self.clients if not client.is_done()]
            self.violation("stuck", f"not done: {waiting}; {self.describe()}")
            return self._end()
        self._drain()
        return self._end()

    def _is_made(self) -> bool:
        """The pair is whole, and has its queues; False: that is a violation."""
        for member in self.members.values():
            member.start()
        if not self._until(self.is_whole, 10.0):
            self.violation("never paired", self.describe())
            return False
        first = [client for client in self.clients if client.plan.role == SETUP]
        for client in first:
            client.start()
        if not self._until(lambda: all(client.is_done() for client in first), 10.0):
            self.violation("stuck", f"the queues are not made: {self.describe()}")
            return False
        return True

    def _lose_everything(self) -> None:
        """Both members and the witness lose their disks, and somebody sets the pair up anew under the same names. Its
        clients know nothing of that.
        """
        master = next(member for member in self.members.values() if member.is_serving)
        assert master.domain is not None
        place = place_now(master.domain.shared)
        self.earlier = JournalPosition(place.log_index, place.epoch, history_id=place.history_id.hex())
        for member in self.members.values():
            member.kill()
            member.machine.disk.strike("lost")
            member.machine.disk.replaced = 0  # of this pair nothing is lost
            member.machine.salvaged.clear()
        self.registers.wipe()
        self._begin()

    def _heal(self) -> None:
        self.healed = True
        self.note("", "healed", "everything works from here on")
        faults.heal_all(self)
        for member in self.members.values():
            if not member.up:
                member.start()

    def _drain(self) -> None:
        for client in self.clients:
            client.stop()
        drain = client_takers.Drain(self)
        if self._until(lambda: all(client.is_done() for client in self.clients), 30.0):
            drain.start()
        if not self._until(drain.is_done, 60.0):
            self.violation("stuck", f"the queues are not drained: {self.describe()}")
        self.count("sets that landed at the end", self.registers.land_late())
        if not self._until(self.is_equal, 30.0):
            self.violation("copies_end_equal", self.describe())
        for member in self.members.values():
            member.look()
        ending.check(self)

    def _end(self) -> None:
        outcome = self.outcome
        outcome.steps = self.loop.steps
        outcome.virtual_ms = int(self.loop.now * 1000)
        outcome.counters["acked"] = len(self.books.acked)
        self.loop.note_failures()
        outcome.trace_hash = f"{self.network.digest:08x}.{self.network.arrived}.{self.loop.steps}"
        for problem in self.loop.problems:
            self.violation("problem", problem)

    def _until(self, holds: object, limit_s: float) -> bool:
        """Let things happen until that holds; False when it did not in that time."""
        assert callable(holds)
        end_s = self.loop.now + limit_s
        while not holds():
            if self.loop.now >= end_s:
                return False
            self.loop.run(self.loop.now + TURN_S)
        return True

    # -- what is seen --------------------------------------------------------------------------------------------------

    @property
    def register(self) -> Register:
        """In force, as far as it is known; where the members keep it, the copy that is further."""
        copies = [found for member in self.members.values() if (found := member.own_register) is not None]
        return max(copies, key=lambda each: (each.epoch, each.version), default=self.registers.get(MAIN))

    def is_whole(self) -> bool:
        """Master and replica in sync, as the register says."""
        members = [member for member in self.members.values() if member.domain is not None]
        if len(members) < len(self.members):
            return False
        masters = [member for member in members if member.is_serving]
        register = self.register
        return (
            len(masters) == 1
            and register.in_sync_set == frozenset(self.members)
            and register.holder == masters[0].name
            and register.state.name == "COMMITTED"
            and masters[0].domain.replication.required == set(self.members)  # type: ignore[union-attr]  # asked above
            and all(member.domain.shared.state.data is DataMark.IN_SYNC for member in members)  # type: ignore[union-attr]
            and all(member.is_opened for member in members if member is not masters[0])
        )

    def is_equal(self) -> bool:
        """The same log and the same queues, applied."""
        if not self.is_whole():
            return False
        states = set()
        for member in self.members.values():
            assert member.domain is not None
            shared = member.domain.shared
            machine = shared.machine
            if machine is None or machine.applied_index != shared.log.last_index:
                return False
            states.add((shared.log.last_index, shared.log.digest, machine.digest()))
        return len(states) == 1

    def describe(self) -> str:
        """Where everybody is, in a line."""
        return "; ".join(
            [member.describe() for member in self.members.values()] + [f"register {told_register(self.register)}"]
        )
