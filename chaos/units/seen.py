"""What was seen of a run, for the account and the picture: rows of journals, answers, and processes that ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.demo_journals import Row

FLIGHTS, DEAD, LEGS, LEDGER, REPORTS = "flights", "flights.dead", "legs", "ledger", "reports"
TARGET = "west"
XMIT = f"SYSTEM.XMIT/{TARGET}"
CANCEL = "cancel"


class Answer(NamedTuple):
    """What a reaction's caller got to hear."""

    label: str
    applied: int
    locked: int
    sticky: bool = False


class Committed(NamedTuple):
    """A unit whose worker has the answer: where what it sent is."""

    row: int
    leg_index: int
    entry_index: int


@dataclass(slots=True)
class Seen:
    """All of it. Journals are in the order of the log."""

    here: list[Row] = field(default_factory=list)
    there: list[Row] = field(default_factory=list)  # at the second pair
    sent: set[int] = field(default_factory=set)  # rows of the file whose sending was acknowledged
    committed: list[Committed] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    masters_killed: int = 0  # processes that ended by SIGKILL
    workers_killed: int = 0
