"""Regressions on purpose, for the test that the guard sees them; nothing else imports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import replica.core.state.log
import replica.services.messages.produce


def _copy() -> None:
    """The record's bytes are copied once more than they must be."""
    assemble = replica.core.state.log.assemble
    replica.core.state.log.assemble = lambda head, body: bytes(memoryview(assemble(head, body)))


def _call() -> None:
    """One more call for each message of a batch."""
    columns_of: Callable[[Any], Any] = replica.services.messages.produce.columns_of

    def looks_at_each(batch: Any) -> Any:
        for ordinal in range(len(batch.messages.payloads)):
            _look(ordinal)
        return columns_of(batch)

    replica.services.messages.produce.columns_of = looks_at_each


def _look(ordinal: int) -> int:
    return ordinal


REGRESSIONS: dict[str, Callable[[], None]] = {"copy": _copy, "call": _call}


def plant(name: str) -> None:
    """In this process, for good."""
    REGRESSIONS[name]()
