"""Finds what somebody else is to be asked about a reaction's messages, and checks what he has said (V10). Asks nobody,
and orders nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.ordering.reaction_looks import first_of, where
from replica.core.ordering.sweep_looks import READ_BYTES_MAX
from replica.machine import Refused
from replica.machine.plan.move import ranges_of
from replica.machine.plan.react import check_count, check_other
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.unit import QUEUES_MAX
from tandemq.v1.common_pb2 import IndexRange, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.orders import Orders
    from replica.core.ordering.reaction import Advice, Effect, Reaction
    from replica.machine import QueueState
    from replica.machine.sets.ranges import Run
    from replica.machine.state.state import State
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.message_pb2 import Message

QUESTIONS_MAX = 1_000
"""Between two turns."""


class Questions:
    """Of one domain at one member."""

    def __init__(self, orders: Orders, read: Callable[[int], Stored | None]) -> None:
        """`read`: a record from the store, by log index; None: it is not here, or damaged."""
        self.orders = orders
        self.read = read

    def find(self, reaction: Reaction, asking: Advice, queue: QueueState) -> bool:
        """Whether somebody is to be asked before it can be decided. What is acted on is what waits at this moment, so
        that one who was slow is asked about the next one.
        """
        targets = targets_of(reaction, queue, where(reaction, queue).waiting)
        unknown = list(islice((index for index in targets if not asking.knows(index)), QUESTIONS_MAX))
        asking.questions = []
        if not unknown:
            return False
        ranges = [IndexRange(first=low, count=high - low) for low, high in ranges_of(unknown)]
        slices = self.orders.machine.segments_of(queue.queue_id, ranges, delivered=False)
        size = 0
        for found in copies.stored_messages(self.orders.shared.domain, slices, self.read):
            if found.message is None:
                asking.failed[found.index] = "its body cannot be read"
                continue
            asking.questions.append(found)
            size += found.message.ByteSize()
            if size >= READ_BYTES_MAX:
                break
        return True


def targets_of(reaction: Reaction, queue: QueueState, waiting: Sequence[Run]) -> list[int]:
    """Of what fits and waits, what is acted on. Raises Refused."""
    if reaction.first:
        return [first_of(queue, waiting)] if waiting else []
    check_count(queue, sum(high - low for low, high in waiting))
    return [index for low, high in waiting for index in range(low, high)]


def said_of(asking: Advice, targets: Sequence[int], counts: ReactionCounts) -> list[int]:
    """Of the targets, those on which something is done; counts the others."""
    done = [index for index in targets if asking.effects.get(index) is not None]
    counts.failed = sum(index in asking.failed for index in targets)
    counts.left = len(targets) - len(done) - counts.failed
    return done


def check_answer(
    state: State, queue: QueueState, names: Collection[str], report_to: str, effect: Effect, row: Message
) -> None:
    """What no sender could have done nobody who is asked can do either. `names`: of all its queues. Raises Refused."""
    update = effect.update
    if update is None:
        for name in names:
            check_other(state, state.named(name), effect.to, report_to)
        return
    limit = queue.config.max_message_bytes
    if update.HasField("payload") and len(row.payload) > limit:
        text = f"a payload of {len(row.payload)} bytes; queue {queue.name} takes {limit} (max_message_bytes)"
        raise Refused(Reason.REASON_MESSAGE_TOO_LARGE, text)
    if row.reply_to:
        check_reply_tos(queue, (row.reply_to,))


def check_queues(queue: QueueState, count: int) -> None:
    """Into so many queues it puts messages. Raises Refused."""
    if count > QUEUES_MAX:
        text = f"the reaction puts messages of queue {queue.name} into {count} queues; it may use {QUEUES_MAX} at once"
        raise Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(QUEUES_MAX)})
