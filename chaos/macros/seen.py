"""What was seen of a run of the demo of macro queues, for the account and the picture; it decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.demo_journals import Row

IN, OUT = "flights.in", "flights.out"
WEST = "west"


class Member(NamedTuple):
    """A queue that flights go through."""

    queue: str
    """Its name at the manager that has it."""
    priority: int
    """Of the macro queue that is received from."""
    is_remote: bool = False

    @property
    def enters(self) -> str:
        """The queue of the pair that it is dealt by."""
        return f"SYSTEM.XMIT/{WEST}/{self.queue}" if self.is_remote else self.queue

    @property
    def target(self) -> str:
        """As it is added to the macro queue that is sent to."""
        return f"//{WEST}/{self.queue}" if self.is_remote else self.queue

    @property
    def gives(self) -> str:
        """As it is added to the macro queue that is received from: remote ones by a proxy."""
        return f"{WEST}-{self.queue}" if self.is_remote else self.queue


HIGH, LOW, DESTROYED = Member("gates.a", 5), Member("gates.b", 3), Member("gates.c", 1)
FAR, FAR_LOW, ADDED = (
    Member("gates.d", 7, is_remote=True),
    Member("gates.e", 2, is_remote=True),
    Member("gates.f", 4, is_remote=True),
)
FIRST = (DESTROYED, FAR_LOW, HIGH, FAR, LOW)
"""Added in this order, which gives each of them carriers: where those go follows from the numbers of the queues."""
MEMBERS = (*FIRST, ADDED)


class Change(NamedTuple):
    """The macro queue that is sent to has other members for what is sent behind that flight."""

    after_row: int
    member: Member
    is_added: bool


class Fault(NamedTuple):
    """What was done, when; until `over_s` the manager was not whole."""

    at_s: float
    what: str
    member: str
    over_s: float | None = None


class Sample(NamedTuple):
    """How far it was."""

    at_s: float
    sent: int
    received: int


@dataclass(slots=True)
class Seen:
    """Of one run. Journals are in the order of the log."""

    pair: dict[str, list[Row]] = field(default_factory=dict)
    """By member."""
    single: list[Row] = field(default_factory=list)
    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    """Flights whose sending was answered."""
    received: set[int] = field(default_factory=set)
    """Flights that a consumer was handed."""
    changes: list[Change] = field(default_factory=list)
    choices: dict[str, int] = field(default_factory=dict)
    reopened: int = 0
    """Times that a proxy was opened after it had failed."""
    kills: int = 0
    """Processes that ended by SIGKILL."""
    faults: list[Fault] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    began_ms: int = 0
    """The second 0 of faults and samples, in milliseconds since 1970."""
