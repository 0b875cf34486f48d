"""Writes the guard's figures into docs/PERFORMANCE.md; counts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from bench.guard.pair import ROLES
from bench.guard.workloads import KINDS, SHAPES

BEGIN, END = "<!-- guard: begin, written by make guard-baseline -->", "<!-- guard: end -->"


def placed(page: str, figures: Mapping[str, int]) -> str:
    """The page with its table anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"the page has lost its line {BEGIN!r}"
    assert end, f"the page has lost its line {END!r}"
    return f"{before}{BEGIN}\n{markdown(figures)}\n{END}{after}"


def markdown(figures: Mapping[str, int]) -> str:
    """Thousands of instructions: a row a shape of batch, a column for each kind of work and role."""
    parts = [(kind, role) for kind in KINDS for role in ROLES] + [("record", "store"), ("commit", "store")]
    heads = [f"{kind}, {role}" if role != "store" else kind for kind, role in parts]
    lines = [f"| thousands of instructions | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name, shape in SHAPES.items():
        size = f"{shape.size} B" if shape.size < 1024 else f"{shape.size >> 10} KiB"
        counts = [f"{figures.get(f'{kind} {name}: {role}', 0) / 1000:,.0f}" for kind, role in parts]
        lines.append(f"| {name}: {shape.messages:,} x {size} | {' | '.join(counts)} |")
    return "\n".join(lines)
