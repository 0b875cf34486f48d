"""Draws what the clients of a run do: who sends, takes, browses and administers, on which queues, and when each dies.

A seed leaves out most kinds of clients and of queues, so that each is often seen undisturbed by the others. About
`CALLS` calls a seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chaos.sim.clients.takers import VERBS
from chaos.sim.draw.sheet import Sheet
from chaos.sim.pair.plan import OWNED, Call, ClientPlan, Value

CALLS = 60
KINDS = MappingProxyType({"two": "two", "v": "volatile", "c": "conditional", "i": "immediate"})
"""Queues beside `q`, and their kinds."""
KEPT = MappingProxyType({"two": "two", "i": "immediate"})
"""Those of them that are all on the disk."""
SHARE = 0.25
DEATH_SHARE = 0.25
CHANGED = "p"
CHANGED_NUMBER = 100
"""Of its producer; the others count from 0."""
MODES = ("persistent", "persistent", "volatile", "conditional")
GROUPED = "g"
GROUPS = 3
ORDERS_EACH = 4
STEPS = ("enqueue", "enqueue", "enqueue", "take", "browse", "purge", "delete", "create", "create")


def draw_clients(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over (0: now and then). Who makes the queues comes first."""
    return _Draw(stream, safety_ms, handoffs).all()


