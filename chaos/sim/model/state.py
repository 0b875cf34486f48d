"""What a state of a whole pair is made of, and the bound on what may happen to it. Values only; decides nothing.

A state is a tuple of small numbers, one for each part (`A` to `BUDGET`); equal parts have equal numbers, so equal
states are equal tuples.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from chaos.sim.model.member import Call
from failover.register import Register, SetOutcome

A, B, WIRE_A, WIRE_B, LINK, REGISTER, CALLS, LATE, KNOWN, BUDGET = range(10)
LINKED, GREETED_A, GREETED_B, WITNESS_AWAY = 1, 2, 4, 8
GREETED = (GREETED_A, GREETED_B)

State: TypeAlias = tuple[int, ...]
Label: TypeAlias = tuple[object, ...]
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Bound:
    """How often what does not happen by itself may happen, and how far epochs may go."""

    crash: int = 0
    reset: int = 0
    """Connections that break, each side noticing on its own time. Each lets either side hold the other for lost."""
    unknown: int = 0
    """Register calls whose caller gets no answer; they land later, or never."""
    outage: int = 0
    """Times that the witness goes away (it comes back for free)."""
    wipe: int = 0
    """Members that lose their disk in a crash."""
    lie: int = 0
    """Members whose disk loses its last write in a crash, though it had answered."""
    operations: int = 1
    handoff_a: int = 0
    handoff_b: int = 0
    deadline: int = 0
    """Deadlines of a handoff that pass while something is still under way (free when nothing is)."""
    lone_epoch: int = 3
    """No member claims a higher one while it is not connected."""
    epoch: int = 7
    """No member claims a higher one at all: a run that gets there is not followed any further."""
    coarse: bool = False
    """What a member sends in one step arrives in one step, and a register call lands and is answered in one step; what
    can come between is searched with fewer faults.
    """
    late_reads: bool = False
    """A read of the register is answered in a step of its own, with the value of another one before; else at once."""
    start: str = "pair"
    """A name of `chaos.sim.model.starts`."""

    def __str__(self) -> str:
        """What differs from nothing at all, and how far epochs go."""
        always = ("operations", "lone_epoch", "epoch")
        named = [field for field in fields(self) if field.name in always or getattr(self, field.name) != field.default]
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in named)


class Budget(NamedTuple):
    """What is left."""

    crash: int
    reset: int
    unknown: int
    outage: int
    wipe: int
    lie: int
    operations: int
    handoff_a: int
    handoff_b: int
    deadline: int


CRASH, RESET, UNKNOWN, OUTAGE, WIPE, LIE, OPERATIONS, HANDOFF = range(8)
DEADLINE = HANDOFF + 2
"""Places in a budget; the handoffs of A and B follow one another."""


PLENTY = Budget(*[100] * len(Budget._fields))
"""While the first state is being made."""


class Known(NamedTuple):
    """What an observer remembers: operations that a client was answered, and who served which epoch."""

    answered: tuple[tuple[bytes, int], ...]
    """Digest, and the epoch of whoever said so first."""
    owners: tuple[tuple[int, int], ...]
    liar: int = -1
    """Whose disk has lost a write that it had answered for."""


class Pending(NamedTuple):
    """A compare-and-set on its way, or a read (`call` None); `outcome` is the register's answer, once it has landed."""

    member: int
    incarnation: int
    call: Call | None
    outcome: SetOutcome | None = None
    register: Register | None = None

    @property
    def name(self) -> str:
        """What it is for."""
        return str(self.call.purpose) if self.call is not None else "read"


class Numbers(Generic[T]):
    """Small numbers for things that are compared often."""

    def __init__(self) -> None:
        self.things: list[T] = []
        self._number_of: dict[T, int] = {}

    def __call__(self, thing: T) -> int:
        number = self._number_of.get(thing)
        if number is None:
            number = self._number_of[thing] = len(self.things)
            self.things.append(thing)
        return number


LONE: State = (-1,)
"""Stands for whatever follows a lone claim that the bound leaves out, or a member alone whose disk has lied to it."""
FAR: State = (-2,)
"""Stands for whatever follows a claim beyond the highest epoch."""
