"""What was seen of a pair from outside during one run, in the order in which it was seen; it draws no conclusion.

Times are seconds since the run began. What was asked and answered has two: `asked_s` before the question left and
`at_s` after its answer came; what it says was true somewhere between. A message is known by its producer and the number
that this producer gave it, from 0. All messages go to one queue of one domain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

OK, FAIL, UNKNOWN = "ok", "fail", "unknown"


class Message(NamedTuple):
    producer: int
    number: int


class Operation(NamedTuple):
    """What a client asked for and how it ended for the client: ok; fail, which certainly had no effect; or unknown."""

    client: str
    verb: str  # enqueue, settle
    asked_s: float  # its invocation
    at_s: float
    outcome: str
    messages: tuple[Message, ...]
    detail: str = ""  # of one that is not ok


@dataclass(frozen=True, slots=True)
class Acked:
    """An enqueue was acknowledged."""

    asked_s: float
    at_s: float
    message: Message
    index: int
    epoch: int
    copies: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A consumer was given a message."""

    at_s: float
    message: Message
    index: int
    delivery_count: int
    consumer: str = ""
    """Who was given it: frames to two consumers travel at their own speed."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A member confirmed that a message is done with."""

    at_s: float
    index: int


class Answered(NamedTuple):
    """A member answered a question that only a master answers."""

    asked_s: float
    at_s: float
    member: str
    epoch: int


class Seen(NamedTuple):
    """What a member said of itself."""

    asked_s: float
    at_s: float
    member: str
    disk: str  # which store it runs on; a wiped one is another
    incarnation: int
    role: str
    data: str
    epoch: int
    log_index: int
    digest: str
    state_digest: str
    parked: int
    linked: bool = True  # its peer is connected
    witnessed: bool = True  # its witness is connected


class Recorded(NamedTuple):
    """What the register said. `asked_s` is 0 when it said so by itself, at some time before `at_s`."""

    asked_s: float
    at_s: float
    version: int
    epoch: int
    holder: str
    in_sync: tuple[str, ...]
    committed: bool


class Handed(NamedTuple):
    """How an order to hand the mastership over was answered."""

    asked_s: float
    at_s: float
    handoff_id: str
    done: bool
    master: str
    epoch: int
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Struck:
    """A fault that was. Times are the history's; `to_s` is when it was healed, infinite until then."""

    kind: str
    members: tuple[str, ...]
    from_s: float
    to_s: float = float("inf")
    delay_s: float = 0.0
    felt: int = 0  # of faults of disk and clock: how often they were


@dataclass(slots=True)
class History:
    """Everything that was seen in one run. Each list is in the order of `at_s`."""

    acked: list[Acked] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    awake: list[float] = field(
        default_factory=list
    )  # when the observer was at work, every 50 ms while nothing holds it up
    seen: list[Seen] = field(default_factory=list)
    recorded: list[Recorded] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    left: list[Message] = field(default_factory=list)  # still in the queue at the end
    operations: list[Operation] = field(default_factory=list)  # of clients that were watched; empty: none was

    def last_seen(self) -> dict[str, Seen]:
        """The last word of each member."""
        return {seen.member: seen for seen in self.seen}
