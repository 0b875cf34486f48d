"""One simulated run: builds machines, members and clients from a plan, lets faults strike, heals, drains, and checks.

Phases: both members start and pair; the safety phase, in which the plan's faults strike while its clients work; then
everything is healed, and within a bounded virtual time the pair must be whole and every client done; then the queue is
drained and every check is made. A check that fails ends nothing: the outcome lists all of them.

Settings of a plan: `link_ms` (mean delay of a packet, 0.2), `wait_ms` (how long the pair may take to be whole, 90,000),
`judge` (who says which member lives: "register", "classifier" with a register, "alone" without one), `epoch` (the last
one that was claimed before the pair was formed, by nobody who lived to commit it), `checkpoint_bytes` (of log between
two checkpoints, 64 MiB: none in a run), `ring_bytes` (of log in memory, 64 MiB: all of it), `move_max` (messages that
one record moves), `journal_bytes` and `reader_bytes` (of log that is kept for nobody, and for named readers alone; as
the product has them, which no run reaches), `side_bytes` (that a side may hold back), `rebuilt` (1: a pair of the same
names was there before, and clients with `before` go on from where they were in it), `links` (1: there is a second pair,
of c and d, that messages are sent on to; clients with `pair` are its own).
"""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from chaos.history import Recorded
from chaos.sim.clients.admins import with_setup
from chaos.sim.clients.drains import Drain
from chaos.sim.clients.roles import SETUP, make
from chaos.sim.draw.checking import check
from chaos.sim.faults.kinds import MEMBERS, OTHER, is_at_other
from chaos.sim.faults.table import heal_all, strike
from chaos.sim.judges import dealt, ending, links, proxies
from chaos.sim.judges.coverage import Coverage
from chaos.sim.judges.invariants import Invariants
from chaos.sim.judges.letters import DEAD
from chaos.sim.judges.memory import Memory
from chaos.sim.judges.places import Places
from chaos.sim.judges.rows import Steps, watching
from chaos.sim.judges.trace_lines import Tracer, register_line
from chaos.sim.kernel.disk import Disk
from chaos.sim.kernel.environment import Machine
from chaos.sim.kernel.judging import Judging, Oracle
from chaos.sim.kernel.register import Route
from chaos.sim.pair.member import SimMember, endpoint_of
from chaos.sim.pair.members import Pair
from chaos.sim.pair.run import FAR, Run
from chaos.sim.world import parts
from failover.register import RegisterState
from replica.node.members import MAIN
from replica.node.seen_places import place_now
from tandemq import ambient
from tandemq.client.places import JournalPosition
from tandemq.config_links import Links

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from chaos.sim.clients.base import SimClient
    from chaos.sim.kernel.net import Pipe
    from chaos.sim.pair.plan import Fault, Outcome, Plan
    from failover.register import Register
    from storage.store import WriteBatch

WAIT_MS = 90_000
TURN_S = 0.05


