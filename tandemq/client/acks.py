"""Decides what a batch's answers mean for each future that waits for it.

It never touches a stream.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tandemq.client.outbox import Batch, Entry, count_of
from tandemq.client.receipts import Receipt, ReceiptRun, level_of, message_id, warning_of
from tandemq.errors import TandemqError, to_error
from tandemq.v1 import queue_service_pb2

Outcome = ReceiptRun | tuple[int, TandemqError]  # a run, or one refused place with its error


def fail_entry(entry: Entry, error: TandemqError) -> None:
    """Tells whoever waits, unless they stopped waiting."""
    future: asyncio.Future[Any] = entry.sink
    if not future.done():
        future.set_exception(error)


def resolve(batch: Batch, domain: int) -> None:
    """Gives every future of an answered batch its receipt, runs or error."""
    ack = batch.acks[0]
    if len(batch.acks) == 1 and not ack.errors and not ack.duplicates and not ack.members:
        _resolve_plain(batch, ack, domain)
        return
    outcomes = outcomes_of(batch, domain)
    start = 0
    for entry in batch.entries:
        count = count_of(entry)
        _give(entry, [_cut(outcome, start, count) for outcome in outcomes if _touches(outcome, start, count)])
        start += count


def outcomes_of(batch: Batch, domain: int) -> list[Outcome]:
    """Runs and refusals of a batch by place, whatever the number of answers that it took."""
    outcomes: list[Outcome] = []
    for ack in sorted(batch.acks, key=lambda ack: ack.first_sequence):
        start = ack.first_sequence - batch.first
        refused = {entry.ordinal: to_error(entry.error) for entry in ack.errors}
        doubles = {entry.ordinal: entry.index for entry in ack.duplicates}
        index = ack.first_index
        place, end = start, min(start + ack.count, batch.count)
        at_members = _at_members(ack)
        while place < end:
            if place in refused:
                outcomes.append((place, refused[place]))
                place += 1
                continue
            if place in at_members:
                handles, member_index = at_members[place]
                outcomes.append(replace(_run(ack, place, 1, member_index, domain), handles=handles))
                place += 1
                continue
            if place in doubles:
                outcomes.append(replace(_run(ack, place, 1, doubles[place], 0), duplicate=True))
                place += 1
                continue
            run_end = min((other for other in (*refused, *doubles) if other > place), default=end)
            outcomes.append(_run(ack, place, run_end - place, index, domain))
            index += run_end - place
            place = run_end
    return outcomes


def _at_members(ack: queue_service_pb2.EnqueueAck) -> dict[int, tuple[bytes, int]]:
    """First half of the handle and index, by place, of a batch that several members of a macro queue have. Of a message
    that more than one has, those of the first.
    """
    return {
        place: (member.handle_prefix, member.first_index + offset)
        for member in reversed(ack.members)
        for offset, place in enumerate(member.ordinals)
    }


def _run(ack: queue_service_pb2.EnqueueAck, place: int, count: int, index: int, domain: int) -> ReceiptRun:
    return ReceiptRun(
        place,
        count,
        index,
        ack.id_epoch or ack.epoch,
        ack.copies,
        level_of(ack.level),
        ack.duplicate,
        warning_of(ack.warning),
        ack.id_domain if ack.id_epoch else domain,
        ack.log_index,
        place,
        handles=ack.handle_prefix,
    )


def _resolve_plain(batch: Batch, ack: queue_service_pb2.EnqueueAck, domain: int) -> None:
    """The usual case, kept short: one answer, nothing refused."""
    epoch, copies, level, duplicate = ack.epoch, ack.copies, level_of(ack.level), ack.duplicate
    if ack.id_epoch:
        epoch, domain = ack.id_epoch, ack.id_domain
    warning, log_index, first_index = warning_of(ack.warning), ack.log_index, ack.first_index
    place = 0
    for entry in batch.entries:
        future = entry.sink
        if type(entry.payloads) is list:
            count = len(entry.payloads)
            if not future.done():
                future.set_result([replace(_run(ack, place, count, first_index + place, domain), position=0)])
            place += count
        else:
            if not future.done():
                named = message_id(domain, epoch, log_index, place)
                receipt = Receipt(first_index + place, named, epoch, copies, level, duplicate, warning)
                if ack.handle_prefix:
                    receipt.handle = ack.handle_prefix + receipt.index.to_bytes(8, "big")
                future.set_result(receipt)
            place += 1


def _touches(outcome: Outcome, start: int, count: int) -> bool:
    if isinstance(outcome, ReceiptRun):
        return outcome.position < start + count and start < outcome.position + outcome.count
    return start <= outcome[0] < start + count


def _cut(outcome: Outcome, start: int, count: int) -> Outcome:
    """The part that lies in one entry, placed as that entry's caller counts."""
    if not isinstance(outcome, ReceiptRun):
        return outcome[0] - start, outcome[1]
    first = max(outcome.position, start)
    end = min(outcome.position + outcome.count, start + count)
    skipped = first - outcome.position
    return replace(
        outcome,
        position=first - start,
        count=end - first,
        first_index=outcome.first_index + skipped,
        ordinal=outcome.ordinal + skipped,
    )


def _give(entry: Entry, outcomes: list[Outcome]) -> None:
    future = entry.sink
    if future.done():
        return
    if type(entry.payloads) is list:
        future.set_result(outcomes)
        return
    (outcome,) = outcomes
    if isinstance(outcome, ReceiptRun):
        future.set_result(outcome.receipt(0))
    else:
        future.set_exception(outcome[1])
