"""Decides which members of a macro queue the messages of a batch enter, each the one behind the last (M2); changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from replica.machine.plan.enqueue import EnqueueCall
from replica.machine.plan.entering import memberless, nobody_takes, takes
from replica.machine.plan.members import queues_of
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

Places = dict[int, list[int]]
"""Of messages in the batch, rising, by the number of the queue that they go to."""
_NO_LIMIT = 1 << 62


@dataclass(slots=True)
class MemberRoom:
    """What a member has left while a batch is dealt."""

    queue_id: int
    messages: int
    payload_bytes: int
    largest: int  # payload bytes of one message

    def fits(self, size: int) -> bool:
        return self.messages > 0 and size <= self.payload_bytes and size <= self.largest

    def take(self, size: int) -> None:
        self.messages -= 1
        self.payload_bytes -= size


class DealingTurns(Protocol):
    """Says whose turn it is while a batch is dealt."""

    def next_for(self, size: int, /) -> MemberRoom | None:
        """Who takes a message of that size; the next one's turn begins behind it. None: nobody does."""

    def refuses(self, size: int, /) -> MemberRoom | None:
        """Who refuses what nobody takes; as full, where it is not too large for all. None: no member is open."""


class InTurn:
    """Members in turn, each looked at when it is reached: those behind it cost nothing."""

    def __init__(self, state: State, call: EnqueueCall, ids: Iterable[int], lines: Collection[int]) -> None:
        """`lines`: queues for whose room others wait; those are full for everybody who comes."""
        self._ahead = self._open(state, call, ids, lines)
        self._behind: list[MemberRoom] = []
        self.full: MemberRoom | None = None
        """The first one that had no room before the batch."""

    def _open(
        self, state: State, call: EnqueueCall, ids: Iterable[int], lines: Collection[int]
    ) -> Iterator[MemberRoom]:
        for queue in queues_of(state, ids):
            if not takes(queue, call):
                continue
            room = room_of(queue, is_full=queue.queue_id in lines)
            if room.messages > 0:
                yield room
            else:
                self.full = self.full or room

    def next_for(self, size: int) -> MemberRoom | None:
        """See `DealingTurns`."""
        passed = len(self._behind)
        for _ in range(2):  # up to the last member, then from the first one on
            for room in self._ahead:
                self._behind.append(room)
                if room.fits(size):
                    return room
            self._ahead, self._behind = iter(self._behind), []
        everyone = list(self._ahead)
        self._ahead, self._behind = iter(everyone[passed:]), everyone[:passed]
        return None

    def refuses(self, size: int) -> MemberRoom | None:
        """See `DealingTurns`."""
        ahead = list(self._ahead)
        self._ahead = iter(ahead)
        everyone = [*ahead, *self._behind, *([self.full] if self.full else ())]
        return next((room for room in everyone if size <= room.largest), everyone[0] if everyone else None)


def room_of(queue: QueueState, *, is_full: bool) -> MemberRoom:
    config = queue.config
    if config.overflow == admin_pb2.OVERFLOW_DROP_HEAD:
        return MemberRoom(queue.queue_id, 0 if is_full else _NO_LIMIT, _NO_LIMIT, config.max_message_bytes)
    messages = 0 if is_full else config.max_length - queue.length
    left = config.max_bytes - queue.bytes if config.max_bytes else _NO_LIMIT
    return MemberRoom(queue.queue_id, messages, left, config.max_message_bytes)


def deal_in_turn(macro: MacroQueue, call: EnqueueCall, turn: DealingTurns, known: Callable[[str], int]) -> Places:
    """Whoever gets the last message that enters stands last, for its turn is over with the record.

    `known`: the queue that was dealt a message with this dedup id, 0: none; it is found to be there. What finds all
    members full is refused, and all that is new behind it: it would overtake it.
    """
    if not macro.members:
        raise memberless(macro)
    columns, places = call.columns, Places()
    homes: dict[str, int] = {}  # by dedup id
    refuser: MemberRoom | None = None
    last = 0
    for ordinal, size in enumerate(columns.sizes):
        name = columns.dedup_id(ordinal) if columns.dedup_ids else ""
        home = (homes.get(name) or known(name)) if name else 0
        if not home and refuser is None:
            room = turn.next_for(size)
            if room is not None:
                room.take(size)
                home = last = room.queue_id
            else:
                room = turn.refuses(size)
                if room is None:
                    raise nobody_takes(macro, call)
                home = room.queue_id
                refuser = room if size <= room.largest else None
        elif not home:
            assert refuser is not None
            home = refuser.queue_id
        places.setdefault(home, []).append(ordinal)
        if name:
            homes.setdefault(name, home)
    if last:
        places[last] = places.pop(last)
    return places
