"""Where each message of a simulated pair is, by queue, and how it left; `chaos.sim.judges.fates` fills it. Judges
nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service

if TYPE_CHECKING:
    from chaos.sim.judges.invariants import Name
    from tandemq.peer.v1 import record_pb2 as pb

FINALS: Mapping[int, str] = MappingProxyType(
    {
        service.FINAL_STATE_CONSUMED: "acked",
        service.FINAL_STATE_REPLIED: "replied",
        service.FINAL_STATE_EXPIRED: "expired",
        service.FINAL_STATE_DEAD_LETTERED: "dead_lettered",
        service.FINAL_STATE_PURGED: "purged",
        service.FINAL_STATE_REPLY_TIMEOUT: "reply_timeouts",
        service.FINAL_STATE_DROPPED: "dropped",
        service.FINAL_STATE_REACTED: "reacted",
    }
)
"""How messages leave, and what a queue's totals call it."""
PRIORITY = 4
"""Of a message that names none."""


@dataclass(slots=True)
class Copy:
    """A message in one queue at one index, and how it left. Times are the domain's, in milliseconds."""

    shelf: Shelf
    index: int
    payload: bytes
    priority: int
    reply_to: str
    group: str
    entered: Name
    entered_ms: int
    not_before_ms: int = 0
    expires_ms: int = 0
    waits: bool = False
    """For its time: no record has said yet that it came."""
    lease_id: int = 0
    is_locked: bool = False
    """By a reaction of an open unit, which has that lease: nobody was given it."""
    failures: int = 0
    """Deliveries that came to nothing, as its queue counts them."""
    died: Name | None = None
    rejected: bool = False
    final: int = 0
    """How it left, a FinalState; 0: it has not."""
    left: Name | None = None
    left_ms: int = 0
    answer: bytes = b""
    owes: str = ""
    """The queue that is to get a copy of the answer, and has not."""
    inert: bool = False
    """No reaction may act on it."""
    changed_by: tuple[int, int] = (0, 0)
    """The kept reaction that has made it what it is: id of the queue that keeps it, and index; 0: none has."""
    was_held: bool = False
    """Somebody has had it."""
    became: Copy | None = None
    """What a reaction has made of it, in the same queue."""
    moved_to: str = ""
    """The other queue that it went to."""
    gathered: Gathered | None = None
    """The group that it came into, where groups wait until they are whole."""
    sequence: int = 0
    is_last: bool = False
    is_ungathered: bool = False
    """It died because its group was not whole in time."""

    @property
    def reason(self) -> str:
        """Why it died, as its dead letter says."""
        return "GROUP_TIMEOUT" if self.is_ungathered else "REJECTED" if self.rejected else "MAX_DELIVERIES"

    @property
    def is_in_line(self) -> bool:
        """Those behind it in its group wait for it."""
        return not self.final and self.died is None

    @property
    def is_ready(self) -> bool:
        """Nobody holds it, and it waits for nothing."""
        return not self.final and not self.lease_id and not self.waits and self.died is None


@dataclass(slots=True)
class Gathered:
    """One group of a queue whose groups wait until they are whole."""

    since_ms: int
    copies: list[Copy] = field(default_factory=list)
    begun: bool = False
    """Somebody was given its first member."""

    def here(self) -> list[Copy]:
        """Its members that have not left, by sequence."""
        return sorted((copy for copy in self.copies if copy.is_in_line), key=lambda copy: copy.sequence)

    @property
    def is_whole(self) -> bool:
        """What leaves before it has begun is missing again."""
        here = self.here()
        last = next((copy.sequence for copy in here if copy.is_last), 0)
        return self.begun or 0 < last == len(here)


@dataclass(slots=True)
class Shelf:
    """One queue, from its creation on."""

    queue_id: int
    name: str
    config: admin.QueueConfig
    copies: dict[int, Copy] = field(default_factory=dict)
    """By index, all that ever were in it."""
    length: int = 0
    ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Dedup id: index and time of the message that was stored with it last."""
    gathering: dict[str, Gathered] = field(default_factory=dict)
    """By group, the one that came last."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened in it and left nothing behind, by the name that its totals have."""

    @property
    def letters(self) -> str:
        """Where what dies in it goes; empty: nowhere."""
        return self.config.dead_letter_queue if self.config.HasField("dead_letter_queue") else self.name + ".dead"

    def totals(self) -> Counter[str]:
        """What its totals must be."""
        found = Counter(FINALS[copy.final] for copy in self.copies.values() if copy.final in FINALS)
        return found + self.counts + Counter(enqueued=len(self.copies))

    def here(self) -> Iterator[Copy]:
        """Those that have not left."""
        return (copy for copy in self.copies.values() if not copy.final)

    def first_of(self, copy: Copy) -> Copy:
        """Who is to be delivered first of its group: itself, where there is none."""
        if copy.gathered is not None:
            return next(iter(copy.gathered.here()), copy)
        if not copy.group or self.config.group_mode != admin.GROUP_MODE_ORDERED:
            return copy
        line = (each for each in self.copies.values() if each.group == copy.group and each.is_in_line)
        return next(line, copy)


def name_of(copy: Copy) -> str:
    """Which one."""
    return f"{copy.payload.decode(errors='replace')} at {copy.index} of {copy.shelf.name}"


@dataclass(frozen=True, slots=True)
class Reacted:
    """What a reaction did, and what was there as it was ordered."""

    name: Name
    queue: str
    targets: set[int]
    """Indexes."""
    free: list[Copy]
    """Nobody held them, in the order in which they would have been delivered; delayed ones last."""
    held: list[Copy]
    said: pb.ReactionCounts
