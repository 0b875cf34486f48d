"""Finds the messages that a filter names among those of a queue, a bounded number of looks at a time; changes nothing.

What a message says is read through `read`, the shell's way to its store; what was seen not to fit is remembered by its
index, for nothing of what a filter asks for ever changes. So a consumer that waits looks at each message once. Exact
questions do not look at all: ids are found by their place in the log, correlation and group ids in an `Exact` index,
which is made when it is asked for first and reads each message once for all who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from replica.core.selection.filters import Filter, Read, entry_of, fits, ordinal_of
from replica.machine import QueueState
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.state.segments import Part
from tandemq.v1.message_pb2 import MessageBatch

LOOKS_MAX = 2_000
"""Messages that one turn looks at, if its time lasts as long."""
NAMED_MAX = 2_000
"""Messages with one id that are listed; more are looked for one after the other."""
ENTRIES_MAX = 2_000_000
"""In the exact index of one queue, two of a message that has both ids; beyond it questions are answered by looking."""


ReadRecord = Callable[[int], Read | None]
"""By log index; None: it is gone, or its volatile body is."""
Over = Callable[[], bool]
"""Whether a turn has taken its time."""


def never() -> bool:
    return False


class Turns(Protocol):
    """Who may look when, and for how long (`pacing.Pace`)."""

    def begin(self) -> bool: ...
    def is_over(self) -> bool: ...
    def end(self) -> None: ...


class _Rows:
    """One record at a time, decoded once for neighbouring messages."""

    def __init__(self, read: ReadRecord) -> None:
        self._read = read
        self._log_index = 0
        self._found: Read | None = None

    def of(self, log_index: int) -> Read | None:
        if log_index != self._log_index:
            self._log_index, self._found = log_index, self._read(log_index)
        return self._found


class Exact:
    """Which messages of one queue have a correlation id or a group id; grows when it is asked, never by itself."""

    def __init__(self) -> None:
        self._queue_id = 0
        self._up_to = 0
        self._entries = 0
        self._by_correlation: dict[str, list[int]] = {}
        self._by_group: dict[str, list[int]] = {}

    def _begin(self, queue_id: int) -> None:
        self._queue_id = queue_id
        self._up_to = self._entries = 0
        self._by_correlation, self._by_group = {}, {}

    def grow(self, queue: QueueState, read: ReadRecord, looks: int, over: Over = never) -> int:
        """Looks at messages that it has not seen, and returns how many looks are left."""
        if self._queue_id != queue.queue_id:
            self._begin(queue.queue_id)
        rows = _Rows(read)
        for part in queue.segments.parts(self._up_to + 1, queue.visible_index + 1):
            if over():
                return looks
            found = rows.of(part.log_index)
            for index in range(part.start, part.end):
                if not looks or self._entries > ENTRIES_MAX:
                    return looks
                looks -= 1
                self._up_to = index
                if found is not None:
                    self._enter(found.messages, ordinal_of(part, index), index)
        self._up_to = max(self._up_to, queue.visible_index)
        return looks

    def _enter(self, batch: MessageBatch, ordinal: int, index: int) -> None:
        for column, into in ((batch.correlation_ids, self._by_correlation), (batch.group_ids, self._by_group)):
            if value := entry_of(column, ordinal):
                into.setdefault(value, []).append(index)
                self._entries += 1

    def is_whole(self, queue: QueueState) -> bool:
        """Every message that can be delivered is in it."""
        return self._queue_id == queue.queue_id and self._up_to >= queue.visible_index

    @property
    def is_too_large(self) -> bool:
        return self._entries > ENTRIES_MAX

    def find(self, queue: QueueState, asked: Filter) -> list[int] | None:
        """Indexes by rising number; None: so many that a walk meets one soon.

        Of two ids the one that fewer have is looked up; whoever asked looks at the other. Messages that have left the
        queue are forgotten on the way.
        """
        columns = (asked.correlation_id, self._by_correlation), (asked.group_id, self._by_group)
        named = [(column.get(value, []), value, column) for value, column in columns if value is not None]
        named.sort(key=lambda each: len(each[0]))
        known, value, column = named[0]
        held, seen = list[int](), 0
        for index in known:
            seen += 1
            if queue.segments.locate(index) is not None:
                held.append(index)
                if len(held) > NAMED_MAX:
                    break
        if len(held) < seen:
            self._entries -= seen - len(held)
            column[value] = held + known[seen:]
            if not column[value]:
                del column[value]
        if len(held) > NAMED_MAX:
            return None
        for others, _, _ in named[1:]:
            if len(others) <= NAMED_MAX:
                held = sorted(set(held).intersection(others))
        return held


class Matcher:
    """One consumer's filter: narrows what could be delivered to what it wants. Belongs to the serving member."""

    def __init__(self, asked: Filter, read: ReadRecord, exact: Exact, domain: int, turns: Turns) -> None:
        self.asked = asked
        self.looking = False
        """It stopped at the bound of a turn: there may be more that fits."""
        self._turns = turns
        self._read = read
        self._exact = exact
        self._domain = domain
        self._queue_id = 0
        self._unfit = RangeSet()  # looked at, and does not fit
        self._seen: object = -1  # what was visible and applied when it looked last

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:
        """What is ready and fits, in the order of delivery, as far as a turn reaches.

        Nothing is looked for again until a record has changed something.
        """
        if self._queue_id != queue.queue_id:
            self._queue_id, self._unfit, self._seen = queue.queue_id, RangeSet(), -1
        elif self._seen == (queue.visible_index, applied_index) and not self.looking:
            return
        self._seen, self.looking = (queue.visible_index, applied_index), not self._turns.begin()
        if self.looking:
            return
        try:
            wanted = self._wanted(queue) if self.asked.exact else None
            yield from self._look(queue) if wanted is None else self._of_these(queue, wanted)
        finally:
            self._turns.end()

    def _wanted(self, queue: QueueState) -> list[int] | None:
        """By rising index; None: the index does not know."""
        if self.asked.places is not None:
            found = []
            for domain, log_index, ordinal in self.asked.places:
                index = queue.segments.index_of(log_index, ordinal) if domain == self._domain else None
                if index is not None:
                    found.append(index)
            return sorted(found)
        self._exact.grow(queue, self._read, LOOKS_MAX, self._turns.is_over)
        if self._exact.is_too_large:
            return None
        self.looking = not self._exact.is_whole(queue)
        return [] if self.looking else self._exact.find(queue, self.asked)

    def _of_these(self, queue: QueueState, wanted: list[int]) -> Iterator[Part]:
        """By falling priority, then rising index, as everything is delivered."""
        below, started, rows = queue.visible_index + 1, False, _Rows(self._read)
        for level in reversed(queue.ready):
            if level.size:
                for index in wanted:
                    if index < below and index in level and index not in self._unfit:
                        if started and self._turns.is_over():
                            self.looking = True
                            return
                        started = True
                        for part in queue.segments.parts(index, index + 1):
                            if self._fits(part, index, rows.of(part.log_index)):
                                yield part
                            else:
                                self._unfit.add(index, index + 1)

    def _look(self, queue: QueueState) -> Iterator[Part]:
        rows, looks, below = _Rows(self._read), LOOKS_MAX, queue.visible_index + 1
        for level in reversed(queue.ready):
            for low, high in list(level.runs(0, below)) if level.size else ():
                for start, end in list(self._unfit.gaps(low, high)):
                    for part in queue.segments.parts(start, end):
                        for first, last in self._fitting(part, rows.of(part.log_index), looks):
                            offset = part.offset + first - part.start
                            yield part._replace(start=first, end=last, offset=offset)
                        looks -= part.end - part.start
                        if self.looking or looks <= 0:
                            self.looking = True
                            return

    def _fitting(self, part: Part, read: Read | None, looks: int) -> Iterator[Run]:
        start, end = part.start, min(part.end, part.start + looks)
        for index in range(start, end):
            if self._turns.is_over():
                self.looking, end = True, index
                break
            if self._fits(part, index, read):
                continue
            self._unfit.add(index, index + 1)
            if start < index:
                yield start, index
            start = index + 1
        if start < end:
            yield start, end

    def _fits(self, part: Part, index: int, read: Read | None) -> bool:
        return read is not None and fits(self.asked, self._domain, part, index, read)


