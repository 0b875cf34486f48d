"""Writes what a job came to: report.html, which needs no other file, and result.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.timeline.page import STYLE, row
from pipeline.outcome import Outcome, Table
from pipeline.plots import draw
from pipeline.problems import PipelineError
from tandemq.escaping import in_html

SCHEMA_VERSION = 1
RESULT, PAGE = "result.json", "report.html"
ROWS_SHOWN = 200
LINES = """
th { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); font-weight: 600; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
line.drawn { stroke-width: 1.4; stroke: currentColor; }
line.median { stroke: var(--median); } line.longest { stroke: var(--longest); } line.rate { stroke: var(--rate); }
line.MASTER { stroke: #2e7d4f; } line.fault { stroke: #c62828; } line.unknown { stroke: #8e44ad; }
"""
"""Beside the style of a run's page: that one has no lines and no heads of tables."""


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """For programs."""
    return {
        "schema_version": SCHEMA_VERSION,
        "job": outcome.job,
        "verdict": outcome.verdict,
        **outcome.facts,
        **{table.title.replace(" ", "_"): [dict(each) for each in table.rows] for table in outcome.tables},
    }


def write(directory: Path, outcome: Outcome) -> Path:
    """Both files, into a directory that is made; the page's path. Raises PipelineError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RESULT).write_text(json.dumps(facts_of(outcome), indent=2) + "\n", encoding="utf-8")
        (directory / PAGE).write_text(page(outcome), encoding="utf-8")
    except OSError as error:
        text = f"the report cannot be written to {directory}: {error.strerror or error}; the job itself is done"
        raise PipelineError("CONFIG_ERROR", text) from error
    return directory / PAGE


def page(outcome: Outcome) -> str:
    """The whole document."""
    word = f'<span id="verdict" class="{"good" if outcome.good else "bad"}">{in_html(outcome.verdict)}</span>'
    title = f"Pipeline {outcome.job}"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{in_html(title)}: {in_html(outcome.verdict)}</title>',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<style>{STYLE.read_text(encoding='utf-8')}{LINES}</style></head><body>",
            f"<h1>{in_html(title)}: {word}</h1>",
            f"<p>{in_html(outcome.lead)}</p>",
            *(part for table in outcome.tables for part in _table(table)),
            *(draw(plot) for plot in outcome.plots),
            "</body></html>",
            "",
        ]
    )


def _table(table: Table) -> Iterator[str]:
    yield f"<h2>{in_html(table.title)}</h2>"
    if not table.rows:
        yield "<p>none</p>"
        return
    names = list(table.rows[0])
    heads = "".join(f"<th>{in_html(name.replace('_', ' '))}</th>" for name in names)
    yield f'<table class="{in_html(table.title.replace(" ", "-"))}"><tr>{heads}</tr>'
    yield from (row(*(_cell(each, name) for name in names)) for each in table.rows[:ROWS_SHOWN])
    yield "</table>"
    if len(table.rows) > ROWS_SHOWN:
        yield f"<p>and {len(table.rows) - ROWS_SHOWN:,} more, in {RESULT}</p>"


def _cell(row_: Mapping[str, Any], name: str) -> str:
    match row_.get(name):
        case None:
            return "-"
        case bool() as value:
            return "yes" if value else "no"
        case int() as value:
            return f"{value:,}"
        case float() as value:
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case value:
            return str(value)
