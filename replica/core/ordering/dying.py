"""Brings dying messages of one domain to their dead-letter queues: reads their bodies, orders the moves. Never decides
which messages die.

A move is one record: a message is in one of the two queues, whatever stops this member when. What cannot go stays
where it is, dying: nobody gets it, nothing of it is lost, and it goes as soon as it can. It belongs to the serving
master alone and remembers nothing that matters: a new master begins where the state stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.ordering.enqueued import is_all_volatile
from replica.core.state.effects import Note
from replica.machine import MoveCall, QueueCall, Refused, columns_of
from replica.machine.plan.dead_letters import HOPS_MAX, dead_letter_config
from replica.machine.plan.move import check_copy, dying_of, fits_in, plan_move, room_for_moved
from replica.machine.plan.queue import plan_queue
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import FINAL_STATE_DEAD_LETTERED, EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.desk import Desk
    from replica.core.state.shared import Shared
    from replica.machine.plan.move import DyingRows, QueueRoom
    from tandemq.peer.v1.record_pb2 import RecordHeader
    from tandemq.v1.message_pb2 import Message

MOVE_MESSAGES_MAX = 500
MOVE_BYTES_MAX = 1 << 20
"""Of one record, and of one look: a storm of dead letters shares the loop with everything else."""
AGAIN_MS = 1_000
"""Before another try, where a queue's dead letters cannot go."""


