"""Names the three axes of a member in one domain (role, data, link); it never decides anything about them.

The numbers are those of `tandemq.v1`, so that a shell converts by `Role(number)`; a test compares the two.
"""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """A member's role in one domain (pair-protocol.md 4.1)."""

    INIT = 1
    PROBE = 2
    REPLICA = 3
    MASTER = 4
    MASTER_SUSPENDED = 5
    CEDING = 6
    FAILED = 7
    DIVERGED = 8
    MAINTENANCE = 9


class DataMark(Enum):
    """What a member's own copy of one domain is worth; stored in the same transaction as the data it describes."""

    EMPTY = 1
    SYNCING = 2  # set durably before the first destructive write of a full transfer (P10)
    STALE = 3
    IN_SYNC = 4
    SOLE = 5
    DAMAGED = 6

    @property
    def is_good(self) -> bool:
        """P5: a claim needs a copy that held everything acknowledged when the mark was written."""
        return self in (DataMark.IN_SYNC, DataMark.SOLE)


class Link(Enum):
    """The connection to the peer, for one domain."""

    DOWN = 1
    HANDSHAKE = 2
    SYNC_SRC = 3
    SYNC_DST = 4
    PAIRED = 5
    SUSPECT = 6
