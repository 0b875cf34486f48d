"""How a running drill looks, on a terminal and in a pipe; it never touches the pair."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from chaos.drill.playing import Note, Progress, Screen
from tandemq.cli.output import say, unread

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

NOTES_KEPT = 12
RATE_S = 1.0
_COLOURS = {"fault": "bold red", "healed": "green", "steady": "dim", "verify": "cyan", "rollback": "cyan"}
_ROLES = {"MASTER": "bold green", "REPLICA": "cyan"}


class PlainScreen:
    """A line for every note."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, note: Note) -> None:
        try:
            say(f"{note.at_s:7.2f}  {note.phase:<8}  {note.text}", file=self._stream)
        except OSError:  # its reader has ended, perhaps by the same Ctrl-C: what is hurt must be healed all the same
            unread(self._stream)

    def show(self, progress: Progress) -> None:
        """Nothing between the lines."""


class LiveScreen:
    """Both members, the faults that hold, the counts and the last notes, redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._notes: list[Note] = []
        self._progress: Progress | None = None

    def note(self, note: Note) -> None:
        self._notes = [*self._notes, note][-NOTES_KEPT:]
        self._draw()  # before the first look and while it heals nothing else does

    def show(self, progress: Progress) -> None:
        self._progress = progress
        self._draw()

    def _draw(self) -> None:
        self._live.update(lines(self._notes) if self._progress is None else frame(self._progress, self._notes))


@contextmanager
def screen(console: Console, *, to_stderr: bool) -> Iterator[Screen]:
    """The one that suits where the output goes."""
    if to_stderr or not console.is_terminal:
        yield PlainScreen(sys.stderr if to_stderr else sys.stdout)
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=5) as live:
        yield LiveScreen(live)


def frame(progress: Progress, notes: list[Note]) -> RenderableType:
    """One picture of the terminal."""
    from rich.console import Group

    from tandemq.cli.terminal import new_table, styled

    title = f"drill {progress.drill.name}  {progress.now_s:6.1f} s  {progress.origin}"
    members = new_table(title)
    for name in ("member", "role", "copy", "epoch", "log"):
        members.add_column(name, justify="right" if name in ("epoch", "log") else "left", min_width=8)
    for member in progress.view.members if progress.view else ():
        state = member.domain("main")
        if state is None:
            members.add_row(member.name or member.endpoint, styled(("no answer", "bold red")), "-", "-", "-")
            continue
        role = styled((state.role, _ROLES.get(state.role, "yellow")))
        members.add_row(member.name, role, state.data_state, f"{state.epoch}", f"{state.log_index:,}")
    history = progress.history
    recent = sum(1 for ack in reversed(history.acked[-2000:]) if ack.at_s > progress.now_s - RATE_S)
    last_s = history.acked[-1].at_s if history.acked else 0.0
    counts = (
        f"acknowledged {len(history.acked):,} ({recent:,} in the last second), delivered {len(history.delivered):,}, "
        f"last acknowledgement {max(0.0, progress.now_s - last_s) * 1000:,.0f} ms ago"
    )
    holding = [each for each in progress.struck if not math.isfinite(each.to_s)]
    faults = ", ".join(f"{each.kind} {'/'.join(each.members)}" for each in holding) or "none"
    style = "bold red" if holding else "dim"
    return Group(members, counts, styled((f"faults that hold: {faults}", style)), "", lines(notes))


def lines(notes: list[Note]) -> RenderableType:
    """The last notes."""
    from rich.console import Group

    from tandemq.cli.terminal import styled

    return Group(*(styled((f"{each.at_s:7.2f}  {each.text}", _COLOURS.get(each.phase, ""))) for each in notes))
