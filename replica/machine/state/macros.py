"""What the state keeps of macro queues: which queues are members, and whose turn it is. Values; decides nothing."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from replica.machine.sets.ring import Ring
from replica.machine.state.weighing import Weighing
from tandemq.v1 import macro_service_pb2 as pb


@dataclass(slots=True)
class MacroQueue:
    name: str
    queue_id: int  # one of the numbers of the queues
    relationship: pb.Relationship
    policy: pb.MacroPolicy
    created_ms: int
    version: int = 1
    members: dict[int, int] = field(default_factory=dict)  # member priority by queue, in the order of adding
    last: int = 0  # the queue that was chosen last of a producer with turns; 0: none yet, or it is no member any more
    dealt: OrderedDict[str, int] = field(default_factory=OrderedDict)  # member by dedup id, the newest last
    ring: Ring = field(default_factory=Ring)  # BY_GROUP: of the members
    weighing: Weighing | None = None  # since a batch was dealt by a table of weights

    @property
    def is_producer(self) -> bool:
        return self.relationship == pb.RELATIONSHIP_PRODUCER

    def by_priority(self) -> list[int]:
        """Higher ones first, then in the order of adding."""
        return sorted(self.members, key=lambda queue_id: -self.members[queue_id])

    def in_turn(self, last: int = 0) -> list[int]:
        """Whoever is behind the last one first. `last`: that one, where it was no queue of this domain."""
        ids, last = list(self.members), last or self.last
        at = ids.index(last) + 1 if last in self.members else 0
        return ids[at:] + ids[:at]


class Macros:
    """The macro queues of a domain."""

    def __init__(self) -> None:
        self.by_name: dict[str, MacroQueue] = {}
        self.by_id: dict[int, MacroQueue] = {}
        self.of_member: dict[int, dict[int, None]] = {}  # macro queues by queue, those that are received from alone
        self.homes: dict[int, dict[int, None]] = {}  # all macro queues by queue

    def add(self, macro: MacroQueue) -> None:
        self.by_name[macro.name] = self.by_id[macro.queue_id] = macro
        for queue_id in macro.members:
            self._note(macro, queue_id)

    def join(self, macro: MacroQueue, queue_id: int, priority: int) -> None:
        macro.members[queue_id] = priority
        self._note(macro, queue_id)

    def _note(self, macro: MacroQueue, queue_id: int) -> None:
        if macro.policy == pb.MACRO_POLICY_BY_GROUP:
            macro.ring.add(queue_id)
        self.homes.setdefault(queue_id, {})[macro.queue_id] = None
        if not macro.is_producer:
            self.of_member.setdefault(queue_id, {})[macro.queue_id] = None

    def leave(self, macro: MacroQueue, queue_id: int) -> None:
        """The turn goes on with whoever was behind it."""
        if macro.last == queue_id:
            ids = list(macro.members)
            at = ids.index(queue_id)
            macro.last = ids[at - 1] if len(ids) > 1 else 0
        del macro.members[queue_id]
        macro.ring.discard(queue_id)
        if macro.weighing is not None:
            macro.weighing.forget(queue_id)
        for name in [name for name, home in macro.dealt.items() if home == queue_id]:
            del macro.dealt[name]
        for known in (self.homes, self.of_member):
            left = known.get(queue_id)
            if left is not None:
                left.pop(macro.queue_id, None)
                if not left:
                    del known[queue_id]

    def remove(self, macro: MacroQueue) -> None:
        for queue_id in list(macro.members):
            self.leave(macro, queue_id)
        del self.by_name[macro.name], self.by_id[macro.queue_id]

    def forget_queue(self, queue_id: int) -> None:
        """M12: a queue that goes is no member of anything any more."""
        for macro_id in tuple(self.homes.get(queue_id, ())):
            macro = self.by_id[macro_id]
            self.leave(macro, queue_id)
            macro.version += 1
