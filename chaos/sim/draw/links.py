"""Draws what clients do whose messages one pair sends on to another. It carries nothing out."""

from __future__ import annotations

import random

from chaos.sim.judges.links import KEPT, NOWHERE, ORDERS
from chaos.sim.pair.plan import Call, ClientPlan, Value
from chaos.sim.pair.run import FAR

AGAIN = ("", "", "here", "a", "b")
DEATH_SHARE = 0.4
PUTS = 12
"""Calls of each sender."""


def draw_links(stream: random.Random, safety_ms: int, handoffs: int = 0) -> tuple[ClientPlan, ...]:
    """Senders at one pair, a consumer at the other, and administrators of both."""
    pick, found = stream.choice, list[ClientPlan]()

    def times(count: int) -> list[int]:
        return sorted(stream.randrange(safety_ms) for _ in range(count))

    def first(more: dict[str, Value]) -> dict[str, Value]:
        return {"first": pick("ab"), "follow": stream.random() < 0.7, **more}

    def with_deaths(calls: list[Call]) -> tuple[Call, ...]:
        if stream.random() < DEATH_SHARE:
            calls = [*calls, Call(stream.randrange(safety_ms), "die", {"down_ms": pick((5, 100, 1_500))})]
        return tuple(sorted(calls, key=lambda call: call.at_ms))

    orders: dict[str, Value] = {"queue": ORDERS}
    if stream.random() < 0.3:
        orders["holds"] = pick((4, 8))  # then it is full again and again, and the link waits
    found.append(ClientPlan("setup0", "setup", (Call(0, "create", {"queue": KEPT}),), first({})))
    found.append(ClientPlan("setup1", "setup", (Call(0, "create", orders),), first({"pair": FAR})))
    for number in range(pick((1, 1, 2))):
        calls = []
        for at_ms in times(PUTS):
            args: dict[str, Value] = {"count": pick((1, 1, 3)), "to": NOWHERE if stream.random() < 0.1 else ORDERS}
            args |= {"beside": stream.random() < 0.3, "persistent": stream.random() < 0.85, "again": pick(AGAIN)}
            calls.append(Call(at_ms, "put", args))
        found.append(ClientPlan(f"linker{number}", "linker", with_deaths(calls), first({"number": number + 1})))
    if stream.random() < 0.6:
        calls = [
            Call(at_ms, "send", {"count": pick((1, 3)), "to": pick((ORDERS, ORDERS, ORDERS, NOWHERE))})
            for at_ms in times(PUTS)
        ]
        found.append(ClientPlan("streamer0", "streamer", with_deaths(calls), first({"number": 8})))
    if stream.random() < 0.5:
        calls = [
            Call(at_ms, "unit", {"hold_ms": pick((1, 30, 500)), "commits": stream.random() < 0.8})
            for at_ms in times(PUTS // 2)
        ]
        found.append(ClientPlan("forwarder0", "forwarder", with_deaths(calls), first({"number": 9})))
    taking: dict[str, Value] = {"pair": FAR, "queue": ORDERS, "lease_ms": 700, "credit": pick((1, 5)), "named": True}
    takes = tuple(Call(0, "take", {"then": "ack", "hold_ms": pick((1, 50))}) for _ in range(8))
    found.append(ClientPlan("consumer0", "consumer", takes, first(taking)))
    for number, pair in enumerate(("", FAR)):
        if handoffs or stream.random() < 0.5:
            given = {"via": pick(("a", "b", "both")), "dry_run": False}
            calls = [Call(at_ms, "handoff", dict(given)) for at_ms in times(handoffs or pick((1, 2)))]
            found.append(ClientPlan(f"admin{number}", "admin", tuple(calls), first({"pair": pair} if pair else {})))
    return tuple(found)
