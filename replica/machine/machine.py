"""The queue machine of one domain, as its callers see it: apply, commit, ask; never waits, stores or sends.

What a call becomes is decided on the master by the `plan_*` of `plan` and `features`, over `state`, which they never
change: each makes a record, or raises Refused when the call is refused as a whole. `apply` does what a record says and
is the only way that the state changes, on master, replica and in recovery. `commit` makes what is on every copy
deliverable. A caller asks `find_request` before it plans a unary call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from replica.machine import views
from replica.machine.apply.apply import apply
from replica.machine.plan.members import queues_of
from replica.machine.rows import snapshot as snapshots
from replica.machine.state.changes import Applied, Changes, next_record
from replica.machine.state.config import milliseconds
from replica.machine.state.dedup import DuplicateRun
from replica.machine.state.handles import MessageProgress, handle_prefix, is_tracked, progress_of
from replica.machine.state.limits import Limits
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.requests import RequestAnswer
from replica.machine.state.state import State
from replica.machine.views import SegmentSlice
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


class Machine:
    def __init__(self, domain: int, member_names: Sequence[str], limits: Limits | None = None) -> None:
        self.member_names = tuple(member_names)
        self.state = State(domain, limits or Limits())
        """For plans and questions, which read it; `apply` and `commit` alone change it."""

    @property
    def applied_index(self) -> int:
        return self.state.applied_index

    @property
    def history_id(self) -> bytes:
        """Identity of the domain's history; empty: it has none yet."""
        return self.state.history_id

    # Ask before a plan.

    def find_request(self, request_id: bytes, request_hash: int) -> RequestAnswer | None:
        """The first answer to a unary call that is repeated; Refused if the id was used for a different one."""
        return self.state.requests.find(request_id, request_hash)

    def request_hash(self, request_id: bytes) -> int | None:
        """What the call of that id asked for, as whoever made it has said; None: the id is not known."""
        return self.state.requests.hash_of(request_id)

    def last_sequence(self, queue: str, client_id: bytes) -> int:
        """Highest sequence of a producer that was executed; 0 if it is not known."""
        queue_id = self.source_id(queue)
        producer = None if queue_id is None else self.state.producers.get(queue_id, client_id)
        return producer.last_sequence if producer else 0

    # Change.

    def apply(self, log_index: int, epoch: int, header: record_pb2.RecordHeader) -> Applied:
        """Raises nothing but AssertionError, for a record that does not fit: the caller stops."""
        return apply(self.state, log_index, epoch, header)

    def commit(self, log_index: int) -> list[int]:
        """Everything up to here is on every copy that must have it. Returns the queues that have more to deliver."""
        state = self.state
        if log_index <= state.commit_index:
            return []
        state.commit_index = log_index
        if state.rights.pending:
            state.rights.commit(log_index)
        if state.selecting:
            state.show_selected(log_index)
        pending = state.pending
        shown: dict[int, QueueState] = {}
        while pending and pending[0][0] <= log_index:
            _, queue_id, last_index = pending.popleft()
            queue = state.queues.get(queue_id)
            if queue is not None:
                if state.stages.hidden:
                    stages = state.stages
                    last_index = stages.seen(queue_id, last_index) if last_index else stages.show(queue_id)
                queue.visible_index = last_index
                shown[queue_id] = queue
        return [queue_id for queue_id, queue in shown.items() if queue.has_ready()]

    # Ask.

    def queue_id(self, name: str) -> int | None:
        """By its name or an alias."""
        return self.state.ids.get(name)

    def source_id(self, name: str) -> int | None:
        """Of a queue, by its name or an alias, or of a macro queue."""
        macro = self.state.macros.by_name.get(name)
        return self.state.ids.get(name) if macro is None else macro.queue_id

    def knows(self, name: str) -> bool:
        """A queue, an alias, a macro queue or a proxy has it."""
        state = self.state
        return name in state.ids or name in state.macros.by_name or name in state.proxies.by_name

    def home_of(self, run: DuplicateRun, name: str) -> QueueState | None:
        """Where a batch has entered that was sent under that name; None: that queue is gone."""
        return self.state.queues.get(run.queue_id or self.state.ids.get(name, 0))

    def lease_ms(self, name: str) -> int:
        """How long a lease lasts there that asks for nothing; of a macro queue the shortest of its members. 0: there is
        nothing of that name, or nothing in it.
        """
        macro, queue_id = self.state.macros.by_name.get(name), self.state.ids.get(name)
        known = macro.members if macro is not None else () if queue_id is None else (queue_id,)
        queues = queues_of(self.state, known)
        return min((milliseconds(queue.config.lease_duration) for queue in queues), default=0)

    def requires_two(self, queue: str | int) -> bool:
        """Whether what enters that queue, by its name or its number, must be on both members; False: there is none."""
        state = self.state
        found = state.queues.get(state.ids.get(queue, 0) if isinstance(queue, str) else queue)
        return found is not None and found.config.require_two

    def has_queue(self, queue_id: int) -> bool:
        return queue_id in self.state.queues

    def queue(self, queue_id: int) -> QueueState:
        """To read only. Refused (QUEUE_NOT_FOUND) when it was deleted."""
        return self.state.numbered(queue_id)

    def queue_info(self, name: str, member: str) -> admin_pb2.QueueInfo:
        queue = self.state.named(name)
        return views.queue_info(queue, member, self.state.stages.coming.get(queue.queue_id, (0, 0))[0])

    def names(self) -> list[str]:
        """Of the queues, without their aliases."""
        return sorted(queue.name for queue in list(self.state.queues.values()))

    def has_ready(self, queue_id: int) -> bool:
        """A lease would find something; it may still have expired."""
        queue = self.state.queues.get(queue_id)
        return queue is not None and bool(queue.open_members) and queue.config.dequeue_enabled and queue.has_ready()

    def deliverable(self, queue_id: int) -> int:
        """Messages that a consumer could be given now; 0: it may not receive from there, or there is no such queue."""
        queue = self.state.queues.get(queue_id)
        if queue is None or not queue.open_members or not queue.config.dequeue_enabled:
            return 0
        return queue.visible_ready_count()

    def is_single_active(self, queue_id: int) -> bool:
        """Only its oldest consumer is served."""
        queue = self.state.queues.get(queue_id)
        return queue is not None and queue.config.single_active

    def is_ordered(self, queue_id: int) -> bool:
        """Of each group one message at a time is given out."""
        queue = self.state.queues.get(queue_id)
        return queue is not None and queue.groups is not None

    def left_of_lease(self, lease_id: int) -> list[common_pb2.IndexRange]:
        """What a lease still holds; empty: it has ended."""
        lease = self.state.leases.get(lease_id)
        runs = lease.ranges if lease is not None else ()
        return [common_pb2.IndexRange(first=low, count=high - low) for low, high in runs]

    def has_expired(self, queue_id: int, ranges: Iterable[common_pb2.IndexRange], time_ms: int) -> bool:
        """Whether the time of one of these messages is over by then, whoever has it."""
        queue = self.state.numbered(queue_id)
        return any(
            expiry <= time_ms
            for part in ranges
            for expiry, _, _ in queue.timed_runs(part.first, part.first + part.count)
        )

    def is_leased_by_others(self, queue_id: int, client_id: bytes) -> bool:
        """Somebody else holds a lease. Walks over the queue's leases."""
        return any(lease.client_id != client_id for lease in self.state.numbered(queue_id).leases.values())

    def unit_leases(self) -> list[int]:
        """Of open units of work."""
        return sorted(lease.lease_id for lease in self.state.leases.values() if lease.unit)

    def locate(self, queue_id: int, index: int) -> tuple[int, int]:
        """Log index and ordinal of a message that the queue holds."""
        found = self.state.numbered(queue_id).segments.locate(index)
        assert found, f"message {index} is not in queue {queue_id}"
        return found

    def segments_of(
        self, queue_id: int, ranges: Iterable[common_pb2.IndexRange], *, delivered: bool = True
    ) -> list[SegmentSlice]:
        """Where the bodies of some messages are, in the order of the ranges. Not delivered: for a browser."""
        runs = [(part.first, part.first + part.count) for part in ranges]
        return views.segments_of(self.state.numbered(queue_id), runs, delivered=delivered)

    def leases_above(self, source_id: int, client_id: bytes, lease_id: int) -> list[Lease]:
        """Leases that a consumer was given after this one by a queue, or by a macro queue out of its members; none of
        open units. Walks over all leases.
        """
        return [
            lease
            for lease in self.state.leases.values()
            if (lease.macro_id or lease.queue_id) == source_id
            and lease.client_id == client_id
            and lease.lease_id > lease_id
            and not lease.unit
        ]

    def browse(self, queue_id: int, from_index: int, limit: int) -> list[common_pb2.IndexRange]:
        return views.browse(self.state.numbered(queue_id), from_index, limit)

    def live(self, log_index: int, queue_id: int | None = None) -> bool:
        """A message of the record is left, it is a kept answer, or staged. Cheap with a queue that it was made for."""
        if log_index in self.state.stages.records or log_index in self.state.shared:
            return True
        if queue_id is not None:
            queue = self.state.queues.get(queue_id)
            return queue is not None and queue.is_live(log_index)
        return any(queue.is_live(log_index) for queue in self.state.queues.values())

    def live_log_indexes(self) -> Iterator[tuple[int, int]]:
        """Queue and log index of every record that holds messages, rows or an answer, rising within each queue.

        One that several queues hold is given once, under the first of them.
        """
        staged, shared = self.state.stages.by_queue(), self.state.shared
        given: set[int] = set()
        for queue_id, queue in sorted(self.state.queues.items()):
            known = queue.log_indexes()
            for log_index in merge(known, staged[queue_id]) if queue_id in staged else known:
                if log_index in shared:
                    if log_index in given:
                        continue
                    given.add(log_index)
                yield queue_id, log_index

    def next_record(self, queue_id: int, above: int) -> int | None:
        """Log index of the first record above that one that holds messages or an answer of a queue."""
        queue = self.state.queues.get(queue_id)
        return next_record(queue, above) if queue is not None else None

    def staged_of(self, log_indexes: Iterable[int]) -> dict[int, int]:
        """Queue by log index, of those of some records whose rows are in no queue yet."""
        records = self.state.stages.records
        return {each: records[each] for each in log_indexes if each in records} if records else {}

    def watch(self, seen_to: int) -> Changes:
        """Whoever asks has looked at the records up to there, and hears of what follows; only the last one does. Every
        queue counts as one that something has happened to.
        """
        self.state.changes = Changes(self.state.queues, seen_to)
        return self.state.changes

    # Copy.

    def snapshot(self) -> bytes:
        return snapshots.snapshot(self.state)

    @classmethod
    def restore(cls, data: bytes, member_names: Sequence[str], limits: Limits | None = None) -> Machine:
        """What was committed when the snapshot was taken is visible again; the caller commits the rest."""
        made = cls(0, member_names, limits)
        made.state = snapshots.restore(data, made.state.limits)
        return made

    def digest(self) -> bytes:
        """16 bytes, equal on two members with equal state. Walks over all of it: not for the path of a message."""
        return snapshots.digest(self.state)

    # What became of messages.

    def handle_prefix(self, queue_id: int) -> bytes:
        """First half of the handles of a queue whose type completes later than STORED; empty for the others."""
        queue = self.state.queues.get(queue_id)
        return handle_prefix(self.state.domain, queue_id) if queue is not None and is_tracked(queue) else b""

    def progress(self, queue_id: int, handles: Iterable[bytes]) -> list[MessageProgress]:
        """How far messages have come, as applied here: to be told once it is committed."""
        queue = self.state.numbered(queue_id)
        return [progress_of(self.state, queue, handle) for handle in handles]

    def listen(self, queue_id: int, *, wanted: bool) -> None:
        """Whether somebody here waits for ends in that queue: they are kept until `heard` takes them."""
        queue = self.state.queues.get(queue_id)
        if queue is not None and queue.completions is not None:
            queue.completions.listening = wanted
            queue.completions.heard.clear()

    def heard(self, queue_id: int) -> list[tuple[int, int]] | None:
        """Runs of what ended since the last time; None: the queue is gone."""
        queue = self.state.queues.get(queue_id)
        if queue is None or queue.completions is None:
            return None
        heard, queue.completions.heard = queue.completions.heard, []
        return heard
