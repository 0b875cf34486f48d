"""Decides whether a kept reaction may act, by the rights that its sender has at that moment (V16). Orders nothing.

The serving master decides, by what is committed there, and its record says what it has decided: rights may be records
of another domain, and are never looked at again for the same message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica.core.state.effects import Note
from replica.machine.features.rights import right_name
from replica.machine.state.rights import CONSUME, PRODUCE
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.core.ordering.orders import Orders
    from replica.core.ordering.reaction import Reaction
    from replica.machine import QueueState


class May(Protocol):
    """Says what principals may do."""

    def __call__(self, who: str, right: int, *names: str) -> bool:
        """Whether it has that right on a queue, which is called by any of these names."""


class Lacked(NamedTuple):
    """A right that a sender has not."""

    right: int
    queue: str


class KeptRights:
    """Of one domain at one member."""

    def __init__(self, orders: Orders, may: May | None) -> None:
        """`may`: see ShellPorts."""
        self.orders = orders
        self._may = may
        self._first_index = 0
        """Log index of the record with which this epoch began here."""
        self.denied = 0
        """Messages that kept ones were denied here since the start."""

    def begin(self) -> None:
        """An epoch begins here, by the record that was applied last."""
        self._first_index = self.orders.machine.applied_index

    @property
    def known(self) -> bool:
        """Whether all that was granted and revoked before this epoch is in force here: it is with the first commit."""
        return self._may is None or self.orders.machine.state.commit_index >= self._first_index

    def lacked(self, reaction: Reaction, queue: QueueState) -> Lacked | None:
        """The first right that one that is kept would need and its sender has not; None: it may act on that queue."""
        if self._may is None or not reaction.principal:
            return None
        for right, names in self._needed(reaction, queue):
            if not self._may(reaction.principal, right, *names):
                return Lacked(right, names[0])
        return None

    def reporting(self, reaction: Reaction) -> Reaction:
        """The same; without its report where its sender may not send there."""
        to = reaction.report_as or reaction.report_to
        if self._may is None or not reaction.principal or not to:
            return reaction
        if self._may(reaction.principal, PRODUCE, *self._names_of(to)):
            return reaction
        return replace(reaction, report_to="")

    def note(self, queue: QueueState, reaction: Reaction, lacked: Lacked, count: int) -> None:
        """So many messages were left alone for that reason. Said of the first one, and again when they have doubled."""
        before, self.denied = self.denied, self.denied + count
        if self.denied.bit_length() == before.bit_length():
            return
        right, who = right_name(lacked.right), reaction.principal
        text = (
            f"a kept reaction leaves messages of queue {queue.name} alone: {who} has not the right to {right} on "
            f"{lacked.queue}; {self.denied} so far"
        )
        facts = {"queue": queue.name, "principal": who, "right": right, "object": lacked.queue}
        self.orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def _needed(self, reaction: Reaction, queue: QueueState) -> Iterator[tuple[int, tuple[str, ...]]]:
        """As `replica.services.needs` asks of whoever sends it, who may name a macro queue that has the queue too."""
        macros = self.orders.machine.state.macros
        homes = macros.homes.get(queue.queue_id, ())
        own = (queue.name, *queue.aliases, *(macros.by_id[each].name for each in homes))
        yield CONSUME, own
        if reaction.update is not None:
            yield PRODUCE, own
        if reaction.to:
            yield PRODUCE, self._names_of(reaction.to)

    def _names_of(self, name: str) -> tuple[str, ...]:
        """Any of a queue's names does, as at the door."""
        state = self.orders.machine.state
        queue_id = state.ids.get(name)
        if queue_id is None:
            return (name,)
        queue = state.queues[queue_id]
        return (name, queue.name, *queue.aliases)
