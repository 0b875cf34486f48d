"""Says what proves a violation: what each member's journal and each client says of a message; for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.journals import Audited, Place, Row, Violation


def about(found: Audited, kind: str, queue_id: int, index: int, member: str, count: int, journals: str) -> Violation:
    name = found.name_of.get(queue_id)
    return Violation(kind, member, queue_id, index, count, queue=name, journals=journals)


def of_place(found: Audited, kind: str, place: Place, rows: Sequence[Row]) -> Violation:
    row = rows[0] if rows else None
    all_rows = [*rows, *(each for each in found.touched.get(place, []) if each not in rows)]
    journals = "; ".join(
        f"{member}: {described([each for each in all_rows if each.member == member])}" for member in found.spans
    )
    clients = ", ".join(f"{asked.op} {asked.outcome}" for asked in found.asked_at.get(place, [])) or "nothing"
    name = found.name_of.get(place.queue_id or 0)
    return Violation(
        kind, None, place.queue_id, place.index, 1, None, name, hex_of(row.id if row else None), journals, clients
    )


def described(rows: Sequence[Row]) -> str:
    """For people."""
    asked = (
        f"{row.kind} {row.index} at {row.log_index}/{row.epoch}{f' id {row.id.hex()}' if row.id else ''}"
        for row in sorted(rows, key=lambda row: row.log_index)
    )
    return ", ".join(asked) or "nothing"


def hex_of(data: bytes | None) -> str | None:
    return data.hex() if data else None
