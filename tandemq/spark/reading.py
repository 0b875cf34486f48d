"""Reads one span of the journal as Arrow batches: goes on over takeovers, and compares the history at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

import tandemq
from tandemq.client.journal import JournalPage
from tandemq.errors import Refused, Unavailable
from tandemq.spark.columns import batch_of, before_message
from tandemq.spark.options import Options
from tandemq.spark.places import Span, check_queues, connect, head_of

LAG_POLL_S = 0.05
"""A member that has not heard of a commit hears of it with the next heartbeat, 0.2 s by default."""


def batches(options: Options, span: Span) -> Iterator[pa.RecordBatch]:
    """All rows of the span that the options want, in the order of the log.

    Raises Refused with reason OUT_OF_RANGE when it was trimmed at every member, and EPOCH_DIVERGED when the history
    that was planned was given up since; NotFound with reason QUEUE_NOT_FOUND when a queue of the options is another one
    than was planned; Unavailable with reason NO_PROGRESS when no member that answers has got so far.
    """
    last_record = span.until - 1
    with connect(options) as client:
        for page in _pages(client, options, span):
            if not len(page):
                continue
            batch = batch_of(page.columns, attributes=options.attributes)
            if span.before_index:
                batch = before_message(batch, last_record, span.before_index)
            if batch.num_rows:
                yield batch
        if span.queue_ids:  # at the end: a queue that is there now was there all the while
            check_queues(head_of(client, options), dict(span.queue_ids))


def _pages(client: tandemq.Client, options: Options, span: Span) -> Iterator[JournalPage]:
    place = span.start
    progress_at = time.monotonic()
    while place.log_index < span.until:
        before = place
        for page in client.read_journal(
            options.queues,
            place,
            domain=options.domain,
            kinds=options.kinds,
            until_log_index=span.until,
            payloads=options.payloads,
            attributes=options.attributes,
            this_member=options.this_member,
            every_record=options.every_record,
        ):
            place = page.next
            yield page
        if place != before:
            progress_at = time.monotonic()
        elif time.monotonic() - progress_at > options.timeout_s:
            text = f"no member that answers has log index {span.until - 1} within {options.timeout_s} s"
            raise Unavailable("NO_PROGRESS", text, definite=True, retryable=True)
        else:
            time.sleep(LAG_POLL_S)
    if span.epoch and place.log_index == span.until and place.epoch != span.epoch:
        text = (
            f"the record before log index {span.until} was of epoch {span.epoch} when this read was planned, now it is "
            f"of epoch {place.epoch}: the history that was planned was given up; read anew"
        )
        raise Refused("EPOCH_DIVERGED", text, {"epoch": str(place.epoch)}, definite=True)
