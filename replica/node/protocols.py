"""Says which protocols a member speaks with its peer: as many as it knows that have all records which it holds. Never
refuses anybody.

A record of a kind that a member does not know stops that member for good (docs/ARCHITECTURE.md, Two versions of a
member). So a member names no protocol older than the records in its domains, and makes none that its connected peer
does not know. An older member refuses such a range, and is refused, by what it has always compared (decision 0106).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replica.node.loop import Node

PROTOCOL_MIN, PROTOCOL_MAX = 1, 2
"""That this version knows."""
SECOND = 2
"""The first one with queues that have sides, macro queues, proxies and rights: SIDE, PASSED, SELECT, MACRO, PROXY and
RIGHTS records, and marks of sides in heartbeats.
"""


class Protocols(NamedTuple):
    """From the oldest to the newest, both spoken."""

    oldest: int
    newest: int


def spoken(node: Node) -> Protocols:
    """As things stand: what is held may ask for more than was asked before."""
    held = [domain.shared.machine for domain in node.paired()]
    is_beyond = any(machine is not None and machine.state.beyond_first for machine in held)
    return Protocols(SECOND if is_beyond else PROTOCOL_MIN, PROTOCOL_MAX)


def peer_lacks(node: Node, what: str) -> str:
    """Why nothing of this kind, which came with SECOND, is made now: this member or the one that is connected does not
    know it. Empty: both do, or none is connected; one that connects then and does not know it is refused.
    """
    known = min(PROTOCOL_MAX, node.peer_protocol or PROTOCOL_MAX)
    if known >= SECOND:
        return ""
    return f"one member of the pair speaks protocol {known}, and {what} came with {SECOND}: upgrade it first"
