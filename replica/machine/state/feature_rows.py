"""What the state keeps for named readers, numbered batches and tables of weights. Values; decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replica.machine.sets.ranges import Run


class ReaderPlace(NamedTuple):
    """Between two rows of the journal, as tandemq.v1.JournalPosition has it."""

    log_index: int
    epoch: int
    row: int = 0


@dataclass(frozen=True, slots=True)
class Reader:
    name: str
    place: ReaderPlace
    ttl_ms: int
    registered_ms: int  # domain time
    renewed_ms: int  # domain time
    lost_until: int = 0  # first log index that it has not lost; 0: it has lost nothing
    lost_because: str = ""

    @property
    def expires_ms(self) -> int:
        return self.renewed_ms + self.ttl_ms


class NumberedBatch(NamedTuple):
    lease_id: int
    runs: tuple[Run, ...]  # in the order of delivery

    @property
    def size(self) -> int:
        return sum(end - start for start, end in self.runs)


@dataclass(slots=True)
class BatchConsumer:
    last: int = 0  # highest number that was taken
    used_ms: int = 0  # domain time
    open: dict[int, NumberedBatch] = field(default_factory=dict)  # by number; the lease of one may have ended
    acked: list[int] = field(default_factory=list)  # the latest, oldest first


class Window(NamedTuple):
    """What a table was computed from, milliseconds since 1970; both 0: not told."""

    from_ms: int = 0
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class WeightTable:
    name: str
    version: int
    queue_ids: Sequence[int]
    weights: Sequence[float]  # one a queue
    valid_until_ms: int  # domain time
    published_by: str
    published_ms: int  # domain time
    window: Window
