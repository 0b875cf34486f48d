"""Keeps what clients of a simulated pair saw of each queue, in the order in which they saw it; it draws no conclusion.

One book for each queue. A message is known by its producer and that producer's number, and goes to one queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from chaos.history import Acked, Delivered, History, Message, Settled

MOVING, REQUESTS, ANSWERS, DROPPING, REACTIVE = "moving", "requests", "answers", "dropping", "reactive"
FATED = (MOVING, REQUESTS, ANSWERS, DROPPING, REACTIVE)
"""Kinds of queues whose messages may leave otherwise than by a consumer: to another queue, by an answer, by time,
dropped, or by a reaction. `chaos.sim.judges.departures` judges them.
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """One message of one lease, as its holder saw it. `waited`: both members had the lease before he did."""

    lease_id: int
    index: int
    delivery_count: int
    waited: bool
    at_s: float = 0.0
    until_s: float = 0.0
    """It does not end before, unless somebody gives it back or settles; 0: nobody knows."""
    asked_ms: int = 0
    """How long it was to last; 0: as long as its queue says."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A Dequeue that was asked for again while its lease ran, and before its holder had settled anything."""

    consumer: str
    held: dict[int, Message]
    """By index."""
    again: frozenset[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A reaction that somebody asked for."""

    line: str
    """It acts on messages of this group."""
    everything: bool
    """On all of them, else on the first."""
    verb: str
    """cancel, move, change, ask."""


@dataclass(slots=True)
class Change:
    """An administrator's order to change the persistence of a queue, and what its only administrator heard."""

    asked_s: float
    mode: str
    """persistent, volatile, conditional."""
    answered_s: float | None = None
    """None: nobody knows whether it was done."""


@dataclass(slots=True)
class Wishes:
    """What senders of one queue asked for beside its being stored, and what became of requests."""

    delays_ms: dict[Message, int] = field(default_factory=dict)
    """To be delivered so much later."""
    expiring: set[Message] = field(default_factory=set)
    """With a time to live."""
    doubles: dict[Message, int] = field(default_factory=dict)
    """Not stored: another one of its dedup id was, at that index."""
    answers: dict[int, dict[bytes, bool]] = field(default_factory=dict)
    """Index of a request: what somebody wanted to answer, heard or not; and whether that was confirmed."""
    handles: dict[int, bytes] = field(default_factory=dict)
    """By index, of messages that can be asked for."""
    ends: dict[int, set[tuple[str, bytes]]] = field(default_factory=dict)
    """Index: how its sender heard that it ended, and with which answer, if it was a request."""
    sweeps: list[tuple[bytes, int]] = field(default_factory=list)
    """Request id of a call that moved messages out of this queue, and how many it says."""
    reactions: dict[bytes, Asked] = field(default_factory=dict)
    """By request id, heard or not."""
    reacted: dict[bytes, int] = field(default_factory=dict)
    """Request id of one that was answered: on how many it acted."""


@dataclass(slots=True)
class Book:
    """What was seen of one queue."""

    name: str
    kind: str = "plain"
    """plain, two (copies), volatile, conditional, immediate, ordered (groups), sided (PRODUCER replication), ranked
    (priorities), macro (a macro queue), dead (letters of another queue), changed: volatile at first, then as `changes`
    say; or one of `FATED`.
    """
    history: History = field(default_factory=History)
    refused: dict[Message, str] = field(default_factory=dict)
    """Certainly not applied, and why."""
    repeated: set[Message] = field(default_factory=set)
    """Sent by their application as new ones, after it had died and could not know: each may be there twice."""
    volatile: set[Message] = field(default_factory=set)
    """May be lost with the memory of both members; of a changed queue all, until the end has judged the changes."""
    marked: set[Message] = field(default_factory=set)
    """Their sender wanted them persistent; noted for a changed queue."""
    changes: list[Change] = field(default_factory=list)
    """In order; one administrator gives one order after the other."""
    leases: list[Lease] = field(default_factory=list)
    repetitions: list[Repetition] = field(default_factory=list)
    releases: Counter[int] = field(default_factory=Counter)
    """Index: how often somebody has asked to give it back, heard or not."""
    groups: dict[Message, str] = field(default_factory=dict)
    """Of those that were sent with one."""
    done: dict[int, float] = field(default_factory=dict)
    """Index: when somebody who had it first asked to settle it for good, heard or not."""
    rejecting: set[int] = field(default_factory=set)
    """Indexes that somebody has asked to reject, heard or not."""
    rejected: set[int] = field(default_factory=set)
    """Confirmed."""
    acknowledged: set[int] = field(default_factory=set)
    """Confirmed to their consumers as done."""
    consumers: set[str] = field(default_factory=set)
    """Who asked for messages, whether any reached them or not."""
    lost_s: dict[int, float] = field(default_factory=dict)
    """By index: when a master first said that it is lost, as volatile ones may be."""
    damaged: set[int] = field(default_factory=set)
    """By index: a member has had them damaged, and delivered what came after them meanwhile."""
    volatile_lost: int = 0
    """As the queue itself counts, at the end."""
    wishes: Wishes = field(default_factory=Wishes)

    def sent(self, acked: Iterable[Acked]) -> None:
        """Acknowledged."""
        self.history.acked.extend(acked)

    def took(
        self,
        at_s: float,
        consumer: str,
        messages: Iterable[Received],
        lease_id: int,
        *,
        waited: bool,
        until_s: float = 0.0,
        asked_ms: int = 0,
    ) -> None:
        """Somebody was given messages."""
        self.consumers.add(consumer)
        for each in messages:
            count = each.delivery_count
            self.history.delivered.append(Delivered(at_s, message_of(each.payload), each.index, count, consumer))
            if lease_id:
                self.leases.append(Lease(lease_id, each.index, count, waited, at_s, until_s, asked_ms))

    def counts(self, lease_id: int) -> None:
        """It has ended in a way that counts as a delivery, at both members."""
        self.leases = [replace(each, waited=True) if each.lease_id == lease_id else each for each in self.leases]

    def done_with(self, at_s: float, indexes: Iterable[int]) -> None:
        """Somebody has finished his work with them, and is about to say so."""
        for index in indexes:
            self.done.setdefault(index, at_s)

    def settled(self, at_s: float, indexes: Iterable[int]) -> None:
        """Confirmed: they are done with."""
        self.history.settled.extend(Settled(at_s, index) for index in indexes)


@dataclass(frozen=True, slots=True)
class Received:
    """A message as a consumer sees it."""

    index: int
    payload: bytes
    delivery_count: int


class Books:
    """The books of all queues, by name."""

    def __init__(self) -> None:
        self._books: dict[str, Book] = {}

    def __iter__(self) -> Iterator[Book]:
        return iter(list(self._books.values()))

    def __getitem__(self, queue: str) -> Book:
        book = self._books.get(queue)
        if book is None:
            book = self._books[queue] = Book(queue)
        return book

    @property
    def acked(self) -> list[Acked]:
        """Over all queues, in the order of their answers."""
        return sorted((ack for book in self for ack in book.history.acked), key=lambda ack: ack.at_s)


def message_of(payload: bytes) -> Message:
    producer, _, number = bytes(payload).partition(b":")
    return Message(int(producer), int(number))


def payload_of(message: Message) -> bytes:
    """What it is sent as."""
    return b"%d:%d" % message
