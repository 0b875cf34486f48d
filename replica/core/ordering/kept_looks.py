"""Finds the kept reactions that a message fits: by hashes of its ids, then by what it says. Orders nothing."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages.copies import FIRST_ID, SOURCE, SOURCE_ID
from replica.core.ordering.reaction import Reaction, Used
from replica.core.ordering.reaction_looks import is_inert
from replica.core.ordering.travelling import SourceIds, means, report_place
from replica.core.selection.filters import Read, entry_of, filter_of, fits, ordinal_of, place_of, properties_of
from replica.machine.state.kept import kept_hash, place_name
from tandemq.peer.v1.record_pb2 import (
    KEPT_BY_CORRELATION,
    KEPT_BY_GROUP,
    KEPT_BY_ID,
    KEPT_BY_SELECTOR,
    KeptKey,
)
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.selection.filters import Filter
    from replica.core.state.shared import Shared
    from replica.machine import Part, QueueState
    from replica.machine.sets.ranges import Run
    from replica.machine.state.kept import KeptIndex

KEPT_BY, KEPT_IN = "tq_kept_reaction", "tq_kept_queue"
"""What a message says that a kept reaction has changed: which one, by its index, and in which queue it is kept, by its
number: one that is made anew begins with index 1 again. Those up to there act on it no more.
"""
PRINCIPAL = "tq_principal"
"""What a kept reaction says of whoever has sent it. Nothing: it is of this host, of a manager without certificates, or
of a version that did not write it; then nobody is asked when it acts either.
"""
CACHED_MIN = 1_000
"""Of the kept reactions that were read, those that are remembered in any case."""
CACHED_BYTES_MAX = 64 << 20
"""Of their bodies. Beyond that all are read anew when they are needed."""
Places = frozenset[tuple[int, int, int]]


class Candidates(NamedTuple):
    """What may act on a message."""

    indexes: list[int]
    """Of kept reactions, rising."""
    places: Places
    """Of the message, where some name ids."""


class KeptEntry(NamedTuple):
    """A kept reaction."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    reaction: Reaction
    rest: Filter
    """What it asks for beside ids."""
    expires_at_ms: int


def reaction_of(queue: str, asked: pb.Reaction, source: str = "") -> Reaction:
    """Which no call asks for now. `source`: whose ids it names; empty: they are of here. Raises Refused."""
    found, named = filter_of(asked.target), None
    assert found is not None, "a reaction without a target is not kept"
    if source and found.places is not None:
        found, named = found._replace(places=None), SourceIds(source, frozenset(asked.target.ids))
    report_to, report_as = report_place(asked.report_to)
    return Reaction(
        queue,
        found,
        asked.scope != pb.REACTION_SCOPE_ALL,
        b"",
        0,
        to=asked.move.queue,
        update=asked.update if asked.HasField("update") else None,
        report_to=report_to,
        report_as=report_as,
        correlation_id=asked.correlation_id,
        exceptions=asked.exception_report,
        named=named,
    )


def key_of(reaction: Reaction) -> KeptKey:
    """What a kept reaction is found by: the narrowest of what it asks for."""
    asked, places = reaction.asked, reaction.asked.places
    if reaction.named is not None:
        places = frozenset(map(place_of, reaction.named.ids))
    if places is not None:
        return KeptKey(by=KEPT_BY_ID, hashes=sorted({kept_hash(place_name(*place)) for place in places}))
    if asked.correlation_id is not None:
        return KeptKey(by=KEPT_BY_CORRELATION, hashes=[kept_hash(asked.correlation_id)])
    if asked.group_id is not None:
        return KeptKey(by=KEPT_BY_GROUP, hashes=[kept_hash(asked.group_id)])
    return KeptKey(by=KEPT_BY_SELECTOR)


