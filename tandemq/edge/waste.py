"""Decides whether what came over a connection is a flood: bytes that are no message, streams that come to nothing.

Pure. gRPC ends no connection for floods of SETTINGS, header or reset frames, and says GOAWAY to one of PINGs but goes
on reading while it lasts; so what the kernel and gRPC count for each connection is compared here, once a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MESSAGE_BYTES_MAX = 16 << 20
WASTE_BYTES_MAX = 1 << 20
"""Of a connection on which no call is open."""
UPLOAD_BYTES = 1 << 20
UPLOADS_MAX = 64
"""Calls that are open may be in the middle of a message: for one MESSAGE_BYTES_MAX, and for each up to UPLOADS_MAX this
much. That many calls share the connection's bytes fairly, and all of them would have to send more than this at once
without any of them coming to an end.
"""
FAILED_MAX, FAILED_PER_S = 4_000, 400
"""Streams that may come to nothing: in a burst, and in each second. Calls whose deadline is over are such streams."""


class Counted(NamedTuple):
    """What was counted since a connection began."""

    received: int
    """Bytes."""
    messages: int
    started: int
    succeeded: int
    failed: int


@dataclass(slots=True)
class Account:
    """One connection."""

    last: Counted
    waste_bytes: int = 0
    failed: float = 0.0

    def flood(self, now: Counted, passed_s: float) -> str:
        """What the connection did wrong, in a phrase; empty: nothing. Called with each new count."""
        before, self.last = self.last, now
        messages = now.messages - before.messages
        paid = messages * MESSAGE_BYTES_MAX
        self.waste_bytes = max(0, self.waste_bytes + now.received - before.received - paid)
        self.failed = max(0.0, self.failed - FAILED_PER_S * passed_s) + max(0, now.failed - before.failed)
        under_way = now.started - now.succeeded - now.failed
        allowed = WASTE_BYTES_MAX
        if under_way > 0:
            allowed += MESSAGE_BYTES_MAX + UPLOAD_BYTES * min(under_way, UPLOADS_MAX)
        if self.waste_bytes > allowed:
            return f"{self.waste_bytes} bytes that are no message"
        if self.failed > FAILED_MAX:
            return f"{self.failed:.0f} streams that came to nothing"
        return ""


__all__ = ["Account", "Counted"]
