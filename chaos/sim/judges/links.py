"""Judges what came of messages that one simulated pair sent on to another.

Each that was acknowledged arrives once, in the order of its transmission queue, or stands among the dead letters there
with the reason; nothing else arrives.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.sim.judges.proxy_points import TAKEOVER_DEALT
from chaos.sim.kernel.wire import Packet
from chaos.sim.pair.run import FAR
from replica.machine.features.batches import open_batches
from replica.machine.state.system_names import CONSUMER, DEAD, target_of, xmit_queue
from tandemq.v1 import transaction_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import Message
    from chaos.sim.kernel.net import Pipe
    from chaos.sim.pair.members import Pair
    from replica.machine import QueueState
    from replica.machine.state.state import State

NAME = "what goes to another pair arrives once"
ORDERS, NOWHERE, KEPT = "orders", "nowhere", "kept"
"""Queues: of the other pair; of that name there is none there; one of the pair that sends."""
LETTERS = DEAD
"""Of the other pair: who is refused for ever goes there."""
TRANSMISSION = xmit_queue(FAR)
LINK = "link"
"""The kind of a queue that only an agent takes from."""
NO_QUEUE = "QUEUE_NOT_FOUND"
FOUND_AGAIN = "a batch found again by the agent"
AT_SOURCE, AT_TARGET = "a takeover at the source with a batch under way", "a takeover at the target of a batch"
AWAY = "a target away, and messages for it"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that somebody wanted in a queue of the other pair."""

    to: str
    persistent: bool
    beside: Message | None
    """What the same unit put into a queue here."""


@dataclass(slots=True)
class Links:
    """What clients of the pair that sends have asked for and heard, and what stands at the other one in the end."""

    sent: dict[Message, Sent] = field(default_factory=dict)
    """Heard of or not."""
    refused: dict[Message, str] = field(default_factory=dict)
    """Certainly, and why."""
    reasons: dict[Message, str] = field(default_factory=dict)
    """Of dead letters: what they say."""


class Watch:
    """Meets the points of a link while a run lasts."""

    def __init__(self, near: Pair, far: Pair) -> None:
        self._near, self._far = near, far
        self._serving: dict[str, int] = {}

    def on_arrived(self, pipe: Pipe, item: object) -> None:
        """A packet has arrived somewhere."""
        source, target = pipe.direction.source, pipe.direction.target
        if source not in self._far.members or target not in self._near.members:
            return
        is_answer = isinstance(item, Packet) and item.kind == "message" and item.path.endswith("/Transact")
        if is_answer and pb.TransactResponse.FromString(item.data).duplicate:  # type: ignore[attr-defined]  # a packet
            self._near.run.sometimes(FOUND_AGAIN)

    def on_event(self, kind: str, text: str) -> None:
        """A member of either pair reported something: of a takeover it says so."""
        if kind != "ROLE" or "is MASTER now" not in text:
            return
        if self._near.run.proxied and self.waiting():
            self._near.run.sometimes(TAKEOVER_DEALT)
        if not self.open_batches():
            return
        self._near.run.sometimes(AT_SOURCE if text.partition(" ")[0] in self._near.members else AT_TARGET)

    def open_batches(self) -> int:
        """How many batches are under way, as a member that could serve has it."""
        return max((_open_of(*found) for found in self._links()), default=0)

    def waiting(self) -> int:
        """How many messages wait in the transmission queue, or in the one of several that has the most."""
        return max((queue.length for _, queue in self._links()), default=0)

    def _links(self) -> Iterator[tuple[State, QueueState]]:
        for member in self._near.members.values():
            machine = member.domain.shared.machine if member.domain is not None else None
            for queue in machine.state.queues.values() if machine is not None else ():
                if machine is not None and target_of(queue.name) is not None:
                    yield machine.state, queue


def _open_of(state: State, queue: QueueState) -> int:
    return len(open_batches(state, queue, CONSUMER))


def broken(near: Pair, far: Pair, links: Links) -> Iterator[str]:
    """What does not hold, in the order of severity; each finding in a line."""
    places = _places(far)
    acked = {each.message: each.index for each in near.run.books[TRANSMISSION].history.acked}
    for message, found in places.items():
        wanted = links.sent.get(message)
        if wanted is None:
            yield f"{message} arrived at {found}, and nobody has sent it"
            continue
        if message in links.refused:
            yield f"{message} arrived at {found}, and was refused: {links.refused[message]}"
        if len(found) > 1:
            yield f"{message} arrived {len(found)} times: {found}"
        queue = found[0][0]
        if queue != (ORDERS if wanted.to == ORDERS else LETTERS):
            yield f"{message} for {wanted.to} is in {queue}: {links.reasons.get(message, '')}"
        elif queue == LETTERS and links.reasons.get(message) != NO_QUEUE:
            yield f"{message} is a dead letter, for the reason {links.reasons.get(message)!r}"
    yield from _lost(links, places, acked)
    yield from _out_of_order(places, acked)
    yield from _halves(near, links, places)


def _places(far: Pair) -> dict[Message, list[tuple[str, int]]]:
    """Message: queue and index of all that is there of it."""
    found: defaultdict[Message, list[tuple[str, int]]] = defaultdict(list)
    for queue in (ORDERS, LETTERS):
        for index, message in {each.index: each.message for each in far.run.books[queue].history.delivered}.items():
            found[message].append((queue, index))
    return found


def _lost(links: Links, places: dict[Message, list[tuple[str, int]]], acked: dict[Message, int]) -> Iterator[str]:
    """What is held in memory alone may be lost with the members that hold it."""
    for message, index in acked.items():
        if message not in places and links.sent[message].persistent:
            yield f"{message} was acknowledged at {index}, and has not arrived"


def _out_of_order(places: dict[Message, list[tuple[str, int]]], acked: dict[Message, int]) -> Iterator[str]:
    """Those of one queue stand there as they stood in the transmission queue."""
    for queue in (ORDERS, LETTERS):
        here = sorted((found[0][1], message) for message, found in places.items() if found[0][0] == queue)
        before: Message | None = None
        for index, message in here:
            if message not in acked:
                continue
            if before is not None and acked[message] < acked[before]:
                yield f"{message} stands at {index} of {queue}, behind {before}, which was sent on later"
            before = message


def _halves(near: Pair, links: Links, places: dict[Message, list[tuple[str, int]]]) -> Iterator[str]:
    """A unit puts in both pairs, or in none."""
    kept = {each.message for each in near.run.books[KEPT].history.delivered}
    for message, wanted in links.sent.items():
        if wanted.beside is None or not wanted.persistent:
            continue
        if (wanted.beside in kept) != (message in places):
            text = "here, and not there" if wanted.beside in kept else "there, and not here"
            yield f"of a unit with {message} and {wanted.beside} one half is {text}"