class Dying:
    """One domain at one member."""

    def __init__(self, shared: Shared, orders: Desk, read: Callable[[int], Stored | None]) -> None:
        self.shared = shared
        self.orders = orders
        self.read = read
        """A record from the store, by log index."""
        self.held_back: dict[int, str] = {}
        """Queues whose dead letters cannot go, and why."""
        self._reported: dict[int, set[str]] = {}
        """What was said of them: once each."""
        self._again_ms: dict[int, int] = {}
        self._from: dict[int, int] = {}
        """Index from which a queue is looked at: before it stand messages that cannot go."""

    def look(self, now_ms: int) -> None:
        """Time passes, at the serving master."""
        for queue_id in tuple(self.orders.machine.state.dying):
            if now_ms >= self._again_ms.get(queue_id, 0):
                moved = False
                try:
                    moved = self._move_some(queue_id)
                except Refused as refused:
                    self._hold_back(queue_id, refused.message)
                if queue_id in self.held_back and not moved:  # what can go does not wait for what cannot
                    self._again_ms[queue_id] = now_ms + AGAIN_MS
        if self.held_back:
            gone = self.held_back.keys() - self.orders.machine.state.dying.keys()
            for queue_id in gone:
                self._forget(queue_id)

    def _forget(self, queue_id: int) -> None:
        self.held_back.pop(queue_id, None)
        self._reported.pop(queue_id, None)
        self._again_ms.pop(queue_id, None)
        self._from.pop(queue_id, None)

    def _hold_back(self, queue_id: int, why: str) -> None:
        self.held_back[queue_id] = why
        reported = self._reported.setdefault(queue_id, set())
        if why in reported:  # some may wait for one thing, some for another, and each round meets both
            return
        reported.add(why)
        queue = self.orders.machine.queue(queue_id)
        text = f"queue {queue.name}: {queue.dying.size} dead letters wait: {why}"
        facts = {"queue": queue.name, "waiting": str(queue.dying.size), "why": why}
        self.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def _move_some(self, queue_id: int) -> bool:
        """Whether any went: then the next look is at once."""
        machine = self.orders.machine
        dying = dying_of(machine.state, queue_id, self._from.get(queue_id, 0), MOVE_MESSAGES_MAX)
        if not dying.rows:  # looked at to the end, and some stayed
            self._from.pop(queue_id, None)
            return False
        if not dying.to:
            self._hold_back(queue_id, "it has no dead-letter queue any more; name one, or remove them")
            return False
        self._make(queue_id, dying)
        indexes, letters, following, why = self._letters(queue_id, dying, room_for_moved(machine.state, dying.to))
        moved = self._move(queue_id, dying.to, indexes, letters) if letters else 0
        if following and moved == len(letters):
            self._from[queue_id] = following
        if why:
            self._hold_back(queue_id, why)
        elif letters and not self._from.get(queue_id):
            self._forget(queue_id)
        return bool(moved)

    def _make(self, queue_id: int, dying: DyingRows) -> None:
        machine = self.orders.machine
        if dying.made or not dying.makes:
            return
        source = machine.queue(queue_id)
        members = sorted(source.members)
        config = dead_letter_config(source.config)
        call = QueueCall(
            QueueAction.QUEUE_ACTION_CREATE, dying.to, config=config, members=members, open_members=members
        )
        self.orders.order(plan_queue(machine.state, machine.member_names, self.orders.time_ms, call))

    def _letters(self, queue_id: int, dying: DyingRows, room: QueueRoom) -> tuple[list[int], list[Message], int, str]:
        """Indexes and copies of those that can go now, the index behind the last that never can, why others stay."""
        machine = self.orders.machine
        queue = machine.queue(queue_id)
        ranges = [IndexRange(first=start, count=end - start) for start, end, _ in dying.rows]
        slices = machine.segments_of(queue_id, ranges, delivered=False)
        reasons = {index: number for start, end, number in dying.rows for index in range(start, end)}
        indexes: list[int] = []
        letters: list[Message] = []
        why, following, size, payload_bytes = "", 0, 0, 0
        for found in copies.stored_messages(self.shared.domain, slices, copies.careful(self.read)):
            problem = self._problem(found, dying.to)
            if problem:
                why = problem
                following = found.index + 1
                size += len(found.message.payload) if found.message is not None else 0
                if size > MOVE_BYTES_MAX:
                    break
                continue
            number = reasons[found.index]
            reason = dying.reasons[number - 1] if number else None
            marked = found.message is not None and found.message.persistent
            volatile = queue.copy_is_volatile(found.index, marked=marked)
            letter = copies.dead_letter(found, dying.queue, reason, volatile=volatile)
            size += letter.ByteSize()
            payload_bytes += len(letter.payload)
            if letters and size > MOVE_BYTES_MAX:
                break
            if len(letters) >= room.messages or payload_bytes > room.payload_bytes:
                # Those behind it wait too, a small one for which there is room as well: dead letters stay in their
                # order, and a large one would never find the room that small ones take.
                if not letters:
                    why = f"queue {dying.to} is full"
                break
            indexes.append(found.index)
            letters.append(letter)
        return indexes, letters, following, why

    def _move(self, queue_id: int, to: str, indexes: list[int], letters: list[Message]) -> int:
        """As many as find room; says how many."""
        orders = self.orders
        body = copies.body_of(to, letters)
        columns = columns_of(EnqueueBatch.FromString(body))
        fitting = fits_in(orders.machine.state, to, columns)
        if not fitting:
            text = f"queue {to} is full, and what is leased or delayed there cannot be dropped"
            raise Refused(Reason.REASON_QUEUE_FULL, text)
        if fitting < len(letters):
            return self._move(queue_id, to, indexes[:fitting], letters[:fitting])
        call = MoveCall(queue_id, to, indexes, columns, FINAL_STATE_DEAD_LETTERED)
        header = plan_move(orders.machine.state, orders.time_ms, call)
        move(orders, header, body)
        return len(letters)

    def _problem(self, found: copies.FoundMessage, to: str) -> str:
        """Why a message can never go there; it is held back by itself."""
        if found.message is None:
            return "the bodies of some cannot be read"
        if copies.hops_of(found.message) >= HOPS_MAX:
            reason = Reason.Name(Reason.REASON_LOOP_LIMIT).removeprefix("REASON_")
            return f"{reason}: some were moved {HOPS_MAX} times already; move or remove them by hand"
        try:
            check_copy(self.orders.machine.state, to, len(found.message.payload), found.message.reply_to)
        except Refused as refused:
            return f"some cannot go: {refused.message}"
        return ""


def move(orders: Desk, header: RecordHeader, body: bytes) -> int:
    """Order a planned move; refused, with nothing done, where its bodies cannot be held."""
    op = header.enqueue
    all_volatile = is_all_volatile(op)
    orders.check_space(len(body), all_volatile=all_volatile)
    orders.room_bytes -= len(body)
    log_index = orders.order(header, body, volatile_body=all_volatile)
    orders.parts.consumers.pump([op.queue_id])
    return log_index