class World:
    """Everything of one run. `run` once. Raises ValueError for a plan that cannot be carried out."""

    def __init__(self, plan: Plan, *, keep_trace: bool = False) -> None:
        check(plan)
        self.plan = plan
        run = Run(plan, with_setup(plan.clients), keep_trace=keep_trace)
        self.outcome, self.loop = run.outcome, run.loop
        if "epoch" in plan.settings:
            run.registers.begin_at(MAIN, int(plan.settings["epoch"]), MEMBERS[0])
        self.steps = Steps(run.sometimes)
        self.pairs = [_pair(run, MEMBERS)]
        self.pair = self.pairs[0]
        if plan.settings.get("links"):
            run.links = Links(managers=tuple(f"{FAR}={endpoint_of(name)}" for name in OTHER))
            self.pairs.append(_pair(run.of_other_pair(), OTHER))
        self.link = links.Watch(self.pair, self.pairs[1]) if len(self.pairs) > 1 else None
        self.proxies = proxies.ProxyWatch(self.pair, self.pairs[1]) if len(self.pairs) > 1 else None
        self._observe()
        self._begin()

    def _observe(self) -> None:
        run, link, proxied = self.pair.run, self.link, self.proxies
        looking = [Coverage(pair) for pair in self.pairs]
        tracers = [Tracer(pair).on_item for pair in self.pairs] if run.keep_trace else []

        def on_arrived(pipe: Pipe, item: object) -> None:
            for each in looking:
                each.on_arrived(pipe, item)
            if link is not None and proxied is not None:
                link.on_arrived(pipe, item)
                proxied.on_arrived(pipe, item)

        run.network.on_arrived = on_arrived if link is not None else looking[0].on_arrived
        run.network.on_item = tracers[0] if tracers else None
        if proxied is not None and run.proxied:
            run.network.on_item = proxied.watching(run.network.on_item)
        for pair, coverage in zip(self.pairs, looking, strict=True):
            self._listen(pair)
            for member in pair.members.values():
                hearing = [coverage.on_event, *(each.on_event for each in (link, proxied) if each is not None)]
                member.machine.on_event = _all(hearing)

    def _begin(self) -> None:
        """Nothing was seen of these pairs yet, and nobody has worked with them."""
        may_be_lost = "reader_bytes" in self.plan.settings
        self.memories: list[Memory] = []
        self.clients: list[SimClient] = []
        for pair in self.pairs:
            pair.run.begin()
            memory = Memory(Invariants(pair, self.steps), Places(pair, may_be_lost=may_be_lost))
            if self.memories:
                memory = replace(memory, links=self.memories[0].links)
            self.memories.append(memory)
            for member in pair.members.values():
                _watch(memory, member)
            own = [each for each in pair.run.clients if (each.args.get("pair", "") == FAR) == (pair is not self.pair)]
            self.clients += [make(pair, memory, each) for each in own]
        if self.link is not None:
            self.pair.run.books[links.TRANSMISSION].kind = links.LINK
            self.pairs[1].run.books[links.LETTERS].kind = DEAD

    @property
    def memory(self) -> Memory:
        """Of the pair; of the one that sends, where there are two."""
        return self.memories[0]

    def _is_whole(self) -> bool:
        return all(pair.is_whole() for pair in self.pairs)

    def _listen(self, pair: Pair) -> None:
        """Notes each change of that pair's register."""
        run = pair.run

        def on_register(domain: str, before: Register, after: Register) -> None:  # noqa: ARG001  # see SimRegister
            run.note("register", "note", f"{domain} {register_line(after)}")
            if domain == MAIN:
                now, committed = self.loop.now, after.state is RegisterState.COMMITTED
                in_sync = tuple(sorted(after.in_sync_set))
                run.history.recorded.append(
                    Recorded(now, now, after.version, after.epoch, after.holder, in_sync, committed)
                )

        run.registers.on_change = on_register

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
        if self.proxies is not None:
            self.proxies.start()
        if plan.settings.get("rebuilt"):
            self._lose_everything()
            if not self._is_made():
                return self._end()
        for client in self.clients:
            if client.plan.role != SETUP:
                client.start()
        began = loop.now
        for fault in plan.faults:
            loop.at(began + fault.at_ms / 1000, None, self._strike, fault)
        loop.run(began + plan.safety_ms / 1000)
        self._heal()
        wait_s = float(plan.settings.get("wait_ms", WAIT_MS)) / 1000
        if not self._until(self._is_done, wait_s):
            waiting = [client.plan.name for client in self.clients if not client.is_done()]
            waiting += [links.TRANSMISSION] if self.link is not None and self.link.waiting() else []
            self.pair.run.violation("stuck", f"not done: {waiting}; {self.describe()}")
            return self._end()
        self._drain()
        return self._end()

    def _strike(self, fault: Fault) -> None:
        strike(self.pairs[1 if len(self.pairs) > 1 and is_at_other(fault.target) else 0], fault)
        if fault.kind == "link_cut" and self.link is not None and self.link.waiting():
            self.pair.run.sometimes(links.AWAY)

    def _is_done(self) -> bool:
        is_carried = self.link is None or not self.link.waiting()
        return is_carried and self._is_whole() and all(client.is_done() for client in self.clients)

    def _is_made(self) -> bool:
        """The pair is whole, and has its queues; False: that is a violation."""
        for pair in self.pairs:
            for member in pair.members.values():
                member.start()
        if not self._until(self._is_whole, 10.0):
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
        self.pair.run.note("", "healed", "everything works from here on")
        if self.proxies is not None:
            self.proxies.on_healed()
        for pair in self.pairs:
            pair.run.healed = True
        for pair in self.pairs:
            heal_all(pair)
            for member in pair.members.values():
                if not member.up:
                    member.start()

    def _drain(self) -> None:
        for client in self.clients:
            client.stop()
        drains = [Drain(pair, memory) for pair, memory in zip(self.pairs, self.memories, strict=True)]
        if self._until(lambda: all(client.is_done() for client in self.clients), 30.0):
            for drain in drains:
                drain.start()
                if self.pair.run.proxied:  # by its macro queues first, while the other pair has something
                    self._until(drain.is_done, 60.0)
        if not self._until(lambda: all(drain.is_done() for drain in drains), 60.0):
            self.pair.run.violation("stuck", f"the queues are not drained: {self.describe()}")
        for pair in self.pairs:
            pair.run.count("sets that landed at the end", pair.run.registers.land_late())
        if not self._until(lambda: all(pair.is_equal() for pair in self.pairs), 30.0):
            self.pair.run.violation("copies_end_equal", self.describe())
        for pair, memory in zip(self.pairs, self.memories, strict=True):
            for member in pair.members.values():
                member.look()
            ending.check(pair, memory)
        if len(self.pairs) > 1:
            self._judge_both()

    def _judge_both(self) -> None:
        """What only both pairs together show; of each rule the first finding."""
        near, far = self.pairs
        found = [(links.NAME, each) for each in islice(links.broken(near, far, self.memory.links), 1)]
        found += [(dealt.NAME, each) for each in islice(dealt.broken(near, far), 1)]
        if self.proxies is not None:
            found += self.proxies.broken(self.memory.elsewhere)
        for rule, problem in found:
            self.pair.run.violation(rule, problem)

    def _end(self) -> None:
        outcome = self.outcome
        outcome.steps = self.loop.steps
        outcome.virtual_ms = int(self.loop.now * 1000)
        outcome.counters["acked"] = sum(len(pair.run.books.acked) for pair in self.pairs)
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
            line
            for pair in self.pairs
            for line in (
                *(member.describe() for member in pair.members.values()),
                f"register {register_line(pair.register)}",
            )
        )


