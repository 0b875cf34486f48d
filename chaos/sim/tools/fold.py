"""Decides which events of a trace a picture shows as one: a frame with its arrival, runs of equal frames, heartbeats;
it draws nothing.

Asked of a trace: `sent`, `arrived` and `lost` all have the sender as `who` and the receiver as `to`, and the same text;
what was sent first from one to another with the same text arrives or is lost first. The first word of a frame's text is
its kind. `call` and `answer` go from `who` to `to` and take no time of their own.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.sim.pair.plan import TraceEvent

UNDER_WAY, ARRIVED, LOST = "under way", "arrived", "lost"
TRAVELS = ("sent", "call", "answer")
KEPT_MARKS = ("fault", "healed", "role", "violation")
"""Never left out, and a run of equal frames does not reach beyond one."""
HEARTBEAT = re.compile(r"heart|ping|pong|alive", re.IGNORECASE)
CYCLE_MAX, CYCLE_TIMES_MIN = 4, 3
"""A call and its answer are one cycle: so often at least until they are drawn as one."""
NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(slots=True)
class Arrow:
    """What goes from one to another; `count` of them when they are equal but for their numbers."""

    at_ms: float
    who: str
    to: str
    text: str
    what: str
    end_ms: float | None = None
    """When it arrived, or was lost. None: nobody said so."""
    fate: str = UNDER_WAY
    count: int = 1
    last_ms: float = 0.0
    """When the last one of several left."""

    @property
    def heartbeat(self) -> bool:
        """Says only that somebody lives."""
        return self.what == "sent" and HEARTBEAT.search(self.text.partition(" ")[0]) is not None


@dataclass(frozen=True, slots=True)
class Mark:
    """What happens at one place."""

    at_ms: float
    who: str
    text: str
    what: str


Item: TypeAlias = Arrow | Mark


@dataclass(slots=True)
class Folded:
    """A trace as few things, in order of time."""

    items: list[Item] = field(default_factory=list)
    left_out: int = 0
    """Arrows and notes at the beginning that would have been too many."""


def fold(trace: Iterable[TraceEvent], items_max: int) -> Folded:
    """At most `items_max` things, unless there are more faults, role changes and violations than that."""
    return _limited(_runs_as_one(_paired(trace)), items_max)


def _paired(trace: Iterable[TraceEvent]) -> list[Item]:
    """A frame and its fate are one arrow. What arrives without having been sent (a duplicate) is one of its own."""
    items: list[Item] = []
    waiting: defaultdict[tuple[str, str, str], deque[Arrow]] = defaultdict(deque)
    for event in trace:
        key = (event.who, event.to, event.text)
        if event.what in ("arrived", "lost"):
            if not waiting[key]:
                items.append(arrow := Arrow(event.at_ms, event.who, event.to, event.text, "sent", last_ms=event.at_ms))
            else:
                arrow = waiting[key].popleft()
            arrow.end_ms = event.at_ms
            arrow.fate = ARRIVED if event.what == "arrived" else LOST
        elif event.what in TRAVELS and event.to:
            arrow = Arrow(event.at_ms, event.who, event.to, event.text, event.what, last_ms=event.at_ms)
            items.append(arrow)
            if event.what == "sent":
                waiting[key].append(arrow)
            else:
                arrow.end_ms, arrow.fate = event.at_ms, ARRIVED
        else:
            items.append(Mark(event.at_ms, event.who, event.text, event.what))
    return items


def _runs_as_one(items: list[Item]) -> list[Item]:
    """Nothing runs beyond what goes wrong or changes. Heartbeats run whatever passes between them."""
    kept: dict[int, Item] = {}
    between: dict[tuple[str, ...], list[tuple[int, Arrow]]] = {}

    def end() -> None:
        for run in between.values():
            kept.update(_cycles_as_one(run))
        between.clear()

    for number, item in enumerate(items):
        if isinstance(item, Mark):
            kept[number] = item
            if item.what in KEPT_MARKS:
                end()
        else:
            who = (item.who, item.to, "heartbeat") if item.heartbeat else tuple(sorted((item.who, item.to)))
            between.setdefault(who, []).append((number, item))
    end()
    return [kept[number] for number in sorted(kept)]


def _cycles_as_one(run: list[tuple[int, Arrow]]) -> Iterator[tuple[int, Arrow]]:
    """Of what passes between two: what is said again and again, up to `CYCLE_MAX` frames long, is said once."""
    keys = [(arrow.who, arrow.to, NUMBER.sub("#", arrow.text), arrow.fate) for _, arrow in run]
    at = 0
    while at < len(run):
        length = times = 1
        for longer in range(1, CYCLE_MAX + 1):
            found = _times(keys, at, longer)
            if found >= (2 if longer == 1 else CYCLE_TIMES_MIN) and found * longer > times * length:
                length, times = longer, found
        for number in range(at, at + length):
            arrow = run[number][1]
            arrow.count = times
            arrow.last_ms = run[number + (times - 1) * length][1].last_ms
            yield run[number]
        at += length * times


def _times(keys: Sequence[tuple[str, ...]], at: int, length: int) -> int:
    """How often the next so many are there, one after the other."""
    cycle, times = keys[at : at + length], 1
    while len(cycle) == length and keys[at + times * length : at + (times + 1) * length] == cycle:
        times += 1
    return times if len(cycle) == length else 0


def _limited(items: list[Item], items_max: int) -> Folded:
    """What is left out comes first: a violation is at the end of its story."""
    excess = len(items) - items_max
    if excess <= 0:
        return Folded(items)
    kept: list[Item] = []
    left_out = 0
    for item in items:
        if left_out < excess and not (isinstance(item, Mark) and item.what in KEPT_MARKS):
            left_out += 1
        else:
            kept.append(item)
    return Folded(kept, left_out)
