"""Draws what clients do that use queues of another pair: by the names of proxies, and by a macro queue that has them as
members beside queues here. It carries nothing out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from chaos.sim.draw.macros import GIVING, GROUPS, SENDING
from chaos.sim.draw.sheet import Sheet
from chaos.sim.judges.macro_points import MACRO
from chaos.sim.judges.proxy_points import LANDED, SECOND, SHARED
from chaos.sim.pair.plan import Call, ClientPlan, Value
from chaos.sim.pair.run import FAR

AGAIN = ("", "here", "a", "b")
DEATH_SHARE = 0.3
SENDS = 10
"""Calls of each sender."""
OWN = ("n0", "n1")
ALL, SPREAD = "all", "spread"
DEALT_HERE = ("d0", "d1")
"""Members of the macro queue that is sent to, beside the one at the other pair."""
VERBS = ("ack", "ack", "ack", "ack", "release", "drop", "late", "extend")


def draw_proxies(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Senders and consumers that know one pair, queues of both, and administrators of both."""
    drawing = _Draw(stream, safety_ms)
    drawing.setup()
    drawing.callers()
    if stream.random() < 0.8:
        drawing.macro()
    drawing.admins(handoffs)
    if stream.random() < 0.6:
        drawing.dealing()
    return tuple(drawing.sheet.found)


def proxy_of(queue: str) -> str:
    """A name of its own: the first pair has another queue of the same name."""
    return f"to-{queue}"


