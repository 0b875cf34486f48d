"""Follows the journal for readStream: where a micro-batch ends, and what it is made of. The checkpoint is Spark's.

An offset is a place of the domain's log, {domain: {log_index, epoch, history_id}}, always between two records; with
`queues` it says which ones these names meant. An offset of an older version has no history_id: the next one takes over
that of the pair that answers. A micro-batch that
is planned again after a crash has the same end, and its rows are the same or it is refused, so a sink that knows the
number of a batch gets each row once. Reading takes nothing away: only with a named reader is anything told to the pair.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

import tandemq
from tandemq.client.journal import JournalHead
from tandemq.client.places import JournalPosition
from tandemq.errors import InvalidRequest, NotFound, TandemqError
from tandemq.spark.naming import advance, begin, renew
from tandemq.spark.options import Options, bad_option
from tandemq.spark.places import (
    Span,
    check_history,
    check_queues,
    connect,
    head_of,
    head_of_history,
    queue_ids_of,
    settled,
    spans,
    taken_over,
)
from tandemq.spark.reading import batches

Offset = Mapping[str, Mapping[str, int | str | dict[str, int]]]
_LOG = logging.getLogger(__name__)


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # may not be installed
    """One query's reader. Its planning half lives as long as the query, beside the driver; tasks get copies of it.

    Plain values only: Spark pickles it into each task.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._last: JournalPosition | None = None
        """Of trigger(availableNow=True): what was committed when the query began."""
        self._is_told = False
        """That an offset of an older version takes the history over."""
        self._client: tandemq.Client | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Spark calls it twice at its start, and keeps one answer."""
        wanted = self._options.starting_position
        with self._connected() as client:
            head = head_of(client, self._options)
            if wanted == "latest":
                return self._begin(client, head, head.next)
            start = (
                None
                if wanted == "earliest"
                else JournalPosition(
                    int(wanted), self._options.starting_epoch, history_id=self._options.starting_history_id
                )
            )
            if start is not None and start.log_index > head.next.log_index:
                text = f"the journal of domain {head.domain} at {head.member} ends before {head.next.log_index}"
                raise bad_option("startingPosition", wanted, text)
            if start is None and self._options.reader:
                return self._begin(client, head, None)
            return self._begin(client, head, settled(client, self._options, head.domain, start))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends: at the commit index, or where it has the rows that it may have.

        `start` again when there is nothing. Raises Refused with reason OUT_OF_RANGE, EPOCH_DIVERGED or PAIR_CHANGED
        when nothing can follow it any more.
        """
        with self._connected() as client:
            head, place = self._place(client, start)
            if not place.history_id and not self._is_told:
                self._is_told = True
                _LOG.warning("%s", taken_over(head))
            if self._options.reader:
                renew(client, self._options, head.domain, place)
            end = self._last or head.next
            is_counted = isinstance(limit, ReadMaxRows) and end.log_index > place.log_index
            # A trimmed or diverged checkpoint is refused here, before anything is read; who counts rows finds it, too.
            if not is_counted:
                settled(client, self._options, head.domain, place)
            if end.log_index <= place.log_index:
                return start  # a member that lags, too: an offset never goes back
            if is_counted:
                end = min(end, _after_rows(client, self._options, head.domain, place, end, limit.max_rows))
            return start if end.row else _offset(head, end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As the option maxRowsPerTrigger says."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """For the query's progress: how far the journal goes now."""
        with self._connected() as client:
            head = head_of(client, self._options)
            return _offset(head, head.next)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Called before the first latestOffset: what is committed later is for the next run."""
        with self._connected() as client, contextlib.suppress(NotFound):  # latestOffset knows whose it was
            self._last = head_of(client, self._options).next

    def partitions(self, start: Offset, end: Offset) -> list[Span]:
        """Called once a micro-batch, and again with the same places after a crash."""
        with self._connected() as client:
            head, first = self._place(client, start)
            return spans(client, head, first, self._in(head, end), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again when the task is repeated: the same rows, or a refusal."""
        assert isinstance(partition, Span)
        return batches(self._options, partition)

    def commit(self, end: Offset) -> None:
        """All batches up to there are done: the named reader, if there is one, moves on. Spark never calls it for the
        last batch of a run (`finishing.finish`).
        """
        if self._options.reader:
            with self._connected() as client:
                head, place = self._place(client, end)
                advance(client, self._options, head.domain, place)

    def stop(self) -> None:
        """The query is over."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def __getstate__(self) -> dict[str, object]:
        """What a task gets: no connection goes with it."""
        return {**self.__dict__, "_client": None}

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tandemq.Client]:
        """The client of the planning half. A connection for each call would cost the members, the master among them,
        more than the calls do; after a failure the next call has a new one.
        """
        if self._client is None:
            self._client = connect(self._options)
        try:
            yield self._client
        except TandemqError:
            self.stop()
            raise

    def _begin(self, client: tandemq.Client, head: JournalHead, start: JournalPosition | None) -> Offset:
        """The offset of that place, or of the one that the named reader has already."""
        if not self._options.reader:
            assert start is not None
            return _offset(head, start)
        place = begin(client, self._options, head.domain, start)
        if place.row:  # somebody else has advanced it into a record: all of that one once more
            place = settled(
                client, self._options, head.domain, JournalPosition(place.log_index, history_id=place.history_id)
            )
        return _offset(head, place)

    def _place(self, client: tandemq.Client, offset: Offset) -> tuple[JournalHead, JournalPosition]:
        """The journal now, and where an offset is in it. Raises InvalidRequest with reason BAD_CHECKPOINT when it is
        not of this query, Refused with reason PAIR_CHANGED when it is not of this pair, NotFound with reason
        QUEUE_NOT_FOUND when a queue is another one than it was.
        """
        ((named, found),) = offset.items() if len(offset) == 1 else (("", {}),)
        head = head_of_history(client, self._options, named, str(found.get("history_id", "")))
        return head, self._in(head, offset)

    def _in(self, head: JournalHead, offset: Offset) -> JournalPosition:
        """Where an offset is in the journal that this head is of. Raises as `_place` does."""
        ((_, found),) = offset.items() if len(offset) == 1 else (("", {}),)
        log_index, epoch, queue_ids = found.get("log_index"), found.get("epoch"), found.get("queue_ids", {})
        history_id, domain = found.get("history_id", ""), head.domain
        if (
            list(offset) != [domain]
            or not isinstance(log_index, int)
            or not isinstance(epoch, int)
            or not isinstance(queue_ids, dict)
            or not isinstance(history_id, str)
        ):
            text = f"the checkpoint says {dict(offset)!r}, and this query reads domain {domain}: give it one of its own"
            raise InvalidRequest("BAD_CHECKPOINT", text, {"domain": domain}, definite=True)
        check_history(head, history_id)
        check_queues(head, queue_ids)
        return JournalPosition(log_index, epoch, history_id=history_id)


def _offset(head: JournalHead, place: JournalPosition) -> Offset:
    assert not place.row
    offset: dict[str, int | str | dict[str, int]] = {"log_index": place.log_index, "epoch": place.epoch}
    if history_id := place.history_id or head.next.history_id:
        offset["history_id"] = history_id
    if head.queues:
        offset["queue_ids"] = queue_ids_of(head)
    return {head.domain: offset}


def _after_rows(
    client: tandemq.Client, options: Options, domain: str, start: JournalPosition, end: JournalPosition, max_rows: int
) -> JournalPosition:
    """The end of the record that has the last of so many wanted rows, or the end. The member finds it in an index; an
    older one gives the rows, without payloads.

    Inside that record when the members changed meanwhile and the next one has not heard of it: there is no end yet.
    """

    def walk(place: JournalPosition, until: int, rows: int) -> JournalPosition:
        for page in client.read_journal(
            options.queues,
            place,
            domain=domain,
            kinds=options.kinds,
            until_log_index=until,
            max_rows=rows,
            rows=False,
            this_member=options.this_member,
            every_record=options.every_record,
        ):
            place = page.next
        return place

    place = walk(start, end.log_index, max_rows)
    return walk(place, place.log_index + 1, 0) if place.row else place
