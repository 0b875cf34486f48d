"""Decides by its certificate whether a caller of the peer's port may say that it is the peer; asks nobody.

Names in HELLO are what the caller says of itself. Without credentials there is nothing else, and whoever reaches the
port may say them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandemq.credentials import names
from tandemq.credentials.caller import principal_of

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig


def certified_peer(config: ManagerConfig) -> str:
    """Who the peer has to be by its certificate; empty: connections are plain."""
    return names.member(config.pair, config.peer_member) if config.security.credentials else ""


def problem_of_caller(context: Any, expected: str) -> str:
    """Why the caller may not be taken for the peer, before a word of it is read; empty: it may."""
    who = principal_of(context) if expected else ""
    if who == expected:
        return ""
    return f"only {expected} may call this port, and the caller's certificate is for {who or 'nobody here'}"
