"""A queue as one would explain it: a dict of messages and loops over it. The measure for ranges and columns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Message:
    priority: int
    size: int
    expires_at_ms: int  # 0: never
    volatile: bool
    log_index: int
    ordinal: int
    lease_id: int = 0  # 0: ready
    deliveries: int = 0  # that ended without a settlement


@dataclass
class Lease:
    expires_at_ms: int
    duration_ms: int


@dataclass
class Queue:
    max_length: int
    max_bytes: int
    max_message_bytes: int
    mode: int
    messages: dict[int, Message] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    settled: set[tuple[int, int, int]] = field(default_factory=set)  # lease, outcome, index
    next_index: int = 1
    last_sequence: dict[bytes, int] = field(default_factory=dict)
    committed: int = 0

    def ready(self) -> list[int]:
        return [index for index, message in self.messages.items() if not message.lease_id]

    def visible(self, index: int) -> bool:
        return index in self.messages and self.messages[index].log_index <= self.committed

    def live(self) -> set[int]:
        return {message.log_index for message in self.messages.values()}

    def deliverable(self, now_ms: int, count: int, max_bytes: int) -> list[int]:
        """Highest priority first, then lowest index (R149)."""
        chosen: list[int] = []
        candidates = [
            index
            for index in self.ready()
            if self.visible(index) and not 0 < self.messages[index].expires_at_ms <= now_ms
        ]
        for index in sorted(candidates, key=lambda index: (-self.messages[index].priority, index)):
            size = self.messages[index].size
            if len(chosen) == count or (chosen and size > max_bytes):
                break
            chosen.append(index)
            max_bytes -= size
        return chosen

    def refusals(self, sizes: list[int]) -> list[tuple[int, str]]:
        room, room_bytes = self.max_length - len(self.messages), self.max_bytes - self.bytes()
        refused, full = [], False
        for ordinal, size in enumerate(sizes):
            if size > self.max_message_bytes:
                refused.append((ordinal, "large"))
            elif full or room <= 0 or size > room_bytes:
                full = True
                refused.append((ordinal, "full"))
            else:
                room, room_bytes = room - 1, room_bytes - size
        return refused

    def bytes(self) -> int:
        return sum(message.size for message in self.messages.values())

    def settle(self, outcome: int, lease_id: int, indexes: list[int], new_end: tuple[int, int]) -> set[int]:
        """Message by message; returns what is refused. Outcomes: 1 ack, 2 release, 3 reject, 4 extend."""
        refused = set()
        extended = False
        for index in indexes:
            message = self.messages.get(index)
            held = message is not None and message.lease_id == lease_id
            free = message is not None and not message.lease_id and self.visible(index)
            if outcome == 4:
                extended |= held
                refused |= set() if held else {index}
            elif outcome == 2 and message is not None and (held or free):
                message.lease_id = 0
            elif outcome in (1, 3) and (held or free):
                del self.messages[index]
                self.settled.add((lease_id, outcome, index))
            elif (lease_id, outcome, index) not in self.settled:
                refused.add(index)
        if extended:
            self.leases[lease_id] = Lease(*new_end)
        self.drop_empty_leases()
        return refused

    def drop_empty_leases(self) -> None:
        held = {message.lease_id for message in self.messages.values()}
        self.leases = {lease_id: lease for lease_id, lease in self.leases.items() if lease_id in held}

    def expire(self, now_ms: int) -> None:
        for message in self.messages.values():
            if message.lease_id and self.leases[message.lease_id].expires_at_ms <= now_ms:
                message.lease_id = 0
                message.deliveries += 1
        self.drop_empty_leases()
        for index in self.ready():
            if 0 < self.messages[index].expires_at_ms <= now_ms:
                del self.messages[index]

    def next_due_ms(self) -> list[int]:
        ends = [lease.expires_at_ms for lease in self.leases.values()]
        ready = [self.messages[index] for index in self.ready()]
        return ends + [message.expires_at_ms for message in ready if message.expires_at_ms]
