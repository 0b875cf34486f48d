"""Writes what a job came to: report.html, which needs no other file, and result.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.timeline.page import document
from pipeline.outcome import Outcome, Table
from pipeline.plots import draw
from pipeline.problems import PipelineError
from tandemq.escaping import in_html

SCHEMA_VERSION = 1
RESULT, PAGE = "result.json", "report.html"
ROWS_LISTED = 200
ROWS_OPEN = 25
"""A table with more is folded."""


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
    """The whole document: what was done, the plots, then the tables."""
    body = [
        f"<p>{in_html(outcome.lead)}</p>",
        *(draw(plot) for plot in outcome.plots),
        *(part for table in outcome.tables for part in _table(table)),
    ]
    return document(f"Pipeline {outcome.job}", outcome.verdict, body, good=outcome.good)


def _table(table: Table) -> Iterator[str]:
    title, rows = in_html(table.title), table.rows[:ROWS_LISTED]
    folded = len(table.rows) > ROWS_OPEN
    yield f"<details><summary>{title}: {len(table.rows):,} rows</summary>" if folded else f"<h2>{title}</h2>"
    if not rows:
        yield "<p>none</p>"
        return
    names = list(rows[0])
    numbers = {name for name in names if all(_is_number(each.get(name)) for each in rows)}
    kinds = [' class="number"' if name in numbers else "" for name in names]
    heads = "".join(
        f"<th{kind}>{in_html(name.replace('_', ' '))}</th>" for name, kind in zip(names, kinds, strict=True)
    )
    yield f'<div class="broad"><table class="{in_html(table.title.replace(" ", "-"))}"><tr>{heads}</tr>'
    for each in rows:
        cells = (f"<td{kind}>{in_html(_cell(each, name))}</td>" for name, kind in zip(names, kinds, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"
    if len(table.rows) > ROWS_LISTED:
        yield f"<p>and {len(table.rows) - ROWS_LISTED:,} more, in {RESULT}</p>"
    if folded:
        yield "</details>"


def _is_number(value: object) -> bool:
    """Or nothing: a column of numbers may lack some."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
