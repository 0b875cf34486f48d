"""Holds what is staged, what is on its way into the queues, and each writer's last batch; decides nothing.

Rows of a stage are in no queue. A publication is decided by one record and carried out by the ENQUEUE records that
follow, one for each part. What it still owes its queues counts as their length, and none of it is visible before all
of it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from replica.machine.state.unit_numbers import UnitNumbers


class StagedPart(NamedTuple):
    """One STAGE record: rows for one queue."""

    log_index: int
    queue_id: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    payload_bytes: int
    fingerprint: int  # of what was sent, for a repetition


@dataclass(slots=True)
class Stage:
    stage_id: bytes
    expires_at_ms: int = 0
    parts: list[StagedPart] = field(default_factory=list)
    # Of all parts: each call of its owner is told them.
    rows: int = 0
    payload_bytes: int = 0

    @property
    def number(self) -> int:
        """Names it in a schedule: log index of its first part."""
        return self.parts[0].log_index

    def add(self, part: StagedPart) -> None:
        self.parts.append(part)
        self.rows += part.count
        self.payload_bytes += part.payload_bytes


class Placed(NamedTuple):
    """What one queue got of a batch."""

    queue: str
    first_index: int
    last_index: int
    rows: int


@dataclass(slots=True)
class Writer:
    """A name, and the last batch that was published or unit that was executed under it."""

    query_id: str
    batch: int
    time_ms: int
    placed: list[Placed] = field(default_factory=list)
    units: UnitNumbers = field(default_factory=UnitNumbers)


@dataclass(slots=True)
class Publication:
    """A decided batch, of which parts are not in their queues yet."""

    writer: str
    query_id: str
    batch: int
    parts: deque[StagedPart]  # that are left, at least one
    begun: dict[int, Placed] = field(default_factory=dict)  # by queue id


class StageTotals(NamedTuple):
    """Stages that ended, by how; ever rising."""

    published: int = 0
    aborted: int = 0  # by their owner, or of a batch that was published before
    expired: int = 0
    lost: int = 0  # with a queue that was deleted

    def plus(self, cause: str, count: int = 1) -> StageTotals:
        return self._replace(**{cause: getattr(self, cause) + count})


class Stages:
    __slots__ = (
        *("by_id", "coming", "hidden", "numbers", "payload_bytes", "publications"),
        *("reached", "records", "rows", "totals", "writers"),
    )

    def __init__(self) -> None:
        self.by_id: dict[bytes, Stage] = {}
        self.numbers: dict[int, bytes] = {}  # stage by its number
        self.writers: dict[str, Writer] = {}
        self.publications: deque[Publication] = deque()  # the first one is carried out
        self.totals = StageTotals()
        # Derived.
        self.records: dict[int, int] = {}  # queue id by log index, of every STAGE record whose rows are in no queue
        self.rows = 0  # in `records`
        self.payload_bytes = 0
        self.coming: dict[int, tuple[int, int]] = {}  # rows and bytes by queue id, of publications
        # First index of what is not to be seen yet, by queue id: one publication or more, in order.
        self.hidden: dict[int, deque[int]] = {}
        self.reached: dict[int, int] = {}  # last committed index of those queues, seen or not

    # Called by `apply` alone, and when a snapshot is read.

    def add(self, stage_id: bytes, part: StagedPart, expires_at_ms: int) -> Stage:
        stage = self.by_id.get(stage_id)
        if stage is None:
            stage = self.by_id[stage_id] = Stage(stage_id)
            self.numbers[part.log_index] = stage_id
        stage.add(part)
        stage.expires_at_ms = expires_at_ms
        self.count(part, 1)
        return stage

    def count(self, part: StagedPart, sign: int) -> None:
        """One more record whose rows are in no queue, or one fewer."""
        if sign > 0:
            self.records[part.log_index] = part.queue_id
        else:
            del self.records[part.log_index]
        self.rows += sign * part.count
        self.payload_bytes += sign * part.payload_bytes

    def take(self, stage_id: bytes) -> Stage:
        """Out of the stages; its records still count."""
        stage = self.by_id.pop(stage_id)
        del self.numbers[stage.number]
        return stage

    def drop(self, stage_id: bytes, cause: str, freed: list[int]) -> None:
        for part in self.take(stage_id).parts:
            self.count(part, -1)
            freed.append(part.log_index)
        self.totals = self.totals.plus(cause)

    def owe(self, part: StagedPart, sign: int) -> None:
        """A queue is to get these rows, or has got them."""
        rows, size = self.coming.get(part.queue_id, (0, 0))
        rows, size = rows + sign * part.count, size + sign * part.payload_bytes
        if rows:
            self.coming[part.queue_id] = rows, size
        else:
            self.coming.pop(part.queue_id, None)

    def hide(self, queue_id: int, first_index: int) -> None:
        self.hidden.setdefault(queue_id, deque()).append(first_index)

    def seen(self, queue_id: int, last_index: int) -> int:
        """Up to where a queue is visible when its messages up to there are committed."""
        hidden = self.hidden.get(queue_id)
        if hidden is None:
            return last_index
        self.reached[queue_id] = last_index
        return min(last_index, hidden[0] - 1)

    def show(self, queue_id: int) -> int:
        """The first hidden publication is all there, and committed; up to where the queue is visible now."""
        hidden, last_index = self.hidden[queue_id], self.reached[queue_id]
        hidden.popleft()
        if hidden:
            return min(last_index, hidden[0] - 1)
        del self.hidden[queue_id], self.reached[queue_id]
        return last_index

    def forget_queue(self, queue_id: int, freed: list[int]) -> None:
        """It was deleted: stages that have rows for it are dropped as a whole, publications go on without them."""
        for stage in [stage for stage in self.by_id.values() if any(each.queue_id == queue_id for each in stage.parts)]:
            self.drop(stage.stage_id, "lost", freed)
        for publication in self.publications:
            for part in publication.parts:
                if part.queue_id == queue_id:
                    self.count(part, -1)
                    freed.append(part.log_index)
            publication.parts = deque(part for part in publication.parts if part.queue_id != queue_id)
            publication.begun.pop(queue_id, None)
        for known in (self.coming, self.hidden, self.reached):
            known.pop(queue_id, None)

    # Read by everybody.

    def publication(self) -> Publication | None:
        """The one that is being carried out, to read only; the others wait for it."""
        return self.publications[0] if self.publications else None

    def is_publishing(self, writer: str) -> bool:
        """A batch of this writer is decided and not all in its queues."""
        return any(each.writer == writer for each in self.publications)

    def unseen(self, queue_id: int) -> int:
        """Messages in a queue's length that belong to publications which are not over: to come, or there and hidden."""
        begun = sum(each.begun[queue_id].rows for each in self.publications if queue_id in each.begun)
        return self.coming.get(queue_id, (0, 0))[0] + begun

    def by_queue(self) -> dict[int, list[int]]:
        """Log indexes of the records whose rows are in no queue, rising, by the queue that they are for."""
        found: dict[int, list[int]] = {}
        for log_index in sorted(self.records):
            found.setdefault(self.records[log_index], []).append(log_index)
        return found

    def parts(self) -> Iterator[StagedPart]:
        for stage in self.by_id.values():
            yield from stage.parts
        for publication in self.publications:
            yield from publication.parts
