"""Decides how a running demo of units looks, on a terminal and in a pipe; it never touches a pair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from chaos.units.counts import Counts
from tandemq.cli.output import say
from tandemq.cli.terminal import new_grid, styled
from tandemq.demo.record import Event

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


EVENTS_SHOWN = 12
PLAIN_EVERY_S = 5.0


class Screen(Protocol):
    """What people see while the demo runs."""

    def add(self, event: Event) -> None: ...
    def show(self, counts: Counts, rows: int, now_s: float) -> None: ...


class PlainScreen:
    """A line an event, and now and then one about progress."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def add(self, event: Event) -> None:
        say(f"{event.at_s:6.2f}  {event.text}")

    def show(self, counts: Counts, rows: int, now_s: float) -> None:
        if now_s >= self._next_s:
            self._next_s = now_s + PLAIN_EVERY_S
            say(
                f"{now_s:6.2f}  {counts.sent:,} of {rows:,} flights sent, {counts.legs:,} legs, "
                f"{counts.onward:,} entries on their way to the second pair"
            )


class LiveScreen:
    """One screen that is drawn again and again."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        self._events = [*self._events, event][-EVENTS_SHOWN:]

    def show(self, counts: Counts, rows: int, now_s: float) -> None:
        self._live.update(_frame(counts, rows, self._events, now_s))


def _frame(counts: Counts, rows: int, events: list[Event], now_s: float) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar

    grid = new_grid()
    at_second = max(counts.legs - counts.here - counts.onward, 0)
    for label, count in (
        ("flights sent", counts.sent),
        ("legs", counts.legs),
        ("entries at the second pair", at_second),
    ):
        grid.add_row(label, ProgressBar(total=rows, completed=count, width=40), f"{count:>7,}")
    text = f"{now_s:5.1f} s; {counts.cancelled:,} flights cancelled, {counts.exchanged:,} aircraft exchanged"
    lines = [styled((f"{event.at_s:6.2f}  {event.text}", "")) for event in events]
    return Group(grid, styled((text, "dim")), "", *lines)


@contextmanager
def screen(console: Console) -> Iterator[Screen]:
    """The screen that suits where the output goes."""
    if not console.is_terminal:
        yield PlainScreen()
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=5) as live:
        yield LiveScreen(live)
