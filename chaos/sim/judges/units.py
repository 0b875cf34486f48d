"""Judges units of work: by the log, without the queue machine. What was made of a message is in both queues or in none,
once, and then the message is gone; what a client was answered has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from chaos.history import Message
from chaos.sim.judges import fates, logs
from chaos.sim.pair.books import payload_of
from tandemq.v1.queue_service_pb2 import FINAL_STATE_CONSUMED

if TYPE_CHECKING:
    from chaos.sim.judges.fates import Fates
    from chaos.sim.pair.members import Pair

NAME = "a unit of work is whole"
MADE_QUEUES = ("l", "g")
NUMBERS = 10_000
"""More than a producer sends."""


def made_of(source: Message) -> dict[str, Message]:
    """What a unit makes of a message, by queue: the only message of its producer, for workers keep nobody's order."""
    first = source.producer * NUMBERS + source.number
    return {queue: Message(place * NUMBERS * NUMBERS + first, 0) for place, queue in enumerate(MADE_QUEUES, 1)}


class Units:
    """Those of one run."""

    def __init__(self) -> None:
        self.wanted: set[Message] = set()
        """Messages of which somebody has asked for a unit, heard or not."""
        self.done: set[Message] = set()
        """Of those that somebody was answered."""
        self.aborted: set[bytes] = set()
        """Ids of units of which somebody was answered that nothing happened, and never will."""

    def want(self, sources: Iterable[Message]) -> None:
        """Somebody is about to ask."""
        self.wanted.update(sources)


def broken(pair: Pair, units: Units) -> Iterator[str]:
    """At the end of a run, at the member that serves."""
    if not units.wanted and not units.aborted:
        return
    for member in pair.members.values():
        if member.domain is None or not member.is_serving:
            continue
        disks = member.machine.disk, pair.members[member.peer].machine.disk
        followed = fates.read(*disks)
        if followed is not None:
            pair.run.count("units followed")
            yield from _of(followed, units)
        for stored in logs.read(*disks) or () if units.aborted else ():
            yield from _happened(stored, units)


def _happened(stored: logs.Stored, units: Units) -> Iterator[str]:
    op = stored.header.txn
    undone = [effect.backout or effect.unlock for settle in op.settles for effect in settle.effects]
    if op.unit_id in units.aborted and (op.enqueues or op.removes or not all(undone)):
        yield f"unit {op.unit_id.hex()} was answered to have ended with nothing done, and {stored.name} has done it"


def _of(followed: Fates, units: Units) -> Iterator[str]:
    for source in sorted(units.wanted):
        made = {queue: followed.payloads.get(payload_of(message)) for queue, message in made_of(source).items()}
        there = sorted(queue for queue, copy in made.items() if copy is not None)
        origin = followed.payloads.get(payload_of(source))
        if there and len(there) < len(made):
            yield f"of {source} only {there[0]} has what was made of it"
        if there and (origin is None or origin.final != FINAL_STATE_CONSUMED):
            yield f"{source} is still there, and so is what was made of it"
        if source in units.done and not there:
            yield f"a unit of {source} was answered, and nothing that it made is there"
        records = {copy.entered for copy in made.values() if copy is not None}
        if origin is not None and there and records != {origin.left}:
            yield f"{source} left by {origin.left}, and what was made of it came by {sorted(records)}"
