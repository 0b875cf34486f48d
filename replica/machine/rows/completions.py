"""Writes what a queue knows of ended messages as a row of a snapshot and reads it back; never decides when."""

from __future__ import annotations

from array import array
from typing import cast

import msgspec

from replica.machine.sets.packing import bytes_of, column_of, range_set
from replica.machine.state.completions import Completions, Deadlines
from replica.machine.state.state import State
from tandemq.v1 import queue_service_pb2


class CompletionRow(msgspec.Struct, array_like=True):
    unended: bytes
    buckets: list[tuple[int, list[tuple[int, bytes]], bytes]]
    answers: list[bytes]  # by rising index: index, log index, fingerprint
    deadlines: list[bytes]
    addressed: bytes = b""
    owed: list[tuple[str, list[tuple[int, str]]]] = msgspec.field(default_factory=list)
    firsts: list[tuple[int, int]] = msgspec.field(default_factory=list)


def completion_row(kept: Completions) -> CompletionRow:
    answers = [(index, *kept.read(index)[:2]) for index in sorted(kept.answers)]
    columns = zip("QQI", zip(*answers, strict=True), strict=True) if answers else ()
    return CompletionRow(
        unended=bytes_of(kept.unended.edges()),
        buckets=[
            (
                bucket.second,
                [(final, bytes_of(runs.edges())) for final, runs in sorted(bucket.runs.items())],
                bytes_of(bucket.logs),
            )
            for bucket in kept.buckets
        ],
        answers=[bytes_of(array(kind, column)) for kind, column in columns],
        deadlines=[bytes_of(column) for column in kept.deadlines.columns()],
        addressed=bytes_of(kept.addressed.edges()),
        owed=[(to, sorted(rows.items())) for to, rows in sorted(kept.owed.items())],
        firsts=sorted(kept.firsts.items()),
    )


def completions_of(state: State, queue_id: int, row: CompletionRow) -> Completions:
    kept = Completions(state, queue_id)
    kept.unended = range_set(row.unended)
    for second, runs, logs in row.buckets:
        ended = [(cast("queue_service_pb2.FinalState", final), range_set(edges)) for final, edges in runs]
        kept.load(second, ended, column_of("Q", logs))
    if row.answers:
        columns = [column_of(kind, data) for kind, data in zip("QQI", row.answers, strict=True)]
        for index, log_index, fingerprint in zip(*columns, strict=True):
            kept.answers[index] = log_index << 32 | fingerprint
    kept.deadlines = Deadlines.from_columns(column_of("Q", data) for data in row.deadlines)
    kept.addressed = range_set(row.addressed)
    for to, rows in row.owed:
        for index, correlation_id in rows:
            kept.owe(index, to, correlation_id)
    kept.firsts = dict(row.firsts)
    kept.latest = {first: index for index, first in row.firsts}
    if kept.owed:
        state.owing[queue_id] = None
    return kept
