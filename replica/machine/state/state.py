"""Holds the state of one domain's queues; decides nothing.

What two members must agree on stands in `State` and its queues. `visible`, the schedules and `pending` are derived from
it and from what is known to be committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from replica.machine.sets.schedule import Due, Schedule
from replica.machine.state.completions import BUCKET_MS
from replica.machine.state.config import milliseconds
from replica.machine.state.dedup import Producers
from replica.machine.state.errors import Refused
from replica.machine.state.gathering import UNGATHERED, WholeGroups
from replica.machine.state.idle import IdleQueues
from replica.machine.state.limits import Limits
from replica.machine.state.macros import Macros
from replica.machine.state.owned import Owned
from replica.machine.state.owners import Owners, remember_used
from replica.machine.state.proxies import PROXY_TARGET, Proxies
from replica.machine.state.queue import Lease, QueueState, Totals
from replica.machine.state.requests import Requests
from replica.machine.state.rights import Rights
from replica.machine.state.stages import Stages
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

if TYPE_CHECKING:
    from replica.machine.state.changes import Changes
    from replica.machine.state.feature_rows import BatchConsumer, Reader, WeightTable


REASONS_MAX = 256  # that one queue's dying messages are remembered by; the next ones have none


class State:
    def __init__(self, domain: int, limits: Limits) -> None:
        self.domain = domain
        self.limits = limits
        self.applied_index = 0  # log index of the last record applied
        self.time_ms = 0  # of that record; never falls
        self.history_id = b""  # identity of the domain's history; empty: no record has given it one yet
        self.next_queue_id = 1  # ids are never used again
        self.queues: dict[int, QueueState] = {}
        self.ids: dict[str, int] = {}  # by name, and by alias
        self.dying: dict[int, None] = {}  # queues that hold dying messages
        self.saving: dict[int, None] = {}  # queues whose volatile messages become persistent
        self.owing: dict[int, None] = {}  # queues of whose answers copies are owed to others
        # Queues of kept reactions that are not empty, by the queue that they act on. It follows from the queues.
        self.kept: dict[int, QueueState] = {}
        # Queues with PRODUCER replication. It follows from the queues.
        self.sided: dict[int, QueueState] = {}
        # There was something that members of protocol 1 do not know, as far as this process knows: a queue with sides,
        # a macro queue, a proxy, a right. Records of it may still be in the log.
        self.beyond_first = False
        # In a member's own domain: its sides of such queues. It follows from the queues too.
        self.own_sides: dict[int, QueueState] = {}
        # What principals keep. It follows from the queues and their producers.
        self.owners = Owners()
        self.defaults: admin_pb2.QueueConfig | None = None  # of new queues; None: as the limits say
        self.defaults_version = 1
        self.gone = Totals()  # of queues that were deleted, summed: the domain's never fall
        # Queues that hold messages of a record, by its log index, where it was made for more than one; no 0.
        self.shared: dict[int, int] = {}
        self.leases: dict[int, Lease] = {}  # of all queues; an EXPIRE record names only the lease
        self.readers: dict[str, Reader] = {}  # of the journal, by name
        self.readers_lost = 0  # how often one has lost its place, ever
        self.reader_records = (0, 0)  # first and last log index of the latest run of records about readers alone
        self.batches: dict[tuple[int, str], BatchConsumer] = {}  # by queue and consumer
        self.weights: dict[str, WeightTable] = {}  # for routing, by name
        self.weights_version = 0  # of the last publication; versions are never used again
        self.macros = Macros()
        self.proxies = Proxies()
        self.rights = Rights()  # of principals
        self.producers = Producers(limits)
        self.requests = Requests(limits)
        self.stages = Stages()

        self.changes: Changes | None = None  # since somebody looked who wants to know; no part of the state
        self.commit_index = 0
        # Log index, queue and last index of what was enqueued beyond the commit index, by rising log index. Last index
        # 0: the first publication that is hidden in that queue is to be seen then.
        self.pending: deque[tuple[int, int, int]] = deque()
        self.lease_ends = Schedule(self._lease_ends)
        self.message_ends = Schedule(self._message_ends)
        self.reply_ends = Schedule(self._reply_ends)  # by the first request of a row of deadlines
        self.completion_ends = Schedule(self._completion_ends)  # by the second in which messages ended
        self.delay_ends = Schedule(self._delay_ends)
        self.group_ends = Schedule(self._group_ends)  # by the hash of a group that gathers
        self.gathering: set[int] = set()  # queues with group_mode COMPLETE
        self.idle = IdleQueues(self.queues)
        self.enabling = Schedule(self._enabling)  # 0: sending, 1: receiving
        # Log index, queue and last number of what was selected for sides beyond the commit index, by rising log index.
        self.selecting: deque[tuple[int, int, int]] = deque()
        self.stage_ends = Schedule(self._stage_ends)  # by the stage's number
        # What ends by itself: of the early ones the end is not before the next millisecond (plan_time.GRACE_MS).
        self.early_ends = (self.lease_ends, self.delay_ends)
        self.other_ends = (
            self.message_ends,
            self.group_ends,
            self.reply_ends,
            self.completion_ends,
            self.enabling,
            self.idle,
            self.stage_ends,
        )

    def named(self, name: str) -> QueueState:
        queue_id = self.ids.get(name)
        if queue_id is None:
            raise self.unnamed(name)
        return self.queues[queue_id]

    def unnamed(self, name: str) -> Refused:
        """Why no queue is meant by that name."""
        if name in self.macros.by_name:
            text = f"{name} is a macro queue, and this call is about one queue; name the member that you mean"
            return Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": name})
        return self.missing(name)

    def missing(self, name: str) -> Refused:
        """The same, where a macro queue is no queue either."""
        if (proxy := self.proxies.by_name.get(name)) is not None:
            text = f"{name} is a proxy of {proxy.target}, which does not take this call; connect to that manager for it"
            return Refused(common_pb2.REASON_BAD_REQUEST, text, {"queue": name, PROXY_TARGET: proxy.target})
        text = f"there is no queue {name!r}; create it first"
        return Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, {"queue": name})

    def numbered(self, queue_id: int) -> QueueState:
        queue = self.queues.get(queue_id)
        if queue is None:
            raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, "the queue was deleted")
        return queue

    def give(self, queue: QueueState, before: str) -> None:
        """It has another owner than before."""
        self.owners.end(queue, before)
        self.owners.begin(queue)
        if queue.owned is not None:
            self.remember_senders(queue.owned)

    def remember_senders(self, only: Owned | None = None) -> None:
        """To queues of everybody, or of one."""
        used = ((key, producer.time_ms) for key, producer in self.producers.dump())
        remember_used(self.queues, used, self.producers.known_since_ms(self.time_ms), only)

    def touch(self, queue_ids: Iterable[int]) -> None:
        """They are no more as the last snapshot has them. Who changes a queue that `Applied` does not name says so."""
        for queue_id in queue_ids:
            queue = self.queues.get(queue_id)
            if queue is not None:
                queue.row = b""

    def at(self, now_ms: int) -> int:
        """A domain's time never goes back, whatever the clock of the new master says."""
        return max(now_ms, self.time_ms)

    def _lease_ends(self, due: Due) -> bool:
        lease = self.leases.get(due.ident)
        return lease is not None and lease.expires_at_ms == due.when_ms

    def _message_ends(self, due: Due) -> bool:
        return bool(self.expired_runs(due))

    def _reply_ends(self, due: Due) -> bool:
        return bool(self.late_requests(due))

    def late_requests(self, due: Due) -> list[tuple[int, int]]:
        """Open requests that one entry of the schedule stands for."""
        queue = self.queues.get(due.queue_id)
        if queue is None or queue.completions is None:
            return []
        found = queue.completions.deadlines.find(due.ident)
        if found is None or found[1] != due.when_ms:
            return []
        return list(queue.completions.unended.runs(due.ident, found[0]))

    def _completion_ends(self, due: Due) -> bool:
        queue = self.queues.get(due.queue_id)
        if queue is None or queue.completions is None or not queue.completions.buckets:
            return False
        oldest = queue.completions.buckets[0].second
        return due.ident >= oldest and due.when_ms == forget_ms(queue, due.ident)

    def _enabling(self, due: Due) -> bool:
        queue = self.queues.get(due.queue_id)
        return queue is not None and due.when_ms == enabled_at_ms(queue.config, receiving=bool(due.ident))

    def _stage_ends(self, due: Due) -> bool:
        stage_id = self.stages.numbers.get(due.ident)
        return stage_id is not None and self.stages.by_id[stage_id].expires_at_ms == due.when_ms

    def show_selected(self, log_index: int) -> None:
        """What was selected up to that record may be given to sides (K3)."""
        while self.selecting and self.selecting[0][0] <= log_index:
            _, queue_id, last = self.selecting.popleft()
            queue = self.queues.get(queue_id)
            if queue is not None and queue.selection is not None:
                queue.selection.visible = last

    def show_later(self, log_index: int, queue_id: int) -> None:
        """What a publication has hidden in a queue is to be seen once that record is committed."""
        if log_index > self.commit_index:
            self.pending.append((log_index, queue_id, 0))
        else:
            self.queues[queue_id].visible_index = self.stages.show(queue_id)

    def schedule_queue(self, queue: QueueState) -> None:
        """What its attributes wait for: when it is new, changed, or read back."""
        queue.idle_ms = milliseconds(queue.config.empty_idle_expiry)
        self.idle.touch(queue)
        for receiving in (False, True):
            if when_ms := enabled_at_ms(queue.config, receiving=receiving):
                self.enabling.push(when_ms, queue.queue_id, int(receiving))

        if isinstance(queue.groups, WholeGroups):
            self.gathering.add(queue.queue_id)
            for group, _ in queue.groups.open_groups():
                self.schedule_group(queue, group)
        else:
            self.gathering.discard(queue.queue_id)

    def schedule_group(self, queue: QueueState, group: int) -> None:
        """It may gather, and until when (V19): when it is new, or its queue's attributes are."""
        if end_ms := self._group_end_ms(queue, group):
            self.group_ends.push(end_ms, queue.queue_id, group)

    def _group_end_ms(self, queue: QueueState, group: int) -> int:
        """0: it does not gather."""
        assert isinstance(queue.groups, WholeGroups), "a queue without groups that gather"
        found = queue.groups.by_hash.get(group)
        if found is None or found.is_whole:
            return 0
        return found.since_ms + milliseconds(queue.config.group_timeout)

    def _group_ends(self, due: Due) -> bool:
        queue = self.queues.get(due.queue_id)
        return (
            queue is not None
            and isinstance(queue.groups, WholeGroups)
            and self._group_end_ms(queue, due.ident) == due.when_ms > 0
        )

    def _delay_ends(self, due: Due) -> bool:
        return self.matured_run(due) is not None

    def matured_run(self, due: Due) -> tuple[int, int] | None:
        """Delayed messages that one entry of the schedule stands for: its index and those behind it of equal time."""
        queue = self.queues.get(due.queue_id)
        if queue is not None:
            for low, high, when_ms in queue.delayed.rows(due.ident, 1 << 63):
                return (low, high) if low == due.ident and when_ms == due.when_ms else None
        return None

    def delay(self, queue: QueueState, start: int, end: int, when_ms: int) -> None:
        """Messages that nobody holds wait until then."""
        if queue.delayed.add(start, end, when_ms):
            self.delay_ends.push(when_ms, queue.queue_id, start)

    def take_waiting(self, queue: QueueState, start: int, end: int) -> int:
        """Out of those that no lease holds, ready, blocked or delayed; says how many."""
        taken = queue.take_ready(start, end)
        if queue.groups is not None and taken < end - start:
            taken += queue.take_blocked(start, end)
        if taken < end - start and queue.delayed.size:
            begun: list[tuple[int, int, int]] = []
            taken += queue.delayed.take(start, end, begun)
            for low, _, when_ms in begun:
                self.delay_ends.push(when_ms, queue.queue_id, low)
        return taken

    def take_unleased(self, queue: QueueState, start: int, end: int) -> int:
        """Out of those that no lease holds, dying ones too; says how many."""
        taken = self.take_waiting(queue, start, end)
        if taken < end - start and queue.dying.size:
            taken += queue.dying.take(start, end)
            if not queue.dying.size:
                queue.reasons.clear()
                del self.dying[queue.queue_id]
        return taken

    def kill(self, queue: QueueState, start: int, end: int, reason: str | None) -> None:
        """Messages that nobody holds are never delivered again. No reason: delivered too often."""
        number = 0
        if reason is not None:
            if reason not in queue.reasons:
                reason = reason if len(queue.reasons) < REASONS_MAX or reason == UNGATHERED else ""
                queue.reasons += [reason] if reason not in queue.reasons else []
            number = queue.reasons.index(reason) + 1
        if queue.groups is not None:
            queue.leave_lines(start, end)  # their groups do not wait until they have been moved
        queue.dying.add(start, end, number)
        self.dying[queue.queue_id] = None

    def expired_runs(self, due: Due) -> list[tuple[int, int]]:
        """Messages that one entry of the schedule stands for: its index and its neighbours of equal expiry, if no lease
        holds them.
        """
        queue = self.queues.get(due.queue_id)
        if queue is None:
            return []
        for part in queue.segments.parts(due.ident, due.ident + 1):
            if part.expiry(due.ident) == due.when_ms:
                return list(queue.waiting_in(due.ident, part.expiry_run(due.ident)))
        return []

    def schedule_messages(self, queue: QueueState, start: int, end: int, *, again: bool = False) -> None:
        """They wait for a consumer, ready, blocked or delayed; leased messages do not expire."""
        for expiry, low, _ in queue.timed_runs(start, end):
            self.message_ends.push(expiry, queue.queue_id, low, again=again)

    def rebuild_schedules(self) -> None:
        """Of a state that was just read back, of which nothing is scheduled yet."""
        for stage in self.stages.by_id.values():
            self.stage_ends.push(stage.expires_at_ms, 0, stage.number)
        for lease in self.leases.values():
            if lease.duration_ms:
                self.lease_ends.push(lease.expires_at_ms, lease.queue_id, lease.lease_id)
        for queue in self.queues.values():
            if queue.timed:
                for start, end in queue.waiting_in(0, 1 << 63):
                    self.schedule_messages(queue, start, end)
            if queue.delayed.size:
                self.delay_ends.load((when_ms, queue.queue_id, start) for start, _, when_ms in queue.delayed)
            self.schedule_completions(queue)
            self.schedule_queue(queue)

    def on_bucket(self, queue_id: int, second: int) -> None:
        self.completion_ends.push(forget_ms(self.queues[queue_id], second), queue_id, second)

    def schedule_completions(self, queue: QueueState) -> None:
        """All that its completions wait for: after a restart, or when the queue's attributes have changed."""
        if queue.completions is not None:
            for first, when_ms in queue.completions.deadlines.rows():
                self.reply_ends.push(when_ms, queue.queue_id, first)
            for bucket in queue.completions.buckets:
                self.completion_ends.push(forget_ms(queue, bucket.second), queue.queue_id, bucket.second)


def forget_ms(queue: QueueState, second: int) -> int:
    """When what ended within that second need not be known any more: not before its retention is over."""
    return (second + 1) * BUCKET_MS + milliseconds(queue.config.completion_retention)


def enabled_at_ms(config: admin_pb2.QueueConfig, *, receiving: bool) -> int:
    """Domain time at which it becomes enabled by itself; 0: never."""
    if receiving:
        return 0 if config.dequeue_enabled else milliseconds(config.dequeue_enabled_at)
    return 0 if config.enqueue_enabled else milliseconds(config.enqueue_enabled_at)
