"""Decides how text that others wrote is shown: bodies, names, reasons, file contents, what servers answer. Whatever a
terminal, a log line or a page would obey or hide is written as an escape; it never changes what is stored or sent.

Escaping twice changes nothing, so each layer may do it. A backslash stays one: a table is for eyes, JSON is exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

# As a character class: the controls, formats, surrogates and line ends of Unicode, and what is drawn as nothing.
_UNSHOWN = (
    r"\x00-\x1f\x7f-\x9f"  # controls, C1 too: one byte of it begins what ESC [ begins
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"  # formats; \u061c turns the direction
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\u2800"  # no width, or blank
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, directions
    r"\ud800-\udfff"  # halves of nothing: bytes that were no UTF-8; they cannot be printed at all
    r"\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ufffe\uffff"
    r"\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"  # tags and selectors: a whole text can be hidden in them
)
_ONE_LINE = re.compile(f"[{_UNSHOWN}]")
_LINES = re.compile(f"(?![\n\t])[{_UNSHOWN}]")
_SHORT = MappingProxyType({"\n": r"\n", "\r": r"\r", "\t": r"\t"})
_MARKDOWN = re.compile(r"[\\`*_\[\]<>#|~&]|:(?=//)|@(?=\w)")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else r"\u007f"


def escaped(text: str) -> str:
    """For a place of one line: a cell, a log line, an error's cause. Ends of lines are escaped too."""
    return text if text.isascii() and text.isprintable() else _ONE_LINE.sub(_escape, text)


def escaped_lines(text: str) -> str:
    r"""For a place of many lines: `\n` and tabs stay."""
    return _LINES.sub(_escape, text)


def json_text(
    value: object, *, indent: int | None = None, compact: bool = False, default: Callable[[Any], Any] | None = None
) -> str:
    """JSON that a terminal can show and a UTF-8 file can hold; whoever parses it gets exactly `value`."""
    separators = (",", ":") if compact else None
    text = json.dumps(value, indent=indent, ensure_ascii=False, separators=separators, default=default)
    # Outside of strings JSON is printable ASCII and `\n`, so a match is inside of one, where \u is the same character.
    return text if text.isascii() and "\x7f" not in text else _LINES.sub(_escape_in_json, text)


def in_html(text: str) -> str:
    """For an element or an attribute of HTML, SVG and XML, whose readers refuse most controls."""
    import html

    return html.escape(escaped(text))


def in_markdown(text: str) -> str:
    """For a paragraph, a list or a cell of Markdown: no mark-up, no link, no end of a cell."""
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", escaped(text))
