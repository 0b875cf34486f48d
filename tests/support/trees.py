"""Syntax trees of sources, each read once, when a rule asks for it first."""

from __future__ import annotations

import ast
import gc
from functools import cache


@cache
def tree_of(path: str, text: str) -> ast.Module:
    """All trees stay as long as the process. The collector of garbage would look through those that there are again and
    again while more are read, which takes three times as long as reading them; so it waits, and never sees them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, path)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
