"""What everybody in one simulated run shares: plan, clock, chance, network, register, books, counters, story; it builds
nobody and decides nothing.

Whoever is part of a run is handed it, and reads it. `chaos.sim.world.world` makes it, and says when it begins and is
healed.
"""

from __future__ import annotations

import random
from copy import copy
from typing import TYPE_CHECKING

from chaos.history import History, Message
from chaos.sim.kernel.environment import SimAmbient
from chaos.sim.kernel.loop import Process, make_loop
from chaos.sim.kernel.net import Network
from chaos.sim.kernel.register import SimRegister
from chaos.sim.pair.books import Books
from chaos.sim.pair.plan import ClientPlan, Outcome, Plan, TraceEvent
from tandemq.config import Limits
from tandemq.config_links import Links
from tandemq.credentials import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.sim.pair.books import Book
    from tandemq.client.places import JournalPosition

LINK_MS = 0.2
NEAR, FAR = "sim", "far"
"""Names of the pair, and of the one that messages are sent on to."""
MEMBERS_NEAR, ADMINISTRATOR = frozenset(("a", "b")), "ops"
JUDGES = REGISTER, CLASSIFIER, ALONE = "register", "classifier", "alone"
"""Who says which member lives: the register by itself; a classifier, and then the register; a classifier alone."""


def who_is(process: str) -> str:
    """Whose certificate it has: of a member its own, of a forger its own, and of everybody else an administrator's."""
    name = process.partition("#")[0]
    if name in MEMBERS_NEAR:
        return names.member(NEAR, name)
    return names.principal("forger" if name.startswith("forger") else ADMINISTRATOR)


class Run:
    """Of one plan. `clients` are those of the plan, and the one that makes their queues."""

    def __init__(self, plan: Plan, clients: Sequence[ClientPlan], *, keep_trace: bool = False) -> None:
        self.plan, self.clients = plan, tuple(clients)
        self.outcome = Outcome(plan)
        self.keep_trace = keep_trace
        self.loop = make_loop()
        self.ambient = SimAmbient(self.loop)
        self.ambient.streams[""] = plan.stream("world")
        self.network = Network(self.loop, plan.stream, float(plan.settings.get("link_ms", LINK_MS)) / 1000)
        self.registers = SimRegister(plan.stream("register"))
        self.pair_name, self.links = NEAR, Links()
        self.judge = str(plan.settings.get("judge", REGISTER))
        self.meet_ms = int(plan.settings.get("meet_ms", 0))
        sizes = ("checkpoint_bytes", "journal_bytes", "reader_bytes", "side_bytes")
        self.limits = Limits(**{name: int(plan.settings[name]) for name in sizes if name in plan.settings})
        self.secured = bool(plan.settings.get("secured"))
        """Everybody has a certificate: members by their names, and each client as `who_is` says."""
        if self.secured:
            self.network.who = who_is
        self.earlier: JournalPosition | None = None
        """Where its clients were in the journal of the pair that was there before."""
        self.proxied = {
            str(call.args["queue"]): str(call.args["target"]).rpartition("/")[2]
            for client in self.clients
            for call in client.calls
            if call.kind == "proxy"
        }
        """Names of proxies at the first pair: the queue of the other one."""
        self.beyond: Run | None = None
        """Of the pair that its proxies lead to."""
        self.healed = False
        self.is_harmed = False
        """What was acknowledged may be on one disk alone, until the pair has been whole again."""
        self.begin()

    def of_other_pair(self) -> Run:
        """The same world for a second pair: what is seen of it, and its register, are its own. Messages go there from
        this one.
        """
        other = copy(self)
        other.registers = SimRegister(self.plan.stream("register of the other pair"))
        other.pair_name = FAR
        other.begin()
        self.beyond = other
        return other

    def begin(self) -> None:
        """Nothing was seen of this pair yet, and nobody has worked with it."""
        self.history = History()
        """Of the pair; what was seen of each queue is in the books."""
        self.books = Books()
        self.browsed: dict[str, dict[int, Message]] = {}
        """By queue and index, over all browsers."""

    def book_of(self, queue: str) -> Book:
        """Of a queue, or of the one that a proxy of that name leads to."""
        there = self.proxied.get(queue)
        return self.books[queue] if there is None else (self.beyond or self).books[there]

    def process(self, name: str, stream: random.Random) -> Process:
        """A process of that name, whose chance is that stream."""
        self.ambient.streams[name] = stream
        return Process(name)

    @property
    def clocks_step(self) -> bool:
        """Then a new master may be a day ahead of the one before, and with it the domain's time."""
        return any(fault.kind == "clock" for fault in self.plan.faults)

    # -- what is reported ----------------------------------------------------------------------------------------------

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
