"""Plans what is read: from where to where, in how many parts. A member checks every place and gives it its epoch.

A place is between two records, named by the log index of the next one, the epoch of the one before and the id of the
history. The same epoch there means the same records before it (docs/decisions/0021-journal.md), so whoever compares it
at both ends has read one history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

import tandemq
from tandemq.client.journal import JournalHead, JournalStart
from tandemq.client.places import JournalPosition
from tandemq.errors import NotFound, Refused
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
    queue_ids: tuple[tuple[str, int], ...] = ()
    """Which queues were meant by the names in the options; the reader compares."""


def connect(options: Options) -> tandemq.Client:
    """A client of the target that the options name, or that tandemq.connect finds."""
    return tandemq.connect(options.target, timeout=options.timeout_s, follow_master=not options.this_member)


def settled(
    client: tandemq.Client,
    options: Options,
    domain: str,
    start: JournalPosition | JournalStart | None,
    queue: str = "",
) -> JournalPosition:
    """The same place with its epoch; None is the first that any member keeps. It reads no record.

    Raises Refused with reason OUT_OF_RANGE or EPOCH_DIVERGED as Client.read_journal does.
    """
    queues = [queue] if queue else ()
    pages = client.read_journal(queues, start, domain=domain, until_log_index=NOTHING, this_member=options.this_member)
    return next(iter(pages)).next


def head_of(client: tandemq.Client, options: Options) -> JournalHead:
    """Where the journal and the queues stand. Raises NotFound with reason QUEUE_NOT_FOUND."""
    return client.journal_head(options.queues, domain=options.domain, this_member=options.this_member)


def head_of_history(client: tandemq.Client, options: Options, domain: str, history_id: str) -> JournalHead:
    """The same, of that history of the domain; empty: of any.

    Raises Refused with reason PAIR_CHANGED, also where the other pair has no such queue.
    """
    if not history_id:
        return head_of(client, options)
    try:
        head = head_of(client, options)
    except NotFound:
        check_history(client.journal_head((), domain=domain, this_member=options.this_member), history_id)
        raise
    check_history(head, history_id)
    return head


def check_history(head: JournalHead, history_id: str) -> None:
    """Raises Refused with reason PAIR_CHANGED. A member that knows none is of an older version."""
    here = head.next.history_id
    if here and history_id and here != history_id:
        text = (
            f"what was read is of history {history_id}, domain {head.domain} at {head.member} has {here}: this is "
            "another pair, or one that was begun anew; read it from the beginning, into a new place"
        )
        raise Refused("PAIR_CHANGED", text, {"history_id": here, "read_history_id": history_id}, definite=True)


def taken_over(head: JournalHead) -> str:
    """What is said, once, of a place that was kept by an older version."""
    return (
        f"a place that an older version kept names no history: it is taken for one of history {head.next.history_id}, "
        f"that of domain {head.domain} at {head.member}, and held to it from now on"
    )


def queue_ids_of(head: JournalHead) -> dict[str, int]:
    """Which queues the names in the options mean now."""
    return {each.queue: each.queue_id for each in head.queues}


def check_queues(head: JournalHead, queue_ids: Mapping[str, int]) -> None:
    """Rows are chosen by name: those of a queue that was deleted are not given for a new one of its name, and would be
    left out in silence.

    Raises NotFound with reason QUEUE_NOT_FOUND.
    """
    for queue, now in queue_ids_of(head).items():
        meant = queue_ids.get(queue, now)
        if meant != now:
            text = (
                f"queue {queue!r} was deleted, and another one of its name created (it was {meant}, now it is {now}): "
                "what was not read of the first one cannot be asked for by its name; read the new one from a new "
                "checkpoint, the old one without `queues` by its queue_id"
            )
            raise NotFound("QUEUE_NOT_FOUND", text, {"queue": queue, "queue_id": str(meant)}, definite=True)


def plan(client: tandemq.Client, options: Options) -> list[Span]:
    """All that a batch read reads, up to the commit index of this moment."""
    head = head_of_history(client, options, options.domain, options.starting_history_id)
    _check_within(options, head)
    domain, queue = head.domain, options.queues[0] if options.queues else ""
    if options.start_index:
        start = settled(client, options, domain, JournalStart(options.start_index), queue)
    else:
        start = settled(
            client, options, domain, JournalPosition(options.start_log_index) if options.start_log_index else None
        )
    if options.end_index:
        end = settled(client, options, domain, JournalStart(options.end_index), queue)
    elif options.end_log_index:
        end = settled(client, options, domain, JournalPosition(options.end_log_index))
    else:
        end = head.next
    nothing = Span(start, start.log_index, 0)
    return spans(client, head, start, end, options) or [nothing]  # of no parts Spark makes one that we do not know


def spans(
    client: tandemq.Client, head: JournalHead, start: JournalPosition, end: JournalPosition, options: Options
) -> list[Span]:
    """The records between two places, in at most as many parts as the options say."""
    until = end.log_index + 1 if end.row else end.log_index
    count = min(options.partitions, until - start.log_index)
    if count < 1:
        return []
    step = (until - start.log_index) / count
    history_id = start.history_id or head.next.history_id
    cuts = [JournalPosition(start.log_index + round(step * at), history_id=history_id) for at in range(1, count)]
    inner = [settled(client, options, head.domain, cut) for cut in cuts]
    firsts, lasts = [start, *inner], [*inner, JournalPosition(until, end.epoch, history_id=history_id)]
    before = [0] * (count - 1) + [options.end_index if end.row else 0]
    queue_ids = tuple(queue_ids_of(head).items())
    return [
        Span(first, last.log_index, last.epoch, cut, queue_ids)
        for first, last, cut in zip(firsts, lasts, before, strict=True)
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
