"""Decides which rows of a client history an audit leaves aside: what sides of queues with PRODUCER replication gave.

Each member's own domain has these deliveries and settlements, and no journal of the pair; both sides give everything,
and with lockstep SELECTED by numbers that are no indexes. Such a queue shows by its rows: what its sides are given is
SELECTED, or it was never leased, and left by no lease when both sides had passed it.
"""

from __future__ import annotations

from collections.abc import Iterable

from chaos.journals import LEASES, Asked, Row

SELECTED, PASSED = "SELECTED", "ACKED"
GIVEN = ("recv", "ack")
"""Operations of a history that are about deliveries."""


def names_with_sides(rows: Iterable[Row]) -> set[str]:
    """Of queues of which a row says so."""
    names, selected, passed, leased = dict[int, set[str]](), set[int](), set[int](), set[int]()
    for row in rows:
        if row.queue is not None:
            names.setdefault(row.queue_id, set()).add(row.queue)
        if row.kind == SELECTED:
            selected.add(row.queue_id)
        elif row.kind == PASSED and not row.lease_id:
            passed.add(row.queue_id)
        elif row.kind in LEASES:
            leased.add(row.queue_id)
    return {name for queue_id in selected | (passed - leased) for name in names.get(queue_id, ())}


def aside(rows: Iterable[Row], asked: Iterable[Asked]) -> tuple[list[Asked], int]:
    """What is judged, and how much is not."""
    known = list(asked)
    names = names_with_sides(rows) if any(each.op in GIVEN for each in known) else set()
    left = [each for each in known if each.op not in GIVEN or each.queue not in names]
    return left, len(known) - len(left)