def _pair(run: Run, names: tuple[str, ...]) -> Pair:
    members: dict[str, SimMember] = {}
    # Also of a process that is paused: it may go on at any moment, and was master a moment ago.
    oracle = Oracle(lambda name: members[name].process is not None)
    members.update({name: _member(run, oracle, name, names) for name in names})
    return Pair(run, members)


def _member(run: Run, oracle: Oracle, name: str, names: tuple[str, ...]) -> SimMember:
    disk = Disk(name, run.plan.stream(f"disk {name}"), run.loop.time)
    route = Route(name, run.registers, run.plan.stream(f"route {name}"))
    judging = Judging(oracle, run.plan.stream(f"classifier {name}"))
    disk.on_struck = route.on_struck = lambda kind: run.count(f"fault.{kind}")
    return SimMember(run, Machine(name, disk), route, judging, next(other for other in names if other != name))


def _watch(memory: Memory, member: SimMember) -> None:
    machine, invariants, places = member.machine, memory.invariants, memory.places

    def on_commit(batch: WriteBatch) -> None:
        invariants.on_commit(machine.name, batch)
        places.on_commit(machine.name, batch)

    machine.disk.on_commit = on_commit

    def on_open() -> None:
        assert member.domain is not None
        invariants.watch(member, member.domain)

    machine.on_open = on_open


def _all(hearing: Sequence[Callable[[str, str], None]]) -> Callable[[str, str], None]:
    def call(kind: str, text: str) -> None:
        for each in hearing:
            each(kind, text)

    return call
