"""Runs a coroutine as the product's processes do: on uvloop where it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, or None for the standard one."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run(work: Coroutine[Any, Any, None]) -> None:
    """Like asyncio.run."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)
