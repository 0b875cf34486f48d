"""Knows how messages of one queue ended, for their senders, until that is forgotten; never decides that one ends.

Only queues whose senders may ask for more than STORED have one. An end costs its share of a run, not a row: what was
acknowledged in order within a second is two numbers. Only an answer has a row of its own, for it has a record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from replica.machine.sets.ranges import RangeSet, Run
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2

CONSUMED, REPLIED = service_pb2.FINAL_STATE_CONSUMED, service_pb2.FINAL_STATE_REPLIED
TRACKED = (admin_pb2.QUEUE_TYPE_ONE_WAY_ACK, admin_pb2.QUEUE_TYPE_TWO_WAY)
# Ends are forgotten together by the second in which they came.
BUCKET_MS = 1_000
_FINGERPRINT = (1 << 32) - 1
_SLACK = 1_024


class Owner(Protocol):
    """The state that the queue is in."""

    time_ms: int  # of the record that is being applied

    def on_bucket(self, queue_id: int, second: int) -> None:
        """The first message ended within that second."""


class KeptAnswer(NamedTuple):
    """The record that answered a request."""

    log_index: int
    fingerprint: int  # of the reply
    index: int  # type: ignore[assignment]  # of the request in that record; it hides tuple.index


class Bucket:
    """What ended within one second."""

    __slots__ = ("logs", "runs", "second")

    def __init__(self, second: int) -> None:
        self.second = second
        self.runs: dict[service_pb2.FinalState, RangeSet] = {}  # by final state
        self.logs: array[int] = array("Q")  # log indexes of records with replies, rising, each once


class Deadlines:
    """Until when requests may be answered: a row a record, by rising index."""

    __slots__ = ("_head", "ends", "firsts", "whens")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")
        self.ends: array[int] = array("Q")
        self.whens: array[int] = array("Q")
        self._head = 0

    def add(self, first: int, end: int, when_ms: int) -> bool:
        """Whether it is a row of its own."""
        if len(self.whens) > self._head and self.whens[-1] == when_ms and self.ends[-1] == first:
            self.ends[-1] = end
            return False
        for column, value in ((self.firsts, first), (self.ends, end), (self.whens, when_ms)):
            column.append(value)
        return True

    def find(self, first: int) -> tuple[int, int] | None:
        """End and time of the row that begins there."""
        at = bisect_left(self.firsts, first, self._head)
        if at == len(self.firsts) or self.firsts[at] != first:
            return None
        return self.ends[at], self.whens[at]

    def rows(self) -> Iterator[tuple[int, int]]:
        """First index and time of each row."""
        return zip(self.firsts[self._head :], self.whens[self._head :], strict=True)

    def prune(self, unended: RangeSet) -> None:
        """Rows at the front that hold no open request any more go."""
        while self._head < len(self.firsts) and not unended.count(self.firsts[self._head], self.ends[self._head]):
            self._head += 1
        if (self._head > _SLACK and self._head * 2 > len(self.firsts)) or self._head == len(self.firsts):
            for column in (self.firsts, self.ends, self.whens):
                del column[: self._head]
            self._head = 0

    def columns(self) -> list[array[int]]:
        """The same for equal rows."""
        return [column[self._head :] for column in (self.firsts, self.ends, self.whens)]

    @classmethod
    def from_columns(cls, columns: Iterable[array[int]]) -> Deadlines:
        made = cls()
        made.firsts, made.ends, made.whens = columns
        return made


class Completions:
    """Of one queue; part of its state but for `listening` and `heard`."""

    __slots__ = (
        "_owed_to",
        "_owner",
        "_queue_id",
        "addressed",
        "answers",
        "buckets",
        "by_state",
        "deadlines",
        "firsts",
        "heard",
        "latest",
        "listening",
        "owed",
        "unended",
    )

    def __init__(self, owner: Owner, queue_id: int) -> None:
        self._owner = owner
        self._queue_id = queue_id
        self.unended = RangeSet()  # messages whose end is not known yet
        self.by_state: dict[service_pb2.FinalState, RangeSet] = {}  # what ended, all buckets together
        self.buckets: deque[Bucket] = deque()
        self.answers: dict[int, int] = {}  # by index: log index of the reply << 32 | its fingerprint
        self.deadlines = Deadlines()
        self.addressed = RangeSet()  # open requests that name a queue for a copy of their answer
        # Copies of answers that are owed, by queue: index of the request, and correlation id where the answer has none.
        self.owed: dict[str, dict[int, str]] = {}
        self._owed_to: dict[int, str] = {}  # the same by index: a client names as many queues as it likes
        # Messages that reactions have changed: the index that each had first, whose handle its sender has; and back.
        self.firsts: dict[int, int] = {}
        self.latest: dict[int, int] = {}
        self.listening = False  # somebody at this member waits for ends
        self.heard: list[Run] = []  # what ended since it was looked at, while listening

    def begin(self, start: int, end: int) -> None:
        """They entered the queue."""
        self.unended.add(start, end)

    def end(self, start: int, end: int, final: service_pb2.FinalState) -> None:
        """They left the queue. What entered before the queue had this type is not known here."""
        runs = list(self.unended.runs(start, end))
        if not runs:
            return
        second = self._owner.time_ms // BUCKET_MS
        if not self.buckets or self.buckets[-1].second < second:
            self.buckets.append(Bucket(second))
            self._owner.on_bucket(self._queue_id, second)
        within = self.buckets[-1].runs.setdefault(final, RangeSet())
        whole = self.by_state.setdefault(final, RangeSet())
        for low, high in runs:
            self.unended.remove(low, high)
            if self.addressed.size:
                self.addressed.discard(low, high)
            within.add(low, high)
            whole.add(low, high)
        if self.deadlines.firsts:
            self.deadlines.prune(self.unended)
        if self.listening:
            self.heard += runs
            for low, high in runs if self.firsts else ():
                self.heard += ((self.firsts[at], self.firsts[at] + 1) for at in self._changed(low, high))

    def hand_on(self, index: int, new_index: int) -> None:
        """A reaction has changed a message: whoever asks for the one hears of the other."""
        if self.unended.discard(index, index + 1):
            self.addressed.discard(index, index + 1)
            first = self.firsts.pop(index, index)
            self.firsts[new_index], self.latest[first] = first, new_index

    def _changed(self, start: int, end: int) -> list[int]:
        """Walks over whichever is shorter."""
        if end - start <= len(self.firsts):
            return [index for index in range(start, end) if index in self.firsts]
        return sorted(index for index in self.firsts if start <= index < end)

    def answer(self, index: int, log_index: int, fingerprint: int) -> None:
        """The record answers a request, which has just ended by it."""
        self.answers[index] = log_index << 32 | fingerprint & _FINGERPRINT
        logs = self.buckets[-1].logs
        if not logs or logs[-1] != log_index:  # a unit of work answers several
            logs.append(log_index)

    def owe(self, index: int, to: str, correlation_id: str) -> None:
        """A copy of that answer is owed to a queue."""
        self.owed.setdefault(to, {})[index] = correlation_id
        self._owed_to[index] = to

    def settle_owed(self, index: int) -> bool:
        """The copy of that answer is made, or given up; whether it was owed."""
        to = self._owed_to.pop(index, None)
        if to is None:
            return False
        rows = self.owed[to]
        del rows[index]
        if not rows:
            del self.owed[to]
        return True

    def answer_of(self, index: int) -> KeptAnswer | None:
        index = self.latest.get(index, index)
        return self.read(index) if index in self.answers else None

    def read(self, index: int) -> KeptAnswer:
        packed = self.answers[index]
        return KeptAnswer(packed >> 32, packed & _FINGERPRINT, index)

    def load(self, second: int, runs: Iterable[tuple[service_pb2.FinalState, RangeSet]], logs: array[int]) -> None:
        """A bucket of a snapshot, after the earlier ones."""
        bucket = Bucket(second)
        bucket.runs, bucket.logs = dict(runs), logs
        for final, within in bucket.runs.items():
            whole = self.by_state.setdefault(final, RangeSet())
            for start, end in within:
                whole.add(start, end)
        self.buckets.append(bucket)

    def final_of(self, index: int) -> service_pb2.FinalState | None:
        """How a message ended; 0: it has not; None: it is not known, or no longer."""
        index = self.latest.get(index, index)
        if index in self.unended:
            return service_pb2.FINAL_STATE_UNSPECIFIED
        return next((final for final, runs in self.by_state.items() if index in runs), None)

    def forget(self, before_ms: int, freed: list[int]) -> None:
        """What ended before that time; `freed` gets the log indexes of its answers."""
        while self.buckets and (self.buckets[0].second + 1) * BUCKET_MS <= before_ms:
            bucket = self.buckets.popleft()
            for final, runs in bucket.runs.items():
                whole = self.by_state[final]
                for start, end in runs:
                    whole.remove(start, end)
                    for index in self._changed(start, end) if self.firsts else ():
                        del self.latest[self.firsts.pop(index)]
                    if final == REPLIED:
                        for index in range(start, end):
                            self.answers.pop(index, None)
                            if self.owed:
                                self.settle_owed(index)
                if not whole:
                    del self.by_state[final]
            freed.extend(bucket.logs)

    def is_answer(self, log_index: int) -> bool:
        """The record is an answer that is kept."""
        for bucket in reversed(self.buckets):
            logs = bucket.logs
            if logs and logs[0] <= log_index:
                at = bisect_right(logs, log_index) - 1
                return logs[at] == log_index
        return False

    def next_answer(self, above: int) -> int | None:
        """The first kept answer above that record."""
        for bucket in self.buckets:
            if bucket.logs and bucket.logs[-1] > above:
                return bucket.logs[bisect_right(bucket.logs, above)]
        return None

    def log_indexes(self) -> list[int]:
        """Of the records of the answers, rising."""
        return [log_index for bucket in self.buckets for log_index in bucket.logs]
