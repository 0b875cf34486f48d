"""Draws what the clients of "macro" do: they send to macro queues and receive from others over the same members.

Some members are small, one is closed for a while, and one leaves and comes back. It carries nothing out.
"""

from __future__ import annotations

import random

from chaos.sim.draw.sheet import Sheet
from chaos.sim.judges.macro_points import MACRO, RANKED
from chaos.sim.pair.plan import Call, ClientPlan, Value

MEMBERS = ("m0", "m1", "m2", "m3")
SENDING = (
    "ROUND_ROBIN",
    "ROUND_ROBIN",
    "FIRST_AVAILABLE",
    "SHORTEST_QUEUE",
    "FASTEST_RESPONSE",
    "BY_GROUP",
    "DUPLICATE",
    "DUPLICATE",
    "DUPLICATE_BEST_EFFORT",
)
GIVING = ("PRIORITIZED", "FIRST_AVAILABLE", "CHRONOLOGICAL", "MESSAGE_PRIORITY", "ROUND_ROBIN", "ROUND_ROBIN")
VERBS = ("ack", "ack", "ack", "ack", "release", "reject", "drop", "late", "extend")
AGAIN = ("", "here", "a", "b")
DEATH_SHARE = 0.3
GROUPS = 4


def draw_macros(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.setup()
    for name in drawing.sending:
        for _ in range(stream.choice((1, 1, 2))):
            drawing.sender(name)
    for name in drawing.giving:
        for _ in range(stream.choice((1, 2))):
            drawing.taker(name)
        if stream.random() < 0.5:
            drawing.consumer(name)
    beside, closed = stream.sample(drawing.members, 2)
    if stream.random() < 0.3:
        drawing.taker(beside)
    if stream.random() < 0.7:
        drawing.shuffler(closed)
    drawing.sheet.hand_over(handoffs)
    if stream.random() < 0.5:
        drawing.weigher()
    return tuple(drawing.sheet.found)


class _Draw:
    def __init__(self, stream: random.Random, safety_ms: int) -> None:
        self.stream, self.safety_ms = stream, safety_ms
        self.numbers = 0
        self.sheet = Sheet(stream, safety_ms, DEATH_SHARE)
        self.members = MEMBERS[: stream.choice((2, 3, 3, 4))]
        self.sending = [f"in{number}" for number in range(stream.choice((1, 1, 2)))]
        self.giving = {f"out{number}": stream.choice(GIVING) for number in range(stream.choice((1, 1, 2)))}
        self.has_small = stream.random() < 0.7
        self.has_priorities = "MESSAGE_PRIORITY" in self.giving.values()

    def setup(self) -> None:
        pick, chance = self.stream.choice, self.stream.random
        calls = []
        for name in self.members:
            args: dict[str, Value] = {"queue": name, "kind": RANKED if self.has_priorities else "plain"}
            if self.has_small and chance() < 0.6:
                args["holds"] = pick((2, 4, 8))
            calls.append(Call(0, "create", args))
        for name in (*self.sending, *self.giving):
            is_sent = name in self.sending
            policy = self.giving.get(name) or pick(SENDING)
            order = self.stream.sample(self.members, len(self.members))
            priorities = " ".join(str(pick((0, 5, 9))) for _ in order)
            made: dict[str, Value] = {"queue": name, "producer": is_sent, "policy": policy}
            calls.append(Call(0, MACRO, made | {"members": " ".join(order), "priorities": priorities}))
        self.sheet.found.append(ClientPlan("setup", "setup", tuple(calls)))

    def sender(self, macro: str) -> None:
        pick = self.stream.choice
        is_stream, calls = self.stream.random() < 0.4, []
        for at_ms in self.sheet.times(12):
            args: dict[str, Value] = {"count": pick((1, 1, 2, 3, 6)), "group": self.stream.randrange(GROUPS)}
            if self.has_priorities:
                args["priority"] = pick((4, 4, 4, 8))
            if not is_stream:
                args["again"] = pick(AGAIN)
            calls.append(Call(at_ms, "send" if is_stream else "enqueue", args))
        role = "producer" if is_stream else "caller"
        self.sheet.add(role, self.sheet.with_deaths(calls), {"queue": macro, "number": self._number()})

    def taker(self, queue: str) -> None:
        pick, calls = self.stream.choice, []
        for at_ms in self.sheet.times(10):
            args: dict[str, Value] = {"max": pick((1, 2, 5)), "wait_ms": pick((0, 0, 200)), "again": pick(AGAIN)}
            calls.append(Call(at_ms, "take", args | self._verb()))
        self.sheet.add("taker", self.sheet.with_deaths(calls), {"queue": queue, "lease_ms": pick((200, 700, 2_000))})

    def consumer(self, macro: str) -> None:
        calls = [Call(0, "take", self._verb()) for _ in range(8)]
        args: dict[str, Value] = {"queue": macro, "lease_ms": self.stream.choice((200, 700, 2_000))}
        args |= {"credit": self.stream.choice((1, 3, 10)), "named": self.stream.random() < 0.8}
        self.sheet.add("consumer", self.sheet.with_deaths(calls), args)

    def shuffler(self, member: str) -> None:
        """One member is closed, and now and then stays so to the end: the others are emptied all the same."""
        pick, calls = self.stream.choice, []
        times = self.sheet.times(2 * pick((1, 2)) + pick((0, 1)))
        for place, at_ms in enumerate(times):
            calls.append(Call(at_ms, ("close", "open")[place % 2], {"member": member}))
        if self.stream.random() < 0.5 and len(self.members) > 2:
            out = pick([each for each in self.members if each != member])
            macro = pick((*self.sending, *self.giving))
            first, second = self.sheet.times(2)
            calls.append(Call(first, "remove", {"member": out, "macro": macro}))
            calls.append(Call(second, "add", {"member": out, "macro": macro, "priority": pick((0, 9))}))
        self.sheet.add("shuffler", self.sheet.with_deaths(calls), {})

    def weigher(self) -> None:
        """Tables of weights under the name of a macro queue, each valid for a while."""
        pick, name, calls = self.stream.choice, self.stream.choice(self.sending), []
        for at_ms in self.sheet.times(pick((1, 2, 3))):
            weights = " ".join(str(pick((0, 1, 1, 3))) for _ in self.members)
            table: dict[str, Value] = {"macro": name, "members": " ".join(self.members), "weights": weights}
            calls.append(Call(at_ms, "weigh", table | {"valid_ms": pick((200, 1_000, 5_000))}))
        self.sheet.add("shuffler", self.sheet.with_deaths(calls), {})

    def _verb(self) -> dict[str, Value]:
        # Dead letters keep their priorities, and their judge knows none; their queue is as small as the member.
        verbs = [verb for verb in VERBS if verb != "reject" or not (self.has_priorities or self.has_small)]
        return {"then": self.stream.choice(verbs), "hold_ms": self.stream.choice((1, 50, 300))}

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers
