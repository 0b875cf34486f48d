"""Says what happens in one simulated run, as explicit data; draws nothing and carries nothing out.

A plan comes from a seed (`chaos.sim.draw.profiles`), from a file (a kept schedule), or from another plan with parts
left out (`chaos.sim.tools.shrink`). Whatever it does not fix, such as the delay of one frame, comes from streams of
randomness that are derived from its seed and a name, one for each link, disk and client: leaving out a fault does not
reshuffle the rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

Value: TypeAlias = int | float | str | bool
OWNED = "owned"
"""The queue that has one client, who knows at every moment what must be in it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong at `at_ms` of virtual time. `kind` names one of `chaos.sim.faults.kinds`."""

    at_ms: int
    kind: str
    target: str = ""
    """Whom it strikes, in the kind's own terms: a member ("a", "b"), a direction ("a>b"), the "register"; "" is all."""
    args: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that a client does at `at_ms`, or as soon after as its last call is over."""

    at_ms: int
    kind: str
    args: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: `role` names a class of `chaos.sim.clients.base`, `calls` are what it does, in order."""

    name: str
    role: str
    calls: tuple[Call, ...]
    args: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Times are virtual milliseconds since its start."""

    seed: int
    profile: str
    settings: dict[str, Value] = field(default_factory=dict)
    """Of the whole run: delays, who keeps the register, timers; `chaos.sim.world.world` says which there are."""
    faults: tuple[Fault, ...] = ()
    clients: tuple[ClientPlan, ...] = ()
    safety_ms: int = 4_000
    """How long faults may strike; then everything is healed."""
    bug: str = ""
    """The planted bug that the run is made with (`chaos.sim.bugs`); empty: the product as it is."""

    def stream(self, name: str) -> random.Random:
        """The stream of randomness of that name; equal for equal seeds, whatever else the plan holds."""
        return random.Random(f"{self.seed}/{name}")

    def to_json(self) -> str:
        """As a kept schedule: one value a line, so that two of them can be compared by eye."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Plan:
        """Reads what `to_json` wrote. Raises ValueError or KeyError or TypeError where it is not a plan."""
        raw = json.loads(text)
        raw["faults"] = tuple(Fault(**fault) for fault in raw.get("faults", ()))
        raw["clients"] = tuple(
            ClientPlan(**{**client, "calls": tuple(Call(**call) for call in client["calls"])})
            for client in raw.get("clients", ())
        )
        return Plan(**raw)


@dataclass(slots=True)
class Outcome:
    """What one run showed."""

    plan: Plan
    violations: list[str] = field(default_factory=list)
    """Empty: none was found. The first one is what a shrunk plan must show again (by the text before its colon)."""
    counters: dict[str, int] = field(default_factory=dict)
    """Faults by kind ("fault.crash"), client calls ("calls"), acknowledged operations that were checked ("acked")..."""
    coverage: dict[str, int] = field(default_factory=dict)
    """How often each (state, event) pair and each named "sometimes" point was met."""
    trace_hash: str = ""
    """Of everything that happened, in order: equal for equal plans, on any machine, with any PYTHONHASHSEED."""
    steps: int = 0
    virtual_ms: int = 0
    trace: list[TraceEvent] = field(default_factory=list)
    """Empty unless the run was asked to keep it."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One line of a run's story. `to` is set for what travels: a frame, a call, an answer."""

    at_ms: float
    who: str
    """A member, a client, "register", a direction ("a>b") where a fault strikes one, or "" for the world."""
    what: str
    """One of: sent, arrived, lost, fault, healed, role, commit, call, answer, note, violation."""
    text: str
    to: str = ""


Runner: TypeAlias = Callable[[Plan], Outcome]
"""Carries a plan out."""
