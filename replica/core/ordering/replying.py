"""Orders answers to requests at the master: settling and answering are one record. Never looks into an answer, but to
copy it to the queue that its request named (reply_to).

That an answer is owed to a queue is said by the record that answers; the copy is a record of its own behind it, made at
once where the queue takes it. What it does not take waits, known to every master, and is tried again until the answer
itself is kept no longer. So each answer is copied once whoever dies when, and a copy never holds an answer up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.messages.bodies import answer_in
from replica.core.ordering.divergences import Between
from replica.core.ordering.dying import AGAIN_MS, MOVE_BYTES_MAX, MOVE_MESSAGES_MAX, move
from replica.core.state.effects import Note
from replica.core.state.outcomes import Moved, ReplyDone
from replica.machine import CopyCall, Refused, columns_of, handle_of
from replica.machine.plan.copies import plan_copies
from replica.machine.plan.move import check_copy, fits_in, room_in
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.reply_copies import answer_log_index, is_addressed, owed_of
from replica.machine.plan.settle_macro import at_member
from replica.machine.plan.side_reply import differing, digest_of, plan_side_reply
from replica.machine.plan.sides import check_plain
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import SendReply, Waiter
    from replica.machine import QueueState
    from replica.machine.plan.move import QueueRoom
    from tandemq.peer.v1.record_pb2 import RecordHeader, ReplyOp
    from tandemq.v1.message_pb2 import Message

REPLY_OF = "tq_reply_of"
"""Property of a copy: the handle of the request."""


NAMES_MAX = 100
"""Queues owed to that one look tries: clients name as many as they like, and some are not there."""


class _Waiting:
    """Copies that one queue owes to another, and that are not made yet."""

    def __init__(self, owed: Mapping[int, str]) -> None:
        self.count = len(owed)
        self.again_ms = 0
        """When all of them are tried again."""
        self.why = ""
        """The queue takes none."""
        self.why_left = ""
        """Some of them cannot go, whatever becomes of the queue."""
        self.refused = False
        self.rest: list[int] = []
        """Requests whose answers are to be tried, the last one first."""
        self.left = 0
        """Of those that were tried, how many cannot go."""

    def begin(self, owed: Mapping[int, str]) -> None:
        """Try all of them."""
        self.refused = False
        self.rest = sorted(owed, reverse=True)
        self.left = 0


class Replying:
    """One domain at one member."""

    def __init__(self, orders: Desk, read: Callable[[int], Stored | None]) -> None:
        self.orders = orders
        self.read = read
        """A record from the store, by log index."""
        self.waiting: dict[tuple[int, str], _Waiting] = {}
        """By queue of the requests, and the one that they named."""
        self._round: list[tuple[int, str]] = []
        """Those that are to be looked at before any of them is looked at again."""
        self._messages_left, self._bytes_left = MOVE_MESSAGES_MAX, MOVE_BYTES_MAX
        self._now_ms = self._report_ms = 0
        self._unreported: dict[int, dict[str, str]] = {}
        self._given_up: dict[str, tuple[int, str]] = {}
        self._asked: copies.Asked | None = None
        """The record whose requests were answered last."""

    # -- answers ---------------------------------------------------------------------------------------------------

    def order(self, waiter: Waiter, answer: SendReply) -> None:
        """Order it, or find that it is a repetition; Refused with nothing done."""
        call, body = answer
        orders, machine = self.orders, self.orders.machine
        found = machine.find_request(call.request_id, call.request_hash) if call.request_id else None
        header = None
        if found is None:
            call = at_member(machine.state, call)
            queue = machine.state.named(call.queue)
            is_sided = queue.passed is not None
            header = self._of_a_side(queue, answer) if is_sided else plan_reply(machine.state, orders.time_ms, call)
        if header is not None:
            if orders.is_full or orders.room_bytes < len(body):
                orders.is_full = True
                message = "the store has reached its enqueue limit, and an answer takes room; consume, or reject it"
                raise Refused(Reason.REASON_STORAGE_FULL, message, {}, 1000)
            queue_id = header.reply.queue_id
            self.address(header.reply)
            orders.room_bytes -= len(body)
            orders.order(header, body)
            orders.parts.consumers.pump([queue_id])
            self.on_ordered(header.reply)
        done = ReplyDone(duplicate=header is None)
        # Waited for by a repetition too: what it repeats may be ordered and not committed yet.
        orders.when_committed(
            orders.shared.log.last_index,
            lambda: orders.reply(waiter, done),
            lambda: orders.reply(waiter, Moved("the mastership moved while the call was under way; repeat it")),
        )

    def _of_a_side(self, queue: QueueState, answer: SendReply) -> RecordHeader | None:
        """K11: an operator hears of two answers that differ, once a queue and mastership."""
        orders, digest = self.orders, digest_of(answer.body)
        two = differing(queue, answer.call.index, digest)
        if two is not None and orders.divergences.add(Between.ANSWERS, queue.name):
            text = (
                f"request {answer.call.index} of queue {queue.name} was answered twice, and not alike: "
                f"{two.second:08x}, and the first answer was {two.first:08x}; the first one counts, and no more is "
                "said of this queue while this member serves"
            )
            facts = {
                "queue": queue.name,
                "index": str(answer.call.index),
                "digest": f"{two.second:08x}",
                "first_digest": f"{two.first:08x}",
            }
            orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_DIVERGENCE, text, facts))
        return plan_side_reply(orders.machine.state, orders.time_ms, queue, answer.call, digest)

    def address(self, op: ReplyOp) -> None:
        """What the request says of the copy goes into the record: its body is not kept."""
        machine = self.orders.machine
        if not is_addressed(machine.queue(op.queue_id), op.index):
            return
        log_index, ordinal = machine.locate(op.queue_id, op.index)
        asked = self._asked
        if asked is None or asked.log_index != log_index:
            stored = copies.careful(self.read)(log_index)
            if stored is None:
                name = machine.queue(op.queue_id).name
                text = f"queue {name}: the body of request {op.index} is gone, and with it where its answer is to go"
                self._note(text)
                return
            asked = self._asked = copies.asked_by(log_index, stored)
        op.reply_to = asked.reply_to(ordinal)
        handle = handle_of(machine.handle_prefix(op.queue_id), op.index)
        op.correlation_id = asked.correlation_id(ordinal) or handle.hex()

    def on_ordered(self, op: ReplyOp) -> None:
        """The record is in the log: a copy may be owed."""
        if op.reply_to:
            self._one_more(op.queue_id, op.reply_to, op.index)

    def _note(self, text: str, **facts: str) -> None:
        self.orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    # -- copies ----------------------------------------------------------------------------------------------------

    def look(self, now_ms: int) -> None:
        """Time passes, at the serving master: it looks at some of the queues that are owed to, the others come next."""
        self._now_ms, machine = now_ms, self.orders.machine
        if not self._round:
            owed = machine.state.owing
            if not owed and not self.waiting and not self._given_up:
                return
            owing = [(queue_id, to) for queue_id in owed for to in owed_of(machine.state, queue_id)]
            if not owing and not self.waiting and not self._given_up:
                return
            self._round = list(dict.fromkeys((*owing, *self.waiting)))[::-1]
        self._messages_left, self._bytes_left = MOVE_MESSAGES_MAX, MOVE_BYTES_MAX
        for _ in range(min(NAMES_MAX, len(self._round))):
            if self._messages_left <= 0 or self._bytes_left <= 0:
                break
            self._visit(*self._round.pop())
        if (self._unreported or self._given_up) and now_ms >= self._report_ms:
            self._report_ms = now_ms + AGAIN_MS
            self._report()

    def on_following(self) -> None:
        """Another member orders, and knows what became of them."""
        self.waiting.clear()
        self._round.clear()
        self._unreported.clear()
        self._given_up.clear()
        self._asked = None

    def _one_more(self, queue_id: int, to: str, index: int) -> None:
        """A copy is owed: made at once, unless others wait."""
        self._messages_left, self._bytes_left = MOVE_MESSAGES_MAX, MOVE_BYTES_MAX
        waiting = self.waiting.get((queue_id, to))
        if waiting is None:
            self._visit(queue_id, to)
            return
        waiting.count += 1
        if not waiting.rest and not waiting.refused:
            waiting.rest = [index]
            self._copy(queue_id, to, waiting)

    def _visit(self, queue_id: int, to: str) -> None:
        owed = owed_of(self.orders.machine.state, queue_id).get(to, {})
        waiting = self.waiting.get((queue_id, to))
        if waiting is None:
            if not owed:
                return
            waiting = self.waiting[queue_id, to] = _Waiting(owed)
        elif (lost := waiting.count - len(owed)) > 0:  # owed no longer, and not copied: gone with its answer
            before, _ = self._given_up.get(to, (0, ""))
            self._given_up[to] = before + lost, waiting.why or waiting.why_left
        waiting.count = len(owed)
        if not owed:
            del self.waiting[queue_id, to]
            return
        if waiting.refused or not waiting.rest:
            has_more = not waiting.refused and len(owed) > waiting.left  # some came while others were tried
            if self._now_ms < waiting.again_ms and not has_more:
                return
            waiting.begin(owed)
        self._copy(queue_id, to, waiting)

    def _copy(self, queue_id: int, to: str, waiting: _Waiting) -> None:
        """As many as one record takes; the others at the next look."""
        orders, machine = self.orders, self.orders.machine
        try:
            indexes, letters = self._letters(queue_id, to, waiting, room_in(machine.state, to))
            if letters:
                try:
                    body = copies.body_of(to, letters)
                    columns = columns_of(EnqueueBatch.FromString(body))
                    fitting = fits_in(machine.state, to, columns)
                    if 0 < fitting < len(letters):
                        waiting.rest.extend(reversed(indexes[fitting:]))
                        del indexes[fitting:], letters[fitting:]
                        body = copies.body_of(to, letters)
                        columns = columns_of(EnqueueBatch.FromString(body))
                    call = CopyCall(queue_id, to, indexes, columns)
                    move(orders, plan_copies(machine.state, orders.time_ms, call), body)
                except Refused:
                    waiting.rest.extend(reversed(indexes))
                    raise
        except Refused as refused:
            waiting.refused = True
            if refused.message != waiting.why:
                waiting.why = refused.message
                self._unreported.setdefault(queue_id, {})[to] = refused.message
        waiting.count = len(owed_of(machine.state, queue_id).get(to, ()))
        if not waiting.count:
            del self.waiting[queue_id, to]
        elif waiting.refused or not waiting.rest:
            waiting.again_ms = self._now_ms + AGAIN_MS

    def _letters(self, queue_id: int, to: str, waiting: _Waiting, room: QueueRoom) -> tuple[list[int], list[Message]]:
        """Requests and copies of their answers, as many as find room. Those that never will are left where they are."""
        owed = owed_of(self.orders.machine.state, queue_id).get(to, {})
        indexes: list[int] = []
        letters: list[Message] = []
        payload_bytes = 0
        while waiting.rest and len(letters) < room.messages and self._messages_left > 0:
            index = waiting.rest[-1]
            if index in owed:
                try:
                    letter = self._letter(queue_id, to, index, owed[index])
                except Refused as refused:
                    waiting.left += 1
                    if not waiting.why_left:
                        waiting.why_left = f"request {index}: {refused.message}"
                        self._unreported.setdefault(queue_id, {})[to] = waiting.why_left
                else:
                    size = letter.ByteSize()
                    payload_bytes += len(letter.payload)
                    if letters and (size > self._bytes_left or payload_bytes > room.payload_bytes):
                        break
                    if payload_bytes > room.payload_bytes:
                        raise Refused(Reason.REASON_QUEUE_FULL, f"queue {to} is full")
                    self._bytes_left -= size
                    indexes.append(index)
                    letters.append(letter)
                self._messages_left -= 1
            waiting.rest.pop()
        return indexes, letters

    def _letter(self, queue_id: int, to: str, index: int, correlation_id: str) -> Message:
        """Refused, when no time makes it a message of that queue."""
        machine = self.orders.machine
        stored = copies.careful(self.read)(answer_log_index(machine.queue(queue_id), index))
        if stored is None:
            raise Refused(Reason.REASON_MESSAGE_NOT_FOUND, "the answer cannot be read")
        letter = copies.copy_of(answer_in(stored, (queue_id, index)), volatile=False)
        try:
            copies.check(letter)
        except Refused as refused:
            text = f"the answer cannot be a message: {refused.message}"
            raise Refused(refused.reason, text) from None
        try:
            check_copy(machine.state, to, len(letter.payload), letter.reply_to)
            if (queue := machine.state.named(to)).passed is not None:
                columns = columns_of(EnqueueBatch.FromString(copies.body_of(to, [letter])))
                check_plain(queue, columns._replace(delays_ms=(), deliver_at_ms=()))  # as `plan_copies` has them
        except Refused:
            self._bytes_left -= len(letter.payload)
            raise
        letter.correlation_id = letter.correlation_id or correlation_id
        letter.properties[REPLY_OF].data = handle_of(machine.handle_prefix(queue_id), index)
        return letter

    def _report(self) -> None:
        """One event a queue, however many names its clients have made up."""
        machine = self.orders.machine
        for queue_id, reasons in self._unreported.items():
            left = {to: at.count for to in reasons if (at := self.waiting.get((queue_id, to))) is not None}
            if left and machine.has_queue(queue_id):
                name, to = machine.queue(queue_id).name, next(iter(left))
                count, why = sum(left.values()), reasons[to]
                where = f" for {len(left)} queues wait; for {to}" if len(left) > 1 else " wait"
                text = f"queue {name}: {count} copies of answers{where}: {why}"
                self._note(text, queue=name, to=to, waiting=str(count), why=why)
        self._unreported.clear()
        if self._given_up:
            to, (_, why) = next(iter(self._given_up.items()))
            lost = sum(count for count, _ in self._given_up.values())
            names = f"{len(self._given_up)} queues" if len(self._given_up) > 1 else f"queue {to}"
            text = f"{lost} copies of answers for {names} are given up, with the answers: {why}"
            self._note(text, to=to, given_up=str(lost), why=why)
            self._given_up.clear()
