"""Which queues with consumers a tick looks at: some in turn, so that its cost does not depend on how many there are.

Whatever makes a message ready says so itself; this is for what nobody says, and for queues that time took away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed
from replica.machine import Refused
from replica.machine.state.system_names import shown
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.core.state.calls import Consumer

LOOKED_AT_MAX = 100
"""Queues of one tick."""


class Rounds:
    """Goes round the queues again and again."""

    def __init__(self) -> None:
        self._left: list[int] = []
        """Not looked at in this round."""

    def some(self, queue_ids: Iterable[int]) -> Sequence[int]:
        """The next ones; some of them may have no consumers any more."""
        if not self._left:
            self._left = list(queue_ids)
        found, self._left = self._left[-LOOKED_AT_MAX:], self._left[:-LOOKED_AT_MAX]
        return found


def taken(queue: str, member: str) -> Refused:
    """K4: a side has one consumer; a second process that does the same work belongs to the other side."""
    queue = shown(queue)
    text = f"the side of queue {queue} at {member} has a consumer already; its twin belongs to the other member"
    return Refused(Reason.REASON_TWIN_TAKEN, text, {"queue": queue, "member": member})


def deleted(consumer: Consumer) -> Failed:
    """The answer to a consumer whose queue is gone: nothing ever comes from it, though another may have its name."""
    text = f"queue {shown(consumer.queue)} was deleted; open a new stream if it was created again"
    return Failed(Reason.REASON_QUEUE_NOT_FOUND, text, {})
