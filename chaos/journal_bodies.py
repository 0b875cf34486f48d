"""Decides whether bodies are those that were sent, by the CRC-32 that clients kept of them; reads nothing.

A message that is named by its client and by a journal with two ids is two messages: that one is lost is found
elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from chaos.journal_proof import of_place
from chaos.journals import BODY_CHANGED, BODY_NOT_SENT, Asked, Audited, Place, Row, Violation


def bodies_are_those_that_were_sent(found: Audited) -> Iterator[Violation]:
    """What is stored was sent; what was received was sent, or where that is not known, is stored."""
    named: dict[tuple[str, bytes, int], list[Asked]] = defaultdict(list)
    for asked in found.asked:
        if asked.op == "send" and asked.payload_crc32 is not None and asked.producer and asked.sequence:
            named[asked.queue, asked.producer, asked.sequence].append(asked)
    for place, rows in found.entered.items():
        stored = [row for row in rows if row.crc32 is not None and found.side(row) is not None]
        asked_of_it = [asked for asked in found.asked_at.get(place, []) if asked.outcome == "ok"]
        answered = [asked for asked in asked_of_it if asked.op == "send"]
        sent = [asked for asked in answered if asked.payload_crc32 is not None]
        pairs = [(asked, row) for asked in sent for row in stored]
        if not answered:  # nobody was answered: its sender and number name it
            name = found.name_of.get(place.queue_id or 0, "")
            pairs = [
                (asked, row) for row in stored for asked in named.get((name, row.producer or b"", row.sequence), [])
            ]
        came = [asked for asked in asked_of_it if asked.op == "recv" and asked.payload_crc32 is not None]
        yield from _as_sent(found, place, pairs)
        yield from _as_received(found, place, stored, sent, came)


def _as_sent(found: Audited, place: Place, pairs: Sequence[tuple[Asked, Row]]) -> Iterator[Violation]:
    unlike = [(asked.payload_crc32 or 0, row.crc32 or 0) for asked, row in pairs if _same_id(asked, row)]
    if any(one != other for one, other in unlike):
        one, other = max(pair for pair in unlike if pair[0] != pair[1])
        says = f"sent with CRC-32 {one:08x}, and stored with {other:08x}"
        yield replace(of_place(found, BODY_NOT_SENT, place, found.entered[place]), clients=says)


def _as_received(
    found: Audited, place: Place, stored: Sequence[Row], sent: Sequence[Asked], came: Sequence[Asked]
) -> Iterator[Violation]:
    changed = []
    for asked in came:
        against = [each.payload_crc32 or 0 for each in sent if _same_id(asked, each)]
        against = against or [row.crc32 or 0 for row in stored if _same_id(asked, row)]
        mine = asked.payload_crc32 or 0
        changed += [(mine, each) for each in against if each != mine]
    if changed:
        one, other = max(changed)
        says = f"received with CRC-32 {one:08x}, and not with {other:08x}"
        yield replace(of_place(found, BODY_CHANGED, place, found.entered[place]), clients=says)


def _same_id(asked: Asked, other: Asked | Row) -> bool:
    """They may be one message."""
    return asked.id is None or other.id is None or asked.id == other.id
