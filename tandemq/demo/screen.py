"""Decides how a running demo looks, on a terminal and in a pipe; it never touches the pair."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TextIO

from tandemq.cli.output import say
from tandemq.demo.record import IN_SYNC, KILL, NOTE, RESTART, TAKEOVER, Event, Record

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from chaos.ledger import Ledger
    from tandemq.cli.view import PairView

EVENTS_SHOWN = 10
PLAIN_EVERY_S = 2.0
_COLOURS = MappingProxyType({KILL: "bold red", TAKEOVER: "bold green", IN_SYNC: "green", RESTART: "cyan", NOTE: "dim"})
_ROLE_COLOURS = MappingProxyType({"MASTER": "bold green", "REPLICA": "cyan"})


class Screen(Protocol):
    """What people see while the demo runs."""

    def add(self, event: Event) -> None: ...
    def show(self, view: PairView, ledger: Ledger, record: Record, now_s: float) -> None: ...


class PlainScreen:
    """A line an event, and now and then one about progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = 0.0

    def add(self, event: Event) -> None:
        say(f"{event.at_s:6.2f}  {event.text}", file=self._stream)

    def show(self, view: PairView, ledger: Ledger, record: Record, now_s: float) -> None:
        if now_s < self._next_s:
            return
        self._next_s = now_s + PLAIN_EVERY_S
        roles = ", ".join(
            f"{member.name} {state.role if (state := member.domain('main')) else 'gone'}" for member in view.members
        )
        counts = f"acknowledged {ledger.acknowledged:,}, settled {ledger.settled:,} of {ledger.rows:,}"
        say(f"{now_s:6.2f}  {roles}; {counts}; {record.rate(now_s):,.0f} rows/s", file=self._stream)


class LiveScreen:
    """Both members, the counts and the last events, redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        self._events = [*self._events, event][-EVENTS_SHOWN:]

    def show(self, view: PairView, ledger: Ledger, record: Record, now_s: float) -> None:
        self._live.update(frame(view, ledger, record, self._events, now_s))


@contextmanager
def screen(console: Console, *, to_stderr: bool) -> Iterator[Screen]:
    """The screen that suits where the output goes."""
    if not console.is_terminal or to_stderr:
        yield PlainScreen(sys.stderr if to_stderr else sys.stdout)
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=10) as live:
        yield LiveScreen(live)


def frame(view: PairView, ledger: Ledger, record: Record, events: list[Event], now_s: float) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar

    from tandemq.cli.terminal import new_grid, new_table, styled

    members = new_table(f"{now_s:5.1f} s")
    for name in ("member", "pid", "role", "copy", "epoch", "log", "committed"):
        members.add_column(
            name, justify="right" if name in ("pid", "epoch", "log", "committed") else "left", min_width=8
        )
    by_name = {member.name: member for member in view.members}
    for name in record.members:
        member = by_name.get(name)
        state = member.domain("main") if member else None
        if member is None or state is None:
            members.add_row(name, "-", styled(("gone", "bold red")), "-", "-", "-", "-")
            continue
        role = styled((state.role, _ROLE_COLOURS.get(state.role, "yellow")))
        numbers = (f"{state.epoch}", f"{state.log_index:,}", f"{state.commit_index:,}")
        members.add_row(name, str(member.pid), role, state.data_state, *numbers)
    counts = new_grid()
    facts = {"sent": ledger.sent, "acknowledged": ledger.acknowledged, "settled": ledger.settled}
    for label, count in facts.items():
        counts.add_row(label, ProgressBar(total=ledger.rows, completed=count, width=40), f"{count:>7,}")
    rate = f"{record.rate(now_s):,.0f} rows/s acknowledged, longest pause so far {ledger.longest_pause.length_ms:,} ms"
    lines = [styled((f"{event.at_s:6.2f}  {event.text}", _COLOURS[event.kind])) for event in events]
    return Group(members, counts, styled((rate, "dim")), "", *lines)
