"""Decides from the journals which records are not there, where it is known that each one has a row; reads nothing.

A journal gives no row of records that did nothing to a queue, unless it is asked for every record
(docs/decisions/0041-audit-coverage.md). What was read so has no hole, or a record is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from chaos.journals import RECORD_MISSING, Audited, Violation


def no_record_is_missing(
    found: Audited, every_record_from: Mapping[str, int], ends: Mapping[str, int]
) -> Iterator[Violation]:
    """Per member, from where on each record has a row to where reading ended: a run of missing records is one row.

    Without an end it is the last record that has a row.
    """
    for member, first in every_record_from.items():
        if member not in found.spans or member in found.absent:
            continue
        there = {row.log_index for row in found.rows if row.member == member}
        end = ends.get(member, max(there, default=0) + 1)
        known = sorted({first - 1, max(end, first), *(at for at in there if first <= at < end)})
        for before, after in pairwise(known):
            if after > before + 1:
                yield missing(member, before + 1, after - before - 1, first)


def missing(member: str, log_index: int, count: int, every_record_from: int) -> Violation:
    """As both audits say it."""
    which = f"record {log_index}" if count == 1 else f"records {log_index} to {log_index + count - 1}"
    says = f"{member}: there is no row of {which}, and from {every_record_from} on each record has one"
    return Violation(RECORD_MISSING, member, count=count, log_index=log_index, journals=says)
