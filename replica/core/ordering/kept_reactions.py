"""Has kept reactions act: on what has just been ordered, and on what comes back, before anybody is given it (V12, V13).
Decides nothing about mastership.

It is asked at the end of each step of the loop, when all that the step has ordered is there and nothing of it has been
sent: the record of a reaction stands directly behind. Where much is to be looked at the rest waits for the next tick,
and consumers wait for the rest. A new master asks about all that waits: its predecessor may have died between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages import copies
from replica.core.ordering.kept_looks import KeptLooks
from replica.core.ordering.kept_rights import KeptRights
from replica.core.ordering.kept_watch import OnlyAsked, QueueWatch, put
from replica.core.ordering.reacting import Reacting
from replica.core.ordering.sweep_looks import READ_BYTES_MAX
from replica.core.selection.selecting import Exact
from replica.machine import Refused
from replica.machine.plan.move import ranges_of
from replica.machine.plan.react import TARGETS_MAX
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.kept_looks import KeptEntry
    from replica.core.ordering.kept_rights import Lacked, May
    from replica.core.ordering.orders import Orders
    from replica.core.ordering.reaction import Reaction
    from replica.core.state.shared import Shared
    from replica.machine import Narrower, QueueState
    from replica.machine.sets.ranges import Run
    from tandemq.peer.v1.record_pb2 import RecordHeader

LOOKS_MAX = 8_000
"""Between two ticks: a message counts once, and once for each kept reaction that has its id, or a selector alone."""
SHARE_MIN = 1_000
"""Of those, at least, at one queue in its turn."""
HITS_MAX = 16
"""Kept reactions that act on one message, one after the other (V12)."""
COPIES_MAX = 500
"""Messages that one record moves or changes; more follow in the next ones."""
REPORTED_MAX = 16
"""Kept reactions that have a record of their own, and a report, for what they are denied at one look. What all others
are denied then is one record: a thousand may fit a message, and none of them ends it.
"""


class Denied(NamedTuple):
    """A kept reaction that has no right to act on what it fits."""

    reaction: Reaction
    targets: Sequence[int]
    lacked: Lacked


class KeptReactions:
    """Of one domain at one member."""

    def __init__(
        self, shared: Shared, orders: Orders, read: Callable[[int], Stored | None], may: May | None = None
    ) -> None:
        """`may`: see ShellPorts."""
        self.shared = shared
        self.orders = orders
        self.rights = KeptRights(orders, may)
        self.looks = KeptLooks(shared, copies.careful(read))
        self.reacting = Reacting(shared, orders, read, lambda _: Exact())
        self.unasked: dict[int, None] = {}
        """Queues with messages that have not been looked at."""
        self._hidden: dict[int, None] = {}
        """Queues of which what has not been looked at is hidden; no record says that it is so no longer."""
        self._watches: dict[int, QueueWatch] = {}
        self._rounds = 0
        self._left = LOOKS_MAX
        """Looks until the next tick."""
        self._hits: dict[tuple[int, int], int] = {}
        """By queue and index, of what reactions have changed or moved and that has not been looked at since."""

    # -- what is there to look at ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """An epoch begins here: what waits may not have been looked at."""
        self._watches.clear()
        self.unasked.clear()
        self._hidden.clear()
        self._hits.clear()
        self.looks.forget()
        self.rights.begin()
        state = self.orders.machine.state
        for queue_id in state.kept:
            queue = state.queues[queue_id]
            watch = self._watches[queue_id] = QueueWatch(queue)
            watch.look_again(queue, 0, queue.next_index)
            self.unasked[queue_id] = None

    def on_ordered(self, header: RecordHeader, queue_ids: Sequence[int]) -> None:
        """A record was ordered, and something is kept for a queue of the domain."""
        state = self.orders.machine.state
        for queue_id in queue_ids:
            if queue_id not in state.kept:
                continue
            queue = state.queues[queue_id]
            watch = self._watches.get(queue_id)
            if watch is None:
                watch = self._watches[queue_id] = QueueWatch(queue)
            else:
                watch.note(queue, header)
            if watch.unseen:
                self.unasked[queue_id] = None

    def on_kept(self, queue_id: int, bound: int) -> None:
        """The last record has kept a reaction, which has looked at all up to there."""
        state = self.orders.machine.state
        queue, store = state.queues[queue_id], state.kept[queue_id]
        if store.kept is not None and len(store.kept) == 1:  # until now nobody has watched
            self._watches[queue_id] = QueueWatch(queue)
            self.looks.forget(store.queue_id)
        watch = self._watches[queue_id]
        watch.look_again(queue, bound + 1, queue.next_index)
        if watch.unseen:
            self.unasked[queue_id] = None

    def past(self, queue_id: int, wanted: Narrower | None) -> Narrower | None:
        """What consumers of that queue may be given."""
        watch = self._watches.get(queue_id)
        if watch is None or not watch.unseen:
            return wanted
        self._rounds += 1
        return OnlyAsked(watch.unseen, wanted, self._rounds)

    # -- looking ---------------------------------------------------------------------------------------------------

    def on_tick(self) -> None:
        """Goes on with what is left."""
        self._left = LOOKS_MAX
        self.unasked.update(self._hidden)
        self._hidden.clear()
        if self.unasked:
            self.ask()

    def ask(self) -> None:
        """About what has not been looked at, as far as it may until the next tick; consumers get what was."""
        if self._left <= 0 or not self.rights.known:
            return
        asked: dict[int, None] = {}
        share = max(LOOKS_MAX // max(1, len(self.unasked)), SHARE_MIN)
        while self.unasked and self._left > 0:
            queue_id = next(iter(self.unasked))
            asked[queue_id] = None
            self._left -= self._ask_queue(queue_id, min(share, self._left))
            if queue_id in self.unasked:  # the others are next: one that is deep is not waited for
                del self.unasked[queue_id]
                self.unasked[queue_id] = None
        if not self.unasked:
            self._hits.clear()
        self.orders.parts.consumers.pump(asked)

    def _ask_queue(self, queue_id: int, looks: int) -> int:
        """Looks that it took. What is left to look at stays in `unasked`."""
        state = self.orders.machine.state
        queue, store, watch = state.queues.get(queue_id), state.kept.get(queue_id), self._watches.get(queue_id)
        if queue is None or store is None or watch is None:
            self._watches.pop(queue_id, None)
            del self.unasked[queue_id]
            return 1
        # What is hidden belongs to a publication, which is whole before anybody sees some of it.
        end = state.stages.seen(queue_id, queue.next_index - 1) + 1
        hits: dict[int, list[int]] = {}
        taken = 0
        while taken < looks and (run := next(watch.unseen.runs(0, end), None)) is not None:
            seen_to, count = self._look(queue, store, run, looks - taken, hits)
            watch.unseen.discard(run[0], seen_to)
            taken += count
        if next(watch.unseen.runs(0, end), None) is None:
            del self.unasked[queue_id]
            if watch.unseen:
                self._hidden[queue_id] = None
        if queue.config.reactions_enabled:
            # Each record that is ordered serves consumers: what later ones act on is kept from them until then.
            held = ranges_of(sorted({index for targets in hits.values() for index in targets}))
            for low, high in held:
                put(watch.unseen, low, high)
            denied: list[Denied] = []
            for index, targets in sorted(hits.items()):
                self._act(queue, store, index, targets, denied)
            self._deny(queue, denied[REPORTED_MAX:])
            for low, high in held:
                watch.unseen.discard(low, high)
        return taken + 1

    def _look(
        self, queue: QueueState, store: QueueState, run: Run, looks: int, hits: dict[int, list[int]]
    ) -> tuple[int, int]:
        """Up to where it looked, and how many looks that were; one message at least."""
        taken, size = 0, 0
        for part in queue.segments.parts(*run):
            if size >= READ_BYTES_MAX:
                return part.start, taken + looks
            row = self.looks.messages(part.log_index)
            size += row.size if row is not None else 0
            upto = min(part.end, part.start + max(looks - taken, 0))
            worth = self.looks.worth(store, part, (part.start, upto), row) if row is not None else ()
            for index in range(part.start, part.end):
                if taken >= looks:
                    return index, taken
                taken += 1
                if row is not None and index in worth and self._hits.get((queue.queue_id, index), 0) < HITS_MAX:
                    among = self.looks.candidates(queue, store, part, index, row)
                    taken += len(among.indexes)
                    for entry in self.looks.fitting(queue, store, part, index, row, among):
                        hits.setdefault(entry.index, []).append(index)
        return run[1], taken + 1

    # -- acting ----------------------------------------------------------------------------------------------------

    def _act(self, queue: QueueState, store: QueueState, index: int, targets: list[int], denied: list[Denied]) -> None:
        """One of those that are kept, on messages that fit it. Those that are gone meanwhile it leaves alone."""
        entry = self.looks.entry(queue, store, index)
        waits = next(store.waiting_in(index, index + 1), None)  # an operator may have taken it out
        if entry is None or waits is None or 0 < entry.expires_at_ms <= self.orders.time_ms:
            return
        reaction = entry.reaction
        if (lacked := self.rights.lacked(reaction, queue)) is not None:
            denied.append(Denied(reaction, targets, lacked))
            if len(denied) <= REPORTED_MAX:
                self._deny(queue, denied[-1:])
            return
        if reaction.first:
            self._act_on(queue, entry, targets)
            return
        most = TARGETS_MAX if not reaction.to and reaction.update is None else COPIES_MAX
        for at in range(0, len(targets), most):
            self._act_on(queue, entry, targets[at : at + most])

    def _act_on(self, queue: QueueState, entry: KeptEntry, targets: list[int]) -> None:
        try:
            header = self.reacting.act_kept(self.rights.reporting(entry.reaction), queue, targets)
        except Refused as refused:
            if refused.reason == Reason.REASON_TXN_TOO_LARGE and len(targets) > 1:
                half = len(targets) // 2
                self._act_on(queue, entry, targets[:half])
                self._act_on(queue, entry, targets[half:])
            return  # it has no place elsewhere, or none for now: it stays as it is
        if header is not None:
            self._note_hits(queue.queue_id, header)

    def _deny(self, queue: QueueState, denied: Sequence[Denied]) -> None:
        """By one record."""
        if denied:
            asked = [(self.rights.reporting(each.reaction), each.targets) for each in denied]
            for each, count in zip(denied, self.reacting.deny_kept(asked, queue), strict=True):
                self.rights.note(queue, each.reaction, each.lacked, count)

    def _note_hits(self, queue_id: int, header: RecordHeader) -> None:
        for op in header.txn.enqueues:
            index = op.first_index
            for part in op.moved_from.ranges:
                for gone in range(part.first, part.first + part.count):
                    self._hits[op.queue_id, index] = self._hits.pop((queue_id, gone), 0) + 1
                    index += 1
