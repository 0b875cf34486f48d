"""What the named readers of a domain's journal hold back at this member, and, at the master, which it gives up for
being too far behind. Reads no disk and trims nothing.

A loss is a record: both members hold the same readers, and neither trims past one that has not lost its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.effects import Note
from replica.machine.features.readers import all_readers, lowest_place, plan_lose
from tandemq.peer.v1.record_pb2 import READER_ACTION_REGISTER
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.mastership.mastership import Mastership
    from replica.core.ordering.desk import Desk
    from replica.core.state.shared import Shared
    from replica.machine import Reader

NOBODY = 1 << 62
"""As a place: no reader wants anything."""


class Limit(NamedTuple):
    """How far behind readers may be."""

    log_index: int
    """Whoever still wants this record, or one before it, is too far behind."""
    because: str


class Hold:
    """What readers still want, as far as it is committed: an advance that a takeover takes back has freed nothing. Who
    comes counts from his record on, committed or not.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._generation = shared.progress.generation
        self._settled = 0
        """Place of the furthest behind, in a state that is committed."""
        self._sample: tuple[int, int] | None = None
        """The same in a state that may not be, and the log index at which it was so."""

    def lowest(self) -> int:
        """First log index that must stay; 0 as long as it is not known."""
        shared = self._shared
        machine = shared.machine
        if machine is None or self._generation != shared.progress.generation:
            self._generation, self._settled, self._sample = shared.progress.generation, 0, None
        if machine is None:
            return 0
        place = lowest_place(machine.state)
        now = NOBODY if place is None else place
        if self._sample is None:
            self._sample = now, machine.applied_index
        if self._sample[1] <= shared.progress.commit_index:
            self._settled, self._sample = self._sample[0], None
        return min(self._settled, now, self._coming())  # one that came since may be further behind

    def _coming(self) -> int:
        """The nearest place that a replica has been sent and has not applied: its master may have promised it."""
        places = (
            each.header.reader.log_index
            for each in self._shared.progress.pending
            if each.header.WhichOneof("op") == "reader" and each.header.reader.action == READER_ACTION_REGISTER
        )
        return min(places, default=NOBODY)


def late_readers(mastership: Mastership, floor: int) -> list[Reader]:
    """Those for whose sake alone records up to `floor` are kept; none where this member does not order."""
    machine = mastership.shared.machine
    if machine is None or not mastership.shared.serving or mastership.shared.draining:
        return []
    return [each for each in all_readers(machine.state) if not each.lost_until and each.place.log_index <= floor]


def give_up(orders: Desk, readers: Iterable[Reader], limits: Iterable[Limit], floor: int, domain_ms: int) -> int:
    """Order that readers lose their place which a limit says are too far behind, and say so to operators; how many.
    Records up to `floor` are not kept for them any more.
    """
    orders.now_ms = domain_ms
    lost, until = 0, floor + 1
    by_index = sorted(limits, reverse=True)
    for reader in readers:
        beyond = next((limit for limit in by_index if reader.place.log_index <= limit.log_index), None)
        if beyond is None:
            continue
        orders.order(plan_lose(orders.machine.state, orders.time_ms, reader.name, until, beyond.because))
        text = (
            f"reader {reader.name} of the journal has lost its place: it was at log index {reader.place.log_index}, "
            f"and what lies before {until} is given up because {beyond.because}"
        )
        facts = {
            "reader": reader.name,
            "lost_from_log_index": str(reader.place.log_index),
            "lost_until_log_index": str(until),
            "because": beyond.because,
        }
        orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))
        lost += 1
    return lost


def report_expired(shared: Shared, names: Iterable[str]) -> None:
    """Nobody advanced or renewed them in time: they hold back nothing any more."""
    for name in names:
        text = f"reader {name} of the journal has expired: nobody renewed it in time; it holds back nothing any more"
        shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, {"reader": name}))
