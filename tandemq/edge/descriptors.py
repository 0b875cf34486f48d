"""How many descriptors a process may have, and what they are kept for: a crowd of clients never takes the last one
from the peer, the witness and the store.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

LIMIT_MIN = 512
"""Below it no member or witness starts."""
LIMIT_WANTED = 65_536
"""The soft limit is raised to this at the start, as far as the hard one allows."""
KEPT = 256
"""For all that is no client's connection."""
PEER_CONNECTIONS_MAX = 64
"""Of these, at the peer port: one is in use, the others are a redial and strangers who have not been ended yet."""
HTTP_CONNECTIONS_MAX = 32
"""Of these, at the HTTP port."""
assert LIMIT_MIN >= 2 * KEPT > 2 * (PEER_CONNECTIONS_MAX + HTTP_CONNECTIONS_MAX)


class Shares(NamedTuple):
    """Connections that each port may have."""

    clients: int
    peer: int
    http: int


class TooFewDescriptorsError(RuntimeError):
    """The limit is so low that a crowd could stop the process; the text says what to raise."""


def shares(limit: int) -> Shares:
    """Of so many descriptors. A limit below LIMIT_MIN, as an application with a manager inside may have: half of it."""
    return Shares(max(limit - KEPT, limit // 2), min(PEER_CONNECTIONS_MAX, limit // 8), HTTP_CONNECTIONS_MAX)


def own_limit() -> int:
    """Of this process, now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LIMIT_WANTED if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> int:
    """Raises this process's soft limit as far as it may go and says where it is; never lowers it.

    Raises TooFewDescriptorsError where that is below LIMIT_MIN.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        wanted = LIMIT_WANTED if hard == resource.RLIM_INFINITY else min(LIMIT_WANTED, hard)
        if wanted > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = own_limit()
    if limit < LIMIT_MIN:
        text = f"this process may have {limit} descriptors open, and needs {LIMIT_MIN} at least"
        raise TooFewDescriptorsError(text)
    return limit


__all__ = ["Shares", "TooFewDescriptorsError", "own_limit", "raise_limit", "shares"]
