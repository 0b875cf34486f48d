"""Decides whether a process that calls itself the peer takes the place of the one that did so before. Asks nobody.

A member that was started again does; a copy of its data directory that was started beside it does not.

Two starts of one name must not both count as current. The copy has no vote by the witness's count of starts
(`replica.peer.identity.incarnation`), yet a peer that took it in the original's place would bring it up to date, within
the epoch, and the original knew nothing of what was acknowledged with the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica.core.state.durable import data_of
from replica.peer.identity.starts import Start
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from tandemq.peer.v1.peer_service_pb2 import Hello

SEEN_START = "start"
"""In a refusal: the start of the caller's member that was here already."""
SEEN_PROCESS = "process"
"""Beside it: that start's process id, in hexadecimal."""

ALIVE_MS = 500
"""Heard within this time a connection is not one that a dead process left behind."""
LOST_MS = 1_500


class PeerRefused(Exception):  # noqa: N818  # an answer, not a fault
    """The other side may not be the peer, or not like this; the text says what to do."""

    def __init__(self, reason: Reason, text: str, metadata: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.metadata = metadata or {}


@dataclass(slots=True)
class PeerInfo:
    """What is known of the peer outside of any domain."""

    member: str
    address: str
    endpoint: str = ""
    instance_id: str = ""
    incarnation: int = 0
    process_id: bytes = b""


@dataclass(frozen=True, slots=True)
class LastConnection:
    """Of the process that was connected last."""

    connected: bool
    silent_ms: int
    gone: bool
    """Nobody listens at its port."""


def other_start(own: Hello, hello: Hello) -> Start | None:
    """Which start of this member, in another process, the one who says HELLO was connected with before."""
    seen, process = hello.seen_incarnation, hello.seen_process_id
    return Start.of(seen, process) if seen and process not in (b"", own.process_id) else None


def has_moved(told: Hello, now: Hello) -> bool:
    """Whether a member's role or epoch in a domain is another one than it has told."""
    before, after = ({part.name: (part.role, part.epoch) for part in hello.domains} for hello in (told, now))
    return before != after


def check_process(
    known: PeerInfo, hello: Hello, signs: LastConnection, *, counted: bool, lost_ms: int = LOST_MS
) -> None:
    """Raises PeerRefused for a copy, as far as this member can tell. `counted`: a third voice counts the starts."""
    if not known.process_id or hello.process_id == known.process_id:
        return
    called = f"the caller is start {hello.incarnation}; was its data directory copied?"
    if counted and hello.incarnation <= known.incarnation:
        # Also a disk that was lost, or was put back: the witness tells it the number to go on with, or this refusal
        # where the witness has lost its count, and it calls again.
        text = f"start {known.incarnation} of {known.member} was here already, {called} Or it waits for the witness"
        told = {SEEN_START: str(known.incarnation), SEEN_PROCESS: known.process_id.hex()}
        raise PeerRefused(Reason.REASON_WRONG_PAIR, text, told)
    current = all(data_of(part.data_state).is_good for part in hello.domains)
    if signs.connected:
        lives = signs.silent_ms < (ALIVE_MS if current else lost_ms)
    else:
        # The other one may be frozen, or its connection cut: until it counts as lost, nothing takes its place that
        # would first have to be brought up to date.
        lives = not current and not signs.gone and signs.silent_ms < lost_ms
    if lives:
        text = (
            f"start {known.incarnation} of {known.member} is connected and lives, {called} Stop one of the two, and "
            "empty its directory"
        )
        raise PeerRefused(Reason.REASON_WRONG_PAIR, text)
