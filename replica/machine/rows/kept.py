"""Rows of a snapshot that are written anew only where something was touched since the last one; knows no row's fields.

A member takes a snapshot after every so much log: without this, 10,000 queues that rest would each cost 15 us of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

ROW_KEPT_MAX = 4096
"""Bytes; a longer row is written for each snapshot. So all that is kept is less than the snapshot itself."""


class Holder(Protocol):
    """Whoever changes it makes its row empty."""

    row: bytes


def rows_of(holders: Sequence[Holder], write: Callable[[int], bytes], *, anew: bool) -> list[bytes]:
    """One for each, in their order; `write` is given the place of one that needs it. Anew: all, and none is kept."""
    rows = [b""] * len(holders) if anew else [holder.row for holder in holders]
    for place, row in enumerate(rows):
        if not row:
            made = rows[place] = write(place)
            if not anew and len(made) <= ROW_KEPT_MAX:
                holders[place].row = made
    return rows
