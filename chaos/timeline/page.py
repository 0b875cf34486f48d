"""Writes a run down as one page that needs nothing else: verdict, figures, timeline, faults; it never measures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chaos.scenario import Result
from chaos.timeline.axis import NARROW, WIDE
from chaos.timeline.lanes import GONE, OUTCOMES, ROLES, WAITED, WAITED_S
from chaos.timeline.picture import picture
from tandemq.escaping import in_html

_STYLE = Path(__file__).with_name("page.css")
_GOOD = ("pass", "held")
_SAID = {GONE: "no answer", "OTHER": "another role", WAITED: f"ok after more than {WAITED_S * 1000:g} ms"}
_SAID |= {"fail": "failed", "unknown": "outcome unknown"}


def page(title: str, verdict: str, lead: str, figures: Iterable[str], result: Result, more: Iterable[str] = ()) -> str:
    """The whole document. `figures` are rows of a table; `more` follows at the end. Both are HTML."""
    found = [
        f"<li><code>{in_html(name)}</code> {in_html(line)}</li>" for name, ls in result.broken.items() for line in ls
    ]
    found += [f"<li>invalid: {in_html(line)}</li>" for line in result.invalid]
    faults = [
        row(kind, f"{bitten} of {made} had an effect that was seen") for kind, (bitten, made) in result.faults.items()
    ]
    pictures = [picture(result.history, result.struck, layout) for layout in (WIDE, NARROW)]
    return document(
        title,
        verdict,
        [
            f"<p>{in_html(lead)}</p>",
            f'<table id="figures">{"".join(figures)}</table>',
            f"<h2>What stands against it</h2><ul>{''.join(found)}</ul>" if found else "",
            "<h2>Timeline</h2>",
            *pictures,
            _legend(),
            f"<h2>Faults</h2><table>{''.join(faults)}</table>" if faults else "",
            *more,
        ],
        good=verdict in _GOOD,
    )


def document(title: str, verdict: str, body: Iterable[str], *, good: bool) -> str:
    """A page with this style and its verdict on top; `body` is HTML."""
    word = f'<span id="verdict" class="{"good" if good else "bad"}">{in_html(verdict)}</span>'
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{in_html(title)}: {in_html(verdict)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head><body>",
            f"<h1>{in_html(title)}: {word}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def row(*cells: str, kind: str = "") -> str:
    """Of a table; `kind` is the class of the last cell."""
    last = f' class="{kind}"' if kind else ""
    tags = [*("<td>" for _ in cells[1:]), f"<td{last}>"]
    return f"<tr>{''.join(f'{tag}{in_html(cell)}</td>' for tag, cell in zip(tags, cells, strict=True))}</tr>"


def _legend() -> str:
    bars = [*ROLES, "OTHER", GONE, "fault", *OUTCOMES]
    items = [f'<li><i class="{kind}"></i>{_SAID.get(kind, kind.lower())}</li>' for kind in bars]
    items += [f'<li><i class="dot {kind}"></i>{kind} time</li>' for kind in ("median", "longest")]
    return f'<ul class="legend">{"".join(items)}</ul>'
