"""Judges the sides of a queue with PRODUCER replication, by what both twins were given, and by the members' copies: one
sequence, nothing before it is committed, nothing gone that a twin lacks, no cursor ahead of its disk (K1, K2, K6), and
what both make of it once (K8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from chaos.history import Message
from chaos.sim.pair.books import message_of
from chaos.sim.pair.sides import first_held
from replica.machine.plan.sides import passed_by
from replica.machine.state.system_names import side_queue
from replica.node.members import LOCAL

if TYPE_CHECKING:
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from replica.machine.state.queue import QueueState

NAME = "both sides act on the same"
SIDED, SIDE_QUEUE, MADE_QUEUE = "sided", "q", "g"
"""Kind of a queue with sides; the one that twins take from; where what they make goes."""
MADE_BY = 900
"""The producer of that, as a message names it."""
SUSPENDED_SIDE = "a side was served while its member was suspended"
PLACE_LOST = "a side lost its place, and began anew"
OTHERS_STATE = "a twin went on from the other one's state"
KNOWN_OUTPUT = "outputs that the other twin had sent already"
BY_QUESTION = "the replica's side asked, and the master selected for it"
OVER_TAKEOVER = "a side was served under two masters"


class Kept(NamedTuple):
    """What a twin has on its disk: up to which input it has acted, and its outputs, as `tandemq.twin` counts them."""

    index: int = 0  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    chain: int = 0
    sent: int = 0


@dataclass(slots=True)
class Sides:
    """Those of one run."""

    seen: dict[int, Message] = field(default_factory=dict)
    """By index, over both sides."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """By member."""
    rejoining: set[str] = field(default_factory=set)
    """Members whose twin is about to go on from the other one's state."""
    committed: int = 0
    """Of the indexes that a member knew to be committed when it gave something, the highest."""
    differences: list[str] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Index in the queue by number, where the sides are given what is selected."""


def makes(index: int) -> bool:
    """Whether anything is made of that input."""
    return index % 3 != 0


def given(sides: Sides, member: SimMember, index: int, payload: bytes, acted: int) -> Iterator[str]:
    """A twin was given a message, and has acted up to `acted` before."""
    message = message_of(payload)
    if (known := sides.seen.setdefault(index, message)) != message:
        yield f"{index} is {message} at {member.name}, and {known} was given before"
    if index > acted + 1:
        yield f"{member.name} gives {index} behind {acted}"
    queue = queue_of(member)
    if queue is None:
        return
    sides.committed = max(sides.committed, queue.visible_end)
    # Whoever was started again, or takes a copy anew, hears of commits that its side knows already.
    is_first = member.starts == 1 and not member.machine.disk.replaced
    if is_first and queue.visible_end > 0 and sides.committed < index < queue.given_end:
        yield f"{member.name} gives {index}, and knows of {queue.visible_end} that are committed"


def standing(sides: Sides, pair: Pair) -> Iterator[str]:
    """At any moment."""
    for member in pair.members.values():
        queue = queue_of(member)
        if queue is None or queue.passed is None:
            continue
        first = first_held(queue)
        for name in queue.passed:
            acted = sides.kept.get(name, Kept()).index
            if first > acted + 1 and name not in sides.rejoining:
                yield f"{member.name} has nothing before {first}, and the twin at {name} has acted up to {acted}"
            mark, cursor = queue.passed[name], cursor_of(pair.members[name], queue)
            if cursor is not None and mark > cursor:
                yield f"{member.name} knows that the side of {name} has passed {mark}, and it has passed {cursor}"


def made(sides: Sides, pair: Pair) -> Iterator[str]:
    """At the end, when everything was taken."""
    if not sides.seen:
        return
    yield from sides.differences
    found = [each.message.number for each in pair.run.books[MADE_QUEUE].history.delivered]
    wanted = [index for index in range(1, max(sides.seen) + 1) if makes(index)]
    if found != wanted:
        at = next((place for place, pair_ in enumerate(zip(found, wanted, strict=False)) if pair_[0] != pair_[1]), -1)
        yield f"{len(found)} outputs, not {len(wanted)}; they differ from place {at} on"


def index_of(sides: Sides, pair: Pair, number: int) -> int | None:
    """In the queue, of what a side was given under that number; None: no member knows it now."""
    for member in pair.members.values():
        queue = queue_of(member)
        if queue is None:
            continue
        if queue.selection is None:
            return number
        for _, start, _ in queue.selection.runs(number, number + 1):
            sides.places[number] = start
    return sides.places.get(number)


def asked(pair: Pair) -> bool:
    """Whether a master has selected for its replica's side alone."""
    managers = [member.manager for member in pair.members.values() if member.opened is member.process]
    nodes = [manager._members.node for manager in managers if manager is not None and manager._members is not None]  # noqa: SLF001
    return any(node.sides.asks.for_peer for node in nodes)


def queue_of(member: SimMember) -> QueueState | None:
    """In that member's copy, while its process has one."""
    domain = member.domain
    machine = domain.shared.machine if domain is not None and member.opened is member.process else None
    number = machine.queue_id(SIDE_QUEUE) if machine is not None else None
    return machine.queue(number) if machine is not None and number is not None else None


def cursor_of(member: SimMember, queue: QueueState) -> int | None:
    """How far its side is; None: that is not known now, or it is to begin behind what the pair knows."""
    manager = member.manager
    members = manager._members if manager is not None and member.opened is member.process else None  # noqa: SLF001
    own = members.by_name.get(LOCAL) if members is not None else None
    machine = own.shared.machine if own is not None and own.shared.serving else None
    number = machine.queue_id(side_queue(SIDE_QUEUE)) if machine is not None else None
    if machine is None or number is None or member.machine.disk.replaced:
        return None
    side = machine.queue(number)
    is_same = side.side is not None and side.side.restarted_ms == queue.restarted_ms.get(member.name, 0)
    return passed_by(side) if is_same else None
