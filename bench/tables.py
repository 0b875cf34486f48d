"""Tables and sentences that the reports of all benchmarks share. Text out; decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.document import Document, Spread

ROOT = Path(__file__).resolve().parent.parent
README, PERFORMANCE = ROOT / "README.md", ROOT / "docs/PERFORMANCE.md"


def where(document: Document, *versions: str) -> str:
    """Which code ran when, where."""
    about = document.about
    named = "".join(f", {name} {about.get(name, 'absent')}" for name in versions)
    return (
        f"Commit {about['commit']}, {document.time[:10]}, {about['cpu']}, {about['cores']} cores for everything, "
        f"Linux {about['kernel']}, Python {about['python']}{_built(about)}{named}"
    )


def _built(about: Mapping[str, Any]) -> str:
    return f" built {about['built']}" if "built" in about else ""


def grid(lines: Sequence[Sequence[str]]) -> list[str]:
    """Heads and rows as Markdown; a last column without a head in which nothing stands is left out."""
    heads, *body = lines
    if not heads[-1] and not any(row[-1] for row in body):
        heads, body = heads[:-1], [row[:-1] for row in body]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in body)]


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns for a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    said = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join(said)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def ranged(
    found: Spread | None, form: Callable[[float], str], unit: str = "", *, alone: bool = True, to: str = " to "
) -> str:
    """Median and range; of one run alone there is none, unless it is asked for."""
    if found is None:
        return ""
    most = f" ({form(found.least)}{to}{form(found.most)})" if len(found.runs) > 1 or not alone else ""
    return f"{form(found.median)}{unit}{most}"


def placed(page: str, part: str, name: str, by: str = "bench-report") -> str:
    """The page with what stands between the two marks of that name replaced."""
    marks = f"<!-- {name}: written by make {by} -->", f"<!-- {name}: end -->"
    head, begin, rest = page.partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    if not begin or not end:
        raise SystemExit(f"report: the page has no {marks[0]} ... {marks[1]}")
    return f"{head}{begin}\n{part}\n{end}{tail}"
