"""Who is notified when messages gather in a queue (V20). Server state at the master, never replicated.

What counts is what a consumer could be given now: committed and ready, in a queue from which one may receive. Nothing
polls: a record about a watched queue marks it, and it is counted when the commit index has moved and whoever waits for
its messages has been served. A threshold is reported when it is met at the opening of a watch, and afterwards each time
that it is met anew after the queue had less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.outcomes import DepthsMet, Failed, Met, Moved
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.ordering.orders import Orders
    from replica.core.state.calls import Waiter
    from replica.core.state.shared import Shared

WATCHED_MAX = 10_000
"""Thresholds that are watched at one time in a domain; the next one is refused TOO_MANY_WAITERS."""


class Threshold(NamedTuple):
    """So many messages of a queue."""

    queue: str
    depth: int
    """At least 1."""


@dataclass(slots=True, eq=False)
class DepthWatch:
    """Somebody who is notified again and again, until it leaves."""

    waiter: Waiter
    thresholds: Sequence[Threshold]
    met: list[bool] = field(default_factory=list)
    """One a threshold: the queue has that many, and that was reported."""
    queue_ids: list[int] = field(default_factory=list)
    """One a threshold; empty: it is not open."""


class Watching:
    """Those who watch queues of one domain."""

    def __init__(self, shared: Shared, orders: Orders) -> None:
        self.shared = shared
        self.orders = orders
        self.watched: dict[int, list[tuple[DepthWatch, int]]] = {}
        """By queue: who watches it, and the place among its thresholds."""
        self.count = 0
        """Thresholds that are watched."""
        self._marked: dict[int, int] = {}
        """Queues to count: log index of the last record about each."""

    def open(self, watch: DepthWatch) -> None:
        """Answered at once with what is met already, perhaps nothing; or refused as a whole."""
        machine = self.orders.machine
        queue_ids = []
        for queue, _ in watch.thresholds:
            queue_id = machine.queue_id(queue)
            if queue_id is None:
                why = machine.state.missing(queue)
                self._refuse(watch, why.reason, why.message)
                return
            queue_ids.append(queue_id)
        if self.count + len(queue_ids) > WATCHED_MAX:
            text = f"{self.count} depths of queues are watched in this domain, {WATCHED_MAX} may be; ask again later"
            self._refuse(watch, Reason.REASON_TOO_MANY_WAITERS, text, 1_000)
            return
        watch.queue_ids, watch.met = queue_ids, [False] * len(queue_ids)
        self.count += len(queue_ids)
        met: list[Met] = []
        for place, queue_id in enumerate(queue_ids):
            self.watched.setdefault(queue_id, []).append((watch, place))
            met += self._met(watch, place, machine.deliverable(queue_id))
            self._marked[queue_id] = self.shared.log.last_index  # what is ordered and not committed yet comes into it
        self.orders.reply(watch.waiter, DepthsMet(met, at_opening=True))

    def leave(self, watch: DepthWatch) -> None:
        """Whoever watched has gone."""
        for queue_id in dict.fromkeys(watch.queue_ids):
            others = [each for each in self.watched.get(queue_id, ()) if each[0] is not watch]
            if others:
                self.watched[queue_id] = others
            else:
                self.watched.pop(queue_id, None)
                self._marked.pop(queue_id, None)
        self.count -= len(watch.queue_ids)
        watch.queue_ids = []

    def on_applied(self, queue_ids: Sequence[int]) -> None:
        """A record about these queues was ordered. Only called while somebody watches."""
        for queue_id in queue_ids:
            if queue_id in self.watched:
                self._marked[queue_id] = self.shared.log.last_index

    def on_epoch(self) -> None:
        """Its first record may have returned messages to any queue."""
        self.on_applied(tuple(self.watched))

    def look(self) -> None:
        """The commit index has moved, and consumers have been served. Only called while somebody watches."""
        machine, commit_index = self.orders.machine, self.shared.progress.commit_index
        for queue_id, log_index in list(self._marked.items()):
            if log_index <= commit_index:
                del self._marked[queue_id]  # what is ordered later marks it again
            if not machine.has_queue(queue_id):
                if log_index <= commit_index:
                    self._drop(queue_id)
                continue
            depth = machine.deliverable(queue_id)
            for watch, place in self.watched[queue_id]:
                if met := self._met(watch, place, depth):
                    self.orders.reply(watch.waiter, DepthsMet(met))

    def _met(self, watch: DepthWatch, place: int, depth: int) -> list[Met]:
        was, watch.met[place] = watch.met[place], depth >= watch.thresholds[place].depth
        return [Met(place, depth)] if watch.met[place] and not was else []

    def _drop(self, queue_id: int) -> None:
        """It was deleted: a watch of several ends as a whole, since it can no longer say what it was opened for."""
        for watch in list(dict.fromkeys(watch for watch, _ in self.watched[queue_id])):
            queue = watch.thresholds[watch.queue_ids.index(queue_id)].queue
            self.leave(watch)
            self._refuse(watch, Reason.REASON_QUEUE_NOT_FOUND, f"queue {queue} was deleted, and is watched no longer")

    def _refuse(self, watch: DepthWatch, reason: Reason, text: str, retry_after_ms: int | None = None) -> None:
        self.orders.reply(watch.waiter, Failed(reason, text, {}, retry_after_ms))

    def on_following(self) -> None:
        """Another member is master: who watches opens the watch there, and hears what is met by then."""
        watches = list(dict.fromkeys(watch for rows in self.watched.values() for watch, _ in rows))
        self.watched, self._marked, self.count = {}, {}, 0
        for watch in watches:
            watch.queue_ids = []
            self.orders.reply(watch.waiter, Moved("the master is the other member; watch there"))
