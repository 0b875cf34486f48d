"""Decides how much of a stranger's text becomes the reason of an answer: one printable, bounded line."""

from __future__ import annotations

REASON_CHARS_MAX = 500


def tidy(text: str) -> str:
    """Printable, one line, bounded: a script's text goes into logs and onto an operator's terminal."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 3]}..."
