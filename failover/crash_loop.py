"""Notices that a member was the failed instance again and again, not once; it stops nothing.

A member whose classifier says 22 ends and is started again by whatever supervises it. One that does so three times in
ten minutes stays out until an operator has looked (pair-protocol.md 4.3). Reads the classifier's journal, which
survives the process.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from failover.gate import Consequence
from failover.journal import read

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = dt.timedelta(minutes=10)
FAILURES_MAX = 3


def failures_lately(directory: Path, now: dt.datetime) -> int:
    """How many events of the last ten minutes made this member the failed instance."""
    try:
        history = read(directory)
    except FileNotFoundError:
        return 0
    failed = {
        call.event.event_id
        for call in history.calls
        if now - dt.datetime.fromisoformat(call.time) <= WINDOW
        and any(outcome.effect == Consequence.FAIL.value for outcome in call.outcomes)
    }
    return len(failed)
