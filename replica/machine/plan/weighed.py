"""Decides which members of a macro queue the messages of a batch enter where a table of weights is in force under its
name (M9); changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from replica.machine.plan.enqueue import EnqueueCall
from replica.machine.plan.entering import takes
from replica.machine.plan.in_turn import MemberRoom, room_of
from replica.machine.state.feature_rows import WeightTable
from replica.machine.state.macros import MacroQueue
from replica.machine.state.state import State
from replica.machine.state.weighing import UNIT, targets, weighed
from tandemq.v1 import macro_service_pb2 as pb

STEERED = frozenset(
    (
        pb.MACRO_POLICY_FIRST_AVAILABLE,
        pb.MACRO_POLICY_ROUND_ROBIN,
        pb.MACRO_POLICY_SHORTEST_QUEUE,
        pb.MACRO_POLICY_FASTEST_RESPONSE,
    )
)
"""Policies that a table overrides. A group keeps its member, and a copy goes to all, whatever anybody advises."""
_Entry = tuple[bool, int, int, int, int]
"""Without a share, tag, share below nothing, place in the order of adding, queue."""


def table_in_force(state: State, macro: MacroQueue, time_ms: int) -> WeightTable | None:
    """That of its name, at a domain time; None: there is none, its time is over, it is of none of the members, or it is
    older than the macro queue, and so whoever made it meant something else by that name.
    """
    if not macro.is_producer or macro.policy not in STEERED:
        return None
    table = state.weights.get(macro.name)
    if table is None or time_ms >= table.valid_until_ms or table.published_ms < macro.created_ms:
        return None
    return table if targets(table, macro.members) else None


class ByWeight:
    """Whose turn it is, message by message. A member without a share has one where no other takes the message: a table
    is advice, and no reason to refuse anything.
    """

    def __init__(
        self,
        state: State,
        macro: MacroQueue,
        call: EnqueueCall,
        lines: Collection[int],
        table: WeightTable,
        time_ms: int,
        away: Collection[int] = (),
    ) -> None:
        """`lines`: queues for whose room others wait; those are full for everybody who comes. `time_ms`: domain.
        `away`: members that nobody reaches now, with which it is as with those without a share.
        """
        self._state, self._call, self._lines = state, call, lines
        weighing = weighed(table, macro.members, macro.weighing, time_ms)
        shares, tags = weighing.shares, weighing.tags
        self._heap: list[_Entry] = [
            (
                not shares.get(queue_id) or queue_id in away,
                tags.get(queue_id, 0),
                -shares.get(queue_id, 0),
                place,
                queue_id,
            )
            for place, queue_id in enumerate(macro.members)
        ]
        heapify(self._heap)
        self._clock = weighing.clock
        self._rooms: dict[int, MemberRoom | None] = {}

    def next_for(self, size: int) -> MemberRoom | None:
        """See `in_turn.DealingTurns`."""
        passed: list[_Entry] = []
        found: MemberRoom | None = None
        heap, clock = self._heap, self._clock
        while found is None and heap:
            entry = heappop(heap)
            without, tag, share, place, queue_id = entry
            room = self._room(queue_id)
            if room is None or room.messages <= 0:
                continue  # for the rest of the batch
            if not room.fits(size):
                passed.append(entry)
                continue
            found, began = room, max(tag, clock)
            self._clock = clock if without else max(clock, began)
            passed.append((without, tag if without else began + UNIT // -share, share, place, queue_id))
        for entry in passed:
            heappush(heap, entry)
        return found

    def refuses(self, size: int) -> MemberRoom | None:
        """See `in_turn.DealingTurns`."""
        rooms = [room for room in self._rooms.values() if room is not None]
        return next((room for room in rooms if size <= room.largest), rooms[0] if rooms else None)

    def _room(self, queue_id: int) -> MemberRoom | None:
        """None: it is not open."""
        if queue_id not in self._rooms:
            queue = self._state.queues.get(queue_id)
            is_open = queue is not None and takes(queue, self._call)
            self._rooms[queue_id] = room_of(queue, is_full=queue_id in self._lines) if queue and is_open else None
        return self._rooms[queue_id]
