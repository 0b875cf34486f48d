"""A drill as one page: what it measured against its probes, and the notes of its run, around the timeline."""

from __future__ import annotations

from chaos.drill.playing import Outcome
from chaos.timeline import page as timeline
from chaos.timeline.page import row


def page(outcome: Outcome) -> str:
    """The whole document."""
    drill = outcome.drill
    figures = [
        row(line.name, line.text, _mark(line.limit, held=line.held), kind=_kind(line.limit, held=line.held))
        for line in outcome.lines
    ]
    notes = [row(f"{each.at_s:.2f} s", each.phase, each.text) for each in outcome.progress.notes]
    lead = f"{drill.title or drill.name}. On {outcome.progress.origin}; {outcome.seconds:.0f} s."
    more = ["<h2>What happened</h2>", f'<table class="notes">{"".join(notes)}</table>']
    return timeline.page(f"Drill {drill.name}", outcome.verdict, lead, figures, outcome.result, more)


def _kind(limit: float | None, *, held: bool) -> str:
    return "dim" if limit is None else "good" if held else "bad"


def _mark(limit: float | None, *, held: bool) -> str:
    return "measured" if limit is None else "held" if held else "NOT HELD"
