"""Judges staged rows and numbered batches: by what clients were answered and given, and by the log, without the queue
machine. A batch of a writer is in its queues whole or not at all, once, and nobody is given a part of it; a number of a
consumer is one lease, finished once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chaos.history import Message
from chaos.sim.judges import logs
from tandemq.peer.v1 import record_pb2 as pb

if TYPE_CHECKING:
    from chaos.sim.kernel.disk import Disk
    from chaos.sim.pair.members import Pair
    from tandemq.client.staging import PublishedRows

WHOLE = "a batch is seen whole or not at all"
ONCE = "a batch is published once"
NUMBERED = "a number is finished once"
Finding: TypeAlias = tuple[str, str]
"""Rule, and what broke it."""


@dataclass(slots=True)
class Publication:
    """What a writer wants in queues under one number."""

    writer: str
    batch: int
    rows: dict[str, list[Message]]
    """By queue, in order."""
    placed: tuple[PublishedRows, ...] = ()
    """Where it is, as its writer was answered first; empty: not yet."""


class Publications:
    """Those of one run."""

    def __init__(self) -> None:
        self._wanted: dict[tuple[str, int], Publication] = {}

    def __iter__(self) -> Iterator[Publication]:
        return iter(self._wanted.values())

    def want(self, writer: str, batch: int, parts: Iterable[tuple[str, list[Message]]]) -> Publication:
        """Somebody is about to publish this, perhaps once more."""
        rows: dict[str, list[Message]] = {}
        for queue, messages in parts:
            rows.setdefault(queue, []).extend(messages)
        return self._wanted.setdefault((writer, batch), Publication(writer, batch, rows))

    def parts_in(self, queue: str, seen: set[Message]) -> Iterator[str]:
        """Batches of which this is a part, in words."""
        for each in self:
            rows = each.rows.get(queue, [])
            there = seen.intersection(rows)
            if 0 < len(there) < len(rows):
                yield f"{len(there)} of {len(rows)} rows of batch {each.batch} of {each.writer} in {queue}"


def broken(pair: Pair, publications: Publications) -> Iterator[Finding]:
    """Of each rule the first finding. A run without such clients costs nothing here."""
    if not any(client.role in ("stager", "batcher") for client in pair.run.clients):
        return
    seen: set[str] = set()
    for rule, text in _all(pair, publications):
        if rule not in seen:
            seen.add(rule)
            yield rule, text


def _all(pair: Pair, publications: Publications) -> Iterator[Finding]:
    there = {delivery.message for book in pair.run.books for delivery in book.history.delivered}
    for each in publications:
        rows = {message for messages in each.rows.values() for message in messages}
        left = rows - there
        if left and (each.placed or len(left) < len(rows)):
            how = "was published" if each.placed else "is there in part"
            yield WHOLE, f"batch {each.batch} of {each.writer} {how}, and {len(left)} of {len(rows)} rows are missing"
    for member in pair.members.values():
        if member.domain is None or not member.is_serving:
            continue
        reading = read(member.machine.disk, pair.members[member.peer].machine.disk)
        if reading is None:
            continue
        pair.run.count("publications followed")
        for _ in range(reading.carried_on):
            pair.run.sometimes("a batch carried on by the next master")
        yield from reading.problems


@dataclass(slots=True)
class _Open:
    """A publication of which parts are still to come."""

    name: str
    epoch: int
    parts: deque[int]
    hidden: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class FromLog:
    """What a log says of publications and numbers."""

    problems: list[Finding] = field(default_factory=list)
    carried_on: int = 0
    stages: dict[bytes, list[int]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    open: deque[_Open] = field(default_factory=deque)
    taken: dict[tuple[int, str, int], set[int]] = field(default_factory=dict)
    finished: set[tuple[int, str, int]] = field(default_factory=set)

    def add(self, log_index: int, epoch: int, header: pb.RecordHeader) -> None:
        """The next record."""
        match header.WhichOneof("op"):
            case "stage":
                self.stages.setdefault(header.stage.stage_id, []).append(log_index)
            case "publish" if header.publish.duplicate:
                self._drop(header.publish.stage_ids)
            case "publish":
                self._publish(header.publish, epoch)
            case "unstage":
                self._drop(header.unstage.stage_ids)
            case "expire":
                self._drop(header.expire.stage_ids)
            case "enqueue" if header.enqueue.staged:
                self._enter(header.enqueue, log_index, epoch)
            case "lease":
                self._lease(header.lease, log_index)
            case "settle" if header.settle.batch_consumer:
                self._finish(header.settle, log_index)

    def _drop(self, stage_ids: Iterable[bytes]) -> None:
        """What nobody published. The same id may be staged once more, from part 1 on."""
        for stage_id in stage_ids:
            self.stages.pop(stage_id, None)

    def _publish(self, op: pb.PublishOp, epoch: int) -> None:
        if op.batch <= self.last.get(op.writer, 0):
            self.problems.append((ONCE, f"batch {op.batch} of {op.writer} follows {self.last[op.writer]}"))
        self.last[op.writer] = op.batch
        parts = deque(part for stage_id in op.stage_ids for part in self.stages.pop(stage_id, ()))
        if parts:
            self.open.append(_Open(f"batch {op.batch} of {op.writer}", epoch, parts))

    def _enter(self, op: pb.EnqueueOp, log_index: int, epoch: int) -> None:
        first = self.open[0] if self.open else None
        if first is None or not first.parts or first.parts[0] != op.staged:
            self.problems.append((ONCE, f"record {log_index} enters the part {op.staged}, which is not the next one"))
            return
        first.parts.popleft()
        first.hidden.update((op.queue_id, op.first_index + place) for place in range(op.count))
        if not first.parts:
            self.open.popleft()
            self.carried_on += epoch > first.epoch

    def _lease(self, op: pb.LeaseOp, log_index: int) -> None:
        indexes = {index for part in op.ranges for index in range(part.first, part.first + part.count)}
        for each in self.open:
            early = sorted(index for index in indexes if (op.queue_id, index) in each.hidden)
            if early:
                self.problems.append((WHOLE, f"record {log_index} leases {early} of {each.name}, which is not whole"))
        if op.batch_consumer:
            key = op.queue_id, op.batch_consumer, op.batch_number
            if key in self.taken:
                text = f"record {log_index} takes batch {op.batch_number} of {op.batch_consumer} a second time"
                self.problems.append((NUMBERED, text))
            self.taken[key] = indexes

    def _finish(self, op: pb.SettleOp, log_index: int) -> None:
        key = op.queue_id, op.batch_consumer, op.batch_number
        done = {
            index
            for effect in op.effects
            for part in effect.ranges
            for index in range(part.first, part.first + part.count)
        }
        if key in self.finished or self.taken.get(key) != done:
            text = f"record {log_index} finishes {done} as batch {op.batch_number} of {op.batch_consumer}"
            self.problems.append((NUMBERED, f"{text}, which is {self.taken.get(key)}, once"))
        self.finished.add(key)


def read(disk: Disk, spare: Disk | None = None) -> FromLog | None:
    """What is on that disk (see `logs`)."""
    log = logs.read(disk, spare)
    if log is None:
        return None
    reading = FromLog()
    for (epoch, log_index), header, _ in log:
        reading.add(log_index, epoch, header)
    return reading
