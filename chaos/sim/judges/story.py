"""Says from a whole log, read from a simulated disk, what the queues must have come to; it changes nothing.

The state is made anew by the product's own machine. What a record says of indexes, leases and settlements is followed
beside it, so that clients' words can be compared with what was written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from chaos.sim.judges import logs
from chaos.sim.judges.invariants import NUMBER, Name, name_of_lease
from replica.machine import Machine, lease_id_of
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2, queue_service_pb2

if TYPE_CHECKING:
    from chaos.sim.kernel.disk import Disk
    from chaos.sim.pair.books import Book
    from replica.machine import QueueState
    from replica.machine.state.limits import Limits
    from tandemq.v1.common_pb2 import IndexRange

NOTHING: Mapping[str, Collection[int]] = MappingProxyType({})
SETTLING = (queue_service_pb2.OUTCOME_ACK, queue_service_pb2.OUTCOME_REJECT)


@dataclass(slots=True)
class QueueStory:
    """One queue, from its creation on."""

    name: str
    next_index: int = 1
    first_leased: int = 0
    """Highest index that was ever leased."""
    leased: dict[int, int] = field(default_factory=dict)
    """Index: its first lease."""
    visible: int = 0
    """Up to which index everything is known to be committed. What is leased ahead, in the step that orders it, need not
    be; given back before it is, it is nobody's turn yet.
    """
    entering: int = 0
    """First index of what entered by the record before, or before leases alone; 0: something else has been ordered."""
    ordered: bool = False
    """Each group for itself: what waits behind another of its group may come late, and so may what is delayed, is moved
    here, or has a lower priority.
    """
    settled: dict[int, Name] = field(default_factory=dict)
    """Index: the record that settled it, or removed it at delivery."""
    unsettled: Counter[int] = field(default_factory=Counter)
    """Index: how many of its leases have ended by time, at most."""


@dataclass(slots=True)
class Story:
    """All of one domain."""

    machine: Machine
    damaged: Mapping[str, Collection[int]] = field(default_factory=dict)
    """By queue: indexes of messages that come late, because a member had them damaged."""
    queues: dict[int, QueueStory] = field(default_factory=dict)
    names: set[Name] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    leases_ended: int = 0
    volatile_losses: int = 0
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Lease: the domain time at which it ends as its holder knows it, and how long it lasts."""
    lasted_ms: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Lease: how long it was to last, when it was made and by each extension."""
    lent: dict[int, tuple[QueueStory, list[int]]] = field(default_factory=dict)
    """Lease: whose messages it held, and which."""

    def of(self, queue: str) -> QueueStory | None:
        """The one that has that name now."""
        queue_id = self.machine.queue_id(queue)
        return None if queue_id is None else self.queues.get(queue_id)

    def add(self, log_index: int, epoch: int, header: pb.RecordHeader) -> None:
        """The next record."""
        name = Name(epoch, log_index)
        self.names.add(name)
        if header.HasField("lease") and not header.lease.reaction:
            self._check_turns(header.lease, header.time_ms, name)
        elif header.HasField("select"):
            self._check_selected(header.select, header.time_ms, name)
        self._apply(log_index, epoch, header)
        match header.WhichOneof("op"):
            case "queue" if header.queue.action == pb.QUEUE_ACTION_CREATE:
                mode = header.queue.config.group_mode
                ordered = mode in (
                    queue_admin_service_pb2.GROUP_MODE_ORDERED,
                    queue_admin_service_pb2.GROUP_MODE_COMPLETE,
                )
                self.queues[header.queue.queue_id] = QueueStory(header.queue.name, ordered=ordered)
            case "enqueue":
                self._enqueue(header.enqueue, name)
            case "lease":
                self._on_lease(header.lease, name)
            case "role":
                for lease_id in header.role.unit_leases:
                    self.leases.pop(lease_id, None)
                self._restart_leases(header.time_ms)
                self._check_units(b"", name)
            case "expire":
                self._end_leases(header.expire.lease_ids, header.time_ms, name)
                self.leases_ended += len(header.expire.lease_ids)
                self.volatile_losses += len(header.expire.volatile_lost)
            case "settle":
                self._settle_all(header.settle, name)
            case "txn":
                for settle in header.txn.settles:
                    self._settle_all(settle, name)
                for enqueue in header.txn.enqueues:
                    self._enqueue(enqueue, name)
                if header.txn.unit_id:
                    self._check_units(header.txn.unit_id, name)

    def _apply(self, log_index: int, epoch: int, header: pb.RecordHeader) -> None:
        self.machine.apply(log_index, epoch, header)
        for story in self.queues.values() if not header.HasField("lease") else ():
            story.entering = 0

    def _on_lease(self, op: pb.LeaseOp, name: Name) -> None:
        if op.reaction:  # given to nobody
            self.leases[lease_id_of(name.epoch, name.log_index)] = op.expires_at_ms, op.duration_ms
            return
        self._lease(op, name)
        self._check_groups(op.queue_id, name)
        if not op.immediate:
            self._begin_lease(lease_id_of(name.epoch, name.log_index), op)

    def _check_units(self, unit_id: bytes, name: Name) -> None:
        """A unit that has ended locks nothing any more; empty: that is all of them."""
        for lease in self.machine.state.leases.values():
            if lease.unit and unit_id in (b"", lease.unit):
                self.problems.append(f"{name} ends a unit, which goes on to lock {list(lease.ranges)}")

    def _settle_all(self, op: pb.SettleOp, name: Name) -> None:
        story = self.queues[op.queue_id]
        self._extend(op.effects)
        for effect in op.effects:
            if effect.outcome in SETTLING:
                self._settle(story, effect.ranges, name)
            if effect.backout:
                story.unsettled.update(_indexes(effect.ranges))

    def _enqueue(self, op: pb.EnqueueOp, name: Name) -> None:
        story, count = self.queues[op.queue_id], op.count - len(op.refusals) - len(op.duplicates)
        if count and op.first_index != story.next_index:
            self.problems.append(f"{name} begins at {op.first_index} of {story.name}, where {story.next_index} is next")
        story.entering = story.next_index if count else 0
        story.next_index += count
        story.ordered = story.ordered or bool(op.deliver_at_ms or op.priorities or op.moved_from.queue_id)

    def _lease(self, op: pb.LeaseOp, name: Name) -> None:
        story = self.queues[op.queue_id]
        for index in _indexes(op.ranges):
            if index in story.settled:
                self.problems.append(f"{name} leases {index} of {story.name}, settled by {story.settled[index]}")
            is_late = index not in story.leased and index < story.first_leased and not story.ordered
            if is_late and index not in self.damaged.get(story.name, ()):
                text = f"{name} leases {index} of {story.name} for the first time, after {story.first_leased}"
                self.problems.append(text)
            story.leased.setdefault(index, lease_id_of(name.epoch, name.log_index))
            story.first_leased = max(story.first_leased, index)
            if not story.entering or index < story.entering:
                story.visible = max(story.visible, index)
        if op.immediate:
            self._settle(story, op.ranges, name)

    def _check_turns(self, op: pb.LeaseOp, time_ms: int, name: Name) -> None:
        """Nothing that is ready has its turn before what is leased: by priority, then by index. What is up to the
        highest index that was leased, but not ahead, is known to be visible; who takes what it likes there is none.
        """
        queue, left = self.machine.queue(op.queue_id), set(_indexes(op.ranges))
        damaged = self.damaged.get(queue.name, ())
        for index, is_due in _turns(queue, 1 + max(self.queues[op.queue_id].visible, *left), time_ms):
            if not left:
                return
            if index not in left and is_due and index not in damaged:
                self.problems.append(f"{name} leases {min(left)} of {queue.name}, and it is the turn of {index}")
                return
            left.discard(index)

    def _check_selected(self, op: pb.SelectOp, time_ms: int, name: Name) -> None:
        """The sides are given them in the order of any delivery, as it is at this record."""
        queue, story = self.machine.queue(op.queue_id), self.queues[op.queue_id]
        chosen = list(_indexes(op.ranges))
        story.visible = max(story.visible, *chosen)
        turns = (index for index, is_due in _turns(queue, 1 + story.visible, time_ms) if is_due)
        for number, index in enumerate(chosen, op.first):
            due = next(turns, None)
            if index != due:
                text = f"selects {index} of {queue.name} as number {number}, and it is the turn of {due or 'nothing'}"
                self.problems.append(f"{name} {text}")
                return

    def _begin_lease(self, lease_id: int, op: pb.LeaseOp) -> None:
        self.leases[lease_id] = op.expires_at_ms, op.duration_ms
        self.lasted_ms[lease_id].add(op.duration_ms)
        self.lent[lease_id] = self.queues[op.queue_id], list(_indexes(op.ranges))

    def _check_groups(self, queue_id: int, name: Name) -> None:
        """Of each group one message is leased."""
        queue = self.machine.queue(queue_id)
        held: dict[int, int] = {}
        leases = [lease for lease in queue.leases.values() if lease.locked is None] if queue.groups else ()
        for start, end in (run for lease in leases for run in lease.ranges):
            for part in queue.segments.parts(start, end):
                for index in range(part.start, part.end) if part.extra.groups else ():
                    group = part.group(index)
                    if group and held.setdefault(group, index) != index:
                        self.problems.append(
                            f"{name}: {held[group]} and {index} of one group of {queue.name} are leased"
                        )

    def check_places(self) -> None:
        """Each message is in one place: ready, blocked, delayed, dying, or in one lease."""
        for queue in (self.machine.queue(each) for each in self.queues if self.machine.has_queue(each)):
            levels = [*queue.ready, *(queue.groups.blocked if queue.groups else ())]
            runs = [run for level in levels for run in level]
            runs += [run for lease in queue.leases.values() for run in lease.ranges]
            runs += [(start, end) for spans in (queue.delayed, queue.dying) for start, end, _ in spans]
            count = sum(end - start for start, end in runs)
            if count != queue.length or any(end > start for (_, end), (start, _) in pairwise(sorted(runs))):
                self.problems.append(f"{queue.name} holds {queue.length} messages, and has {count} in some place")

    def _extend(self, effects: Iterable[pb.SettleEffect]) -> None:
        for effect in effects:
            if effect.outcome == queue_service_pb2.OUTCOME_EXTEND:
                self.leases[effect.lease_id] = effect.expires_at_ms, effect.duration_ms
                self.lasted_ms[effect.lease_id].add(effect.duration_ms)

    def _restart_leases(self, time_ms: int) -> None:
        """A failover restarts every lease in full."""
        self.leases = {each: (time_ms + duration_ms, duration_ms) for each, (_, duration_ms) in self.leases.items()}

    def _end_leases(self, lease_ids: Iterable[int], time_ms: int, name: Name) -> None:
        for lease_id in lease_ids:
            if lease_id in self.lent:
                story, indexes = self.lent[lease_id]
                story.unsettled.update(indexes)
            end_ms, _ = self.leases.pop(lease_id, (0, 0))
            if time_ms <= end_ms:  # it may have started within a millisecond, and ends after the last one
                early = f"{name} ends the lease of {name_of_lease(lease_id)} {end_ms + 1 - time_ms} ms too early"
                self.problems.append(early)

    def _settle(self, story: QueueStory, ranges: Iterable[IndexRange], name: Name) -> None:
        for index in _indexes(ranges):
            known = story.settled.setdefault(index, name)
            if known != name:
                self.problems.append(f"{name} settles {index} of {story.name}, as {known} did")


def read(
    disk: Disk,
    members: list[str],
    limits: Limits,
    damaged: Mapping[str, Collection[int]] = NOTHING,
    spare: Disk | None = None,
) -> Story | None:
    """What is on that disk (see `logs`)."""
    log = logs.read(disk, spare)
    if log is None:
        return None
    story = Story(Machine(NUMBER, members, limits), damaged)
    for (epoch, log_index), header, _ in log:
        story.add(log_index, epoch, header)
    story.check_places()
    return story


def delivered_after_settled(story: Story, book: Book) -> Iterator[str]:
    """A lease that was made when its message had been settled, in the eyes of whoever made it."""
    found = story.of(book.name)
    for lease in book.leases if found is not None else ():
        settled = found.settled.get(lease.index) if found is not None else None
        made = name_of_lease(lease.lease_id)
        if settled is not None and made.log_index > settled.log_index and made.epoch >= settled.epoch:
            yield f"index {lease.index} was delivered by {made}, and had been settled by {settled}"


def not_as_asked(story: Story, book: Book) -> Iterator[str]:
    """A lease that was to last longer or shorter than its holder wanted, each time he did; a delivery that counts more
    than there were.
    """
    for lease in book.leases:
        lasted_ms = story.lasted_ms.get(lease.lease_id, set())
        if lease.asked_ms and lasted_ms - {lease.asked_ms}:
            yield f"the lease of {name_of_lease(lease.lease_id)} lasts {lasted_ms} ms, asked for were {lease.asked_ms}"
        holder, _ = story.lent.get(lease.lease_id, (None, ()))
        if holder is not None and lease.delivery_count > 1 + holder.unsettled[lease.index]:
            ended = f"{holder.unsettled[lease.index]} had ended by time"
            yield f"{lease.index} was given as delivery {lease.delivery_count}, and of those before it {ended}"


def _turns(queue: QueueState, below: int, time_ms: int) -> Iterator[tuple[int, bool]]:
    """What is ready below that index, by priority, then by index; and whether its time is not over."""
    for level in reversed(queue.ready):
        for part in (part for start, end in level.runs(0, below) for part in queue.segments.parts(start, end)):
            for index in range(part.start, part.end):
                yield index, not 0 < part.expiry(index) <= time_ms


def _indexes(ranges: Iterable[IndexRange]) -> Iterator[int]:
    for part in ranges:
        yield from range(part.first, part.first + part.count)