class KeptLooks:
    """Of one domain at one member."""

    def __init__(self, shared: Shared, read: Callable[[int], Stored | None]) -> None:
        """`read`: a record from the store, by log index; None: it is not here, or damaged."""
        self.shared = shared
        self.read = read
        self._entries: dict[tuple[int, int], KeptEntry | None] = {}
        """By queue and index, those that were needed; None: it cannot be read."""
        self._many = CACHED_MIN
        """With so many it is time to forget those that have ended."""
        self._bytes = 0
        """Of the bodies that were read since all were forgotten."""

    def forget(self, store_id: int = 0) -> None:
        """What is kept in that queue, or in all, may be other reactions now."""
        self._entries = {key: entry for key, entry in self._entries.items() if store_id and key[0] != store_id}

    def messages(self, log_index: int) -> Read | None:
        """The batch of one record."""
        stored = self.read(log_index)
        if stored is None:
            return None
        return Read(EnqueueBatch.FromString(stored.body).messages, stored.time_ms, len(stored.body))

    def entry(self, queue: QueueState, store: QueueState, index: int) -> KeptEntry | None:
        """One that is kept for that queue. None: it is not to be read."""
        key = store.queue_id, index
        if key not in self._entries:
            if len(self._entries) >= self._many:
                self._forget_ended()
            self._entries[key] = self._read_entry(queue.name, store, index)
        return self._entries[key]

    def _forget_ended(self) -> None:
        """Those that are used up, or over, are never asked for again."""
        assert self.shared.machine is not None, "it serves"
        queues = self.shared.machine.state.queues
        self._entries = {
            key: entry
            for key, entry in self._entries.items()
            if key[0] in queues and (kept := queues[key[0]].kept) is not None and key[1] in kept
        }
        self._many = 2 * len(self._entries) + CACHED_MIN

    def _count(self, size: int) -> None:
        if self._bytes + size > CACHED_BYTES_MAX:
            self._entries.clear()
            self._bytes = 0
        self._bytes += size

    def _read_entry(self, queue: str, store: QueueState, index: int) -> KeptEntry | None:
        for part in store.segments.parts(index, index + 1):
            row = self.messages(part.log_index)
            if row is not None:
                body = row.messages.payloads[ordinal_of(part, index)]
                self._count(len(body))
                asked = pb.Reaction.FromString(body)
                said = properties_of(row, ordinal_of(part, index))
                reaction = reaction_of(queue, asked, said[SOURCE].text if SOURCE in said else "")
                reaction.used = Used(store.queue_id, index)
                reaction.principal = said[PRINCIPAL].text if PRINCIPAL in said else ""
                return KeptEntry(index, reaction, reaction.asked._replace(places=None), part.expiry(index))
        return None

    def worth(self, store: QueueState, part: Part, run: Run, row: Read) -> Collection[int]:
        """Of a run of the part: those for which `candidates` may find any. Column by column: with nothing but ids to be
        found by, most messages fit none of many reactions, and to ask for each alone costs five times as much.
        """
        kept, whole = store.kept, range(*run)
        if kept is None:
            return ()
        if kept.selectors or row.messages.properties:
            return whole  # they may fit any; and what has or had another id, as a later version has, says so there
        ordinals, found = [ordinal_of(part, index) for index in whole], set[int]()
        if kept.has(KEPT_BY_ID):
            domain, log_index = self.shared.domain, part.log_index
            names = [place_name(domain, log_index, ordinal) for ordinal in ordinals]
            found.update(compress(whole, kept.known(KEPT_BY_ID, names)))
        for by, column in _columns(row):
            if not kept.has(by):
                continue
            if len(column) <= 1:
                if kept.find(by, entry_of(column, 0)):
                    return whole
                continue
            found.update(compress(whole, kept.known(by, [column[ordinal] for ordinal in ordinals])))
        return found

    def candidates(self, queue: QueueState, store: QueueState, part: Part, index: int, row: Read) -> Candidates:
        """Those that may act on that message, whether or not their time is over."""
        ordinal = ordinal_of(part, index)
        kept = store.kept
        if kept is None or is_inert(row, ordinal):
            return Candidates([], frozenset())
        places = self._places(queue, part, index, row, ordinal) if kept.has(KEPT_BY_ID) else frozenset()
        found = sorted({*kept.selectors, *_by_ids(kept, places, row, ordinal)})
        after = _seen_to(row, ordinal, store.queue_id) if found else 0
        return Candidates([each for each in found if each > after and not kept.is_denied(each, index)], places)

    def fitting(
        self, queue: QueueState, store: QueueState, part: Part, index: int, row: Read, among: Candidates
    ) -> Iterator[KeptEntry]:
        """Those of them that act on that message, the oldest first; each is one look."""
        for each in among.indexes:
            entry = self.entry(queue, store, each)
            if entry is None:
                continue
            named, ordinal = entry.reaction.asked.places, ordinal_of(part, index)
            if (
                (named is None or named & among.places)
                and means(None, entry.reaction.named, row, ordinal)
                and fits(entry.rest, self.shared.domain, part, index, row)
            ):
                yield entry

    def _places(self, queue: QueueState, part: Part, index: int, row: Read, ordinal: int) -> Places:
        """V3: of all ids that the message has or had."""
        domain = self.shared.domain
        found = {(domain, part.log_index, ordinal)}
        if queue.versions is not None:
            found.update((domain, *place) for place in queue.versions.places(index))
        properties = properties_of(row, ordinal)
        for name in (FIRST_ID, SOURCE_ID):
            if name in properties and len(data := properties[name].data) == 16:
                found.add(place_of(data))
        return frozenset(found)


def _by_ids(kept: KeptIndex, places: Places, row: Read, ordinal: int) -> Iterator[int]:
    for place in places:
        yield from kept.find(KEPT_BY_ID, place_name(*place))
    for by, column in _columns(row):
        if kept.has(by):
            yield from kept.find(by, entry_of(column, ordinal))


def _columns(row: Read) -> tuple[tuple[int, Sequence[str]], ...]:
    return (
        (KEPT_BY_CORRELATION, row.messages.correlation_ids),
        (KEPT_BY_GROUP, row.messages.group_ids),
    )


def _seen_to(row: Read, ordinal: int, store_id: int) -> int:
    properties = properties_of(row, ordinal)
    if KEPT_IN in properties and KEPT_BY in properties and properties[KEPT_IN].integer == store_id:
        return properties[KEPT_BY].integer
    return 0
