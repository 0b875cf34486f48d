"""The queues of a pair as one would explain them: dicts of messages and loops over them; knows no call and no member.

Times are not known to the millisecond, as a client sees only when it asked and when it was answered: a `Within` says
between which two moments something ends. Whoever uses the model steps over these moments as a whole, so that what has
ended and what has not is certain whenever a call is made.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.support.listed.reaction import Reaction

ONE_WAY_ACK, QUEUED_ACK, TWO_WAY = "ONE_WAY_ACK", "ONE_WAY_QUEUED_ACK", "TWO_WAY"
ACK, RELEASE, REJECT, EXTEND = 1, 2, 3, 4
SLACK_MS = 500
"""What ends by itself is written down so soon after, at the latest, and what follows from it begins then."""
SIZE, SIZE_MAX = 10, 100
"""Of every payload that enters, as the members count bytes by the mean of a batch; and what enters at most."""


class Refusal(Exception):  # noqa: N818  # an answer, and no failure
    """What a call is refused with: the name of the reason."""


class Within(NamedTuple):
    """Not before the first, and not after the second."""

    low: int
    high: int

    def plus(self, ms: int) -> Within:
        return Within(self.low + ms, self.high + ms)


FAR = Within(1 << 60, 1 << 60)
"""In an hour; no list of steps takes as long."""


@dataclass(eq=False)
class Lease:
    """Some messages of one consumer, or of one unit of work, which alone may settle them."""

    lease_id: int
    ends: Within
    duration_ms: int
    unit: bytes = b""
    locks: bool = False
    """For a reaction of that unit: it was delivered to nobody."""


@dataclass(eq=False)
class Message:
    payload: bytes
    size: int
    priority: int = 4
    expires: Within | None = None
    delayed: Within | None = None
    lease: Lease | None = None
    deliveries: int = 0
    """That ended without a settlement."""
    dying: bool = False
    why: str | None = None
    """What a consumer said as it rejected it; None: it dies of its deliveries."""
    answer_until: Within | None = None
    origin: tuple[str, str, str, int] | None = None
    """Of a dead letter: the queue, why it died, what the consumer said, and its deliveries."""
    correlation: str = ""
    group: str = ""
    grade: int | None = None
    """A property."""
    inert: bool = False
    reply_to: str = ""
    ids: frozenset[bytes] = frozenset()
    """That it and its versions before had, as far as somebody knows them."""
    own_id: bytes = b""
    first_id: bytes = b""
    """Of one that a reaction has changed."""
    version: int = 1
    first: int = 0
    """The index of its first version; 0: it is that."""
    seen: tuple[str, int] | None = None
    """The kept reaction that has changed it: where it is kept, and at which index."""
    unasked: bool = True
    """The kept reactions have not been asked about it."""
    stuck: bool = False
    """One that fits it had no place for what it would make of it."""
    report: tuple[object, ...] | None = None
    """Of a reaction, and what it says."""
    reaction: Reaction | None = None
    """That is kept."""

    def copy(self, **changes: Any) -> Message:
        """What another queue gets of it, or its own: it was never delivered, and is known to nobody."""
        fresh: dict[str, Any] = {
            "lease": None,
            "deliveries": 0,
            "dying": False,
            "why": None,
            "answer_until": None,
            "expires": None,
            "delayed": None,
            "ids": frozenset(),
            "own_id": b"",
            "first": 0,
            "unasked": True,
            "stuck": False,
        }
        return replace(self, **{**fresh, **changes})


LEASE_DEFAULT_MS = 30_000


@dataclass
class Attributes:
    kind: str = QUEUED_ACK
    max_length: int = 8
    drops: bool = False
    max_deliveries: int = 0
    dead_letters: bool = True
    """Into `<name>.dead`; else they are removed, and nothing dies of deliveries."""
    retry_ms: tuple[int, int] = (0, 0)
    lease_ms: int = 6_500
    ttl_ms: int = 0
    reply_ms: int = 0
    dedup_max: int = 100_000
    immediate: bool = False
    enqueue_enabled: bool = True
    dequeue_enabled: bool = True
    reactions: bool = True


@dataclass
class Totals:
    enqueued: int = 0
    acked: int = 0
    rejected: int = 0
    expired: int = 0
    dropped: int = 0
    purged: int = 0
    replied: int = 0
    dead_lettered: int = 0
    reacted: int = 0


@dataclass(eq=False)
class Queue:
    name: str
    config: Attributes
    state: str = "OPEN"
    version: int = 1
    messages: dict[int, Message] = field(default_factory=dict)
    next_index: int = 1
    settled: set[tuple[int, int, int]] = field(default_factory=set)  # lease, outcome, index
    dedup: OrderedDict[str, int] = field(default_factory=OrderedDict)
    ends: dict[int, str] = field(default_factory=dict)
    """How messages ended, of a queue that remembers it."""
    replies: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    """The answer to a request, and the lease under which it came."""
    handles: dict[int, bytes] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    totals: Totals = field(default_factory=Totals)
    late: list[Message] = field(default_factory=list)
    """What has ended as it came back: the kept reactions may have been asked about it, or not."""
    spared: set[int] = field(default_factory=set)
    """What a unit of work gives back, while its messages enter: none of it is dropped for them."""

    @property
    def tracked(self) -> bool:
        return self.config.kind in (ONE_WAY_ACK, TWO_WAY)

    @property
    def dead_name(self) -> str:
        return f"{self.name}.dead" if self.config.dead_letters else ""

    # -- what is in it -------------------------------------------------------------------------------------------------

    def unleased(self) -> list[int]:
        return [index for index, message in self.messages.items() if message.lease is None]

    def dying(self) -> list[int]:
        return [index for index in self.unleased() if self.messages[index].dying]

    def waiting(self) -> list[int]:
        """Ready or delayed."""
        return [index for index in self.unleased() if not self.messages[index].dying]

    def delayed(self) -> list[int]:
        return [index for index in self.waiting() if self.messages[index].delayed is not None]

    def ready(self) -> list[int]:
        return [index for index in self.waiting() if self.messages[index].delayed is None]

    def deliverable(self, count: int) -> list[int]:
        """Highest priority first, then lowest index (R149)."""
        return sorted(self.ready(), key=lambda index: (-self.messages[index].priority, index))[:count]

    def leases(self) -> dict[int, Lease]:
        held = (message.lease for message in self.messages.values() if message.lease is not None)
        return {lease.lease_id: lease for lease in held}

    # -- sending -------------------------------------------------------------------------------------------------------

    def check_may_send(self) -> None:
        if self.state != "OPEN":
            raise Refusal("INVALID_STATE")
        if not self.config.enqueue_enabled:
            raise Refusal("ENQUEUE_DISABLED")

    def enter(self, entries: list[Entry], now: Within) -> list[Placed]:
        """Each where it goes; the limits are exact, and nothing passes an entry that found the queue full."""
        room, full = self.room(), False
        placed: list[Placed] = []
        fresh: dict[str, int] = {}
        index = self.next_index
        for entry in entries:
            known = (self.dedup.get(entry.dedup, 0) or fresh.get(entry.dedup, 0)) if entry.dedup else 0
            full = full or (not known and entry.size <= SIZE_MAX and not room)
            if known:
                placed.append(Placed(known, "", duplicate=True))
            elif entry.size > SIZE_MAX:
                placed.append(Placed(0, "MESSAGE_TOO_LARGE"))
            elif full:
                placed.append(Placed(0, "QUEUE_FULL"))
            else:
                room -= 1
                if entry.dedup:
                    fresh[entry.dedup] = index
                placed.append(Placed(index, ""))
                index += 1
        self.drop_for(index - self.next_index)
        for entry, place in zip(entries, placed, strict=True):
            if place.is_new:
                self._put(place.index, entry, now)
        return placed

    def room(self) -> int:
        """How many it takes."""
        dropped = len(self._droppable()) if self.config.drops else 0
        return max(0, self.config.max_length - len(self.messages) + dropped)

    def _droppable(self) -> list[int]:
        return [index for index in self.ready() if index not in self.spared]

    def drop_for(self, count: int) -> None:
        """The lowest priority first, of those the oldest, until there is room."""
        heads = sorted(self._droppable(), key=lambda index: (self.messages[index].priority, index))
        while self.config.drops and count and heads and len(self.messages) + count > self.config.max_length:
            self.end(heads.pop(0), "DROPPED")
            self.totals.dropped += 1

    def _put(self, index: int, entry: Entry, now: Within) -> None:
        ttl_ms = entry.ttl_ms or self.config.ttl_ms
        message = Message(entry.payload, entry.size, entry.priority)
        message.expires = now.plus(ttl_ms) if ttl_ms else None
        message.delayed = now.plus(entry.delay_ms) if entry.delay_ms else None
        message.correlation, message.group, message.grade = entry.correlation, entry.group, entry.grade
        message.inert, message.reply_to = entry.inert, entry.reply_to
        self.add(message, now)
        assert self.next_index == index + 1
        if entry.dedup:
            self.dedup[entry.dedup] = index
            while len(self.dedup) > self.config.dedup_max:
                self.dedup.popitem(last=False)

    def add(self, message: Message, now: Within | None) -> None:
        """`now`: of what a queue with requests may get."""
        self.messages[self.next_index] = message
        if self.config.kind == TWO_WAY and now is not None:
            message.answer_until = now.plus(self.config.reply_ms)
        if self.tracked and not message.first:
            self.ends[self.next_index] = ""
        self.next_index += 1
        self.totals.enqueued += 1

    def end(self, index: int, how: str) -> None:
        """It leaves the queue."""
        first = self.messages.pop(index).first or index
        if first in self.ends:
            self.ends[first] = how

    # -- receiving and settling ----------------------------------------------------------------------------------------

    def check_may_receive(self, *, immediate: bool) -> None:
        if self.state != "OPEN":
            raise Refusal("INVALID_STATE")
        if not self.config.dequeue_enabled:
            raise Refusal("DEQUEUE_DISABLED")
        if immediate and self.config.kind == TWO_WAY:
            raise Refusal("REPLY_REQUIRED")

    def settle(self, said: Settled, unit: bytes = b"") -> list[int]:
        """Message by message, under the lease that holds it or, where nobody does, under any; says what is refused.
        `unit`: the unit of work that settles.
        """
        outcome, lease_id, indexes = said.outcome, said.lease_id, said.indexes
        lease = self.leases().get(lease_id)
        if (outcome == ACK and self.config.kind == TWO_WAY) or (lease is not None and lease.unit not in (b"", unit)):
            return list(indexes)
        refused = []
        for index in indexes:
            message = self.messages.get(index)
            held = message is not None and lease is not None and message.lease is lease
            free = message is not None and message.lease is None and not message.dying
            if outcome == EXTEND:
                if held and lease is not None:
                    lease.ends, lease.duration_ms = said.until, said.ms
                else:
                    refused.append(index)
            elif outcome == RELEASE and message is not None and (held or free):
                if held:
                    message.lease, message.delayed = None, said.until if said.ms else None
                    message.unasked = True
            elif outcome in (ACK, REJECT) and message is not None and (held or free):
                self._settle_one(said, index, message, held=held)
            elif outcome == RELEASE or (lease_id, outcome, index) not in self.settled:
                refused.append(index)
        return refused

    def _settle_one(self, said: Settled, index: int, message: Message, *, held: bool) -> None:
        self.settled.add((said.lease_id, said.outcome, index))
        if said.outcome == ACK:
            self.totals.acked += 1
            self.end(index, "CONSUMED")
            return
        self.totals.rejected += 1
        if not self.config.dead_letters:
            self.end(index, "REJECTED")
            return
        message.lease, message.delayed, message.dying = None, None, True
        message.deliveries += held
        message.why = said.why

    def reply(self, lease_id: int, index: int, payload: bytes, unit: bytes = b"") -> bool:
        """Whether it counts now; False: it has counted already."""
        if self.config.kind != TWO_WAY:
            raise Refusal("NOT_TWO_WAY")
        held = self.leases().get(lease_id)
        if held is not None and held.unit not in (b"", unit):
            raise Refusal("BAD_REQUEST")
        message = self.messages.get(index)
        lease = message.lease if message is not None else None
        if message is not None and (lease is None or lease.lease_id == lease_id):
            if message.dying:
                raise Refusal("LEASE_LOST")
            self.settled.add((lease_id, ACK, index))
            self.end(index, "REPLIED")
            for known in (index, message.first or index):
                self.ends[known], self.replies[known] = "REPLIED", (payload, lease_id)
            self.totals.replied += 1
            return True
        if self.ends.get(index) == "REPLIED":
            if self.replies[index] == (payload, lease_id):
                return False
            raise Refusal("ALREADY_REPLIED")
        raise Refusal("LEASE_LOST")

    # -- time ----------------------------------------------------------------------------------------------------------

    def due(self) -> list[Within]:
        """When something ends by itself."""
        found = [lease.ends for lease in self.leases().values()]
        for index in self.waiting():
            message = self.messages[index]
            found += [when for when in (message.expires, message.delayed) if when is not None]
        return found + [each.answer_until for each in self.messages.values() if each.answer_until is not None]

    def pass_to(self, now_ms: int) -> None:
        """Everything that is over by then ends; what ends later is not touched."""
        for lease in [lease for lease in self.leases().values() if lease.ends.high < now_ms]:
            for message in [each for each in self.messages.values() if each.lease is lease]:
                self._return(message, lease)
        self.late.clear()
        for index in list(self.messages):
            message = self.messages[index]
            back = message.unasked or (message.lease is not None and message.lease.ends.low < now_ms)
            if back and (is_over(message.expires, now_ms) or is_over(message.answer_until, now_ms)):
                self.late.append(message)
            if message.lease is None and not message.dying and is_over(message.expires, now_ms):
                self.totals.expired += 1
                self.end(index, "EXPIRED")
            elif is_over(message.answer_until, now_ms):
                self.end(index, "REPLY_TIMEOUT")
            elif message.lease is None and is_over(message.delayed, now_ms):
                message.delayed = None

    def held(self, lease: Lease) -> list[int]:
        return [index for index, message in self.messages.items() if message.lease is lease]

    def undo(self, lease: Lease, now: Within) -> None:
        """It ends now, by a rollback, as it would by time."""
        lease.ends = now
        for index in self.held(lease):
            self._return(self.messages[index], lease)

    def give_back(self, lease: Lease) -> None:
        """It ends with its master: no delivery counts."""
        for index in self.held(lease):
            self.messages[index].lease, self.messages[index].unasked = None, True

    def _return(self, message: Message, lease: Lease) -> None:
        """Nobody settled it: to its place, to wait for its time, or to die."""
        config = self.config
        message.lease, message.unasked = None, True
        if lease.locks:
            return
        message.deliveries += 1
        if config.dead_letters and 0 < config.max_deliveries <= message.deliveries:
            message.dying = True
        elif config.retry_ms[0]:
            wait_ms = min(config.retry_ms[0] * message.deliveries, max(config.retry_ms))
            message.delayed = Within(lease.ends.low + wait_ms, lease.ends.high + wait_ms + SLACK_MS)


class Settled(NamedTuple):
    """What a consumer says of messages."""

    outcome: int
    lease_id: int
    indexes: list[int]
    until: Within
    """Of a release the end of the delay, of an extension the new end of the lease."""
    ms: int
    """How long that is; 0: no delay."""
    why: str


class Entry(NamedTuple):
    """A message as it is sent."""

    payload: bytes
    size: int
    priority: int = 4
    ttl_ms: int = 0
    delay_ms: int = 0
    dedup: str = ""
    correlation: str = ""
    group: str = ""
    grade: int | None = None
    inert: bool = False
    reply_to: str = ""


class Placed(NamedTuple):
    """What becomes of it."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    refused: str
    duplicate: bool = False

    @property
    def is_new(self) -> bool:
        return bool(self.index) and not self.duplicate


def is_over(when: Within | None, now_ms: int) -> bool:
    return when is not None and when.high < now_ms
