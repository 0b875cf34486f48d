"""What the core of one domain is built with: what it reads of the store at once, and what is configured. Holds values;
decides nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica.core.handoff.attempt import HOLD_MS
from replica.core.handoff.handoff import COOLDOWN_MS
from replica.core.mastership.leaving import SLOW_PEER_MS
from replica.core.messages.bodies import is_whole, read_stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.kept_rights import May
    from replica.core.state.calls import PendingEnqueue
    from replica.core.state.shared import Shared
    from storage.store import Store
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame

VOLATILE_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class ShellPorts:
    """Answered at once, while the core decides; everything else it asks for by effects."""

    read: Callable[[int], Stored | None]
    """A record by log index. None: it is gone, or its volatile body is. Raises CorruptRecord."""
    is_whole: Callable[[int], bool]
    """Whether a record is on disk as it was written; reports what it finds."""
    held_call: Callable[[PeerFrame], PendingEnqueue]
    """The call of a HOLD frame, which the peer holds for one of its clients. Raises Refused."""
    may: May | None = None
    """Whether somebody has a right, by what is committed; None: nobody is asked, for there are no certificates."""
    is_at_hand: Callable[[int], bool] | None = None
    """Whether this member has what the messages of a queue stand for; None: none of them stand for others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator configures of a domain."""

    bias_ms: int
    """How much later than a master a replica claims."""
    meet_ms: int = 0
    """After a start, how long a peer that may serve too is awaited before this member goes on alone (P20)."""
    slow_peer_ms: int = SLOW_PEER_MS
    """Connected, and not a step further for so long: the peer counts as slow."""
    volatile_bytes_max: int = VOLATILE_BYTES_MAX
    hold_ms: int = HOLD_MS
    """How long clients wait for a handoff, at most, where its caller does not say."""
    cooldown_ms: int = COOLDOWN_MS
    """A replica's request this soon after the last handoff is refused; an operator at the master is not."""


def ports_of(
    store: Store,
    shared: Shared,
    held_call: Callable[[PeerFrame], PendingEnqueue],
    is_at_hand: Callable[[int], bool] | None = None,
    may: May | None = None,
) -> ShellPorts:
    """Over the store that the domain was opened from."""
    return ShellPorts(
        read=functools.partial(read_stored, store, shared),
        is_whole=functools.partial(is_whole, store, shared),
        held_call=held_call,
        is_at_hand=is_at_hand,
        may=may,
    )
