"""Holds a user's classifier command to the contract, case by case, and says what it does wrong; it acts on nothing.

Every case runs the command once or twice with an event of its own. After HANGS_MAX calls that had to be ended the rest
is left out: each would take the whole limit too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from failover.aside import run
from failover.classifier import Answer, Event, EventKind, Verdict
from failover.command import THREAD, answer_of, code_text
from failover.event_json import document, encode
from failover.marks import DataMark, Role
from failover.process import Ended, Process, Ran
from failover.rehearsal import REHEARSED, sample

PROMOTIONS = (Verdict.CONTINUE_AS_MASTER, Verdict.ASSUME_MASTERSHIP)
HANGS_MAX = 3
LARGE_DOMAINS = 2_000  # about half a megabyte of JSON: more than a pipe holds
TERM_AFTER_S = 0.5


@dataclass(frozen=True, slots=True)
class Result:
    """How one case went."""

    case: str
    passed: bool | None  # None: left out
    ms: int
    detail: str


class Bench:
    """The command under test, and what calls of it have found."""

    def __init__(self, argv: Sequence[str], limit_s: float) -> None:
        self.argv, self.limit_s = tuple(argv), limit_s
        self.hangs = 0

    async def feed(self, stdin: bytes, limit_s: float | None = None, *, hold_stdin: bool = False) -> Ran:
        """One run with this input."""
        ran = await run(Process(self.argv, stdin, limit_s or self.limit_s, hold_stdin=hold_stdin), THREAD)
        self.hangs += ran.ended is Ended.LIMIT and not hold_stdin
        return ran

    async def ask(self, event: Event) -> Answer:
        """One call with this event."""
        event = replace(event, decide_by_ms=round(self.limit_s * 1000))
        return answer_of(event, await self.feed(encode(event)), "command", 0)


Problem = str | None
Case = tuple[str, Callable[[Bench], Awaitable[Problem]]]


async def check(argv: Sequence[str], limit_s: float) -> list[Result]:
    """Every case, in order. The first says whether the command can be started; without that there is no other."""
    bench = Bench(argv, limit_s)
    why = Process(argv, b"", 0).why_not_startable()
    results = [Result("can be started", why is None, 0, why or "")]
    if why is not None:
        return results
    for name, work in cases():
        if bench.hangs >= HANGS_MAX:
            results.append(Result(name, None, 0, "it hangs"))
            continue
        began = time.monotonic()
        problem = await work(bench)
        results.append(Result(name, problem is None, round((time.monotonic() - began) * 1000), problem or ""))
    return results


def cases() -> Iterator[Case]:
    """What a command must do, and how that is found out."""
    for kind, (_, situations) in REHEARSED.items():
        for role, data in situations:
            yield f"answers {kind.value} as {role.name} {data.name}", _answers(kind, role, data)
    for data in (DataMark.STALE, DataMark.SYNCING, DataMark.DAMAGED):
        yield f"does not assume on a copy that is {data.name}", _assumes_nothing(data)
    yield "repeats the event's own id, if it writes JSON", _echoes
    yield "answers another attempt of the same event", _repeats
    yield "ignores fields that it does not know", _unknown_fields
    yield f"answers a large event ({LARGE_DOMAINS:,} domains)", _large
    yield "promotes nobody on empty input", _on_input(b"")
    yield "promotes nobody on input that is cut off", _on_input(encode(sample(EventKind.PEER_LOST))[:150])
    yield "promotes nobody on input that is no JSON", _on_input(b"\xff\x00 no event\n")
    yield "ends at SIGTERM", _ends_at_sigterm
    yield "leaves no process behind", _leaves_nothing


def _answers(kind: EventKind, role: Role, data: DataMark) -> Callable[[Bench], Awaitable[Problem]]:
    async def case(bench: Bench) -> Problem:
        answer = await bench.ask(sample(kind, role, data))
        if answer.verdict is None:
            return answer.reason
        wrong = Verdict.CONTINUE_AS_MASTER if role in (Role.REPLICA, Role.PROBE) else Verdict.ASSUME_MASTERSHIP
        if answer.verdict is wrong:
            return f"{wrong.value} ({wrong.name}) cannot be meant for a member in role {role.name}: look at self.role"
        return None

    return case


def _assumes_nothing(data: DataMark) -> Callable[[Bench], Awaitable[Problem]]:
    async def case(bench: Bench) -> Problem:
        answer = await bench.ask(sample(EventKind.PEER_LOST, Role.REPLICA, data))
        if answer.verdict is None:
            return answer.reason
        if answer.verdict is Verdict.ASSUME_MASTERSHIP:
            return "21 (ASSUME_MASTERSHIP): such a copy may lack acknowledged messages; look at domains[].data"
        return None

    return case


async def _echoes(bench: Bench) -> Problem:
    for kind in (EventKind.PEER_LOST, EventKind.PREFLIGHT):
        event = replace(sample(kind), event_id=f'{sample(kind).event_id} "\\ \u00e4\u2028')
        if (answer := await bench.ask(event)).verdict is None:
            return answer.reason
    return None


async def _repeats(bench: Bench) -> Problem:
    event = sample(EventKind.PEER_LOST)
    for attempt in (1, 2):
        answer = await bench.ask(replace(event, attempt=attempt))
        if answer.verdict is None:
            return f"attempt {attempt}: {answer.reason}"
    return None


async def _unknown_fields(bench: Bench) -> Problem:
    event = sample(EventKind.PEER_LOST)
    sent: dict[str, Any] = document(event)
    for place in (sent, sent["self"], sent["peer"], sent["authority"], sent["domains"][0]):
        place["of_a_later_version"] = {"a": [1, None, "x" * 100]}
    answer = answer_of(event, await bench.feed(json.dumps(sent).encode()), "command", 0)
    return answer.reason if answer.verdict is None else None


async def _large(bench: Bench) -> Problem:
    names = tuple(f"domain-{number}" for number in range(LARGE_DOMAINS))
    answer = await bench.ask(sample(EventKind.PEER_LOST, domains=names))
    return answer.reason if answer.verdict is None else None


def _on_input(stdin: bytes) -> Callable[[Bench], Awaitable[Problem]]:
    async def case(bench: Bench) -> Problem:
        ran = await bench.feed(stdin)
        if ran.ended is not Ended.EXIT:
            return ran.why
        if ran.code in [verdict.value for verdict in PROMOTIONS]:
            return f"{code_text(ran.code)}: it promotes without having read what happened; exit with 1 or 23 instead"
        return None

    return case


async def _ends_at_sigterm(bench: Bench) -> Problem:
    """Its input stays open and empty, so that one that reads it is still there when the signal comes."""
    ran = await bench.feed(b"", min(TERM_AFTER_S, bench.limit_s), hold_stdin=True)
    return "it had to be killed: let SIGTERM end it, within a second" if ran.killed else None


async def _leaves_nothing(bench: Bench) -> Problem:
    ran = await bench.feed(encode(sample(EventKind.PEER_LOST)))
    if ran.ended is not Ended.EXIT:
        return ran.why
    return "a child of it still runs when it has ended, and is killed: wait for it" if ran.left_open else None
