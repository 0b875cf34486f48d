"""Draws stacks as a flame graph: width is time, what stands above a box was called by it. One SVG, no script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from zlib import crc32

from bench.budget.sample import Stack

WIDTH, ROW, FONT = 1200, 17, 11
SHARE_MIN = 0.002
"""Narrower boxes are left out."""
CHAR_WIDTH = 6.7


@dataclass(slots=True)
class _Box:
    weight: float = 0.0
    inner: dict[str, _Box] = field(default_factory=dict)


def drawn(weights: Mapping[Stack, float], title: str) -> str:
    """The picture; its boxes have titles, which browsers show where the mouse is."""
    root = _Box()
    for stack, weight in weights.items():
        box = root
        box.weight += weight
        for function in stack:
            box = box.inner.setdefault(function, _Box())
            box.weight += weight
    parts: list[str] = []
    depth = _place(root, "all", 0.0, 0, root.weight, parts)
    height = (depth + 1) * ROW + 40
    moved = f'<g transform="translate(0,{height - ROW - 6})">' + "".join(parts) + "</g>"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
        f'font-size="{FONT}"><rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="8" y="20" font-size="14">{escape(title)}</text>'
    )
    return head + moved + "</svg>\n"


def _place(box: _Box, name: str, left: float, depth: int, total: float, parts: list[str]) -> int:
    """Returns the depth of the deepest box above this one."""
    share = box.weight / total
    x, width, y = left * WIDTH, share * WIDTH, -depth * ROW
    red, green, blue = _colour(name)
    label = name[: max(0, int((width - 4) / CHAR_WIDTH))]
    text = f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(label)}</text>' if len(label) > 2 else ""
    parts.append(
        f'<g><title>{escape(name)}, {share:.1%}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.4, 0.3):.1f}" '
        f'height="{ROW - 1}" fill="rgb({red},{green},{blue})"/>{text}</g>'
    )
    deepest = depth
    for inner in sorted(box.inner):
        each = box.inner[inner]
        if each.weight / total >= SHARE_MIN:
            deepest = max(deepest, _place(each, inner, left, depth + 1, total, parts))
        left += each.weight / total
    return deepest


def _colour(name: str) -> tuple[int, int, int]:
    """Ours warm, what it stands on cool; the same function has the same colour everywhere."""
    shade = crc32(name.encode()) % 40
    if any(part in name for part in ("(replica/", "(storage/", "(tandemq/", "(failover/")):
        return 235 - shade // 2, 130 + shade, 70
    return 150 + shade, 185 + shade // 2, 215
