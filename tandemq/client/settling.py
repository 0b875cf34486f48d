"""Decides how acknowledgements are gathered into ranges and frames, and what is still to be confirmed.

It never writes to a stream or waits. (lease, index) is the identity of a settlement, so a frame is sent again, as it
is, on a new stream until somebody confirms it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from tandemq.errors import TandemqError, to_error
from tandemq.v1 import common_pb2, message_pb2, queue_service_pb2

REPLIES_UNCONFIRMED_MAX = 1_000  # each is a frame
FRAMES_UNCONFIRMED_MAX = 4  # written and not confirmed; what is settled meanwhile gathers for the next frame
SMALL_MESSAGES = 1_000
"""Fewer settlements than that wait while a frame is unconfirmed, and leave with its answer (docs/decisions/0052)."""
RANGES_PER_FRAME_MAX = 10_000
HOMES_KEPT = 10_000
"""Leases of macro queues of which the member is known."""

Range = tuple[int, int]  # first index, count


class Act(NamedTuple):
    """What becomes of messages under one lease."""

    lease_id: int
    outcome: queue_service_pb2.Outcome
    extension: timedelta | None = None  # EXTEND: from now; None: the queue's
    reason: str = ""  # REJECT
    delay: timedelta | None = None  # RELEASE: before the next delivery; None: none


class Lost(NamedTuple):
    """Settlements that were refused: another consumer may have, or get, these messages."""

    act: Act
    ranges: tuple[Range, ...]
    error: TandemqError


class Watcher(NamedTuple):
    """Somebody who waits for one settlement; `sink` is the owner's."""

    act: Act
    ranges: tuple[Range, ...]
    sink: Any


class Confirmed(NamedTuple):
    """What a ConsumeSettled confirmed."""

    lost: list[Lost]
    watchers: list[tuple[Watcher, TandemqError | None]]
    error: TandemqError | None = None  # not settled yet: go on elsewhere


@dataclass(slots=True)
class _Frame:
    settle_id: int
    acts: list[tuple[Act, tuple[Range, ...]]]
    data: bytes
    watchers: list[Watcher] = field(default_factory=list)
    is_reply: bool = False