class _Draw:
    def __init__(self, stream: random.Random, safety_ms: int) -> None:
        self.stream, self.safety_ms = stream, safety_ms
        self.sheet = Sheet(stream, safety_ms, DEATH_SHARE)
        self.numbers = 0

    def setup(self) -> None:
        """The queues there, and a proxy of each; here one of the same name, which nothing of that may enter."""
        near, far = list[Call](), list[Call]()
        for queue in (SHARED, SECOND):
            far.append(Call(0, "create", {"queue": queue}))
            near.append(Call(0, "create", {"queue": queue}))
            near.append(Call(0, "proxy", {"queue": proxy_of(queue), "target": f"//{FAR}/{queue}"}))
        near += [Call(0, "create", {"queue": queue}) for queue in OWN]
        self.sheet.found.append(ClientPlan("setup0", "setup", tuple(near), self.sheet.first({})))
        self.sheet.found.append(ClientPlan("setup1", "setup", tuple(far), self.sheet.first({"pair": FAR})))

    def callers(self) -> None:
        """Who uses one queue of the other pair by its proxy."""
        pick, chance = self.stream.choice, self.stream.random
        for _ in range(pick((1, 2))):
            self.sender("caller", self._through(SHARED))
        if chance() < 0.7:
            self.sender("producer", self._through(SHARED))
        taking: dict[str, Value] = {"lease_ms": 700, "credit": pick((1, 5)), "named": True}
        if chance() < 0.6:
            takes = tuple(Call(0, "take", {"then": "ack", "hold_ms": pick((1, 50))}) for _ in range(8))
            self.sheet.put("consumer", takes, self._through(SHARED) | taking)
        self.taker(self._through(SHARED) | {"lease_ms": 700}, ("ack",))

    def macro(self) -> None:
        """Consumers of a macro queue over queues of both pairs, and who sends to its members."""
        pick, chance = self.stream.choice, self.stream.random
        own, far = list(OWN[: pick((1, 2))]), [proxy_of(SECOND)]
        if chance() < 0.3:
            far.append(proxy_of(SHARED))
        members = [*own, *far]
        self.stream.shuffle(members)
        made: dict[str, Value] = {"queue": ALL, "producer": False, "policy": pick(GIVING), "members": " ".join(members)}
        made["priorities"] = " ".join(str(pick((0, 5, 9))) for _ in members)
        self._made_too(0, Call(0, MACRO, made))
        for queue in own:
            self.sender(pick(("caller", "producer")), self.sheet.first({"queue": queue}))
        by_proxy = chance() < 0.5
        self.sender("caller", self._through(SECOND) if by_proxy else self.sheet.first({"pair": FAR, "queue": SECOND}))
        verbs = VERBS if chance() < 0.6 else ("ack",)
        for _ in range(pick((1, 2, 3))):
            lease: dict[str, Value] = {"lease_ms": pick((200, 700, 2_000)), "by_member": len(far) > 1 or chance() < 0.5}
            self.taker(self.sheet.first({"queue": ALL, **lease}), verbs)
        if chance() < 0.5:
            takes = tuple(Call(0, "take", self._verb(verbs)) for _ in range(8))
            args: dict[str, Value] = {"lease_ms": pick((200, 700, 2_000)), "credit": pick((1, 3, 10))}
            self.sheet.put("consumer", takes, self.sheet.first({"queue": ALL, "named": chance() < 0.8, **args}))

    def dealing(self) -> None:
        """A macro queue that is sent to, over queues of both pairs: one that leads to the other pair has a proxy too,
        or none.
        """
        pick, chance = self.stream.choice, self.stream.random
        own, target = list(DEALT_HERE[: pick((1, 2))]), f"//{FAR}/{LANDED}"
        self._made_too(1, Call(0, "create", {"queue": LANDED}))
        for queue in own:
            self._made_too(0, Call(0, "create", {"queue": queue} | ({"holds": pick((2, 8))} if chance() < 0.4 else {})))
        if chance() < 0.6:
            self._made_too(0, Call(0, "proxy", {"queue": proxy_of(LANDED), "target": target}))
            target = pick((target, proxy_of(LANDED)))
        members = [*own, target]
        self.stream.shuffle(members)
        made: dict[str, Value] = {"queue": SPREAD, "producer": True, "policy": pick(SENDING)}
        made["members"], made["priorities"] = " ".join(members), " ".join(str(pick((0, 5, 9))) for _ in members)
        self._made_too(0, Call(0, MACRO, made))
        for _ in range(pick((1, 2))):
            self.sender(pick(("caller", "producer")), self.sheet.first({"queue": SPREAD}), grouped=True)
        for queue in own:
            self.taker(self.sheet.first({"queue": queue, "lease_ms": 700}), ("ack",))
        if chance() < 0.5:
            self.taker(self.sheet.first({"pair": FAR, "queue": LANDED, "lease_ms": 700}), ("ack",))

    def _made_too(self, place: int, call: Call) -> None:
        """By who makes the queues of that pair."""
        made = self.sheet.found[place]
        self.sheet.found[place] = replace(made, calls=(*made.calls, call))

    def sender(self, role: str, args: dict[str, Value], *, grouped: bool = False) -> None:
        calls = []
        for at_ms in self.sheet.times(SENDS):
            more: dict[str, Value] = {"again": self.stream.choice(AGAIN)} if role == "caller" else {}
            if grouped:
                more["group"] = self.stream.randrange(GROUPS)
            calls.append(Call(at_ms, "send", {"count": self.stream.choice((1, 3)), **more}))
        self.numbers += 1
        self.sheet.put(role, self.sheet.with_deaths(calls), {"number": self.numbers, **args})

    def taker(self, args: dict[str, Value], verbs: Sequence[str]) -> None:
        pick, calls = self.stream.choice, []
        for at_ms in self.sheet.times(12):
            wanted: dict[str, Value] = {"max": pick((1, 2, 4)), "wait_ms": pick((0, 300, 2_000))}
            calls.append(Call(at_ms, "take", wanted | self._verb(verbs)))
        self.sheet.put("taker", self.sheet.with_deaths(calls), args)

    def admins(self, handoffs: int) -> None:
        for pair in ("", FAR):
            if handoffs or self.stream.random() < 0.5:
                times = self.sheet.times(handoffs or self.stream.choice((1, 2)))
                given = [{"via": self.stream.choice(("a", "b", "both")), "dry_run": False} for _ in times]
                calls = tuple(Call(at, "handoff", dict(args)) for at, args in zip(times, given, strict=True))
                self.sheet.put("admin", calls, self.sheet.first({"pair": pair} if pair else {}))

    def _verb(self, verbs: Sequence[str]) -> dict[str, Value]:
        return {"then": self.stream.choice(verbs), "hold_ms": self.stream.choice((1, 50, 300))}

    def _through(self, queue: str) -> dict[str, Value]:
        """Its queue is of the other pair, and its books too; its calls go to this one."""
        return self.sheet.first({"pair": FAR, "through": True, "queue": proxy_of(queue)})
