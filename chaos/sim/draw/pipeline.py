"""Draws what the clients of a pipeline do. It carries nothing out.

"publications": they stage and publish batches and take numbered ones; "readers": they read the journal under a name
while the log is trimmed behind them; "rebuilt": both go on in a pair that was formed anew; "units": they take
and put by one call, or in a unit that is open for several; "twins": one at each member acts on the same messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from chaos.sim.draw.sheet import Sheet
from chaos.sim.judges.sides import MADE_QUEUE, SIDE_QUEUE, SIDED
from chaos.sim.judges.units import MADE_QUEUES
from chaos.sim.pair.plan import Call, ClientPlan, Value

WATCHED, WORKED, READ = "s", "w", "q"
"""Where nobody takes anything before the end; where consumers work; what readers read of."""
DEATH_SHARE = 0.4
DIES = "die"
AGAIN = ("", "here", "a", "b")
COMMITS_AFTER_MS = 7
"""A unit's get and puts take about as long, beside what it is held."""
GOES_ON = ("reader", "stager", "batcher")
"""Who keeps a place."""


def draw_publications(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.setup(WATCHED, WORKED)
    for _ in range(stream.choice((1, 2))):
        drawing.stager()
    for _ in range(stream.choice((1, 2))):
        drawing.batcher()
    drawing.caller(WORKED, 6)
    if stream.random() < 0.5:
        drawing.caller(WATCHED, 4)
    drawing.watcher()
    if stream.random() < 0.4:
        drawing.taker()
    drawing.admin(handoffs)
    return tuple(drawing.sheet.found)


def draw_readers(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.setup(READ)
    for _ in range(2):
        drawing.caller(READ, 16)
    drawing.drain_by_taker()
    for _ in range(stream.choice((1, 2))):
        drawing.reader()
    drawing.admin(handoffs)
    return tuple(drawing.sheet.found)


def draw_rebuilt(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run whose pair was formed anew: who keeps a place goes on from where it was in the one before."""
    drawing = _Draw(stream, safety_ms, before=True)
    drawing.setup(READ, WATCHED, WORKED)
    for queue in (READ, WORKED):
        drawing.caller(queue, 8)
    drawing.reader()
    drawing.stager()
    drawing.batcher()
    drawing.watcher()
    drawing.admin(handoffs)
    return tuple(drawing.sheet.found)


def draw_units(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.setup(READ, *MADE_QUEUES)
    for _ in range(stream.choice((1, 2))):
        drawing.caller(READ, 10)
    for _ in range(stream.choice((2, 3))):
        drawing.worker()
    drawing.admin(handoffs)
    for _ in range(stream.choice((1, 2))):
        drawing.opener()
    return tuple(drawing.sheet.found)


def draw_twins(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.sided()
    for _ in range(stream.choice((1, 2))):
        drawing.caller(SIDE_QUEUE, 14)
    for place in ("a", "b"):
        drawing.twin(place)
    drawing.admin(handoffs)
    return tuple(map(_selecting(stream), drawing.sheet.found) if stream.random() < 0.6 else drawing.sheet.found)


SELECTED_OF_ONE = 4
"""Messages of a queue with lockstep SELECTED for each one of a plain queue."""


def _selecting(stream: random.Random) -> Callable[[ClientPlan], ClientPlan]:
    """Makes the same plans be about a queue whose sides are given what the master selects, by priority; with so much
    more in it that there is something to choose from.
    """

    def change(call: Call) -> Call:
        if call.kind == "create" and call.args["queue"] == SIDE_QUEUE:
            return replace(call, args={**call.args, "selected": True})
        if call.kind == "enqueue":
            count = SELECTED_OF_ONE * int(call.args["count"])
            return replace(call, args={**call.args, "count": count, "priority": stream.choice((1, 4, 4, 9))})
        return call

    return lambda plan: replace(plan, calls=tuple(map(change, plan.calls)))


class _Draw:
    def __init__(self, stream: random.Random, safety_ms: int, *, before: bool = False) -> None:
        self.stream, self.safety_ms, self.before = stream, safety_ms, before
        self.numbers = 0
        self.sheet = Sheet(stream, safety_ms, DEATH_SHARE)

    def setup(self, *queues: str) -> None:
        self.sheet.found.append(
            ClientPlan("setup", "setup", tuple(Call(0, "create", {"queue": name}) for name in queues))
        )

    def sided(self) -> None:
        # What twins make is known by their numbers, however soon the queue forgets a dedup id.
        made: dict[str, Value] = {"queue": MADE_QUEUE, "dedup_window_ms": 200}
        calls = Call(0, "create", {"queue": SIDE_QUEUE, "kind": SIDED}), Call(0, "create", made)
        self.sheet.found.append(ClientPlan("setup", "setup", calls))

    def twin(self, place: str) -> None:
        pick = self.stream.choice
        args: dict[str, Value] = {"queue": SIDE_QUEUE, "at": place, "first": place, "credit": pick((2, 20, 200))}
        args |= {"save_ms": pick((5, 50, 400)), "hold_ms": pick((0, 1, 20))}
        deaths = [
            Call(at_ms, DIES, {"down_ms": pick((20, 200, 1_500))}) for at_ms in self.sheet.times(pick((0, 1, 1, 2, 3)))
        ]
        self._add("twin", tuple(deaths), args)

    def stager(self) -> None:
        pick, chance, calls = self.stream.choice, self.stream.random, []
        for at_ms in self.sheet.times(7):
            kind = pick(("publish", "publish", "publish", "publish", "abort", "intrude"))
            queues = pick((WATCHED, WORKED, f"{WATCHED} {WORKED}", f"{WORKED} {WATCHED}"))
            args: dict[str, Value] = {"queues": queues, "parts": pick((1, 2, 3, 5)), "rows": pick((1, 2, 4))}
            args |= {"apart": chance() < 0.4, "twice": chance() < 0.3}
            if kind == "publish":
                args["again"] = pick(AGAIN)
                if chance() < 0.2:
                    args |= {"ttl_ms": 200, "hold_ms": pick((100, 1_500))}
            calls.append(Call(at_ms, kind, args))
        self._add("stager", self.sheet.with_deaths(calls), {"number": self._number()})

    def batcher(self) -> None:
        pick = self.stream.choice
        calls = []
        for at_ms in self.sheet.times(12):
            args: dict[str, Value] = {"max": pick((1, 3, 10)), "hold_ms": pick((1, 50, 700)), "again": pick(AGAIN)}
            calls.append(Call(at_ms, "batch", args | {"then": pick(("ack", "ack", "ack", "twice", "drop", "part"))}))
        # The longest outlives every fault, and ends well within the minute in which the queues are drained.
        args = {"queue": WORKED, "lease_ms": pick((400, 1_500, 20_000))}
        self._add("batcher", self.sheet.with_deaths(calls), args)

    def watcher(self) -> None:
        calls = [Call(at_ms, "browse") for at_ms in self.sheet.times(25)]
        self._add("watcher", tuple(calls), {"queue": WATCHED})

    def caller(self, queue: str, count: int) -> None:
        calls = []
        for at_ms in self.sheet.times(count):
            args: dict[str, Value] = {"count": self.stream.choice((1, 1, 3)), "again": self.stream.choice(AGAIN)}
            calls.append(Call(at_ms, "enqueue", args))
        self._add("caller", self.sheet.with_deaths(calls), {"queue": queue, "number": self._number()})

    def taker(self) -> None:
        pick = self.stream.choice
        calls = []
        for at_ms in self.sheet.times(5):
            args: dict[str, Value] = {"max": pick((1, 3)), "wait_ms": 0, "again": pick(AGAIN)}
            calls.append(Call(at_ms, "take", args | {"then": pick(("ack", "release", "drop")), "hold_ms": 50}))
        self._add("taker", self.sheet.with_deaths(calls), {"queue": WORKED, "lease_ms": pick((200, 700))})

    def worker(self) -> None:
        pick, calls = self.stream.choice, []
        for at_ms in self.sheet.times(10):
            args: dict[str, Value] = {"max": pick((1, 1, 3)), "wait_ms": pick((0, 200)), "again": pick(AGAIN)}
            calls.append(Call(at_ms, "take", args | {"hold_ms": pick((1, 30, 500)), "repeat": pick(AGAIN)}))
        self._add("worker", self.sheet.with_deaths(calls), {"queue": READ, "lease_ms": pick((300, 2_000))})

    def opener(self) -> None:
        pick, calls, holds = self.stream.choice, [], []
        for at_ms in self.sheet.times(8):
            args: dict[str, Value] = {"max": pick((1, 1, 3)), "wait_ms": pick((0, 200))}
            args["hold_ms"] = hold_ms = pick((1, 30, 500))
            holds.append((at_ms, hold_ms))
            args |= {"end": pick(("commit", "commit", "commit", "rollback", "leave")), "repeat": pick(AGAIN)}
            calls.append(Call(at_ms, "unit", args | {"timeout_ms": pick((400, 2_000, 20_000))}))
        # Some die about when they commit: whoever asks for that again is rare otherwise.
        for each, hold_ms in holds[::3]:
            calls.append(Call(each + hold_ms + COMMITS_AFTER_MS, "die", {"down_ms": 5}))
        self._add("opener", self.sheet.with_deaths(calls), {"queue": READ})

    def drain_by_taker(self) -> None:
        """What is done with may be trimmed."""
        how: dict[str, Value] = {"max": 10, "wait_ms": 0, "again": "", "then": "ack", "hold_ms": 1}
        calls = tuple(Call(at_ms, "take", dict(how)) for at_ms in self.sheet.times(8))
        self._add("taker", calls, {"queue": READ, "lease_ms": 700})

    def reader(self) -> None:
        chance, calls = self.stream.random, []
        for at_ms in self.sheet.times(self.stream.choice((3, 8, 12))):
            args: dict[str, Value] = {"rows": self.stream.choice((2, 5, 20)), "advance": chance() < 0.7}
            if self.before:
                args["early"] = chance() < 0.5
            calls.append(Call(at_ms, "read", args | {"forgets": chance() < 0.3, "only": chance() < 0.5}))
        calls.append(Call(self.safety_ms + self.stream.choice((100, 3_000)), "read", {"rows": 0}))
        self._add("reader", self.sheet.with_deaths(calls), {"queue": READ})

    def admin(self, handoffs: int) -> None:
        if handoffs or self.stream.random() < 0.4:
            count = handoffs or self.stream.choice((1, 2))
            calls = [
                Call(at_ms, "handoff", {"via": self.stream.choice(("a", "b", "both")), "dry_run": False})
                for at_ms in self.sheet.times(count)
            ]
            self._add("admin", tuple(calls), {})

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _add(self, role: str, calls: tuple[Call, ...], args: dict[str, Value]) -> None:
        given = self.sheet.first()
        if self.before and role in GOES_ON:
            given |= {"before": True, "says": self.stream.choice(("place", "number"))}
        self.sheet.put(role, calls, given | args)
