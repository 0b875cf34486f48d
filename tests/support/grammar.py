"""Finds the method that a command line of a script means, and what its words stand for. Runs nothing by itself.

A method becomes a command by `@command("crash MEMBER")`: words in capitals are places for arguments, described in
`PLACES`; all others stand as they are. What is unknown or does not fit is answered with what is known.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

FRAMES = (
    *("HELLO", "DIGEST_QUERY", "DIGEST_REPLY", "SYNC_BEGIN", "SYNC_END", "OPEN_ACK", "OP", "OP_ACK", "HOLD"),
    *("HOLD_REJECT", "FETCH_BODY", "VOLATILE_BODIES", "HANDOFF_REQUEST", "HANDOFF_PROPOSE", "HANDOFF_READY"),
    *("HANDOFF_NACK", "HANDOFF_ACK"),
)
ROLES = ("INIT", "PROBE", "REPLICA", "MASTER", "MASTER_SUSPENDED", "CEDING", "FAILED", "DIVERGED", "MAINTENANCE")
STATES = ("MASTER", "PROPOSED", "DRAINING", "CEDING", "REPLICA", "REQUESTED", "READY", "TAKING")
MARKS = ("EMPTY", "SYNCING", "STALE", "IN_SYNC", "SOLE", "DAMAGED")


class CommandError(Exception):
    """A line that is no command, or whose words do not fit."""


class Place(NamedTuple):
    """What may stand in one place."""

    pattern: str
    says: str


PLACES = {
    "MEMBER": Place("a|b", "a or b"),
    "WAY": Place("a>b|b>a", "a>b or b>a"),
    "OP": Place(r"[a-z][a-z0-9-]*", "the name of a message: small letters, digits and -"),
    "COUNT": Place(r"[0-9]{1,9}", "a number"),
    "MS": Place(r"[0-9]{1,6}", "milliseconds: a number"),
    "CALL": Place("claim|commit|add|read", "a call to the register: claim, commit, add or read"),
    "FRAME": Place("|".join(FRAMES), f"a frame: {', '.join(FRAMES)}"),
    "ROLE": Place("|".join(ROLES), f"a role: {', '.join(ROLES)}"),
    "STATE": Place("|".join(STATES), f"how far a handoff is: {', '.join(STATES)}"),
    "MARK": Place("|".join(MARKS), f"a data mark: {', '.join(MARKS)}"),
    "HELD": Place(
        "frames|claims|commits|adds|reads|calls|disk-a|disk-b",
        "what can be held: frames, claims, commits, adds, reads, calls (all four), disk-a, disk-b",
    ),
    "VERDICT": Place("continue|assume|failed|wait|alive", "a verdict: continue, assume, failed, wait or alive"),
    "ANSWER": Place("done|[A-Z_,]+", "done, IN_DOUBT or reasons in capitals, with commas between them"),
    "REASON": Place(r"[A-Z_]+", "a reason in capitals"),
    "QUEUE": Place("q|r|s|q.dead", "a queue: q, r, s, or q.dead with the dead letters of q"),
    "WITH": Place(r"[a-z]+(=[a-z0-9-]+)?(,[a-z]+(=[a-z0-9-]+)?)*", "what is said of it: group=g,delay=500"),
    "ACTION": Place(
        r"delete|ask|move=[a-z]+|update=[a-z0-9-]+",
        "what is done: delete, move=QUEUE, update=OP, its new payload, or ask: a program says it",
    ),
    "SCOPE": Place("first|all", "first or all"),
    "LOCKSTEP": Place("plain|selected", "the lockstep of a queue with sides: plain or selected"),
}


def command(template: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """This method is what such a line means; its docstring is the explanation in tests/scripts/README.md."""

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        method.template = template  # type: ignore[attr-defined]
        return method

    return mark


class Grammar:
    """The commands that one object has."""

    def __init__(self, owner: object) -> None:
        self.methods: dict[str, Callable[..., Any]] = {}
        for kind in reversed(type(owner).__mro__):
            marked = ((name, vars(kind)[name]) for name in vars(kind))
            self.methods |= {
                method.template: getattr(owner, name) for name, method in marked if hasattr(method, "template")
            }

    def call(self, line: str) -> Any:
        """Runs the one command that the line means; raises CommandError."""
        words = line.split()
        misfits: list[str] = []
        for template, method in self.methods.items():
            places = template.split()
            if len(places) != len(words) or any(p not in PLACES and p != w for p, w in zip(places, words, strict=True)):
                continue
            misfit = [
                f"{word!r} in {template!r} must be {PLACES[place].says}"
                for place, word in zip(places, words, strict=True)
                if place in PLACES and not re.fullmatch(PLACES[place].pattern, word)
            ]
            if not misfit:
                return method(*(word for place, word in zip(places, words, strict=True) if place in PLACES))
            misfits += misfit
        raise CommandError("; or ".join(misfits) or self._unknown(line))

    def _unknown(self, line: str) -> str:
        first = line.split(maxsplit=1)[0]
        near = sorted(template for template in self.methods if template.split(maxsplit=1)[0] == first)
        near = near or difflib.get_close_matches(line, self.methods, n=3, cutoff=0.5) or sorted(self.methods)
        return f"no command {line!r}; known: {'; '.join(near)}"

    def table(self) -> str:
        """Every command with the first paragraph of what it does, those of a base class first."""
        lines = ["| command | what it does |", "|---|---|"]
        for template, method in self.methods.items():
            says = " ".join(str(inspect.getdoc(method)).split("\n\n")[0].split())
            lines.append(f"| `{template}` | {says} |")
        lines += ["", "| word | stands for |", "|---|---|"]
        lines += [f"| {name} | {place.says} |" for name, place in PLACES.items()]
        return "\n".join(lines) + "\n"
