"""Draws what was asked as a page: a table for each place, principals beside calls; judges nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from chaos.secure.account import PASS, Cell, Seen, Summary, judged
from chaos.secure.rights import PRINCIPALS, Answer
from chaos.timeline.page import document, row
from tandemq.escaping import in_html

TITLE = "Who may do what"
_SHOWN = {Answer.ALLOWED: "yes", Answer.DENIED: "no", Answer.HIDDEN: "hidden", Answer.UNKNOWN: "unknown"}
_NOTED = (
    "<p>Each cell: how often a call was let in (yes), refused (no), or the queue was not there for whoever asked "
    "(hidden), over all queues. A cell that is not as the model of rights says is marked WRONG.</p>"
)


def page(seen: Seen, summary: Summary) -> str:
    """As HTML that needs nothing else."""
    figures = [row(name, f"{value:,}") for name, value in summary._asdict().items() if isinstance(value, int)]
    body = [
        f'<table id="figures">{"".join(figures)}</table>',
        *_listed("What is wrong", summary.problems),
        _NOTED,
        *_places(list(judged(seen.cells))),
        *_attempts(seen),
        *_listed("What happened", [f"{each.at_s:.1f} s  {each.what}" for each in seen.happened]),
    ]
    return document(TITLE, summary.verdict, body, good=summary.verdict == PASS)


def _listed(title: str, lines: Collection[str]) -> Iterator[str]:
    if lines:
        items = "".join(f"<li>{in_html(line)}</li>" for line in lines)
        yield f"<h2>{in_html(title)}</h2><ul>{items}</ul>"


def _places(cells: Collection[Cell]) -> Iterator[str]:
    by_place: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_place[cell.asked.place].append(cell)
    for place, found in by_place.items():
        wrong = sum(not each.right for each in found)
        head = "".join(f"<th>{in_html(name)}</th>" for name in ("call", *PRINCIPALS))
        rows = "".join(_rows(found))
        title = f"{place}: {len(found):,} cells, {wrong} wrong"
        opened = " open" if wrong else ""
        yield (
            f'<details class="place"{opened}><summary>{in_html(title)}</summary>'
            f'<div class="broad"><table><tr>{head}</tr>{rows}</table></div></details>'
        )


def _rows(cells: Collection[Cell]) -> Iterator[str]:
    by_call: dict[str, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        by_call[cell.asked.call][cell.asked.principal].append(cell)
    for call, principals in sorted(by_call.items()):
        shown = "".join(_cell(principals[name]) for name in PRINCIPALS)
        yield f"<tr><td>{in_html(call)}</td>{shown}</tr>"


def _cell(cells: Collection[Cell]) -> str:
    counts = Counter(cell.asked.answer for cell in cells)
    text = ", ".join(
        f"{_SHOWN[answer]} {count}" if len(cells) > 1 else _SHOWN[answer] for answer, count in counts.items()
    )
    wrong = [
        f"{cell.asked.queue or 'the pair'}: {cell.asked.said}, not {cell.expected}" for cell in cells if not cell.right
    ]
    title = in_html(
        "; ".join(wrong) or "; ".join(f"{cell.asked.queue or 'the pair'}: {cell.asked.said}" for cell in cells)
    )
    kind = ' class="bad"' if wrong else ""
    return f'<td{kind} title="{title}">{in_html(f"WRONG: {text}" if wrong else text)}</td>'


def _attempts(seen: Seen) -> Iterator[str]:
    rows = [row(each.who, each.where, each.said, kind="good" if each.refused else "bad") for each in seen.attempts]
    if rows:
        yield f'<h2>Impostors</h2><div class="broad"><table id="impostors">{"".join(rows)}</table></div>'