def draw_kept(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of a run in which nothing is in memory alone."""
    return _Draw(stream, safety_ms, handoffs, KEPT).all()


def with_changes(
    clients: tuple[ClientPlan, ...], stream: random.Random, safety_ms: int, count: int
) -> tuple[ClientPlan, ...]:
    """These, and some who use a queue whose persistence one of them changes so often."""
    setup, *others = clients
    setup = replace(setup, calls=(*setup.calls, Call(0, "create", {"queue": CHANGED, "kind": "changed"})))
    first: dict[str, Value] = {"first": stream.choice("ab"), "follow": stream.random() < 0.7, "queue": CHANGED}

    def times(number: int) -> list[int]:
        return sorted(stream.randrange(safety_ms) for _ in range(number))

    changes = [Call(at_ms, "change", {"mode": stream.choice(MODES)}) for at_ms in times(count)]
    sends = [
        Call(at_ms, "enqueue", {"count": stream.choice((1, 2, 5)), "persistent": stream.random() < 0.5, "again": ""})
        for at_ms in times(20)
    ]
    found = [ClientPlan("changer0", "changer", tuple(changes), dict(first))]
    found.append(ClientPlan("caller-p", "caller", tuple(sends), first | {"number": CHANGED_NUMBER}))
    if stream.random() < 0.5:
        how: dict[str, Value] = {"max": 3, "wait_ms": 0, "again": "", "then": "ack", "hold_ms": 50}
        takes = tuple(Call(at_ms, "take", dict(how)) for at_ms in times(4))
        found.append(ClientPlan("taker-p", "taker", takes, first | {"lease_ms": 700}))
    return (setup, *others, *found)


def with_groups(clients: tuple[ClientPlan, ...], stream: random.Random, safety_ms: int) -> tuple[ClientPlan, ...]:
    """The same, and beside them those of a queue that keeps the order of groups."""
    drawing = _Draw(stream, safety_ms, 0)
    drawing.sheet.found = list(clients)
    drawing.numbers = 1 + max(int(client.args.get("number", -1)) for client in clients)
    return drawing.grouped()


class _Draw:
    """One drawing. `kinds`: of the queues beside `q`."""

    def __init__(self, stream: random.Random, safety_ms: int, handoffs: int, kinds: Mapping[str, str] = KINDS) -> None:
        self.stream, self.safety_ms, self.handoffs, self.kinds = stream, safety_ms, handoffs, kinds
        self.numbers = 0
        self.sheet = Sheet(stream, safety_ms, DEATH_SHARE)

    def all(self) -> tuple[ClientPlan, ...]:
        chance = self.stream.random
        extra = [name for name in self.kinds if chance() < SHARE]
        setup = [Call(0, "create", {"queue": "q"})]
        setup += [Call(0, "create", {"queue": name, "kind": self.kinds[name]}) for name in extra]
        self.sheet.found.append(ClientPlan("setup", "setup", tuple(setup)))
        streams, callers = self.stream.choice(((1, 0), (1, 1), (2, 0), (2, 1), (0, 2), (1, 1)))
        left = CALLS - 6 * len(extra)
        for _ in range(streams):
            self._producer("q", left * 2 // 3 // (streams + callers))
        for _ in range(callers):
            self._caller("q", left * 2 // 3 // (streams + callers))
        for queue in extra:
            self.stream.choice((self._producer, self._caller))(queue, 8)
            if queue == "i" and chance() < 0.3:
                self._consumer(queue)
            elif queue == "i" or chance() < 0.5:
                self._taker(queue, 6)
        for _ in range(self.stream.choice((0, 1, 1, 2))):
            self._consumer("q")
        for _ in range(self.stream.choice((0, 0, 1, 1, 2))):
            self._taker("q", 6)
        if chance() < 0.3:
            self.sheet.add(
                "browser", tuple(Call(at_ms, "browse", {"from": 0, "max": 0}) for at_ms in self.sheet.times(3))
            )
        if chance() < 0.4 or self.handoffs:
            self._admin()
        if chance() < 0.3:
            self._owner()
        return tuple(self.sheet.found)

    def grouped(self) -> tuple[ClientPlan, ...]:
        made = Call(0, "create", {"queue": GROUPED, "kind": "ordered"})
        setup = self.sheet.found[0]
        self.sheet.found[0] = replace(setup, calls=(*setup.calls, made))
        for _ in range(self.stream.choice((1, 2, 2))):
            self.stream.choice((self._producer, self._caller))(GROUPED, 12)
        for _ in range(self.stream.choice((0, 1, 2))):
            self._consumer(GROUPED)
        for _ in range(self.stream.choice((1, 2))):
            self._taker(GROUPED, 8)
        return tuple(self.sheet.found)

    def _sending(self, queue: str) -> dict[str, Value]:
        args: dict[str, Value] = {"number": self.numbers, "queue": queue}
        self.numbers += 1
        if self.stream.random() < 0.15:
            args["min_copies"] = 2
        return args

    def _given(self, queue: str) -> dict[str, Value]:
        args: dict[str, Value] = {"count": self.stream.choice((1, 1, 1, 3, 10))}
        if queue == "c":
            args["persistent"] = self.stream.random() < 0.5
        if queue == GROUPED:
            args["group"] = self.stream.randrange(GROUPS)
        return args

    def _producer(self, queue: str, count: int) -> None:
        calls = [Call(at_ms, "send", self._given(queue)) for at_ms in self.sheet.times(count)]
        self.sheet.add("producer", self.sheet.with_deaths(calls), self._sending(queue))

    def _caller(self, queue: str, count: int) -> None:
        calls = []
        for at_ms in self.sheet.times(count):
            again = self.stream.choice(("", "", "here", "a", "b"))
            calls.append(Call(at_ms, "enqueue", self._given(queue) | {"again": again}))
        self.sheet.add("caller", self.sheet.with_deaths(calls), self._sending(queue))

    def _verb(self) -> dict[str, Value]:
        then = self.stream.choice(VERBS) if self.stream.random() < 0.5 else "ack"
        return {"then": then, "hold_ms": self.stream.choice((1, 50, 700))}

    def _leasing(self, queue: str) -> dict[str, Value]:
        return {"queue": queue, "lease_ms": self.stream.choice((200, 700, 2_000))}

    def _consumer(self, queue: str) -> None:
        calls = [Call(0, "take", self._verb()) for _ in range(8)]
        args = self._leasing(queue) | {"credit": self.stream.choice((1, 5, 20)), "named": self.stream.random() < 0.8}
        self.sheet.add("consumer", self.sheet.with_deaths(calls), args)

    def _taker(self, queue: str, count: int) -> None:
        calls = []
        for at_ms in self.sheet.times(count):
            again = self.stream.choice(("", "", "here", "a", "b"))
            most, wait_ms = self.stream.choice((1, 3, 10)), self.stream.choice((0, 0, 100, 1000))
            args: dict[str, Value] = {"max": most, "wait_ms": wait_ms, "again": again}
            calls.append(Call(at_ms, "take", args | self._verb()))
        self.sheet.add("taker", self.sheet.with_deaths(calls), self._leasing(queue))

    def _admin(self) -> None:
        calls = [
            Call(
                at_ms, "handoff", {"via": self.stream.choice(("a", "b", "both")), "dry_run": self.stream.random() < 0.2}
            )
            for at_ms in self.sheet.times(self.handoffs or self.stream.choice((1, 2, 4)))
        ]
        for start in range(0, len(calls), ORDERS_EACH):  # several: one waits for the answer to its order
            self.sheet.add("admin", (*calls[start : start + ORDERS_EACH], Call(self.safety_ms, "list")))

    def _owner(self) -> None:
        calls = [Call(0, "create")]
        for at_ms in self.sheet.times(10):
            kind = self.stream.choice(STEPS)
            calls.append(Call(at_ms, kind, {"count": self.stream.choice((1, 3)), "max": self.stream.choice((1, 5))}))
        args: dict[str, Value] = {"number": self.numbers, "queue": OWNED}
        self.numbers += 1
        self.sheet.add("owner", tuple(calls), args)
