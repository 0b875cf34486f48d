"""Finds the messages that a reaction asks for, a bounded number of messages and of bytes a turn, and says at the end
where each of them is. Orders nothing.

What is ordered and not committed yet counts as well: whatever follows from it is a later record of the same log.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from replica.core.ordering.sweep_looks import READ_BYTES_MAX
from replica.core.ordering.travelling import means
from replica.core.selection.filters import Read, fits, ordinal_of
from replica.core.selection.selecting import LOOKS_MAX
from replica.machine import Refused, ranges_of
from replica.machine.sets.ranges import RangeSet
from replica.machine.state.gathering import WholeGroups
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.reaction import Reaction
    from replica.core.selection.selecting import Exact
    from replica.core.state.shared import Shared
    from replica.machine import Part, QueueState
    from replica.machine.sets.pages import Level
    from replica.machine.sets.ranges import Run
    from replica.machine.sets.spans import Spans

RUNS_MAX = 50_000
"""Runs of neighbours that fit one reaction: where each of them is, is asked in one step."""


class Whereabouts(NamedTuple):
    """Where those that fit are at this moment."""

    waiting: list[Run]
    """Ready, delayed or blocked, by rising index: a reaction may act on them."""
    locked: int
    """A consumer has them."""
    dying: int
    """They are on their way to the dead-letter queue."""
    inert: int
    unread: int


class ReactionLooks:
    """Of one domain at one member."""

    def __init__(self, shared: Shared, read: Callable[[int], Stored | None]) -> None:
        """`read`: a record from the store, by log index; None: it is not here, or damaged."""
        self.shared = shared
        self.read = read

    def look(self, reaction: Reaction, queue: QueueState, exact: Exact) -> bool:
        """Whether all of it has been looked at. Refused where it fits too much to be found again in one step."""
        if reaction.unseen is None:
            reaction.unseen = self._to_see(reaction, queue, exact)
            if reaction.unseen is None:
                return False
        self._walk(reaction, queue)
        if reaction.fits.run_count + reaction.inert.run_count > RUNS_MAX:
            text = (
                f"the reaction fits messages of queue {queue.name} in more than {RUNS_MAX} places that do not follow "
                "one another; name fewer"
            )
            raise Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(RUNS_MAX)})
        return not reaction.unseen

    # -- what to look at -------------------------------------------------------------------------------------------

    def _to_see(self, reaction: Reaction, queue: QueueState, exact: Exact) -> list[Run] | None:
        """What may fit, by rising index. None: the index of the queue's ids has to be made first, turn by turn."""
        asked, end = reaction.asked, reaction.bound + 1
        if asked.places is not None:
            return self._named(queue, asked.places, end)
        if asked.correlation_id is None and asked.group_id is None:
            return [(1, end)]
        self._grow(queue, exact)
        if exact.is_too_large:
            return [(1, end)]
        if not exact.is_whole(queue):
            return None
        known = exact.find(queue, asked)
        if known is None:
            return [(1, end)]
        behind = queue.visible_index + 1  # nothing that is not committed is in the index
        runs = ranges_of([index for index in known if index < min(behind, end)])
        return [*runs, (behind, end)] if behind < end else runs

    def _grow(self, queue: QueueState, exact: Exact) -> None:
        size = 0

        def read(log_index: int) -> Read | None:
            nonlocal size
            row = self._messages(log_index)
            size += row.size if row is not None else 0
            return row

        exact.grow(queue, read, LOOKS_MAX, lambda: size >= READ_BYTES_MAX)

    def _named(self, queue: QueueState, places: Iterable[tuple[int, int, int]], end: int) -> list[Run]:
        found: set[int] = set()
        for domain, log_index, ordinal in places:
            index = queue.segments.index_of(log_index, ordinal) if domain == self.shared.domain else None
            changed = queue.versions.find(log_index, ordinal) if queue.versions is not None else None
            found.update(each for each in (index, changed) if each is not None and each < end)
        return ranges_of(sorted(found))

    # -- looking ---------------------------------------------------------------------------------------------------

    def _walk(self, reaction: Reaction, queue: QueueState) -> None:
        """As far as a turn reaches; what is left stays in `unseen`."""
        asked, unseen = reaction.asked, reaction.unseen
        assert unseen is not None
        looks = max(1, LOOKS_MAX // (1 if asked.selector is None else asked.selector.weight))
        size, at, row = 0, 0, None
        for place, (low, high) in enumerate(unseen):
            for part in queue.segments.parts(low, high):
                if part.log_index != at:
                    if size >= READ_BYTES_MAX:
                        unseen[: place + 1] = [(part.start, high)]
                        return
                    row, at = self._messages(part.log_index), part.log_index
                    size += row.size if row is not None else 0
                if looks < part.end - part.start:
                    self._note(reaction, part._replace(end=part.start + looks), row)
                    unseen[: place + 1] = [(part.start + looks, high)]
                    return
                self._note(reaction, part, row)
                looks -= part.end - part.start
        unseen.clear()

    def _note(self, reaction: Reaction, part: Part, row: Read | None) -> None:
        # Only what the ids name is looked at; it may be a later version of it.
        asked, domain = reaction.asked._replace(places=None), self.shared.domain
        for index in range(part.start, part.end):
            if row is None:
                if reaction.asked.places is not None:
                    reaction.unread.add(index, index + 1)
            elif fits(asked, domain, part, index, row) and means(
                reaction.goes_on, reaction.named, row, ordinal_of(part, index)
            ):
                found = reaction.inert if is_inert(row, ordinal_of(part, index)) else reaction.fits
                found.add(index, index + 1)

    def _messages(self, log_index: int) -> Read | None:
        stored = self.read(log_index)
        if stored is None:
            return None
        return Read(EnqueueBatch.FromString(stored.body).messages, stored.time_ms, len(stored.body))


def is_inert(row: Read, ordinal: int) -> bool:
    column = row.messages.inerts
    return bool(column) and column[ordinal if len(column) > 1 else 0]


# -- where they are --------------------------------------------------------------------------------------------------


def where(reaction: Reaction, queue: QueueState) -> Whereabouts:
    """Now. What has left the queue counts nowhere."""
    waiting = _waiting(queue, reaction.fits)
    waiting.sort()
    return Whereabouts(
        waiting,
        _leased(queue, reaction.fits),
        _size(_among(queue.dying, reaction.fits)),
        _held(queue, reaction.inert),
        _held(queue, reaction.unread),
    )


def _waiting(queue: QueueState, wanted: RangeSet) -> list[Run]:
    """Of those, what is ready, blocked or delayed; not by index. Each level is gone through once, not once a run."""
    if not wanted:
        return []
    levels = [level for both in _levels(queue) for level in both if level]  # most are empty, and ask as much
    found = [run for level in levels for run in level.common(wanted)]
    found += _among(queue.delayed, wanted)
    return found


def _levels(queue: QueueState) -> list[tuple[Level, Level]]:
    """Ready and blocked, by rising priority."""
    blocked: Sequence[Level] = [RangeSet()] * len(queue.ready)
    if queue.groups is not None:
        blocked = queue.groups.blocked
    return list(zip(queue.ready, blocked, strict=True))


def _among(spans: Spans, wanted: RangeSet) -> list[Run]:
    return [run for low, high in wanted for run in spans.runs(low, high)] if spans.size else []


def _size(runs: Iterable[Run]) -> int:
    return sum(high - low for low, high in runs)


def _leased(queue: QueueState, wanted: RangeSet) -> int:
    if not wanted:
        return 0
    return sum(wanted.count(start, end) for lease in queue.leases.values() for start, end in lease.ranges)


def _held(queue: QueueState, wanted: RangeSet) -> int:
    return _size(_waiting(queue, wanted)) + _size(_among(queue.dying, wanted)) + _leased(queue, wanted)


def first_of(queue: QueueState, waiting: Sequence[Run]) -> int:
    """V5: the one that would be delivered first; delayed ones after all others, the next one first."""
    wanted = RangeSet(waiting)
    for levels in reversed(_levels(queue)):
        firsts = [run[0] for level in levels for run in islice(level.common(wanted), 1)]
        if firsts:
            return _first_of_group(queue, min(firsts), wanted)
    return min((when_ms, start) for low, high in waiting for start, _, when_ms in queue.delayed.rows(low, high))[1]


def _first_of_group(queue: QueueState, index: int, wanted: RangeSet) -> int:
    """In a queue with group_mode COMPLETE: of its group, who is first by sequence and wanted, and not delayed."""
    if not isinstance(queue.groups, WholeGroups):
        return index
    part = next(iter(queue.segments.parts(index, index + 1)))
    found = queue.groups.by_hash.get(part.group(index))
    if found is None:
        return index
    line = (found.indexes[sequence] for sequence in found.order)
    return next(each for each in line if each in wanted and not any(queue.delayed.runs(each, each + 1)))
