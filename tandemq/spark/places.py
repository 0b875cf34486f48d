"""Plans what is read: from where to where, in how many parts. A member checks every place and gives it its epoch.

A place is between two records, named by the log index of the next one and the epoch of the one before. The same epoch
there means the same history before it (docs/decisions/0021-journal.md), so whoever compares it at both ends has read
one history.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

import tandemq
from tandemq.client.journal import JournalHead, JournalPosition, JournalStart
from tandemq.errors import Refused
from tandemq.spark.options import Options

NOTHING = 1
"""As until_log_index: before every record, so that a page tells of its place alone."""


@dataclass(frozen=True)
class Span(InputPartition):  # type: ignore[misc]  # pyspark is not looked into: it may not be installed
    """What one task reads. Plain values: it is pickled on its way to an executor."""

    start: JournalPosition
    until: int
    """Log index of the first record that is not read."""
    epoch: int
    """Of the record before it; the reader compares. 0: the member that was asked did not know."""
    before_index: int = 0
    """Of the last record's messages only those before this index; 0: all."""


def connect(options: Options) -> tandemq.Client:
    """A client of the target that the options name, or that tandemq.connect finds."""
    return tandemq.connect(options.target, timeout=options.timeout_s)


def settled(
    client: tandemq.Client, domain: str, start: JournalPosition | JournalStart | None, queue: str = ""
) -> JournalPosition:
    """The same place with its epoch; None is the first that any member keeps. It reads no record.

    Raises Refused with reason OUT_OF_RANGE or EPOCH_DIVERGED as Client.read_journal does.
    """
    pages = client.read_journal([queue] if queue else (), start, domain=domain, until_log_index=NOTHING)
    return next(iter(pages)).next


def head_of(client: tandemq.Client, options: Options) -> JournalHead:
    """Where the journal and the queues stand. Raises NotFound with reason QUEUE_NOT_FOUND."""
    return client.journal_head(options.queues, domain=options.domain)


def plan(client: tandemq.Client, options: Options) -> list[Span]:
    """All that a batch read reads, up to the commit index of this moment."""
    head = head_of(client, options)
    _check_within(options, head)
    domain, queue = head.domain, options.queues[0] if options.queues else ""
    if options.start_index:
        start = settled(client, domain, JournalStart(options.start_index), queue)
    else:
        start = settled(client, domain, JournalPosition(options.start_log_index) if options.start_log_index else None)
    if options.end_index:
        end = settled(client, domain, JournalStart(options.end_index), queue)
    elif options.end_log_index:
        end = settled(client, domain, JournalPosition(options.end_log_index))
    else:
        end = head.next
    nothing = Span(start, start.log_index, 0)
    return spans(client, domain, start, end, options) or [nothing]  # of no parts Spark makes one that we do not know


def spans(
    client: tandemq.Client, domain: str, start: JournalPosition, end: JournalPosition, options: Options
) -> list[Span]:
    """The records between two places, in at most as many parts as the options say."""
    until = end.log_index + 1 if end.row else end.log_index
    count = min(options.partitions, until - start.log_index)
    if count < 1:
        return []
    step = (until - start.log_index) / count
    cuts = [JournalPosition(start.log_index + round(step * at)) for at in range(1, count)]
    inner = [settled(client, domain, cut) for cut in cuts]
    firsts, lasts = [start, *inner], [*inner, JournalPosition(until, end.epoch)]
    before = [0] * (count - 1) + [options.end_index if end.row else 0]
    return [
        Span(first, last.log_index, last.epoch, cut) for first, last, cut in zip(firsts, lasts, before, strict=True)
    ]


def _check_within(options: Options, head: JournalHead) -> None:
    """What is asked for beyond the end is refused here; members would wait until it is there."""
    member, log_end = head.member, head.next.log_index
    for name, log_index in (("startLogIndex", options.start_log_index), ("endLogIndex", options.end_log_index)):
        if log_index > log_end:
            raise _beyond(
                f"{name} = {log_index}: the journal of domain {head.domain} at {member} ends before {log_end}"
            )
    for name, index in (("startIndex", options.start_index), ("endIndex", options.end_index)):
        if index and index > head.queues[0].next_index:
            queue = head.queues[0]
            raise _beyond(f"{name} = {index}: queue {queue.queue} at {member} ends before {queue.next_index}")


def _beyond(text: str) -> Refused:
    return Refused("OUT_OF_RANGE", text, definite=True)
