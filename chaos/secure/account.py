"""Decides from what was asked and answered whether a pair kept its rights; it never talks to one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.secure.asking import Asked
from chaos.secure.calls import CALLS
from chaos.secure.impostors import Attempt
from chaos.secure.rights import GRANTS, Answer, Granted, expected, fits

PASS, FAIL, INVALID = "PASS", "FAIL", "INVALID"
REVOKED_MS = 1_000
"""A stream without its right ends within this."""


class Happened(NamedTuple):
    """What was done, and when."""

    at_s: float
    what: str


class Revoked(NamedTuple):
    """A stream that lost its right."""

    member: str
    took_ms: float
    """From the answer to the revocation to the end of the stream; 0: it had ended before."""
    withheld_ms: float
    """For how much of it at most the machine kept the pair waiting."""


@dataclass(slots=True)
class Seen:
    """Of one run."""

    cells: list[Asked] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    revoked: list[Revoked] = field(default_factory=list)
    rotations: list[str] = field(default_factory=list)
    happened: list[Happened] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0
    longest_s: float = 0.0
    lost: int = 0
    duplicates: int = 0
    failures: list[str] = field(default_factory=list)
    """Why the run ended before its end."""


class Cell(NamedTuple):
    """One that was judged."""

    asked: Asked
    expected: Answer
    right: bool


class Summary(NamedTuple):
    """`build/secure/summary.json`."""

    verdict: str
    cells: int
    wrong: int
    places: int
    principals: int
    calls: int
    allowed: int
    denied: int
    hidden: int
    sent: int
    acknowledged: int
    lost: int
    duplicates: int
    longest_wait_ms: int
    rotations: int
    revoked: int
    revoked_within_ms: int
    impostors: int
    impostors_refused: int
    problems: tuple[str, ...]


_BY_NAME = {call.name: call for call in CALLS}


def judged(cells: Collection[Asked], grants: Collection[Granted] = GRANTS) -> Iterator[Cell]:
    """Each beside what the model says."""
    for cell in cells:
        wanted = expected(_BY_NAME[cell.call], cell.principal, cell.queue, grants)
        yield Cell(cell, wanted, fits(wanted, cell.answer, cell.queue))


def account(seen: Seen, places: int) -> Summary:
    """`places`: at how many the whole table was to be asked."""
    cells = list(judged(seen.cells))
    answers = [cell.asked.answer for cell in cells]
    wrong = sum(not cell.right for cell in cells)
    slow = [each for each in seen.revoked if each.took_ms > REVOKED_MS]
    starved = [each for each in slow if each.took_ms - each.withheld_ms <= REVOKED_MS]
    refused = sum(each.refused for each in seen.attempts)
    found = len({cell.asked.place for cell in cells})
    problems = [
        *seen.failures,
        *([f"{wrong} cells are not as the model says"] if wrong else []),
        *([f"the table was asked at {found} of {places} places"] if found < places else []),
        *([f"{seen.lost} acknowledged messages are gone"] if seen.lost else []),
        *([f"{seen.duplicates} messages are there twice"] if seen.duplicates else []),
        *([] if seen.acknowledged else ["nothing was sent meanwhile"]),
        *(f"{each.who} at {each.where}: {each.said}" for each in seen.attempts if not each.refused),
        *([] if seen.attempts else ["nobody tried to get in"]),
        *([] if seen.revoked else ["no right was revoked"]),
        *([] if len(seen.rotations) >= 4 else [f"{len(seen.rotations)} of 4 exchanges"]),
        *(f"a stream without its right went on for {each.took_ms:.0f} ms" for each in slow if each not in starved),
    ]
    verdict = FAIL if problems else INVALID if starved else PASS
    problems += [f"a stream went on for {each.took_ms:.0f} ms, and the machine was withheld" for each in starved]
    return Summary(
        verdict,
        len(cells),
        wrong,
        found,
        len({cell.asked.principal for cell in cells}),
        len({cell.asked.call for cell in cells}),
        answers.count(Answer.ALLOWED),
        answers.count(Answer.DENIED),
        answers.count(Answer.HIDDEN),
        seen.sent,
        seen.acknowledged,
        seen.lost,
        seen.duplicates,
        round(1_000 * seen.longest_s),
        len(seen.rotations),
        len(seen.revoked),
        round(max((each.took_ms for each in seen.revoked), default=0)),
        len(seen.attempts),
        refused,
        tuple(problems),
    )
