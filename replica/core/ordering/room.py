"""Who waits for room in a full queue at the master: in order of arrival, over both members. Server state, never
replicated; orders nothing itself and looks at no queue that nothing has left.

A place is one call, with the repetitions of it that came meanwhile: they are answered with it. Batches of one producer
keep their order: what follows a batch that waits, waits behind it. Where room is free the head enters, and nobody else
before it (R158). A place whose time is over is executed as if it had not waited; one whose callers have all gone
leaves.

What it costs: a record wakes the head of the queues that it touched, so a settlement is O(1) whatever the
number of waiters.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from replica.machine import Refused
from replica.machine.plan.enqueue import check_may_enqueue
from replica.machine.room import Fit, fit_of
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.state.calls import PendingEnqueue
    from replica.machine import Machine
    from tandemq.peer.v1.record_pb2 import EnqueueOp

WAITERS_MAX = 10_000
"""Of one queue; the next one is refused TOO_MANY_WAITERS."""
WAITING_BYTES_MAX = 256 << 20
"""Of the batches of one domain that wait; beyond it as above."""
JOINED_MAX = 64
"""Repetitions that wait in one place; the oldest leaves, its caller has most likely gone."""
STALE_MAX = 1_000
"""Ends of waits that are kept beyond those of places that still wait."""

Key = tuple[bytes, int]


class Admission(Enum):
    ENTERS = 1
    WAITS = 2
    FULL = 3


@dataclass(slots=True, eq=False)
class WaitingCall:
    """One call that waits, and its repetitions; the longest wait counts."""

    queue_id: int
    key: Key
    calls: list[PendingEnqueue]
    until_ms: int

    @property
    def count(self) -> int:
        return self.calls[0].call.columns.count

    def is_wanted(self) -> bool:
        """Somebody still waits for the answer."""
        return any(pending.waiter is None or not pending.waiter.cancelled for pending in self.calls)


@dataclass(slots=True, eq=False)
class Producing:
    """One producer's batches in a line."""

    batches: int
    following: int
    """The sequence that comes after them."""


@dataclass(slots=True, eq=False)
class Line:
    """The places of one queue, in order of arrival."""

    places: OrderedDict[Key, WaitingCall] = field(default_factory=OrderedDict)
    producing: dict[bytes, Producing] = field(default_factory=dict)


class EnqueueDesk(Protocol):
    """What the waiters need of the orders."""

    now_ms: int

    @property
    def machine(self) -> Machine:
        """The queues' state."""

    def execute_now(self, pending: PendingEnqueue, *, full: bool) -> None:
        """Order a call that does not wait any more. `full`: there is no room for it, whatever there is."""

    def refuse(self, pending: PendingEnqueue, refused: Refused) -> None:
        """Answer a refusal."""


