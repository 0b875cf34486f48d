"""Makes what enters queues in the place of what a reaction acts on; orders nothing.

One message that cannot be acted on stays as it is, and the others are acted on; too many bytes of them refuse it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from replica.core.messages import copies
from replica.core.messages.bodies import batch_of
from replica.core.ordering.held_reaction import Making, Replacing
from replica.core.ordering.kept_looks import KEPT_BY, KEPT_IN
from replica.core.ordering.reaction import Effect, Reaction, Used
from replica.core.ordering.reaction_questions import check_answer
from replica.core.ordering.reaction_reports import exception_of
from replica.core.ordering.sweeps import times_of
from replica.machine import QueueState, Refused, columns_of, milliseconds
from replica.machine.plan.content import check_counts
from replica.machine.plan.move import check_copy, ranges_of
from replica.machine.plan.react import Copies
from replica.machine.state.system_names import kept_queue
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.orders import Orders
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.message_pb2 import Message

BYTES_MAX = 4 << 20
"""Of one record's body: what a frame holds."""
READ_MAX = 64 << 20
"""Of the records that hold the targets, where they are read: in one step."""
Reads: TypeAlias = "Callable[[int], Stored | None]"
"""A record from the store, by log index."""


class Replacements:
    """Of one domain at one member."""

    def __init__(self, orders: Orders, read: Reads) -> None:
        self.orders = orders
        self.read = read

    def made(
        self,
        reaction: Reaction,
        queue: QueueState,
        targets: list[int],
        counts: ReactionCounts,
        names: Collection[str],
        read: Reads,
        size: int,
    ) -> Making:
        """Of the targets, those that can be acted on, and the rows that follow from them. Reads them where it must."""
        reports = reaction.exceptions in (pb.EXCEPTION_REPORT_HEADERS, pb.EXCEPTION_REPORT_FULL)
        seen = targets if reports else [index for index in targets if reaction.effect_on(index) != Effect()]
        making = Making([] if seen else targets)
        if not seen:
            return making
        unseen = set(targets).difference(seen)
        ranges = [IndexRange(first=low, count=high - low) for low, high in ranges_of(seen)]
        slices = self.orders.machine.segments_of(queue.queue_id, ranges, delivered=False)
        for found in copies.stored_messages(self.orders.shared.domain, slices, read):
            effect = reaction.effect_on(found.index)
            try:
                row = self._row(reaction, effect, queue, found, names)
            except Refused as refused:
                self._note_refusal(reaction, found.index, refused, counts)
                continue
            making.targets.append(found.index)
            if row is not None:
                assert found.message is not None, "it is made of it"
                to = self.orders.machine.state.named(effect.to) if effect.to else queue
                making.put(to.name, found.index, row, effect.update, marked=found.message.persistent)
                size += row.ByteSize()
            elif reports and found.message is not None and found.message.reply_to:
                report = exception_of(found, queue.name, reaction.exceptions)
                making.exceptions.append(report)
                size += report.message.ByteSize()
            if size > BYTES_MAX:
                raise too_large(BYTES_MAX, "its copies and reports")
        making.targets = sorted(unseen.union(making.targets))
        for each in making.entering.values():
            each.ends, each.begins = times_of(queue, each.targets)
        return making

    def _note_refusal(self, reaction: Reaction, index: int, refused: Refused, counts: ReactionCounts) -> None:
        """It stays as it is."""
        if reaction.asking is None:
            counts.refused += 1
            return
        counts.failed += 1
        reaction.asking.failed[index] = refused.message

    def _row(
        self,
        reaction: Reaction,
        effect: Effect,
        queue: QueueState,
        found: copies.FoundMessage,
        names: Collection[str],
    ) -> Message | None:
        """What enters in the place of one message; None: nothing does. Refused: it stays as it is."""
        if effect == Effect():
            return None
        if found.message is None:
            raise Refused(Reason.REASON_MESSAGE_NOT_FOUND, "its body cannot be read")
        volatile = queue.copy_is_volatile(found.index, marked=found.message.persistent)
        state = self.orders.machine.state
        if effect.update is not None:
            row = copies.changed(found, effect.update, volatile=volatile)
            self.mark(row, reaction, queue)
            check_counts((len(row.properties),), 1)
        else:
            row = copies.copy_of(found.message, volatile=volatile)
        if reaction.asking is not None:
            check_answer(state, queue, names, reaction.report_to, effect, row)
        if effect.update is None:
            check_copy(state, effect.to, len(row.payload), row.reply_to)
        return row

    def mark(self, row: Message, reaction: Reaction, queue: QueueState) -> None:
        """What a kept reaction has changed says so: neither it nor an older one acts on it again."""
        used = reaction.used
        if reaction.keep is not None and not reaction.first:
            store = self.orders.machine.state.named(kept_queue(queue.name))
            used = Used(store.queue_id, store.next_index)  # that it is about to have
        if used is not None:
            row.properties[KEPT_IN].integer, row.properties[KEPT_BY].integer = used

    def copies_of(self, to: str, leaving: Sequence[tuple[QueueState, Replacing]]) -> Copies:
        """`leaving`: by the queue that they leave."""
        queue, entering = leaving[0]
        columns = columns_of(EnqueueBatch(messages=batch_of([row for _, each in leaving for row in each.rows])))
        ends, begins = (
            [at for _, each in leaving for at in each.ends],
            [at for _, each in leaving for at in each.begins],
        )
        if entering.updates[0] is None:
            others = [(each.queue_id, some.targets) for each, some in leaving[1:]]
            return Copies(to, columns, ends, begins, entering.targets, queue.queue_id, others)
        assert len(leaving) == 1, "nothing else enters a queue whose messages are changed"
        now_ms = self.orders.machine.state.at(self.orders.time_ms)
        payload_bytes_max = 0  # what is not replaced is here already, however it came
        for place, change in enumerate(entering.updates):
            assert change is not None, "what stays in its queue is changed"
            if change.HasField("payload"):
                payload_bytes_max = max(payload_bytes_max, len(change.payload))
            if change.HasField("ttl"):
                ttl_ms = milliseconds(change.ttl)
                ends[place] = now_ms + ttl_ms if ttl_ms else 0
            if change.HasField("delay"):
                delay_ms = milliseconds(change.delay)
                begins[place] = now_ms + delay_ms if delay_ms else 0
        columns = columns._replace(payload_bytes_max=payload_bytes_max)
        return Copies(queue.name, columns, ends, begins, entering.targets, queue.queue_id)

    def bounded(self) -> Reads:
        size = 0

        def read(log_index: int) -> Stored | None:
            nonlocal size
            stored = self.read(log_index)
            size += len(stored.body) if stored is not None else 0
            if size > READ_MAX:
                raise too_large(READ_MAX, "the records that hold its messages")
            return stored

        return read


def too_large(limit: int, what: str) -> Refused:
    text = f"the reaction is too large: {what} have more than {limit} bytes; name fewer messages"
    return Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(limit)})
