"""The part of a queue machine that those see who move, remove and save messages; decides nothing itself."""

from __future__ import annotations

from collections.abc import Mapping

from replica.machine.plan.columns import Columns
from replica.machine.plan.copies import CopyCall, plan_copies
from replica.machine.plan.move import (
    Dying,
    MoveCall,
    RemoveCall,
    Room,
    check_copy,
    dying_of,
    fits_in,
    plan_move,
    plan_remove,
    room_in,
)
from replica.machine.plan.reply_copies import is_addressed, owed_of
from replica.machine.plan.save import Bodies, SaveLimits, SavePlan, plan_save
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2


class Moves:
    """Of `Machine`, whose state it reads."""

    state: State

    def plan_move(self, call: MoveCall) -> record_pb2.RecordHeader:
        """Its body is a batch of the copies; the source's messages leave when it is applied."""
        return plan_move(self.state, call)

    def plan_remove(self, call: RemoveCall) -> record_pb2.RecordHeader:
        return plan_remove(self.state, call)

    def plan_copies(self, call: CopyCall) -> record_pb2.RecordHeader:
        """Its body is a batch of copies of answers that are owed; they are owed no longer when it is applied."""
        return plan_copies(self.state, call)

    def is_addressed(self, queue_id: int, index: int) -> bool:
        """The open request names a queue for a copy of its answer."""
        return is_addressed(self.state.numbered(queue_id), index)

    def answer_log_index(self, queue_id: int, index: int) -> int:
        """Of the record that answers a request, which is kept."""
        completions = self.state.numbered(queue_id).completions
        assert completions is not None
        return completions.read(index).log_index

    def owing_queues(self) -> tuple[int, ...]:
        """Queues of whose answers copies are owed."""
        return tuple(self.state.owing)

    def owed_of(self, queue_id: int) -> Mapping[str, Mapping[int, str]]:
        """By the queue that they are owed to: index of the request, correlation id. To read only."""
        return owed_of(self.state, queue_id)

    def dying_queues(self) -> tuple[int, ...]:
        """Queues that hold dying messages."""
        return tuple(self.state.dying)

    def dying_of(self, queue_id: int, from_index: int, limit: int) -> Dying:
        return dying_of(self.state, queue_id, from_index, limit)

    def room_in(self, name: str, *, drops: bool = True) -> Room:
        """What a queue takes at once; Refused when it takes nothing. `drops`: a DROP_HEAD queue makes room."""
        return room_in(self.state, name, drops=drops)

    def check_copy(self, name: str, payload_bytes: int, reply_to: str) -> None:
        """Refused when such a message can never be one of that queue; those behind it may be."""
        check_copy(self.state, name, payload_bytes, reply_to)

    def fits_in(self, name: str, columns: Columns) -> int:
        """How many of these copies, the first ones, a queue takes now, which drops what it can."""
        return fits_in(self.state, name, columns)

    def plan_save(self, queue_id: int, now_ms: int, bodies: Bodies, limits: SaveLimits) -> SavePlan | None:
        """None: nothing of that queue is to be saved. Call it again as long as it returns something."""
        return plan_save(self.state, queue_id, now_ms, bodies, limits)

    def saving_queues(self) -> tuple[int, ...]:
        """Those whose volatile messages are to become persistent."""
        return tuple(self.state.saving)