class Room:
    """The waiters of one domain."""

    def __init__(self, desk: EnqueueDesk) -> None:
        self._desk = desk
        self.lines: dict[int, Line] = {}
        """By queue id; none is empty."""
        self.woken: dict[int, bool] = {}
        """Queues that something has left since their head was looked at; True: they may have changed, or be gone."""
        self.bytes = 0
        self._ends: list[tuple[int, int, WaitingCall]] = []
        self._count = 0
        self._numbers = 0

    def __len__(self) -> int:
        """Places in all lines."""
        return self._count

    def waiters(self, queue_id: int) -> int:
        """Places of one queue."""
        line = self.lines.get(queue_id)
        return len(line.places) if line is not None else 0

    # -- arriving --------------------------------------------------------------------------------------------------

    def join(self, pending: PendingEnqueue) -> bool:
        """Whether the call belongs to what waits already: a repetition of it, or what a producer sent behind it."""
        machine = self._desk.machine
        queue_id = machine.queue_id(pending.call.queue)
        line = self.lines.get(queue_id) if queue_id is not None else None
        if queue_id is None or line is None:
            return False
        place = line.places.get(_key(pending))
        if place is not None:
            self._repeat(place, pending)
            return True
        call = pending.call
        producing = line.producing.get(call.client_id) if call.first_sequence else None
        if producing is None or producing.following != call.first_sequence:
            return False
        check_may_enqueue(machine.queue(queue_id), call.member)
        # Without a wait of its own it waits as long as what is before it: alone it would be a gap.
        last = next(place for key, place in reversed(line.places.items()) if key[0] == call.client_id)
        self._add(queue_id, line, pending, max(pending.full_until_ms, last.until_ms))
        return True

    def _repeat(self, place: WaitingCall, pending: PendingEnqueue) -> None:
        if place.calls[0].batch != pending.batch:
            message = "the same identity is under way with other content; use a new one for each call"
            raise Refused(Reason.REASON_REQUEST_MISMATCH, message)
        if pending.waiter is None:  # the peer has one call of a key, and it is this one now
            place.calls = [each for each in place.calls if each.waiter is not None]
        elif len(place.calls) >= JOINED_MAX:
            del place.calls[0]
        place.calls.append(pending)
        place.until_ms = max(place.until_ms, pending.full_until_ms)
        self._note_end(place)

    def admit(self, pending: PendingEnqueue, op: EnqueueOp) -> Admission:
        """What becomes of a call that finds its queue full, or others waiting. Refuses when too many wait."""
        line = self.lines.get(op.queue_id)
        if line is None and not any(refusal.reason == Reason.REASON_QUEUE_FULL for refusal in op.refusals):
            return Admission.ENTERS
        if pending.full_until_ms > self._desk.now_ms:
            fit = fit_of(self._desk.machine.queue(op.queue_id), pending.call.columns)
            if fit is Fit.NEVER:
                return Admission.FULL
            if fit is Fit.NOW and line is None:
                return Admission.ENTERS  # a queue that drops: what found no room there finds none by waiting
            self._add(op.queue_id, line or Line(), pending, pending.full_until_ms)
            return Admission.WAITS
        return Admission.ENTERS if line is None else Admission.FULL

    def _add(self, queue_id: int, line: Line, pending: PendingEnqueue, until_ms: int) -> None:
        size = len(pending.batch)
        if len(line.places) >= WAITERS_MAX:
            message = f"{WAITERS_MAX} calls wait for room in queue {pending.call.queue} already; repeat it later"
            raise Refused(Reason.REASON_TOO_MANY_WAITERS, message, {}, 1000)
        if self.bytes + size > WAITING_BYTES_MAX:
            message = f"calls of {self.bytes} bytes wait for room; the limit is {WAITING_BYTES_MAX}, repeat it later"
            raise Refused(Reason.REASON_TOO_MANY_WAITERS, message, {}, 1000)
        self.lines[queue_id] = line
        place = WaitingCall(queue_id, _key(pending), [pending], until_ms)
        line.places[place.key] = place
        self._count += 1
        self.bytes += size
        call = pending.call
        if call.first_sequence:
            producing = line.producing.setdefault(call.client_id, Producing(0, 0))
            producing.batches += 1
            producing.following = call.first_sequence + call.columns.count
        self._note_end(place)

    def _note_end(self, place: WaitingCall) -> None:
        self._numbers += 1
        heapq.heappush(self._ends, (place.until_ms, self._numbers, place))
        if len(self._ends) > 2 * self._count + STALE_MAX:
            self._ends = [end for end in self._ends if self._is_live(*end)]
            heapq.heapify(self._ends)

    def _is_live(self, until_ms: int, _: int, place: WaitingCall) -> bool:
        line = self.lines.get(place.queue_id)
        return until_ms == place.until_ms and line is not None and line.places.get(place.key) is place

    # -- leaving ---------------------------------------------------------------------------------------------------

    def _take(self, place: WaitingCall) -> bool:
        """The place is over. True: it was the head of its line."""
        line = self.lines[place.queue_id]
        was_head = next(iter(line.places)) == place.key
        del line.places[place.key]
        self._count -= 1
        self.bytes -= len(place.calls[0].batch)
        client_id, first = place.key
        producing = line.producing.get(client_id) if first else None
        if producing is not None:
            producing.batches -= 1
            if producing.following == first + place.count:
                producing.following = first  # the last one: what follows it would have a gap before it
            if not producing.batches:
                del line.producing[client_id]
        if not line.places:
            del self.lines[place.queue_id]
        return was_head

    def leave(self, pending: PendingEnqueue) -> bool:
        """Its caller has gone. False: it waits for no room."""
        place = self._place_of(pending.call.queue, _key(pending))
        if place is None or pending not in place.calls:
            return False
        self._leave(place, pending)
        return True

    def leave_held(self, queue: str, key: Key) -> PendingEnqueue | None:
        """The peer's client has gone: the call that waited for it, if it still did."""
        place = self._place_of(queue, key)
        held = next((each for each in place.calls if each.waiter is None), None) if place is not None else None
        if place is not None and held is not None:
            self._leave(place, held)
        return held

    def _place_of(self, queue: str, key: Key) -> WaitingCall | None:
        queue_id = self._desk.machine.queue_id(queue) if self.lines else None
        line = self.lines.get(queue_id) if queue_id is not None else None
        return line.places.get(key) if line is not None else None

    def _leave(self, place: WaitingCall, pending: PendingEnqueue) -> None:
        if len(place.calls) > 1:
            place.calls.remove(pending)
        elif self._take(place) and place.queue_id in self.lines:
            self.woken.setdefault(place.queue_id, False)

    def forget_peers(self) -> None:
        """The connection is gone: the peer sends again what it still holds, when there is one again."""
        for line in list(self.lines.values()):
            for place in list(line.places.values()):
                for pending in [pending for pending in place.calls if pending.waiter is None]:
                    self._leave(place, pending)

    def take_all(self) -> list[PendingEnqueue]:
        """Everybody, in order of arrival in each queue: this member is not master any more."""
        lines, self.lines = self.lines, {}
        self.woken.clear()
        self._ends.clear()
        self.bytes = self._count = 0
        return [pending for line in lines.values() for place in line.places.values() for pending in place.calls]

    # -- room ------------------------------------------------------------------------------------------------------

    def on_applied(self, queue_ids: Iterable[int], *, changed: bool) -> None:
        """A record has touched queues; `changed`: their attributes or their existence."""
        for queue_id in queue_ids:
            if queue_id in self.lines:
                self.woken[queue_id] = changed or self.woken.get(queue_id, False)

    def serve(self) -> None:
        """Let in who has room now, from the head on."""
        while self.woken:
            queue_id, changed = self.woken.popitem()
            if changed:
                self._release(queue_id)
            self._serve(queue_id)

    def _serve(self, queue_id: int) -> None:
        machine = self._desk.machine
        while (line := self.lines.get(queue_id)) is not None:
            place = next(iter(line.places.values()))
            if not place.is_wanted():
                self._take(place)
                continue
            fit = fit_of(machine.queue(queue_id), place.calls[0].call.columns)
            if fit is Fit.LATER:
                return
            self._take(place)
            self._execute(place, full=fit is Fit.NEVER)

    def _release(self, queue_id: int) -> None:
        """The queue has changed: whoever may not send to it any more is refused now, wherever it stands."""
        line = self.lines.get(queue_id)
        for place in list(line.places.values()) if line is not None else ():
            for pending in list(place.calls):
                try:
                    check_may_enqueue(self._desk.machine.queue(queue_id), pending.call.member)
                except Refused as refused:
                    self._leave(place, pending)
                    self._desk.refuse(pending, refused)

    def expire(self) -> None:
        """Execute what has waited for long enough, as if it had not waited."""
        now_ms = self._desk.now_ms
        while self._ends and self._ends[0][0] <= now_ms:
            end = heapq.heappop(self._ends)
            place = end[2]
            if self._is_live(*end):
                was_head = self._take(place)
                self._execute(place, full=not was_head)
                if was_head and place.queue_id in self.lines:
                    self.woken.setdefault(place.queue_id, False)

    def _execute(self, place: WaitingCall, *, full: bool) -> None:
        for pending in place.calls:  # the first is executed, the others hear the same
            if pending.waiter is None or not pending.waiter.cancelled:
                self._desk.execute_now(pending, full=full)


def _key(pending: PendingEnqueue) -> Key:
    return (pending.call.request_id or pending.call.client_id, pending.call.first_sequence)
