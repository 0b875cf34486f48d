"""Gathers what streams acknowledge at one queue of another manager, for a call about its leases to carry (M7). Asks
nobody itself.

Only acknowledgements: one that is done twice has one effect and one answer, so who gathers needs no identity for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, Settlement, SettleResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from replica.core.state.far_runs import FarRun

Acked = asyncio.Future["Sequence[SettleResult] | None"]
"""One result a settlement; None: nobody knows what became of them."""


class AckGatherer(Protocol):
    """A queue of another manager, of which a macro queue here has leases."""

    def gather(self, settlements: Sequence[Settlement]) -> Acked:
        """`settlements`: acknowledgements, with the lease ids of that manager."""


class Gathered(NamedTuple):
    """What one frame acknowledges."""

    settlements: Sequence[Settlement]
    done: Acked


class FarAcks:
    """Of one member of one macro queue."""

    def __init__(self) -> None:
        self.waiting: deque[Gathered] = deque()

    def add(self, settlements: Sequence[Settlement]) -> Acked:
        """They wait for a call."""
        done: Acked = asyncio.get_running_loop().create_future()
        self.waiting.append(Gathered(settlements, done))
        return done

    def take(self, most: int) -> list[Gathered]:
        """Whole frames, so many settlements at most; at least one frame, which nobody else could carry either."""
        taken, room = list[Gathered](), most
        while self.waiting and (not taken or len(self.waiting[0].settlements) <= room):
            taken.append(self.waiting.popleft())
            room -= len(taken[-1].settlements)
        return taken

    def take_all(self) -> list[Gathered]:
        """There is no call any more."""
        taken, self.waiting = self.waiting, deque()
        return list(taken)


def are_acks(settlements: Iterable[Settlement]) -> bool:
    """Whether they may be gathered."""
    return all(each.outcome == OUTCOME_ACK for each in settlements)


def settlements_of(runs: Iterable[FarRun], outcome: int) -> list[Settlement]:
    """One a lease, with the indexes as ranges."""
    made: dict[int, Settlement] = {}
    for run in runs:
        part = made.setdefault(run.lease_id, Settlement(lease_id=run.lease_id, outcome=outcome))  # type: ignore[arg-type]  # enum number
        for first, count in run.ranges():
            if part.ranges and part.ranges[-1].first + part.ranges[-1].count == first:
                part.ranges[-1].count += count
            else:
                part.ranges.append(IndexRange(first=first, count=count))
    return list(made.values())


def answer(gathered: Iterable[Gathered], results: Iterator[SettleResult]) -> None:
    """Each frame hears of its own, in their order."""
    for each in gathered:
        _set(each.done, list(islice(results, len(each.settlements))))


def in_doubt(gathered: Iterable[Gathered]) -> None:
    """Those that have heard nothing are asked for by another call."""
    for each in gathered:
        _set(each.done, None)


def _set(done: Acked, results: Sequence[SettleResult] | None) -> None:
    if not done.done():  # its stream may have ended
        done.set_result(results)