class Selection(NamedTuple):
    ranges: list[Run]
    """What fits, by rising index."""
    next_index: int
    """Where to go on; 0: all has been looked at."""


def find(
    queue: QueueState,
    asked: Filter,
    read: ReadRecord,
    domain: int,
    *,
    held: Sequence[Run],
    most: int,
    looks: int,
    bytes_max: int = 1 << 62,
    over: Over = never,
) -> Selection:
    """Of some runs of messages that the queue holds, those that fit: for browsing, moving and deleting.

    `held` rises. Stops at `most` messages that fit, after so many looks, behind the record with which so many bytes
    were read, or when its time is over; it looks at one message at least.
    """
    row, at, size, started = None, 0, 0, False
    found: list[Run] = []
    for low, high in held:
        for part in queue.segments.parts(low, high):
            if part.log_index != at:
                if size >= bytes_max:
                    return Selection(found, part.start)
                row, at = read(part.log_index), part.log_index
                size += row.size if row is not None else 0
            for index in range(part.start, part.end):
                if not looks or not most or (started and over()):
                    return Selection(found, index)
                looks, started = looks - 1, True
                if row is None or not fits(asked, domain, part, index, row):
                    continue
                most -= 1
                if found and found[-1][1] == index:
                    found[-1] = found[-1][0], index + 1
                else:
                    found.append((index, index + 1))
    return Selection(found, 0)
