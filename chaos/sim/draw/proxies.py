"""Draws what clients do that use a queue of another pair by the name of a proxy. It carries nothing out."""

from __future__ import annotations

import random

from chaos.sim.judges.proxies import SHARED
from chaos.sim.pair.plan import Call, ClientPlan, Value
from chaos.sim.pair.run import FAR

AGAIN = ("", "here", "a", "b")
DEATH_SHARE = 0.3
SENDS = 10
"""Calls of each sender."""


def draw_proxies(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Senders and consumers that know one pair, a queue of the other one, and administrators of both."""
    pick, found = stream.choice, list[ClientPlan]()

    def times(count: int) -> list[int]:
        return sorted(stream.randrange(safety_ms) for _ in range(count))

    def first(more: dict[str, Value]) -> dict[str, Value]:
        return {"first": pick("ab"), "follow": stream.random() < 0.7, **more}

    def through(more: dict[str, Value]) -> dict[str, Value]:
        """Its queue is of the other pair, and its books too; its calls go to this one."""
        return first({"pair": FAR, "through": True, "queue": SHARED, **more})

    def with_deaths(calls: list[Call]) -> tuple[Call, ...]:
        if stream.random() < DEATH_SHARE:
            calls = [*calls, Call(stream.randrange(safety_ms), "die", {"down_ms": pick((5, 100, 1_500))})]
        return tuple(sorted(calls, key=lambda call: call.at_ms))

    made: dict[str, Value] = {"queue": SHARED, "target": f"//{FAR}/{SHARED}"}
    found.append(ClientPlan("setup0", "setup", (Call(0, "proxy", made),), first({})))
    found.append(ClientPlan("setup1", "setup", (Call(0, "create", {"queue": SHARED}),), first({"pair": FAR})))
    for number in range(pick((1, 2))):
        calls = [Call(at_ms, "send", {"count": pick((1, 3)), "again": pick(AGAIN)}) for at_ms in times(SENDS)]
        found.append(ClientPlan(f"caller{number}", "caller", with_deaths(calls), through({"number": number + 1})))
    if stream.random() < 0.7:
        calls = [Call(at_ms, "send", {"count": pick((1, 3))}) for at_ms in times(SENDS)]
        found.append(ClientPlan("producer0", "producer", with_deaths(calls), through({"number": 8})))
    taking: dict[str, Value] = {"lease_ms": 700, "credit": pick((1, 5)), "named": True}
    if stream.random() < 0.6:
        takes = [Call(0, "take", {"then": "ack", "hold_ms": pick((1, 50))}) for _ in range(8)]
        found.append(ClientPlan("consumer0", "consumer", tuple(takes), through(taking)))
    takes = [
        Call(at_ms, "take", {"then": "ack", "max": pick((1, 4)), "wait_ms": pick((0, 300)), "hold_ms": 1})
        for at_ms in times(6)
    ]
    found.append(ClientPlan("taker0", "taker", with_deaths(takes), through({"lease_ms": 700})))
    for number, pair in enumerate(("", FAR)):
        if handoffs or stream.random() < 0.5:
            given = {"via": pick(("a", "b", "both")), "dry_run": False}
            calls = [Call(at_ms, "handoff", dict(given)) for at_ms in times(handoffs or pick((1, 2)))]
            found.append(ClientPlan(f"admin{number}", "admin", tuple(calls), first({"pair": pair} if pair else {})))
    return tuple(found)
