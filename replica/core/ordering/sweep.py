"""A call of an administrator that goes through a queue: what was asked, how far it is, and what its records are called.
Values; orders nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tandemq.v1.queue_admin_service_pb2 import LeftBehind

if TYPE_CHECKING:
    from replica.core.selection.filters import Filter
    from replica.machine import Refused
    from tandemq.v1.common_pb2 import Reason

BEHIND_MAX = 32
"""Reasons that an answer tells apart."""


class Verb(Enum):
    """What is done with the messages."""

    MOVE = "moved"
    REDRIVE = "moved back"
    REMOVE = "removed"


@dataclass(slots=True, eq=False)
class Sweep:
    """One call under way. Belongs to the serving master; what counts is in the state."""

    verb: Verb
    queue: str
    request_id: bytes
    request_hash: int
    to: str = ""
    """Empty: each to the queue that it came from."""
    asked: Filter | None = None
    """None: all."""
    who: str = ""
    """Whose rights are asked about where a message goes that the call does not name; empty: nobody's."""
    most: int = 0
    """Messages to be moved or removed; 0: all."""

    epoch: int = 0
    """In which it began here; 0: not yet."""
    queue_id: int = 0
    bound: int = 0
    """Highest index that it looks at: of what was ordered when it began, committed or not."""
    at: int = 1
    """Next index."""
    named: list[tuple[int, int]] | None = None
    """Log indexes and ordinals of the ids that it names and has not looked for yet, falling; None: not started."""
    found: list[int] = field(default_factory=list)
    """Indexes of those that it looks at next, rising."""
    records: int = 0
    """Ordered by this call, by whichever master, with the one that begins it; 0: nothing is done yet."""
    done: int = 0
    leased: int = 0
    behind: dict[tuple[Reason, str], LeftBehind] = field(default_factory=dict)
    blocked: dict[str, Refused] = field(default_factory=dict)
    """Queues that take nothing more, for the rest of the call."""

    @property
    def rest(self) -> int:
        """Messages that it may still take. What the one other queue did not take counts: it takes nothing more."""
        if not self.most:
            return 1 << 62
        tried = self.done + (sum(each.count for each in self.behind.values()) if self.to else 0)
        return max(0, self.most - tried)

    def identity(self, number: int) -> bytes:
        """The request id of one of its records; 0: of the one that begins it."""
        return hashlib.blake2b(self.request_id + number.to_bytes(8, "big"), digest_size=16, person=b"sweep").digest()

    def stays(self, count: int, queue: str, reason: Reason, message: str) -> None:
        """They were to be moved and cannot be."""
        key = (reason, queue)
        if key not in self.behind and len(self.behind) >= BEHIND_MAX:
            key = next(reversed(self.behind))
        known = self.behind.setdefault(key, LeftBehind(reason=reason, queue=queue, message=message))
        known.count += count
