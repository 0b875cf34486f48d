"""Plans made by hand, swept over exact times, for the rows of the failure matrix that processes cannot show.

Each run is small (a sender, a taker, half a second of faults), so that hundreds of them cost seconds. Times count from
when the clients begin. What happens in the windows: a killed master is replaced from `TRIGGER_MS` on, about 20 ms for
the replica to be sure, 1 to 3 ms for each call of the register and each commit; a handoff is over within 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement, product

from chaos.sim.pair.plan import Call, ClientPlan, Fault, Outcome, Plan, Value
from chaos.sim.tools.product import run

TRIGGER_MS = 200
"""When the master dies, or is told to hand over."""
TAKEOVER = range(TRIGGER_MS, TRIGGER_MS + 60)
HANDOFF = range(TRIGGER_MS, TRIGGER_MS + 16)
DAY_MS = 86_400_000
LEASE_MS = 5_000

CRASH = Fault(TRIGGER_MS, "crash", "a", {"down_ms": 250, "power": False})


def clients(*, handoff: bool = False, hold_ms: int = 400) -> tuple[ClientPlan, ...]:
    """One that sends through all of it, one that holds a lease over it, one that drops its own, and who hands over."""
    sends = tuple(Call(20 + 11 * number, "send", {"count": 1 + number % 2}) for number in range(40))
    take: dict[str, Value] = {"max": 2, "wait_ms": 100, "then": "ack", "hold_ms": 1, "again": ""}
    held = take | {"then": "extend", "hold_ms": hold_ms}
    found = [
        ClientPlan("p0", "producer", sends, {"number": 0, "batch": 1}),
        ClientPlan("t0", "taker", (Call(90, "take", held), Call(620, "take", take)), {"lease_ms": LEASE_MS}),
    ]
    dropped = (Call(60, "take", take | {"max": 1, "then": "drop"}),)
    found.append(ClientPlan("t1", "taker", dropped, {"lease_ms": 300}))
    if handoff:
        found.append(ClientPlan("admin", "admin", (Call(TRIGGER_MS, "handoff", {"via": "a"}),)))
    return tuple(found)


def plan(faults: Iterable[Fault], *, handoff: bool = False, seed: int = 1, safety_ms: int = 700) -> Plan:
    """A run with these faults, in order."""
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_ms))
    return Plan(seed, "given", faults=ordered, clients=clients(handoff=handoff), safety_ms=safety_ms)


def broken(outcomes: Iterable[Outcome]) -> list[str]:
    """What each run showed that ought not to be, with the faults that it was made of."""
    return [
        f"{line}  <- seed {outcome.plan.seed} {told(outcome.plan)}"
        for outcome in outcomes
        for line in outcome.violations
    ]


def told(given: Plan) -> str:
    """Its faults in a line."""
    order = [f"{call.kind}@{call.at_ms}" for client in given.clients if client.role == "admin" for call in client.calls]
    return ", ".join([*order, *(f"{fault.kind}@{fault.at_ms} {fault.target} {fault.args}" for fault in given.faults)])


def run_all(plans: Iterable[Plan]) -> Iterator[Outcome]:
    """One after the other."""
    return (run(each) for each in plans)


# -- rows --------------------------------------------------------------------------------------------------------------


def clock_steps() -> Iterator[Plan]:
    """A wall clock steps at every other millisecond of a takeover and at every one of a handoff."""
    for by_ms in (DAY_MS, -DAY_MS, -5_000):
        for target in "ba":
            for at_ms in TAKEOVER[::2]:
                yield plan([CRASH, Fault(at_ms, "clock", target, {"by_ms": by_ms})])
            for at_ms in HANDOFF:
                yield plan([Fault(at_ms, "clock", target, {"by_ms": by_ms})], handoff=True)


def power_losses() -> Iterator[Plan]:
    """The power fails at one member, or at both, at every third millisecond under load."""
    for at_ms in range(100, 260, 3):
        for targets in ("a", "b", "ab", "ba"):
            faults = [
                Fault(at_ms + place, "crash", target, {"down_ms": 40 + 60 * place, "power": True})
                for place, target in enumerate(targets)
            ]
            yield plan(faults, seed=at_ms)


def failed_syncs() -> Iterator[Plan]:
    """The k-th commit of either member fails, under load; and so does one of a takeover."""
    for target in "ab":
        for after in range(40):
            yield plan([Fault(0, "fsync", target, {"after": after})], seed=after)
    for at_ms in TAKEOVER[16:32]:
        yield plan([CRASH, Fault(at_ms, "fsync", "b", {})])


def late_sets() -> Iterator[Plan]:
    """A claim, a commit, an addition or a later set arrives when its author has started again, and epochs later.

    The last ones arrive when everything is over: the world lands what is still under way then.
    """
    again = (
        [],
        [Fault(TRIGGER_MS + 120, "crash", "b", {"down_ms": 100, "power": False})],
        [
            Fault(TRIGGER_MS + 120, "crash", "b", {"down_ms": 60, "power": False}),
            Fault(TRIGGER_MS + 420, "crash", "a", {"down_ms": 60, "power": False}),
        ],
    )
    for skip in range(4):
        for by_ms in (3, 40, 200, 330, 600, 1_100, 2 * DAY_MS):
            for after in again:
                late = {"by_ms": by_ms, "count": 1, "skip": skip}
                yield plan([Fault(TRIGGER_MS, "late_set", "b", late), CRASH, *after], seed=skip)
            late = {"by_ms": by_ms, "count": 1, "skip": skip}
            yield plan([Fault(TRIGGER_MS - 1, "late_set", "b", late)], handoff=True, seed=skip)


# -- two faults and the steps of a promotion or a handoff --------------------------------------------------------------

PAIRED_WITH: tuple[tuple[str, str, dict[str, Value]], ...] = (
    ("crash", "a", {"down_ms": 80, "power": False}),
    ("crash", "b", {"down_ms": 80, "power": False}),
    ("cut", "a>b", {"for_ms": 150}),
    ("cut", "b>a", {"for_ms": 150}),
    ("reset", "a b", {"silently": False}),
    ("register_away", "a", {"for_ms": 300, "how": "both"}),
    ("register_away", "b", {"for_ms": 300, "how": "answers"}),
    ("unheard_set", "a", {"count": 1}),
    ("unheard_set", "b", {"count": 1}),
    ("late_set", "b", {"by_ms": 250, "count": 1}),
    ("fsync", "a", {}),
    ("fsync", "b", {}),
    ("pause", "a", {"for_ms": 700}),
    ("pause", "b", {"for_ms": 700}),
)
PROMOTION_STEPS = (-1, 2, 18, 20, 21, 22, 24, 30, 48)
"""Milliseconds after the master's death: sure of it, claim, epoch on disk, commit, serving, and a while after."""
HANDOFF_STEPS = (-1, 0, 1, 2, 3, 4, 5, 6, 8)
"""After the order: drain, ceded and on disk, COMMIT, claim, epoch on disk, commit, DONE, and a while after."""


def two_faults(*, handoff: bool) -> Iterator[Plan]:
    """Each pair of faults, in each order, at each pair of steps; a seed of its own moves each run by less than 1 ms."""
    steps = HANDOFF_STEPS if handoff else PROMOTION_STEPS
    cases = product(PAIRED_WITH, PAIRED_WITH, combinations_with_replacement(steps, 2))
    for seed, (first, second, (one_ms, other_ms)) in enumerate(cases):
        faults = [Fault(TRIGGER_MS + one_ms, *first), Fault(TRIGGER_MS + other_ms, *second)]
        yield plan(faults if handoff else [CRASH, *faults], handoff=handoff, seed=seed)
