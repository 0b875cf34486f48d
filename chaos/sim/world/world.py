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
from typing import TYPE_CHECKING

from chaos.history import Recorded
from chaos.sim.clients.admins import with_setup
from chaos.sim.clients.roles import SETUP, make
from chaos.sim.clients.takers import Drain
from chaos.sim.draw.checking import check
from chaos.sim.faults.table import heal_all, strike
from chaos.sim.judges import ending
from chaos.sim.judges.coverage import Coverage
from chaos.sim.judges.invariants import Invariants
from chaos.sim.judges.memory import Memory
from chaos.sim.judges.places import Places
from chaos.sim.judges.rows import Steps, watching
from chaos.sim.judges.trace_lines import Tracer, register_line
from chaos.sim.kernel.disk import Disk
from chaos.sim.kernel.environment import Machine
from chaos.sim.kernel.judging import Judging, Oracle
from chaos.sim.kernel.register import Route
from chaos.sim.pair.member import SimMember
from chaos.sim.pair.members import Pair
from chaos.sim.pair.run import Run
from chaos.sim.world import parts
from failover.register import RegisterState
from replica.node.members import MAIN
from replica.node.seen_places import place_now
from tandemq import ambient
from tandemq.client.places import JournalPosition

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from chaos.sim.pair.plan import Outcome, Plan
    from failover.register import Register
    from storage.store import WriteBatch

MEMBERS = ("a", "b")
WAIT_MS = 90_000
TURN_S = 0.05


