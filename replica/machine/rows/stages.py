"""Writes what is staged into a snapshot and reads it back."""

from __future__ import annotations

from collections import deque

import msgspec

from replica.machine.sets.packing import bytes_of, column_of
from replica.machine.state.stages import Placed, Publication, Stage, StagedPart, Stages, StageTotals, Writer
from replica.machine.state.unit_numbers import UnitNumbers

PartRow = tuple[int, int, int, int, int]
PlacedRow = tuple[str, int, int, int]


class StagesRow(msgspec.Struct, array_like=True):
    stages: list[tuple[bytes, int, list[PartRow]]]
    writers: list[tuple[str, str, int, int, list[PlacedRow]]]
    publications: list[tuple[str, str, int, list[PartRow], list[tuple[int, PlacedRow]]]]
    totals: list[int]
    units: list[tuple[str, bytes, bytes]] = msgspec.field(default_factory=list)  # numbers and digests, by writer


def stages_row(stages: Stages) -> StagesRow:
    return StagesRow(
        [(each.stage_id, each.expires_at_ms, [(*part,) for part in each.parts]) for each in stages.by_id.values()],
        [
            (name, each.query_id, each.batch, each.time_ms, [(*placed,) for placed in each.placed])
            for name, each in stages.writers.items()
        ],
        [
            (
                each.writer,
                each.query_id,
                each.batch,
                [(*part,) for part in each.parts],
                [(queue_id, (*placed,)) for queue_id, placed in each.begun.items()],
            )
            for each in stages.publications
        ],
        list(stages.totals),
        [
            (name, bytes_of(each.units.numbers), bytes_of(each.units.digests))
            for name, each in stages.writers.items()
            if each.units.numbers
        ],
    )


def stages_of(row: StagesRow) -> Stages:
    stages = Stages()
    for stage_id, expires_at_ms, parts in row.stages:
        stage = Stage(stage_id, expires_at_ms)
        for part in parts:
            stage.add(StagedPart(*part))
        stages.by_id[stage_id] = stage
        stages.numbers[stage.number] = stage_id
    for name, query_id, batch, time_ms, placed in row.writers:
        stages.writers[name] = Writer(query_id, batch, time_ms, [Placed(*each) for each in placed])
    for name, numbers, digests in row.units:
        stages.writers[name].units = UnitNumbers(column_of("Q", numbers), column_of("Q", digests))
    for writer, query_id, batch, parts, begun in row.publications:
        left = deque(StagedPart(*part) for part in parts)
        known = {queue_id: Placed(*each) for queue_id, each in begun}
        stages.publications.append(Publication(writer, query_id, batch, left, known))
        for part in left:
            stages.owe(part, 1)
        for queue_id, each in known.items():
            stages.hide(queue_id, each.first_index)
    for part in stages.parts():
        stages.count(part, 1)
    stages.totals = StageTotals(*row.totals)
    return stages
