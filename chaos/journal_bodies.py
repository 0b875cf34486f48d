"""Decides whether bodies are those that were sent, by the CRC-32 that clients kept of them; reads nothing.

A message that is named by its client and by a journal with two ids is two messages: that one is lost is told elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from chaos.journal_proof import of_place
from chaos.journals import BODY_CHANGED, BODY_NOT_SENT, Audited, Place, Row, Told, Violation


def bodies_are_those_that_were_sent(found: Audited) -> Iterator[Violation]:
    """What is stored was sent; what was received was sent, or where that is not known, is stored."""
    named: dict[tuple[str, bytes, int], list[Told]] = defaultdict(list)
    for told in found.told:
        if told.op == "send" and told.payload_crc32 is not None and told.producer and told.sequence:
            named[told.queue, told.producer, told.sequence].append(told)
    for place, rows in found.entered.items():
        stored = [row for row in rows if row.crc32 is not None and found.side(row) is not None]
        told_of = [told for told in found.told_at.get(place, []) if told.outcome == "ok"]
        answered = [told for told in told_of if told.op == "send"]
        sent = [told for told in answered if told.payload_crc32 is not None]
        pairs = [(told, row) for told in sent for row in stored]
        if not answered:  # nobody was told of it: its sender and number name it
            name = found.name_of.get(place.queue_id or 0, "")
            pairs = [(told, row) for row in stored for told in named.get((name, row.producer or b"", row.sequence), [])]
        came = [told for told in told_of if told.op == "recv" and told.payload_crc32 is not None]
        yield from _as_sent(found, place, pairs)
        yield from _as_received(found, place, stored, sent, came)


def _as_sent(found: Audited, place: Place, pairs: Sequence[tuple[Told, Row]]) -> Iterator[Violation]:
    unlike = [(told.payload_crc32 or 0, row.crc32 or 0) for told, row in pairs if _same_id(told, row)]
    if any(one != other for one, other in unlike):
        one, other = max(pair for pair in unlike if pair[0] != pair[1])
        says = f"sent with CRC-32 {one:08x}, and stored with {other:08x}"
        yield replace(of_place(found, BODY_NOT_SENT, place, found.entered[place]), clients=says)


def _as_received(
    found: Audited, place: Place, stored: Sequence[Row], sent: Sequence[Told], came: Sequence[Told]
) -> Iterator[Violation]:
    changed = []
    for told in came:
        against = [each.payload_crc32 or 0 for each in sent if _same_id(told, each)]
        against = against or [row.crc32 or 0 for row in stored if _same_id(told, row)]
        mine = told.payload_crc32 or 0
        changed += [(mine, each) for each in against if each != mine]
    if changed:
        one, other = max(changed)
        says = f"received with CRC-32 {one:08x}, and not with {other:08x}"
        yield replace(of_place(found, BODY_CHANGED, place, found.entered[place]), clients=says)


def _same_id(told: Told, other: Told | Row) -> bool:
    """They may be one message."""
    return told.id is None or other.id is None or told.id == other.id
