"""All queues of a pair and what crosses them: names, time, dead letters, units of work that are open."""

from __future__ import annotations

from tests.support.listed.model import FAR, LEASE_DEFAULT_MS, Attributes, Queue, Refusal, Within, is_over
from tests.support.listed.unit import Unit


class Pair:
    """All queues, by their names and by their other names."""

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.units: list[Unit] = []
        """That are open, in the order in which they were begun."""

    def find(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues.values() if name == queue.name or name in queue.aliases), None)

    def named(self, name: str) -> Queue:
        queue = self.find(name)
        if queue is None:
            raise Refusal("QUEUE_NOT_FOUND")
        return queue

    def check_free(self, name: str) -> None:
        queue = self.find(name)
        if queue is not None:
            raise Refusal("QUEUE_EXISTS" if queue.name == name else "ALIAS_EXISTS")

    def due(self) -> list[Within]:
        """When something ends by itself."""
        found = [when for queue in self.queues.values() for when in queue.due()] + [unit.ends for unit in self.units]
        return [when for when in found if when.low < FAR.low]

    def next_due(self) -> Within | None:
        """What ends first."""
        return min(self.due(), default=None)

    def is_stuck(self) -> bool:
        """A reaction that is kept has had no place for what it would have made of something."""
        return any(message.stuck for queue in self.queues.values() for message in queue.messages.values())

    def is_dying(self) -> bool:
        return any(queue.dying() for queue in self.queues.values())

    def pass_to(self, now_ms: int) -> None:
        for queue in self.queues.values():
            queue.pass_to(now_ms)
        self.units = [unit for unit in self.units if not is_over(unit.ends, now_ms)]

    def renew_leases(self, now_ms: int) -> None:
        """There may have been another master at any time up to now: every lease of its began anew. Units of work that
        are still open had no other one.
        """
        for queue in self.queues.values():
            for lease in queue.leases().values():
                if lease.unit:
                    continue
                lease.ends = Within(lease.ends.low, max(lease.ends.high, now_ms + lease.duration_ms))

    def bury(self, order: list[bytes]) -> list[str]:
        """What is dying goes to its dead-letter queue, as far as that one takes it, by rising index but for those whose
        order is known; all of a queue at once, so one that drops its oldest drops none of them. Says which are touched.
        """
        touched = []
        places = {payload: place for place, payload in enumerate(order)}
        for queue in list(self.queues.values()):
            dying = sorted(queue.dying())
            to = self._dead_letters_of(queue) if dying else queue
            unseen = -1 if to.config.drops else len(places)  # dropped since, or still here
            dying.sort(key=lambda index, unseen=unseen: places.get(queue.messages[index].payload, unseen))
            fit = dying[: to.room()] if to.state == "OPEN" and to.config.enqueue_enabled else []
            to.drop_for(len(fit))
            for index in fit:
                dead = queue.messages[index]
                queue.end(index, "DEAD_LETTERED")
                queue.totals.dead_lettered += 1
                reason = "MAX_DELIVERIES" if dead.why is None else "REJECTED"
                origin = (queue.name, reason, dead.why or "", dead.deliveries)
                to.add(dead.copy(origin=origin), None)
                touched += [queue.name, to.name]
        return touched

    def _dead_letters_of(self, queue: Queue) -> Queue:
        """Made when it is first needed, and anew when it is gone."""
        name = queue.dead_name
        if name not in self.queues:
            config = Attributes(max_length=queue.config.max_length, dead_letters=False, lease_ms=LEASE_DEFAULT_MS)
            config.reactions = False
            self.queues[name] = Queue(name, config)
        return self.queues[name]
