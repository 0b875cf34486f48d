"""Holds the state of one domain's queues; decides nothing.

What two members must agree on stands in `State` and its queues. `visible`, the schedules and `pending` are derived from
it and from what is known to be committed.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from replica.machine.dedup import Producers
from replica.machine.errors import Refused
from replica.machine.limits import Limits
from replica.machine.queue import Lease, QueueState
from replica.machine.requests import Requests
from replica.machine.schedule import Due, Schedule
from tandemq.v1 import common_pb2


class Applied(NamedTuple):
    queue_ids: tuple[int, ...]  # touched: something may be ready, or have room, that was not before
    freed: list[int]  # log indexes of ENQUEUE records that hold no message any more
    lease_id: int = 0  # of a LEASE that was not immediate


class State:
    def __init__(self, domain: int, limits: Limits) -> None:
        self.domain = domain
        self.limits = limits
        self.applied_index = 0  # log index of the last record applied
        self.time_ms = 0  # of that record; never falls
        self.next_queue_id = 1  # ids are never used again
        self.queues: dict[int, QueueState] = {}
        self.ids: dict[str, int] = {}  # by name
        self.leases: dict[int, Lease] = {}  # of all queues; an EXPIRE record names only the lease
        self.producers = Producers(limits)
        self.requests = Requests(limits)

        self.commit_index = 0
        # Log index, queue and last index of what was enqueued beyond the commit index, by rising log index.
        self.pending: deque[tuple[int, int, int]] = deque()
        self.lease_ends = Schedule(self._lease_ends)
        self.message_ends = Schedule(self._message_ends)

    def named(self, name: str) -> QueueState:
        queue_id = self.ids.get(name)
        if queue_id is None:
            raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, f"there is no queue {name!r}; create it first")
        return self.queues[queue_id]

    def numbered(self, queue_id: int) -> QueueState:
        queue = self.queues.get(queue_id)
        if queue is None:
            raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, "the queue was deleted")
        return queue

    def at(self, now_ms: int) -> int:
        """A domain's time never goes back, whatever the clock of the new master says."""
        return max(now_ms, self.time_ms)

    def _lease_ends(self, due: Due) -> bool:
        lease = self.leases.get(due.ident)
        return lease is not None and lease.expires_at_ms == due.when_ms

    def _message_ends(self, due: Due) -> bool:
        return bool(self.expired_runs(due))

    def expired_runs(self, due: Due) -> list[tuple[int, int]]:
        """Ready messages that one entry of the schedule stands for: its index and its neighbours of equal expiry."""
        queue = self.queues.get(due.queue_id)
        if queue is None:
            return []
        for part in queue.segments.parts(due.ident, due.ident + 1):
            if part.expiry(due.ident) == due.when_ms:
                return list(queue.ready_in(due.ident, part.expiry_run(due.ident)))
        return []

    def schedule_messages(self, queue: QueueState, start: int, end: int, *, again: bool = False) -> None:
        """They became ready; leased messages do not expire."""
        for expiry, low, _ in queue.timed_runs(start, end):
            self.message_ends.push(expiry, queue.queue_id, low, again=again)

    def rebuild_schedules(self) -> None:
        self.lease_ends.clear()
        self.message_ends.clear()
        for lease in self.leases.values():
            self.lease_ends.push(lease.expires_at_ms, lease.queue_id, lease.lease_id)
        for queue in self.queues.values():
            if queue.timed:
                for level in queue.ready:
                    for start, end in level:
                        self.schedule_messages(queue, start, end)
