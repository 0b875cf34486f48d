"""Decides whether a hostile input was held: answered by name, and nobody else noticed; it never talks to a pair."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

HELD, FAILED, INVALID = "held", "failed", "INVALID"
P99_FACTOR, P99_FLOOR_MS = 2.0, 50.0
"""Others' p99 may be so much longer; or so long, which is a turn on two processors that all of them share."""
WORST_MS = 2_000.0
"""So long nobody waits, however rare it is."""
MEMORY_MIB, LOG_BYTES = 50.0, 1 << 20
SAMPLES_MIN = 100
"""Of fewer sends the p99 is the worst one."""


class Row(NamedTuple):
    """Of `build/secure/hostile.json`."""

    input: str
    answer: str
    p50_before_ms: float
    p99_before_ms: float
    p50_during_ms: float
    p99_during_ms: float
    p99_at_least_ms: float
    """The same without all that the machine may have withheld from members and sender."""
    worst_at_least_ms: float
    sends: int
    """Of the other client, meanwhile."""
    sends_failed: int
    memory_before_mib: float
    """Of the process that takes most."""
    memory_after_mib: float
    log_bytes: int
    log_is_clean: bool
    """There is no terminal code in it."""
    seconds: float
    held: str
    """HELD, INVALID where the machine decides, or what is wrong."""


def judged(row: Row, wanted: str, *, timed: bool = True) -> Row:
    """With its verdict. `timed`: how long others waited counts too."""
    problems = [
        *([] if re.fullmatch(wanted, row.answer) else [f"answered {row.answer!r}, and not {wanted!r}"]),
        *([f"{row.sends_failed} sends of others failed"] if row.sends_failed else []),
        *([] if row.memory_after_mib <= row.memory_before_mib + MEMORY_MIB else ["memory is not back"]),
        *([] if row.log_bytes <= LOG_BYTES else ["the logs grew too much"]),
        *([] if row.log_is_clean else ["a terminal code stands in a log"]),
    ]
    if not timed:
        return row._replace(held="; ".join(problems) or HELD)
    bound_ms = max(P99_FACTOR * row.p99_before_ms, P99_FLOOR_MS)
    if row.p99_at_least_ms > bound_ms:
        problems.append(f"others' p99 is {row.p99_at_least_ms:g} ms, and may be {bound_ms:g}")
    if row.worst_at_least_ms > WORST_MS:
        problems.append(f"somebody else waited for {row.worst_at_least_ms:g} ms")
    starved = row.p99_during_ms > bound_ms
    few = row.sends < SAMPLES_MIN and not problems
    return row._replace(held="; ".join(problems) or (INVALID if starved or few else HELD))


def verdict_of(rows: Sequence[Row], wanted: int) -> str:
    """`wanted`: how many rows there must be."""
    said = [row.held for row in rows]
    if any(each not in (HELD, INVALID) for each in said) or len(rows) < wanted:
        return FAILED
    return INVALID if INVALID in said else HELD
