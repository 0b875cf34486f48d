"""Runs a classifier command and reads its verdict; what it does wrong is no answer, and it never outlives its limit.

Safety class C: nothing vouches for a script. What a promotion needs beside it is decided by `failover.gate`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from failover.aside import run
from failover.classifier import Answer, Event, Evidence, Outcome, SafetyClass, Verdict
from failover.event_json import AnswerJson, encode
from failover.process import Ended, Process, Ran
from failover.reasons import tidy

THREAD = "classifier-command"
VERDICT_BY_CODE = MappingProxyType({verdict.value: verdict for verdict in Verdict})
# What people take for a verdict and is none: every shell, interpreter and kill produces these by itself.
WELL_KNOWN_CODES = MappingProxyType(
    {
        0: "it ended without saying who lives",
        1: "it failed",
        2: "it was used wrongly",
        126: "a shell could not execute something",
        127: "a shell did not find something",
    }
)


class Command:
    """Shipped: `command`. An argument list, run without a shell, once for each call."""

    safety = SafetyClass.C

    def __init__(self, argv: Sequence[str], name: str = "command") -> None:
        self.argv, self.name = tuple(argv), name

    async def classify(self, event: Event) -> Answer:
        """See Classifier. The limit is the event's `decide_by_ms`: then SIGTERM, a second later SIGKILL to its group.

        Cancelled, it kills the group at once: nobody wants its answer any more.
        """
        began = time.monotonic()
        ran = await run(Process(self.argv, encode(event), event.decide_by_ms / 1000), THREAD)
        return answer_of(event, ran, self.name, round((time.monotonic() - began) * 1000))

    async def preflight(self) -> list[str]:
        """Whether the file could be started now."""
        return [] if (why := Process(self.argv, b"", 0).why_not_startable()) is None else [why]

    async def report(self, outcome: Outcome) -> None:
        """A command is not notified: what became of its answer is in the journal."""


def answer_of(event: Event, ran: Ran, by: str, duration_ms: int) -> Answer:
    """The contract, pure: exit code and output to an answer. Every doubt is no answer, and the reason says which."""

    def none(why: str) -> Answer:
        said = tidy(ran.stderr.decode(errors="replace").strip().rpartition("\n")[2])
        reason = f"{why}; stderr ends: {said}" if said else why
        return Answer(event.event_id, event.link_generation, None, reason, duration_ms=duration_ms, by=by)

    if ran.ended is not Ended.EXIT:
        return none(ran.why)
    verdict = VERDICT_BY_CODE.get(ran.code)
    if verdict is None:
        return none(f"{code_text(ran.code)}; a verdict is one of 20 to 24")
    if ran.stdout_cut:
        return none(f"it wrote more than {len(ran.stdout):,} bytes to stdout; write nothing, or one line of JSON")
    if not (line := ran.stdout.strip()):
        return Answer(event.event_id, event.link_generation, verdict, duration_ms=duration_ms, by=by)
    if len(line.splitlines()) > 1:
        return none("it wrote more than one line to stdout; write nothing, or one line of JSON (log to stderr)")
    try:
        given = msgspec.json.decode(line, type=AnswerJson)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return none(f"its stdout is no answer: {tidy(str(error))}")
    if given.event_id != event.event_id:
        return none(f"it answers event {tidy(given.event_id)!r}, asked was {event.event_id!r}")
    if given.verdict is not None and given.verdict not in (verdict.name, verdict.value):
        return none(f"it says {given.verdict} on stdout and exits with {verdict.value} ({verdict.name})")
    return Answer(
        event.event_id,
        event.link_generation,
        verdict,
        tidy(given.reason),
        Evidence(given.evidence),
        given.token,
        given.valid_for_ms,
        given.retry_ms,
        duration_ms,
        by,
    )


def code_text(code: int) -> str:
    """An exit code that is no verdict, in words."""
    if code < 0:
        return f"it died of signal {-code}"
    if code > 128:
        return f"exit code {code}, which is what a shell says when a program dies of signal {code - 128}"
    return f"exit code {code}" + (f": {WELL_KNOWN_CODES[code]}" if code in WELL_KNOWN_CODES else "")
