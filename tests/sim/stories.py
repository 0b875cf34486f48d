"""Make-believe runs: they show what a rule of the test says, so that the tools can be tried without a world."""

from __future__ import annotations

import random
from collections.abc import Callable

from chaos.sim.pair.plan import Call, ClientPlan, Fault, Outcome, Plan, TraceEvent
from chaos.sim.tools.hunt import Quarry
from chaos.sim.tools.product import Kernel


def plan_of(seed: int = 7, faults: int = 8, calls: int = 20) -> Plan:
    """A plan of the size that a profile draws."""
    dice = random.Random(f"{seed}/stories")
    kinds = ("crash", "pause", "cut", "slow_disk")
    struck = sorted(dice.randrange(4_000) for _ in range(faults))
    clients = (
        ClientPlan(
            name,
            "producer",
            tuple(Call(17 + number * 41, "enqueue", {"bytes": 128, "member": "a"}) for number in range(calls)),
            {"number": 2 if name == "p1" else 1},
        )
        for name in ("p1", "p2", "c1")
    )
    return Plan(
        seed,
        "swarm",
        {"delay_ms": 2},
        tuple(Fault(ms, dice.choice(kinds), dice.choice("ab"), {"ms": dice.randrange(50, 900)}) for ms in struck),
        tuple(clients),
    )


def run_by(rule: Callable[[Plan], list[str]]) -> Callable[[Plan], Outcome]:
    """A run that shows what the rule says."""
    return lambda plan: Outcome(plan, violations=rule(plan), trace_hash=plan.to_json())


def story(pairs: int = 40) -> list[TraceEvent]:
    """What a trace looks like: heartbeats, an enqueue at a time, a cut, a takeover and a violation."""
    trace = [TraceEvent(0, "a", "role", "MASTER 1"), TraceEvent(0, "b", "role", "REPLICA 1")]
    now = 0.0
    for number in range(pairs):
        now += 50
        who, to = ("a", "b") if number % 2 else ("b", "a")
        trace.append(TraceEvent(now, who, "sent", f"Heartbeat {number}", to))
        trace.append(TraceEvent(now + 1.5, who, "arrived", f"Heartbeat {number}", to))
        if number % 4 == 0:
            trace += exchange(now + 5, number)
    cut = now + 300
    trace += [
        TraceEvent(cut, "a>b", "fault", "cut_one_way"),
        TraceEvent(cut + 3, "p1", "call", f"Enqueue {pairs}", "a"),
        TraceEvent(cut + 4, "a", "sent", f"Record epoch 1 index {pairs}", "b"),
        TraceEvent(cut + 6, "a", "lost", f"Record epoch 1 index {pairs}", "b"),
        TraceEvent(cut + 20, "a", "fault", "crash"),
        TraceEvent(cut + 20, "a", "role", "DOWN"),
        TraceEvent(cut + 1_500, "b", "sent", "CompareAndSet epoch 2 holder b", "register"),
        TraceEvent(cut + 1_502, "b", "arrived", "CompareAndSet epoch 2 holder b", "register"),
        TraceEvent(cut + 1_503, "register", "sent", "Set epoch 2", "b"),
        TraceEvent(cut + 1_506, "register", "arrived", "Set epoch 2", "b"),
        TraceEvent(cut + 1_506, "b", "role", "MASTER 2"),
        TraceEvent(cut + 1_520, "b", "answer", f"Enqueue {pairs}: index {pairs}", "p1"),
        TraceEvent(cut + 1_900, "", "healed", "everything"),
        TraceEvent(cut + 1_900, "a", "role", "REPLICA 2"),
        TraceEvent(cut + 2_400, "", "violation", "lost acknowledged: p1 enqueue 12 was acknowledged and is nowhere"),
    ]
    return trace


def exchange(at_ms: float, number: int) -> list[TraceEvent]:
    """One enqueue that goes well."""
    record, ack = f"Record epoch 1 index {number}", f"Ack {number}"
    return [
        TraceEvent(at_ms, "p1", "call", f"Enqueue {number}", "a"),
        TraceEvent(at_ms + 0.2, "a", "sent", record, "b"),
        TraceEvent(at_ms + 2, "a", "arrived", record, "b"),
        TraceEvent(at_ms + 3, "b", "sent", ack, "a"),
        TraceEvent(at_ms + 5, "b", "arrived", ack, "a"),
        TraceEvent(at_ms + 5, "a", "commit", str(number)),
        TraceEvent(at_ms + 5, "a", "answer", f"Enqueue {number}: index {number}", "p1"),
    ]


def draw(profile: str, seed: int) -> Plan:
    """What a campaign of make-believe runs draws."""
    return Plan(seed, profile, faults=plan_of(seed).faults)


def run(plan: Plan) -> Outcome:
    """One in ten fails, one in a hundred meets the rare point; a planted bug fails first at seed 23."""
    fails = plan.seed == 23 if plan.bug else plan.seed % 10 == 0
    counters = {"calls": 60, "acked": 40}
    for fault in plan.faults:
        counters[f"fault.{fault.kind}"] = counters.get(f"fault.{fault.kind}", 0) + 1
    return Outcome(
        plan,
        ["lost acknowledged: one"] if fails else [],
        counters,
        {"common": 1, **({"rare": 1} if plan.seed % 100 == 0 else {})},
        trace_hash=f"{plan.seed}/{plan.profile}/{len(plan.faults)}",
        steps=100,
        virtual_ms=4_000,
    )


def run_breaks(plan: Plan) -> Outcome:
    """The simulator itself has a fault."""
    raise KeyError(plan.seed)


def tell(plan: Plan) -> Outcome:
    """With a trace."""
    outcome = run(plan)
    outcome.trace = story(3)
    return outcome


KERNEL = Kernel(
    draw,
    run,
    tell,
    ("swarm", "fences"),
    ("crash", "pause", "cut", "slow_disk"),
    (
        Quarry("early_ack", ("swarm",), 40, "the master answers before the replica holds it"),
        Quarry("late_ack", ("fences",), 20, "never found here: its only seed is beyond the budget"),
    ),
    {"common": "met by every run", "rare": "met by one run in a hundred"},
)


REAL = Plan(
    5,
    "swarm",
    faults=(Fault(150, "cut", "a>b", {"for_ms": 1_500}), Fault(600, "crash", "a", {"down_ms": 300, "power": False})),
    clients=(
        ClientPlan("admin", "admin", ()),
        ClientPlan("p0", "producer", tuple(Call(ms, "send", {"count": 1}) for ms in (100, 200, 700)), {"number": 0}),
    ),
    safety_ms=2_000,
)
"""One for the product itself: a cut, and a crash within it."""
