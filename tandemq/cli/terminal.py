"""Decides how tables and live views are made: the one file that makes rich's consoles, tables and texts. Every string
that is given to them is text, never mark-up, and is printed escaped; only what is said by `styled` has a colour.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tandemq.escaping import escaped

if TYPE_CHECKING:
    from rich.console import HighlighterType, JustifyMethod, OverflowMethod
    from rich.style import Style

WIDTH_ELSEWHERE = 120  # of tables that do not go to a terminal
CUT_WIDTH_MIN = 6


class Column(NamedTuple):
    """Of a table. `typed`: its texts are arguments of other commands. `folds`: it may give width, and is never cut."""

    head: str
    typed: bool = False
    number: bool = False
    folds: bool = False


class Terminal(Console):
    """A console that obeys no string. Rich asks it for the text of each one: printed, in a cell, a title or a view."""

    def __init__(self, stream: TextIO) -> None:
        width = None if stream.isatty() else WIDTH_ELSEWHERE
        no_color = bool(os.environ.get("NO_COLOR")) or None
        super().__init__(file=stream, highlight=False, markup=False, emoji=False, width=width, no_color=no_color)

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        emoji: bool | None = None,
        markup: bool | None = None,
        highlight: bool | None = None,
        highlighter: HighlighterType | None = None,
    ) -> Text:
        del emoji, markup, highlight, highlighter
        return Text(escaped(text), style=style, justify=justify, overflow=overflow)


def styled(*parts: str | tuple[str, str]) -> Text:
    """One line of texts, some of them with a style: `styled("role ", (role, "bold red"))`."""
    return Text.assemble(*(escaped(part) if isinstance(part, str) else (escaped(part[0]), part[1]) for part in parts))


def new_table(title: str | None = None, *, heads: bool = True) -> Table:
    """The look of all tables. Columns and rows are the caller's."""
    return Table(
        box=box.SIMPLE_HEAD if heads else box.SIMPLE,
        pad_edge=False,
        title=title,
        title_justify="left",
        show_header=heads,
    )


def new_grid() -> Table:
    """Columns without lines or heads."""
    return Table.grid(padding=(0, 2))


def fitted(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], title: str | None = None
) -> Table:
    """A table as wide as the console at most. A column whose texts somebody has to type is never cut, only folded if it
    must be; the others give their width first, and end in an ellipsis."""
    lines = [[column.head for column in columns], *([escaped(str(cell)) for cell in row] for row in rows)]
    natural = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    widths = shared_out(natural, [column.typed for column in columns], console.width - 3 * len(columns) + 1)
    table = new_table(title)
    for column, width in zip(columns, widths, strict=True):
        justify: JustifyMethod = "right" if column.number else "left"
        whole = column.typed or column.folds
        overflow: OverflowMethod = "fold" if whole else "ellipsis"
        table.add_column(column.head, justify=justify, overflow=overflow, no_wrap=not whole, width=width)
    for row in rows:
        table.add_row(*row)
    return table


def shared_out(natural: Sequence[int], typed: Sequence[bool], room: int) -> list[int]:
    """How wide each column is. The widest of those that may be cut give first, down to a few characters; then the
    widest of the others."""
    widths = [min(width, max(room, 1)) for width in natural]
    for may_give, least in ((False, CUT_WIDTH_MIN), (True, 1)):
        while sum(widths) > room:
            givers = [place for place, width in enumerate(widths) if typed[place] is may_give and width > least]
            if not givers:
                break
            widths[max(givers, key=lambda place: widths[place])] -= 1
    return widths
