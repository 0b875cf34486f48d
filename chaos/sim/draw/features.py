"""Draws what the clients of three profiles do, about `CALLS` calls a seed. Messages of "letters" wait, die and are
moved, those of "requests" are answered or dropped, and clients of "reactions" take back and change what they have sent.
"""

from __future__ import annotations

import random
from dataclasses import replace

from chaos.sim.clients.requests import REPLIES
from chaos.sim.draw.sheet import Sheet
from chaos.sim.pair.books import ANSWERS, DROPPING, MOVING, REACTIVE, REQUESTS
from chaos.sim.pair.plan import Call, ClientPlan, Value

CALLS = 50
DEATH_SHARE = 0.25
WORK, ASIDE, LETTERS = "l", "m", "x"
"""Where messages are sent, where an administrator moves some, and where they go when they have died."""
ASKED, ANSWERED, NEWS = "r", "answers", "d"
"""Requests; copies of their answers; what drops its oldest messages."""
VERBS = ("ack", "ack", "ack", "reject", "release", "release", "drop", "drop", "late", "extend", "twice", "both")
IDS, GROUPS = 6, 2
AGAIN = ("", "", "here", "a", "b")


def draw_letters(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    is_named = stream.random() < 0.5
    drawing.make_letters(is_named=is_named)
    for _ in range(stream.choice((1, 2))):
        drawing.poster(WORK, 14)
    sides = [queue for queue in (LETTERS, ASIDE)[not is_named :] if stream.random() < 0.4]
    for queue in (WORK, WORK, *sides):
        drawing.taker(queue, 8 if queue == WORK else 4)
    if stream.random() < 0.4:
        drawing.consumer(WORK)
    if stream.random() < 0.8:
        drawing.sweeper(LETTERS if is_named else f"{WORK}.dead")
    drawing.sheet.hand_over(handoffs)
    if stream.random() < 0.3:  # drawn last: all else is as it is without
        drawing.limit(WORK, stream.choice((3, 6)))
    return tuple(drawing.sheet.found)


def draw_requests(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.make_requests()
    for _ in range(stream.choice((1, 2))):
        drawing.requester()
    for _ in range(stream.choice((1, 2))):
        drawing.responder()
    if stream.random() < 0.4:
        drawing.answerer()
    for _ in range(stream.choice((1, 2))):
        drawing.poster(NEWS, 8)
    drawing.taker(NEWS, 5)
    if stream.random() < 0.4:
        drawing.taker(ANSWERED, 4)
    drawing.sheet.hand_over(handoffs)
    return tuple(drawing.sheet.found)


def draw_reactions(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.make_reactive()
    for _ in range(stream.choice((1, 2))):
        drawing.poster(WORK, 14, is_reactive=True)
    for _ in range(stream.choice((1, 2))):
        drawing.taker(WORK, 6)
    if stream.random() < 0.4:
        drawing.consumer(WORK)
    for _ in range(stream.choice((1, 2, 2))):
        drawing.reactor()
    drawing.sheet.hand_over(handoffs)
    return tuple(drawing.sheet.found)


def draw_gathering(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Those of one run, with so many orders to hand over."""
    drawing = _Draw(stream, safety_ms)
    drawing.make_gathering()
    drawing.members(14)
    for _ in range(stream.choice((1, 2))):
        drawing.taker(WORK, 8)
    if stream.random() < 0.5:
        drawing.consumer(WORK)
    drawing.sheet.hand_over(handoffs)
    return tuple(drawing.sheet.found)


class _Draw:
    def __init__(self, stream: random.Random, safety_ms: int) -> None:
        self.stream, self.safety_ms = stream, safety_ms
        self.numbers = 0
        self.sheet = Sheet(stream, safety_ms, DEATH_SHARE)

    def make_letters(self, *, is_named: bool) -> None:
        pick = self.stream.choice
        work: dict[str, Value] = {"queue": WORK, "kind": MOVING, "max_deliveries": pick((1, 2, 2, 3))}
        if is_named:
            work["letters"] = LETTERS
        if self.stream.random() < 0.4:
            least = pick((50, 300))
            work |= {"retry_delay_min_ms": least, "retry_delay_max_ms": 2 * least}
        if self.stream.random() < 0.3:
            work["ordered"] = True
        if self.stream.random() < 0.5:
            work["asked"] = True
        work["dedup_window_ms"] = pick((300, 2_000, 60_000))
        queues: list[dict[str, Value]] = [work, {"queue": ASIDE, "kind": MOVING}]
        if is_named:
            found: dict[str, Value] = {"queue": LETTERS, "kind": MOVING, "letters": ""}
            if self.stream.random() < 0.4:
                found["holds"] = 3  # what dies then waits
            queues.append(found)
        self._setup(queues)

    def make_reactive(self) -> None:
        work: dict[str, Value] = {"queue": WORK, "kind": REACTIVE, "reactive": True, "asked": True, "letters": ""}
        if self.stream.random() < 0.4:
            work["ordered"] = True
        self._setup([work, {"queue": ASIDE, "kind": MOVING, "reactive": True}])

    def make_gathering(self) -> None:
        work: dict[str, Value] = {"queue": WORK, "kind": MOVING, "complete": True, "letters": LETTERS}
        work["group_timeout_ms"] = self.stream.choice((700, 3_000, 9_000))
        self._setup([work, {"queue": LETTERS, "kind": MOVING, "letters": ""}])

    def members(self, groups: int) -> None:
        """Of groups whose members come in any order, from two senders; some never come, and some that do not fit."""
        pick, chance = self.stream.choice, self.stream.random
        calls: tuple[list[Call], list[Call]] = [], []
        for group in range(groups):
            size, from_ms = pick((1, 2, 3, 4)), self.stream.randrange(self.safety_ms)
            for place in range(1, size + 1):
                if chance() < 0.08:
                    continue
                args: dict[str, Value] = {"count": 1, "line": f"line-{group % 9}", "place": place}
                args |= {"last": place == size, "again": pick(("", "", "here", "a", "b"))}
                if chance() < 0.1:
                    args["place"] = pick((1, 2, 5))
                if chance() < 0.15:
                    args["delay_ms"] = pick((20, 300))
                if chance() < 0.1:
                    args["ttl_ms"] = pick((300, 2_000))
                pick(calls).append(Call(from_ms + self.stream.randrange(1_500), "enqueue", args))
        for each in calls:
            self.sheet.add("poster", self.sheet.with_deaths(each), {"queue": WORK, "number": self._number()})

    def reactor(self) -> None:
        pick = self.stream.choice
        calls = []
        for at_ms in self.sheet.times(9):
            args: dict[str, Value] = {"line": f"line-{self.stream.randrange(GROUPS)}", "again": pick(AGAIN)}
            args["everything"] = pick((True, False))
            if kept_ms := pick((0, 0, 300, 2_000)):
                args["kept_ms"] = kept_ms
            calls.append(Call(at_ms, pick(("cancel", "move", "change", "change")), args))
        self.sheet.add("reactor", self.sheet.with_deaths(calls), {"queue": WORK})

    def make_requests(self) -> None:
        pick = self.stream.choice
        asked: dict[str, Value] = {"queue": ASKED, "kind": REQUESTS, "two_way": True, "letters": ""}
        asked["reply_timeout_ms"] = pick((400, 2_000, 4_000))
        news: dict[str, Value] = {"queue": NEWS, "kind": DROPPING, "letters": "", "drops_at": pick((2, 4, 8))}
        if self.stream.random() < 0.3:
            news["ordered"] = True
        if self.stream.random() < 0.5:
            news["asked"] = True
        answered: dict[str, Value] = {"queue": ANSWERED, "kind": ANSWERS, "letters": ""}
        if self.stream.random() < 0.3:
            answered["holds"] = 2  # copies wait
        self._setup([asked, news, answered])

    def limit(self, queue: str, holds: int) -> None:
        """A full one refuses what comes."""
        setup = self.sheet.found[0]
        calls = (
            replace(each, args=each.args | {"holds": holds}) if each.args["queue"] == queue else each
            for each in setup.calls
        )
        self.sheet.found[0] = replace(setup, calls=tuple(calls))

    def _setup(self, queues: list[dict[str, Value]]) -> None:
        self.sheet.found.append(ClientPlan("setup", "setup", tuple(Call(0, "create", args) for args in queues)))

    def poster(self, queue: str, count: int, *, is_reactive: bool = False) -> None:
        pick, chance = self.stream.choice, self.stream.random
        calls = []
        for at_ms in self.sheet.times(count):
            args: dict[str, Value] = {"count": pick((1, 1, 2, 5)), "again": pick(("", "", "", "here", "a", "b"))}
            if queue == WORK and chance() < 0.4:
                args["delay_ms"] = pick((20, 300, 1_500))
            if queue == WORK and chance() < 0.3:
                args |= {"id": f"id-{self.stream.randrange(IDS)}", "count": pick((1, 1, 2))}
            if chance() < 0.6:
                args["line"] = f"line-{self.stream.randrange(GROUPS)}"  # means nothing but where groups are kept
            if chance() < 0.15:
                args["ttl_ms"] = pick((100, 1_000))
            if chance() < 0.3:
                args["priority"] = pick((0, 9))
            if is_reactive and chance() < 0.2:
                args["inert"] = True
            calls.append(Call(at_ms, "enqueue", args))
        self.sheet.add("poster", self.sheet.with_deaths(calls), {"queue": queue, "number": self._number()})

    def taker(self, queue: str, count: int) -> None:
        self.sheet.add("taker", self.sheet.with_deaths(self._takes(count, VERBS)), self._leasing(queue))

    def consumer(self, queue: str) -> None:
        calls = [Call(0, "take", self._verb(VERBS)) for _ in range(8)]
        args = self._leasing(queue) | {"credit": self.stream.choice((1, 5)), "named": self.stream.random() < 0.8}
        self.sheet.add("consumer", self.sheet.with_deaths(calls), args)

    def sweeper(self, letters: str) -> None:
        pick = self.stream.choice
        calls = []
        for at_ms in self.sheet.times(6):
            again = pick(("", "here", "a", "b"))
            moves: tuple[tuple[str, dict[str, Value]], ...] = (
                ("redrive", {"from": letters}),
                ("redrive", {"from": letters}),
                ("move", {"from": WORK, "to": ASIDE, "max": pick((0, 0, 3))}),
                ("move", {"from": WORK, "to": ASIDE, "max": 0, "where": "tq_priority > 4"}),
                ("move", {"from": ASIDE, "to": WORK, "max": 0}),
            )
            kind, args = pick(moves)
            calls.append(Call(at_ms, kind, args | {"again": again}))
        self.sheet.add("sweeper", self.sheet.with_deaths(calls), {})

    def requester(self) -> None:
        calls = []
        for at_ms in self.sheet.times(7):
            args: dict[str, Value] = {"again": self.stream.choice(("", "here", "a", "b"))}
            args["wait_ms"] = self.stream.choice((0, 0, 300))
            if self.stream.random() < 0.5:
                args["reply_to"] = ANSWERED
            calls.append(Call(at_ms, "request", args))
        self.sheet.add("requester", self.sheet.with_deaths(calls), {"queue": ASKED, "number": self._number()})

    def responder(self) -> None:
        args = self._leasing(ASKED) | {"number": self._number()}
        self.sheet.add("responder", self.sheet.with_deaths(self._takes(8, REPLIES)), args)

    def answerer(self) -> None:
        calls = [Call(0, "take", self._verb(REPLIES)) for _ in range(8)]
        args = self._leasing(ASKED) | {"number": self._number(), "credit": self.stream.choice((1, 5)), "named": True}
        self.sheet.add("answerer", self.sheet.with_deaths(calls), args)

    def _takes(self, count: int, verbs: tuple[str, ...]) -> list[Call]:
        calls = []
        for at_ms in self.sheet.times(count):
            most, wait_ms = self.stream.choice((1, 3, 10)), self.stream.choice((0, 100, 1_000))
            args: dict[str, Value] = {"max": most, "wait_ms": wait_ms, "again": self.stream.choice(("", "", "a", "b"))}
            calls.append(Call(at_ms, "take", args | self._verb(verbs)))
        return calls

    def _verb(self, verbs: tuple[str, ...]) -> dict[str, Value]:
        found: dict[str, Value] = {"then": self.stream.choice(verbs), "hold_ms": self.stream.choice((1, 50))}
        if found["then"] == "release" and self.stream.random() < 0.5:
            found["delay_ms"] = self.stream.choice((30, 400))
        return found

    def _leasing(self, queue: str) -> dict[str, Value]:
        return {"queue": queue, "lease_ms": self.stream.choice((50, 100, 200, 700))}

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers - 1
