"""Does what records say of stages, publications and writers; never decides."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from replica.machine.state.changes import Applied
from replica.machine.state.stages import Placed, Publication, StagedPart, Writer
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2


def apply_staging(state: State, log_index: int, header: record_pb2.RecordHeader) -> Applied:
    """A record that is about stages and writers alone."""
    if header.HasField("stage"):
        return _stage(state, log_index, header)
    if header.HasField("publish"):
        return _publish(state, header.time_ms, header.publish)
    if header.HasField("release"):
        del state.stages.writers[header.release.writer]
        return Applied((), [])
    return Applied((), drop_stages(state, header.unstage.stage_ids, "aborted"))


def _stage(state: State, log_index: int, header: record_pb2.RecordHeader) -> Applied:
    op = header.stage
    assert op.queue_id in state.queues, "staged for a queue that is not there"
    part = StagedPart(log_index, op.queue_id, op.count, op.payload_bytes, header.request_hash)
    stage = state.stages.add(op.stage_id, part, op.expires_at_ms)
    assert op.part == len(stage.parts), "parts of a stage come in order"
    state.stage_ends.push(stage.expires_at_ms, 0, stage.number)
    return Applied((), [])


def _publish(state: State, time_ms: int, op: record_pb2.PublishOp) -> Applied:
    stages, freed = state.stages, list[int]()
    if op.duplicate:
        for stage_id in op.stage_ids:
            stages.drop(stage_id, "aborted", freed)
        return Applied((), freed)
    publication = Publication(op.writer, op.query_id, op.batch, deque())
    for stage_id in op.stage_ids:
        publication.parts += stages.take(stage_id).parts
    stages.totals = stages.totals.plus("published", len(op.stage_ids))
    for part in publication.parts:
        queue = state.queues[part.queue_id]
        stages.owe(part, 1)
        queue.length += part.count
        queue.weigh(part.payload_bytes)
        queue.totals.highest_length = max(queue.totals.highest_length, queue.length)
        state.touch((part.queue_id,))
    known = stages.writers.get(op.writer)
    stages.writers[op.writer] = Writer(op.query_id, op.batch, time_ms)
    if known is not None:
        stages.writers[op.writer].units = known.units
    if publication.parts:
        stages.publications.append(publication)
    return Applied((), freed)


def note_unit(state: State, time_ms: int, op: record_pb2.TxnOp) -> None:
    """U15: its number is the writer's last one from here on."""
    known = state.stages.writers.get(op.writer)
    assert known is None or op.number > known.batch, "a unit was executed twice"
    placed = [
        Placed(state.queues[each.queue_id].name, each.first_index, each.first_index + count - 1, count)
        for each in op.enqueues
        if (count := each.count - len(each.refusals) - len(each.duplicates))
    ]
    writer = Writer(op.query_id, op.number, time_ms, placed)
    if known is not None:
        writer.units = known.units
    writer.units.add(op.number, op.digest)
    state.stages.writers[op.writer] = writer


def take_staged(state: State, op: record_pb2.EnqueueOp, freed: list[int]) -> None:
    """An ENQUEUE record puts the next part of the first publication into its queue."""
    stages = state.stages
    publication = stages.publications[0]
    part = publication.parts.popleft()
    assert (part.log_index, part.queue_id, part.count) == (op.staged, op.queue_id, op.count), "parts enter in order"
    queue = state.queues[op.queue_id]
    stages.count(part, -1)
    stages.owe(part, -1)
    freed.append(part.log_index)
    queue.length -= part.count  # the record itself counts them
    queue.weigh(-part.payload_bytes)
    first, last = op.first_index, op.first_index + op.count - 1
    before = publication.begun.get(op.queue_id)
    if before is None:
        stages.hide(op.queue_id, first)
        before = Placed(queue.name, first, last, 0)
    publication.begun[op.queue_id] = before._replace(last_index=last, rows=before.rows + op.count)


def end_staged(state: State, log_index: int) -> None:
    """Behind the record of the last part, everything of the publication is seen, once that is committed."""
    stages = state.stages
    publication = stages.publications[0]
    if publication.parts:
        return
    stages.publications.popleft()
    writer = stages.writers.get(publication.writer)
    if writer is not None and (writer.query_id, writer.batch) == (publication.query_id, publication.batch):
        writer.placed = list(publication.begun.values())
    for queue_id in publication.begun:
        state.show_later(log_index, queue_id)


def forget_queue(state: State, queue_id: int, freed: list[int]) -> None:
    """It is deleted: its rows are gone as if they had been in it."""
    stages = state.stages
    stages.forget_queue(queue_id, freed)
    first = stages.publications[0] if stages.publications else None
    for publication in [each for each in stages.publications if not each.parts]:
        if publication is first:
            end_staged(state, state.applied_index + 1)
        else:
            stages.publications.remove(publication)


def drop_stages(state: State, stage_ids: Iterable[bytes], cause: str) -> list[int]:
    freed: list[int] = []
    for stage_id in stage_ids:
        state.stages.drop(stage_id, cause, freed)
    return freed