class World:
    """Everything of one run. `run` once. Raises ValueError for a plan that cannot be carried out."""

    def __init__(self, plan: Plan, *, keep_trace: bool = False) -> None:
        check(plan)
        self.plan = plan
        run = Run(plan, with_setup(plan.clients), keep_trace=keep_trace)
        self.outcome, self.loop = run.outcome, run.loop
        run.registers.on_change = self._on_register
        if "epoch" in plan.settings:
            run.registers.begin_at(MAIN, int(plan.settings["epoch"]), MEMBERS[0])
        oracle = Oracle(self._is_alive)
        self.pair = Pair(run, {name: _member(run, oracle, name) for name in MEMBERS})
        self.steps = Steps(run.sometimes)
        coverage = Coverage(self.pair)
        run.network.on_arrived = coverage.on_arrived
        if keep_trace:
            run.network.on_item = Tracer(self.pair).on_item
        for member in self.pair.members.values():
            member.machine.on_event = coverage.on_event
        self._begin()

    def _begin(self) -> None:
        """Nothing was seen of this pair yet, and nobody has worked with it."""
        pair = self.pair
        pair.run.begin()
        may_be_lost = "reader_bytes" in self.plan.settings
        self.memory = Memory(Invariants(pair, self.steps), Places(pair, may_be_lost=may_be_lost))
        for member in pair.members.values():
            self._watch(member)
        self.clients = [make(pair, self.memory, each) for each in pair.run.clients]

    def _watch(self, member: SimMember) -> None:
        machine, invariants, places = member.machine, self.memory.invariants, self.memory.places

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
        return self.pair.members[name].process is not None

    def _on_register(self, domain: str, before: Register, after: Register) -> None:  # noqa: ARG002  # see SimRegister
        self.pair.run.note("register", "note", f"{domain} {register_line(after)}")
        if domain == MAIN:
            now, committed = self.loop.now, after.state is RegisterState.COMMITTED
            in_sync = tuple(sorted(after.in_sync_set))
            self.pair.run.history.recorded.append(
                Recorded(now, now, after.version, after.epoch, after.holder, in_sync, committed)
            )

    # -- the phases ----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """See the module."""
        collecting = gc.isenabled()
        gc.disable()  # else what a dead process left would be closed at any moment
        ambient.install(self.pair.run.ambient)
        try:
            with watching(self.pair.run.sometimes), self._parts():
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
            loop.at(began + fault.at_ms / 1000, None, strike, self.pair, fault)
        loop.run(began + plan.safety_ms / 1000)
        self._heal()
        wait_s = float(plan.settings.get("wait_ms", WAIT_MS)) / 1000
        if not self._until(lambda: self.pair.is_whole() and all(client.is_done() for client in self.clients), wait_s):
            waiting = [client.plan.name for client in self.clients if not client.is_done()]
            self.pair.run.violation("stuck", f"not done: {waiting}; {self.describe()}")
            return self._end()
        self._drain()
        return self._end()

    def _is_made(self) -> bool:
        """The pair is whole, and has its queues; False: that is a violation."""
        for member in self.pair.members.values():
            member.start()
        if not self._until(self.pair.is_whole, 10.0):
            self.pair.run.violation("never paired", self.describe())
            return False
        first = [client for client in self.clients if client.plan.role == SETUP]
        for client in first:
            client.start()
        if not self._until(lambda: all(client.is_done() for client in first), 10.0):
            self.pair.run.violation("stuck", f"the queues are not made: {self.describe()}")
            return False
        return True

    def _lose_everything(self) -> None:
        """Both members and the witness lose their disks, and somebody sets the pair up anew under the same names. Its
        clients know nothing of that.
        """
        master = next(member for member in self.pair.members.values() if member.is_serving)
        assert master.domain is not None
        place = place_now(master.domain.shared)
        self.pair.run.earlier = JournalPosition(place.log_index, place.epoch, history_id=place.history_id.hex())
        for member in self.pair.members.values():
            member.kill()
            member.machine.disk.strike("lost")
            member.machine.disk.replaced = 0  # of this pair nothing is lost
            member.machine.salvaged.clear()
        self.pair.run.registers.wipe()
        self._begin()

    def _heal(self) -> None:
        self.pair.run.healed = True
        self.pair.run.note("", "healed", "everything works from here on")
        heal_all(self.pair)
        for member in self.pair.members.values():
            if not member.up:
                member.start()

    def _drain(self) -> None:
        for client in self.clients:
            client.stop()
        drain = Drain(self.pair, self.memory)
        if self._until(lambda: all(client.is_done() for client in self.clients), 30.0):
            drain.start()
        if not self._until(drain.is_done, 60.0):
            self.pair.run.violation("stuck", f"the queues are not drained: {self.describe()}")
        self.pair.run.count("sets that landed at the end", self.pair.run.registers.land_late())
        if not self._until(self.pair.is_equal, 30.0):
            self.pair.run.violation("copies_end_equal", self.describe())
        for member in self.pair.members.values():
            member.look()
        ending.check(self.pair, self.memory)

    def _end(self) -> None:
        outcome = self.outcome
        outcome.steps = self.loop.steps
        outcome.virtual_ms = int(self.loop.now * 1000)
        outcome.counters["acked"] = len(self.pair.run.books.acked)
        self.loop.note_failures()
        outcome.trace_hash = f"{self.pair.run.network.digest:08x}.{self.pair.run.network.arrived}.{self.loop.steps}"
        for problem in self.loop.problems:
            self.pair.run.violation("problem", problem)

    def _until(self, holds: object, limit_s: float) -> bool:
        """Let things happen until that holds; False when it did not in that time."""
        assert callable(holds)
        end_s = self.loop.now + limit_s
        while not holds():
            if self.loop.now >= end_s:
                return False
            self.loop.run(self.loop.now + TURN_S)
        return True

    def describe(self) -> str:
        """Where everybody is, in a line."""
        return "; ".join(
            [member.describe() for member in self.pair.members.values()]
            + [f"register {register_line(self.pair.register)}"]
        )


def _member(run: Run, oracle: Oracle, name: str) -> SimMember:
    disk = Disk(name, run.plan.stream(f"disk {name}"), run.loop.time)
    route = Route(name, run.registers, run.plan.stream(f"route {name}"))
    judging = Judging(oracle, run.plan.stream(f"classifier {name}"))
    disk.on_struck = route.on_struck = lambda kind: run.count(f"fault.{kind}")
    return SimMember(run, Machine(name, disk), route, judging, next(other for other in MEMBERS if other != name))
