"""The guard's figures as a table of docs/PERFORMANCE.md; counts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from bench.guard.pair import ROLES
from bench.guard.workloads import KINDS, SHAPES
from bench.tables import grid


def markdown(figures: Mapping[str, int]) -> str:
    """Thousands of instructions: a row a shape of batch, a column for each kind of work and role."""
    parts = [(kind, role) for kind in KINDS for role in ROLES] + [("record", "store"), ("commit", "store")]
    heads = [f"{kind}, {role}" if role != "store" else kind for kind, role in parts]
    lines = [("thousands of instructions", *heads)]
    for name, shape in SHAPES.items():
        size = f"{shape.size} B" if shape.size < 1024 else f"{shape.size >> 10} KiB"
        counts = (f"{figures.get(f'{kind} {name}: {role}', 0) / 1000:,.0f}" for kind, role in parts)
        lines.append((f"{name}: {shape.messages:,} x {size}", *counts))
    return "\n".join(grid(lines))
