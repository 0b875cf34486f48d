"""Holds the clients that one drawing has so far, and what all drawings ask of chance for one; never which clients.

Chance is asked in the order of the calls: two that changed places would draw other plans from the seeds of before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from chaos.sim.pair.plan import Call, ClientPlan

if TYPE_CHECKING:
    import random

    from chaos.sim.pair.plan import Value


class Sheet:
    """Of one drawing."""

    def __init__(self, stream: random.Random, safety_ms: int, death_share: float) -> None:
        """`death_share`: of the clients that end once, and are back."""
        self.stream, self.safety_ms = stream, safety_ms
        self._death_share = death_share
        self.found: list[ClientPlan] = []

    def times(self, count: int) -> list[int]:
        """Moments before everything is healed, by rising time."""
        return sorted(self.stream.randrange(self.safety_ms) for _ in range(count))

    def with_deaths(self, calls: Iterable[Call]) -> tuple[Call, ...]:
        """In order, and perhaps the end of the client among them."""
        found = list(calls)
        if self.stream.random() < self._death_share:
            down_ms = self.stream.choice((5, 100, 1_500))
            found.append(Call(self.stream.randrange(self.safety_ms), "die", {"down_ms": down_ms}))
        return tuple(sorted(found, key=lambda call: call.at_ms))

    def first(self, more: dict[str, Value] | None = None) -> dict[str, Value]:
        """Which member a client asks first, and whether it follows the master."""
        return {"first": self.stream.choice("ab"), "follow": self.stream.random() < 0.7, **(more or {})}

    def put(self, role: str, calls: tuple[Call, ...], args: dict[str, Value]) -> None:
        """One more client, with these arguments alone."""
        name = f"{role}{sum(1 for each in self.found if each.role == role)}"
        self.found.append(ClientPlan(name, role, calls, args))

    def add(self, role: str, calls: tuple[Call, ...], args: dict[str, Value] | None = None) -> None:
        """One more client, and the member that it asks first."""
        self.put(role, calls, self.first(args))

    def hand_over(self, handoffs: int) -> None:
        """An administrator who does so as often; 0: now and then there is one."""
        if handoffs or self.stream.random() < 0.4:
            via = [self.stream.choice(("a", "b", "both")) for _ in range(handoffs or self.stream.choice((1, 2)))]
            times = self.times(len(via))
            calls = [Call(at, "handoff", {"via": each, "dry_run": False}) for at, each in zip(times, via, strict=True)]
            self.add("admin", tuple(calls))
