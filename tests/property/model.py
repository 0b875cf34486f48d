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
    delayed_until_ms: int = 0  # 0: not delayed
    dying: bool = False  # never delivered again, and not moved yet
    marked: bool = False  # its sender wants it persistent
    group: str = ""


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
    retry_ms: tuple[int, int] = (0, 0)  # after a first failed delivery, and at most
    max_deliveries: int = 0  # 0: there is no dead-letter queue either
    messages: dict[int, Message] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    settled: set[tuple[int, int, int]] = field(default_factory=set)  # lease, outcome, index
    next_index: int = 1
    last_sequence: dict[bytes, int] = field(default_factory=dict)
    committed: int = 0
    drops: bool = False  # what is ready or blocked makes room for what comes
    ordered: bool = False  # of each group only the first is ready
    to_save: set[int] = field(default_factory=set)  # volatile, and to become persistent
    save_below: int = 0  # 0: nothing is to be saved
    saves_all: bool = False  # that is below it, whatever its senders want

    def change(self, mode: int) -> None:
        """1 persistent: all of it. From 2, volatile, to 3, conditional: what is marked. Else nothing."""
        volatile = {index for index, message in self.messages.items() if message.volatile}
        if volatile and mode != self.mode and (mode == 1 or (self.mode, mode) == (2, 3)):
            self.saves_all = mode == 1 or (self.saves_all and bool(self.save_below))
            self.to_save |= {index for index in volatile if self.saves_all or self.messages[index].marked}
            self.save_below = self.next_index
        self.mode = mode

    def save(self, next_index: int) -> list[int]:
        """All below that is looked at; what of it becomes persistent."""
        saved = sorted(index for index in self.to_save if index < next_index and index in self.messages)
        self.to_save = {index for index in self.to_save if index >= next_index}
        for index in saved:
            self.messages[index].volatile = False
        if next_index >= self.save_below:
            self.save_below = 0
        return saved

    def ready(self) -> list[int]:
        return [index for index in self.droppable() if self.is_first(index)]

    def blocked(self) -> list[int]:
        return [index for index in self.droppable() if not self.is_first(index)]

    def is_first(self, index: int) -> bool:
        """Nothing before it in its group can still be delivered."""
        group = self.messages[index].group if self.ordered else ""
        line = [at for at, message in self.messages.items() if message.group == group and not message.dying]
        return not group or min(line) == index

    def droppable(self) -> list[int]:
        return [index for index in self.waiting() if not self.messages[index].delayed_until_ms]

    def waiting(self) -> list[int]:
        """Ready, blocked or delayed: nobody holds them, and somebody will."""
        return [index for index in self.unleased() if not self.messages[index].dying]

    def unleased(self) -> list[int]:
        return [index for index, message in self.messages.items() if not message.lease_id]

    def dying(self) -> list[int]:
        return [index for index in self.unleased() if self.messages[index].dying]

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
        if self.drops:
            heads = self.droppable()
            room, room_bytes = room + len(heads), room_bytes + sum(self.messages[at].size for at in heads)
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

    def drop_for(self, count: int, size: int) -> list[int]:
        """The lowest priority first, of those the oldest, one by one until there is room."""
        gone = []
        heads = sorted(self.droppable(), key=lambda index: (self.messages[index].priority, index))
        while self.drops and count and heads:
            if len(self.messages) + count <= self.max_length and self.bytes() + size <= self.max_bytes:
                break
            gone.append(heads.pop(0))
            del self.messages[gone[-1]]
        return gone

    def bytes(self) -> int:
        return sum(message.size for message in self.messages.values())

    def settle(
        self, outcome: int, lease_id: int, indexes: list[int], new_end: tuple[int, int], delayed_until_ms: int = 0
    ) -> set[int]:
        """Message by message; returns what is refused. Outcomes: 1 ack, 2 release, 3 reject, 4 extend."""
        refused = set()
        extended = False
        for index in indexes:
            message = self.messages.get(index)
            held = message is not None and message.lease_id == lease_id
            free = message is not None and not message.lease_id and not message.dying and self.visible(index)
            if outcome == 4:
                extended |= held
                refused |= set() if held else {index}
            elif outcome == 2 and message is not None and (held or free):
                if held:
                    message.lease_id, message.delayed_until_ms = 0, delayed_until_ms
            elif outcome == 3 and message is not None and self.max_deliveries and (held or free):
                message.lease_id, message.delayed_until_ms, message.dying = 0, 0, True
                message.deliveries += held
                self.settled.add((lease_id, outcome, index))
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
            if message.lease_id and self.leases[message.lease_id].expires_at_ms < now_ms:
                message.lease_id = 0
                message.deliveries += 1
                message.dying = 0 < self.max_deliveries <= message.deliveries
                message.delayed_until_ms = 0 if message.dying else self.retry_at_ms(now_ms, message.deliveries)
        self.drop_empty_leases()
        for index in self.waiting():
            if 0 < self.messages[index].expires_at_ms <= now_ms:
                del self.messages[index]
            elif self.messages[index].delayed_until_ms < now_ms:
                self.messages[index].delayed_until_ms = 0

    def retry_at_ms(self, now_ms: int, deliveries: int) -> int:
        least_ms, most_ms = self.retry_ms
        return now_ms + min(least_ms * deliveries, most_ms) if least_ms else 0

    def next_due_ms(self) -> list[int]:
        ends = [lease.expires_at_ms + 1 for lease in self.leases.values()]
        waiting = [self.messages[index] for index in self.waiting()]
        ends += [message.expires_at_ms for message in waiting if message.expires_at_ms]
        return ends + [message.delayed_until_ms + 1 for message in waiting if message.delayed_until_ms]