class Settling:
    """The settlements of one consumer."""

    def __init__(self) -> None:
        self._gathered: dict[Act, list[list[int]]] = {}
        self._gathered_messages = 0
        self._watchers: list[Watcher] = []
        self._frames: OrderedDict[int, _Frame] = OrderedDict()  # unconfirmed, by id
        self._unwritten: deque[int] = deque()
        self._last_id = 0
        self._framed_messages = 0
        self._homes: dict[int, str] = {}
        """Of leases that a macro queue gave: the member, the oldest first."""

    def note_home(self, lease_id: int, queue: str) -> None:
        """That member of the macro queue gave it. Without this a lease that has ended is a lease of nobody."""
        self._homes[lease_id] = queue
        if len(self._homes) > HOMES_KEPT:
            del self._homes[next(iter(self._homes))]

    @property
    def messages(self) -> int:
        """Settled by the application and not confirmed."""
        return self._gathered_messages + self._framed_messages

    def add(self, act: Act, ranges: Iterable[Range], watcher: Any = None) -> None:
        """Gathers; costs a dict entry a lease and a pair of numbers a run."""
        runs = self._gathered.get(act)
        if runs is None:
            runs = self._gathered[act] = []
        given = ranges if watcher is None else tuple(ranges)
        for first, count in given:
            if runs and runs[-1][0] + runs[-1][1] == first:
                runs[-1][1] += count
            else:
                runs.append([first, count])
            self._gathered_messages += count
        if watcher is not None:
            self._watchers.append(Watcher(act, tuple(given), watcher))

    def add_reply(self, lease_id: int, index: int, message: message_pb2.Message, watcher: Any = None) -> None:
        """An answer: a frame of its own, after what was settled before it."""
        self.seal()
        self._last_id += 1
        reply = queue_service_pb2.ConsumeReply(settle_id=self._last_id, lease_id=lease_id, index=index, message=message)
        data = queue_service_pb2.ConsumeRequest(reply=reply).SerializeToString()
        act, ranges = Act(lease_id, queue_service_pb2.OUTCOME_ACK), ((index, 1),)
        watchers = [] if watcher is None else [Watcher(act, ranges, watcher)]
        self._frames[self._last_id] = _Frame(self._last_id, [(act, ranges)], data, watchers, is_reply=True)
        self._unwritten.append(self._last_id)
        self._framed_messages += 1

    def seal(self) -> int:
        """Makes frames of what is gathered; the id of the last frame there is, 0 when there was none."""
        acts: list[tuple[Act, tuple[Range, ...]]] = []
        room = RANGES_PER_FRAME_MAX
        for act, runs in self._gathered.items():
            merged = merge(runs)
            while merged:
                part, merged = merged[:room], merged[room:]
                acts.append((act, tuple(part)))
                room -= len(part)
                if room == 0:
                    self._make_frame(acts)
                    acts, room = [], RANGES_PER_FRAME_MAX
        self._gathered = {}
        self._gathered_messages = 0
        if acts:
            self._make_frame(acts)
        if self._watchers:
            self._frames[self._last_id].watchers = self._watchers
            self._watchers = []
        return self._last_id

    def _make_frame(self, acts: list[tuple[Act, tuple[Range, ...]]]) -> None:
        self._last_id += 1
        settle = queue_service_pb2.ConsumeSettle(
            settle_id=self._last_id, settlements=[to_settlement(act, ranges) for act, ranges in acts]
        )
        for settlement in settle.settlements if self._homes else ():
            settlement.queue = self._homes.get(settlement.lease_id, "")
        data = queue_service_pb2.ConsumeRequest(settle=settle).SerializeToString()
        self._frames[self._last_id] = _Frame(self._last_id, acts, data)
        self._framed_messages += _count_of(acts)
        self._unwritten.append(self._last_id)

    def opened(self) -> None:
        """A new stream: everything unconfirmed is to be written on it, in order."""
        self._unwritten = deque(self._frames)

    def next_frame(self) -> bytes | None:
        """The next bytes to write; None when nothing is to be said, or enough is unconfirmed."""
        unconfirmed = len(self._frames) - len(self._unwritten)
        if not self._unwritten and self._gathered and unconfirmed < FRAMES_UNCONFIRMED_MAX:
            if unconfirmed and self._gathered_messages < SMALL_MESSAGES:
                return None
            self.seal()
        if not self._unwritten:
            return None
        frame = self._frames[self._unwritten[0]]
        if unconfirmed >= (REPLIES_UNCONFIRMED_MAX if frame.is_reply else FRAMES_UNCONFIRMED_MAX):
            return None
        self._unwritten.popleft()
        return frame.data

    def is_confirmed(self, settle_id: int) -> bool:
        """Whether all frames up to this one are confirmed."""
        return not self._frames or next(iter(self._frames)) > settle_id

    def on_settled(self, settled: queue_service_pb2.ConsumeSettled) -> Confirmed:
        """Takes an answer; one that is known already is ignored."""
        frame = self._frames.get(settled.settle_id)
        if frame is None:
            return Confirmed([], [])
        lost: list[Lost] = []
        for (act, ranges), result in zip(frame.acts, settled.results, strict=False):
            if result.HasField("error"):
                error = to_error(result.error)
                if error.retryable:
                    return Confirmed([], [], error)
                refused = tuple((entry.first, entry.count) for entry in result.refused)
                lost.append(Lost(act, refused or ranges, error))
        del self._frames[frame.settle_id]
        self._framed_messages -= _count_of(frame.acts)
        watchers = [(watcher, _error_of(watcher, lost)) for watcher in frame.watchers]
        return Confirmed(lost, watchers)

    def give_up(self) -> list[Watcher]:
        """Forgets everything; who still waits."""
        waiting = [watcher for frame in self._frames.values() for watcher in frame.watchers] + self._watchers
        self._frames.clear()
        self._gathered.clear()
        self._unwritten.clear()
        self._watchers = []
        self._gathered_messages = self._framed_messages = 0
        return waiting


def _count_of(acts: Iterable[tuple[Act, tuple[Range, ...]]]) -> int:
    return sum(count for _, ranges in acts for _, count in ranges)


def checked(act: Act) -> Act:
    """The same; raises TypeError or ValueError for what has no form on the wire.

    It is written later, with what others have settled, and would end all of that.
    """
    _check_kinds(act.reason, act.extension, act.delay)
    to_settlement(act, ())
    return act


def _check_kinds(reason: object, *durations: object) -> None:
    if not isinstance(reason, str | None):
        raise TypeError(f"a reason is text, not {type(reason).__name__}")
    for each in durations:
        if not isinstance(each, timedelta | None):
            raise TypeError(f"a duration is a timedelta, not {type(each).__name__}")


def to_settlement(act: Act, ranges: Iterable[Range], member: str = "") -> queue_service_pb2.Settlement:
    """The form on the wire; `member`: of a macro queue, that which gave them."""
    settlement = queue_service_pb2.Settlement(
        lease_id=act.lease_id,
        outcome=act.outcome,
        reason=act.reason,
        ranges=[common_pb2.IndexRange(first=first, count=count) for first, count in ranges],
        queue=member,
    )
    if act.extension is not None:
        settlement.extension.FromTimedelta(act.extension)
    if act.delay is not None:
        settlement.delay.FromTimedelta(act.delay)
    return settlement


def merge(runs: Iterable[Iterable[int]]) -> list[Range]:
    """Sorted runs without overlaps or touching neighbours."""
    merged: list[Range] = []
    for first, count in sorted((first, count) for first, count in runs):
        if merged and first <= merged[-1][0] + merged[-1][1]:
            start, length = merged[-1]
            merged[-1] = (start, max(length, first + count - start))
        else:
            merged.append((first, count))
    return merged


def _error_of(watcher: Watcher, lost: list[Lost]) -> TandemqError | None:
    for loss in lost:
        if loss.act == watcher.act:
            for first, count in loss.ranges:
                if any(start < first + count and first < start + length for start, length in watcher.ranges):
                    return loss.error
    return None
