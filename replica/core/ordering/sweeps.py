"""Carries out the calls of administrators that go through a queue: moves, redrives and removals, a bounded number of
messages a turn. Decides nothing about mastership, and waits for nothing.

Every record of a sweep is a request of its own, named after the call and the record's number. So whoever is master when
the call is repeated finds in the state what was done, goes on behind it, and ends the call with one record that holds
the totals: that record is the answer from then on. The first record says up to which index the call looks, so that what
comes back to the queue meanwhile, or arrives there, is not touched. That is all that was ordered when the call began;
it looks there as soon as that is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.ordering.dying import MOVE_BYTES_MAX, MOVE_MESSAGES_MAX, move
from replica.core.ordering.sweep import Sweep, Verb
from replica.core.ordering.sweep_looks import Looks
from replica.core.state.outcomes import Failed, Moved, SweepDone
from replica.machine import MoveCall, Refused, RemoveCall, columns_of, ranges_of
from replica.machine.plan.dropping import leaving_of
from replica.machine.plan.move import check_copy, plan_move, plan_remove, room_for_moved
from replica.machine.plan.owners import check_coming, check_moved
from tandemq.over_quota import QUOTA
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED, EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.orders import Orders
    from replica.core.ordering.origins import Origins
    from replica.core.state.calls import Waiter
    from replica.core.state.shared import Shared
    from replica.machine import QueueState
    from replica.machine.plan.move import QueueRoom
    from replica.machine.sets.ranges import Run
    from tandemq.v1.message_pb2 import Message

REMOVED_MAX = 10_000
"""Messages of one record that removes: it holds no bodies."""
FORGOTTEN_MAX = 1_000
"""Records of a call whose first one is forgotten that are looked for when it begins."""
_FORGOTTEN = (
    "an earlier attempt of this call is so long ago that only a part of it is remembered; look at what is in the queue "
    "now, and make the call again under a new request id"
)
_NO_ORIGIN = "they are no dead letters (no tq_origin_queue): say which queue they are to go to"


@dataclass(slots=True)
class _Piece:
    """What goes to one queue in one record."""

    room: QueueRoom
    indexes: list[int] = field(default_factory=list)
    letters: list[Message] = field(default_factory=list)
    payload_bytes: int = 0

    def takes(self, message: Message) -> bool:
        """There is room for a copy of it."""
        size = self.payload_bytes + len(message.payload)
        return len(self.letters) < self.room.messages and size <= self.room.payload_bytes

    def add(self, index: int, letter: Message) -> None:
        self.indexes.append(index)
        self.letters.append(letter)
        self.payload_bytes += len(letter.payload)


class Sweeps:
    """Of one domain at one member."""

    def __init__(
        self, shared: Shared, orders: Orders, read: Callable[[int], Stored | None], origins: Origins | None = None
    ) -> None:
        """`read`: a record from the store, by log index. `origins`: None, where nobody is asked who he is."""
        self.origins = origins
        self.shared = shared
        self.orders = orders
        self.read = copies.careful(read)
        self.looks = Looks(shared, orders, self.read)

    def turn(self, sweep: Sweep, waiter: Waiter, now_ms: int) -> bool:
        """A bounded look, and the records that follow from it; whether the call is over. The waiter hears of the turn
        when all of it is committed.
        """
        orders = self.orders
        orders.now_ms = now_ms
        if sweep.epoch not in (0, self.shared.state.epoch) or not orders.shared.serving or self.shared.draining:
            orders.reply(waiter, Moved("the mastership moved while the call was under way; repeat it"))
            return True
        try:
            done = self._turn(sweep) if sweep.epoch else self._begin(sweep)
        except Refused as refused:
            so_far = f"after {sweep.done} messages were {sweep.verb.value}: " if sweep.done else ""
            text = f"{so_far}{refused.message}"
            orders.reply(waiter, Failed(refused.reason, text, dict(refused.metadata), refused.retry_after_ms))
            return True
        last = self.shared.log.last_index
        orders.when_committed(last, lambda: orders.reply(waiter, done), orders.moved(waiter))
        return done.over

    # -- beginning and end -----------------------------------------------------------------------------------------

    def _begin(self, sweep: Sweep) -> SweepDone:
        machine = self.orders.machine
        found = machine.find_request(sweep.request_id, sweep.request_hash)
        if found is not None:
            return SweepDone(True, found.removed, found.leased, tuple(found.behind), duplicate=True)
        queue_id = machine.queue_id(sweep.queue)
        if queue_id is None:
            raise machine.state.missing(sweep.queue)
        queue = machine.queue(queue_id)
        began = machine.find_request(sweep.identity(0), sweep.request_hash)
        if began is None:
            self._check_new(sweep)
            if sweep.to:
                self._room(queue, sweep.to)
            sweep.bound = queue.next_index - 1  # what is ordered is in the queue, for everybody who asks how long it is
        else:
            sweep.records, sweep.bound, queue_id = 1, began.removed, began.queue_id
            while (earlier := machine.find_request(sweep.identity(sweep.records), sweep.request_hash)) is not None:
                sweep.done += earlier.count or earlier.removed
                sweep.records += 1
        sweep.queue_id, sweep.epoch = queue_id, self.shared.state.epoch
        return SweepDone(False)

    def _check_new(self, sweep: Sweep) -> None:
        """Records are forgotten in their order: without the first one nobody knows the bound and the count any more."""
        find = self.orders.machine.find_request
        if any(find(sweep.identity(number), sweep.request_hash) for number in range(1, FORGOTTEN_MAX)):
            raise Refused(Reason.REASON_DEDUP_EXPIRED, _FORGOTTEN)

    def _end(self, sweep: Sweep) -> SweepDone:
        behind = tuple(sweep.behind.values())
        call = RemoveCall(
            sweep.queue_id,
            (),
            sweep.done,
            sum(each.count for each in behind),
            sweep.request_id,
            sweep.request_hash,
            sweep.leased,
            behind,
        )
        self.orders.order(plan_remove(self.orders.machine.state, self.orders.time_ms, call))
        return SweepDone(True, sweep.done, sweep.leased, behind)

    def _name(self, sweep: Sweep) -> bytes:
        """The identity of the next record; the one that begins the call is ordered before the first of them."""
        if not sweep.records:
            call = RemoveCall(
                sweep.queue_id, total=sweep.bound, request_id=sweep.identity(0), request_hash=sweep.request_hash
            )
            self.orders.order(plan_remove(self.orders.machine.state, self.orders.time_ms, call))
            sweep.records = 1
        name = sweep.identity(sweep.records)
        if self.orders.machine.find_request(name, sweep.request_hash) is not None:
            raise Refused(Reason.REASON_DEDUP_EXPIRED, _FORGOTTEN)
        return name

    # -- a turn ----------------------------------------------------------------------------------------------------

    def _turn(self, sweep: Sweep) -> SweepDone:
        found = self.orders.machine.find_request(sweep.request_id, sweep.request_hash)
        if found is not None:  # another call took its id meanwhile, which is refused, or has ended it
            return SweepDone(True, found.removed, found.leased, tuple(found.behind), duplicate=True)
        queue = self.orders.machine.queue(sweep.queue_id)
        if queue.visible_index < sweep.bound:  # nobody looks at what is not committed: the first turn tells when it is
            return SweepDone(False)
        fitting, following = self.looks.look(sweep, queue)
        most = min(sweep.rest, REMOVED_MAX if sweep.verb is Verb.REMOVE else MOVE_MESSAGES_MAX)
        free, stopped = _first(most, (run for low, high in fitting for run in sorted(queue.unleased_in(low, high))))
        if stopped:
            following = stopped
        if free and sweep.verb is Verb.REMOVE:
            self._remove(sweep, free)
        elif free:
            following = self._move(sweep, queue, free, following)
        # Leased ones among what was dealt with; the free ones of it are counted as it was before they went.
        seen = sum(min(high, following) - low for low, high in fitting if low < following)
        sweep.leased += seen - sum(min(high, following) - low for low, high in free if low < following)
        sweep.at = following
        if sweep.at > sweep.bound or not sweep.rest:
            return self._end(sweep)
        return SweepDone(False)

    def _remove(self, sweep: Sweep, free: Sequence[Run]) -> None:
        indexes = [index for low, high in free for index in range(low, high)]
        name = self._name(sweep)
        call = RemoveCall(sweep.queue_id, indexes, len(indexes), 0, name, sweep.request_hash)
        self.orders.order(plan_remove(self.orders.machine.state, self.orders.time_ms, call))
        sweep.records += 1
        sweep.done += len(indexes)

    # -- moving ----------------------------------------------------------------------------------------------------

    def _room(self, queue: QueueState, to: str) -> QueueRoom:
        """What the other queue takes at once; Refused when it takes nothing."""
        machine = self.orders.machine
        room = room_for_moved(machine.state, to, drops=False)
        if machine.queue_id(to) == queue.queue_id:
            raise Refused(Reason.REASON_BAD_REQUEST, f"queue {queue.name} is where the messages are already")
        return room

    def _move(self, sweep: Sweep, queue: QueueState, free: Sequence[Run], following: int) -> int:
        """Orders the moves of one turn; returns the index behind what it has dealt with."""
        if sweep.to in sweep.blocked:  # counted, and not read
            why = sweep.blocked[sweep.to]
            sweep.stays(sum(high - low for low, high in free), sweep.to, why.reason, why.message)
            return following
        ranges = [IndexRange(first=low, count=high - low) for low, high in free]
        slices = self.orders.machine.segments_of(queue.queue_id, ranges, delivered=False)
        pieces: dict[str, _Piece] = {}
        size = 0
        for found in copies.stored_messages(self.shared.domain, slices, self.read):
            more = found.message.ByteSize() if found.message is not None else 0
            if size and size + more > MOVE_BYTES_MAX:
                following = found.index
                break
            size += more  # also of one that stays: it was read
            self._add(sweep, queue, found, pieces)
        for to, piece in pieces.items():
            self._order(sweep, queue, to, piece)
        return following

    def _add(self, sweep: Sweep, queue: QueueState, found: copies.FoundMessage, pieces: dict[str, _Piece]) -> None:
        """One message into the record of where it goes; or it stays."""
        if found.message is None:
            sweep.stays(1, "", Reason.REASON_MESSAGE_NOT_FOUND, "their bodies cannot be read")
            return
        to = sweep.to or copies.origin_of(found.message)
        if not to:
            sweep.stays(1, "", Reason.REASON_QUEUE_NOT_FOUND, _NO_ORIGIN)
            return
        if not sweep.to and self.origins is not None and (behind := self.origins.closed(sweep.who, to)) is not None:
            sweep.stays(1, behind.queue, behind.reason, behind.message)
            return
        if to not in sweep.blocked:
            try:
                piece = pieces.get(to) or pieces.setdefault(to, _Piece(self._room(queue, to)))
            except Refused as refused:
                sweep.blocked[to] = refused
            else:
                try:
                    check_copy(self.orders.machine.state, to, len(found.message.payload), found.message.reply_to)
                except Refused as refused:  # of this one: those behind it may go
                    sweep.stays(1, to, refused.reason, refused.message)
                    return
                sweep.blocked.update(self._full(queue, to, piece, found.message))
                if to not in sweep.blocked:
                    volatile = queue.copy_is_volatile(found.index, marked=found.message.persistent)
                    make = copies.redriven if sweep.verb is Verb.REDRIVE else copies.copy_of
                    piece.add(found.index, make(found.message, volatile=volatile))
                    return
        why = sweep.blocked[to]
        sweep.stays(1, to, why.reason, why.message)

    def _full(self, queue: QueueState, to: str, piece: _Piece, message: Message) -> dict[str, Refused]:
        """Why that queue takes nothing more, by its name; empty: it takes this one."""
        if not piece.takes(message):
            return {to: Refused(Reason.REASON_QUEUE_FULL, f"queue {to} is full")}
        state = self.orders.machine.state
        try:
            check_coming(state, state.named(to), queue, len(message.payload), piece.payload_bytes)
        except Refused as refused:
            self._count(refused)
            return {to: refused}
        return {}

    def _count(self, refused: Refused) -> None:
        """Of a quota: what stays is said in the answer of the call, which is no refusal."""
        if (kind := refused.metadata.get(QUOTA)) is not None:
            self.orders.machine.state.limits.kept_quotas.note_refusal(kind)

    def _order(self, sweep: Sweep, queue: QueueState, to: str, piece: _Piece) -> None:
        if not piece.letters:
            return
        orders, name = self.orders, self._name(sweep)
        body = copies.body_of(to, piece.letters)
        columns = columns_of(EnqueueBatch.FromString(body))
        ends, begins = ([], []) if sweep.verb is Verb.REDRIVE else times_of(queue, piece.indexes)
        call = MoveCall(
            sweep.queue_id, to, piece.indexes, columns, FINAL_STATE_PURGED, ends, begins, name, sweep.request_hash
        )
        state = orders.machine.state
        try:
            header = plan_move(state, orders.time_ms, call)
            if state.owners.by_name:
                check_moved(state, header.enqueue, queue, leaving_of(queue, ranges_of(piece.indexes)))
            move(orders, header, body)
        except Refused as refused:
            self._count(refused)
            sweep.blocked[to] = refused
            sweep.stays(len(piece.indexes), to, refused.reason, refused.message)
            return
        sweep.records += 1
        sweep.done += len(piece.indexes)


def _first(most: int, runs: Iterable[Run]) -> tuple[list[Run], int]:
    """So many of them, and the index of the first one that is left; 0: none is."""
    taken: list[Run] = []
    for low, high in runs:
        if not most:
            return taken, low
        end = min(high, low + most)
        taken.append((low, end))
        most -= end - low
        if end < high:
            return taken, end
    return taken, 0


def times_of(queue: QueueState, indexes: Sequence[int]) -> tuple[list[int], list[int]]:
    """When each expires and when it is delivered; 0: never, at once."""
    ends: list[int] = []
    begins: list[int] = []
    for low, high in ranges_of(indexes):
        at = len(ends) - low
        ends += [0] * (high - low)
        begins += [0] * (high - low)
        for when, start, end in queue.timed_runs(low, high):
            ends[start + at : end + at] = [when] * (end - start)
        for start, end, when in queue.delayed.rows(low, high):
            begins[start + at : end + at] = [when] * (end - start)
    return ends, begins
