"""Bugs of who is given what, and of how much, when nothing else is wrong; plants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import replica.machine.plan.enqueue
import replica.machine.plan.lease
from chaos.sim.bugs.planting import Patch, bug
from replica.machine import Machine
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD

if TYPE_CHECKING:
    from replica.machine.state.queue import Lease, QueueState
    from replica.machine.state.segments import Part
    from tandemq.v1.common_pb2 import IndexRange


@bug("priority-is-reversed", "R149", "The lowest priority is delivered first.", "letters", 150)
def priority_is_reversed(patch: Patch) -> None:
    def deliverable(queue: QueueState) -> Iterator[Part]:
        for level in queue.ready:
            if level.size:
                for start, end in level.runs(0, queue.visible_index + 1):
                    yield from queue.segments.parts(start, end)

    patch.setattr(replica.machine.plan.lease, "deliverable", deliverable)


@bug("returned-waits-for-all", "R149", "What came back is delivered after all that is new.", "swarm", 150, first=4)
def returned_waits_for_all(patch: Patch) -> None:
    original = replica.machine.plan.lease.deliverable

    def deliverable(queue: QueueState) -> Iterator[Part]:
        parts = list(original(queue))
        yield from sorted(parts, key=lambda part: part.start in queue.deliveries)

    patch.setattr(replica.machine.plan.lease, "deliverable", deliverable)


@bug(
    "browse-leaves-one-out",
    "semantics 3.7",
    "A browser is not shown the last message while others are leased.",
    "swarm",
    150,
    first=6,
)
def browse_leaves_one_out(patch: Patch) -> None:
    original = Machine.browse

    def browse(self: Machine, queue_id: int, from_index: int, limit: int) -> list[IndexRange]:
        found = original(self, queue_id, from_index, limit)
        if self.queue(queue_id).leases and found[-1].count > 1:
            found[-1].count -= 1
        return found

    patch.setattr(Machine, "browse", browse)


@bug("ended-lease-counts-twice", "semantics 3.7", "A lease that ended counts as two deliveries.", "swarm", 150, first=4)
def ended_lease_counts_twice(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.time")
    original = module._end_by_time

    def end_by_time(state: Any, lease: Lease, time_ms: int, *, rules: bool) -> int:
        deliveries = state.queues[lease.queue_id].deliveries
        for start, end in lease.ranges:
            for index in range(start, end):
                deliveries[index] = deliveries.get(index, 0) + 1
        queue_id: int = original(state, lease, time_ms, rules=rules)
        return queue_id

    patch.setattr(module, "_end_by_time", end_by_time)


@bug("lease-is-doubled", "semantics 3.7", "A lease lasts twice as long as was asked for.", "swarm", 150, first=3)
def lease_is_doubled(patch: Patch) -> None:
    original = replica.machine.plan.lease.plan_lease

    def plan_lease(state: Any, now_ms: int, call: Any) -> Any:
        return original(state, now_ms, replace(call, duration_ms=call.duration_ms * 2))

    patch.setattr(import_module("replica.core.delivery.consumers"), "plan_lease", plan_lease)


@bug("one-more-than-wanted", "semantics 3.7", "Whoever asks for messages is given one more.", "swarm", 150)
def one_more_than_wanted(patch: Patch) -> None:
    module: Any = replica.machine.plan.lease
    original = module.choose
    patch.setattr(module, "choose", lambda parts, time_ms, most, size: original(parts, time_ms, most + 1, size))


def _limit_is_off(patch: Patch, by: int) -> None:
    module: Any = replica.machine.plan.enqueue
    original = module._sift

    def sift(queue: QueueState, *args: Any, **more: Any) -> Any:
        config = queue.config
        if config.overflow != OVERFLOW_DROP_HEAD:
            queue.config = type(config)()
            queue.config.CopyFrom(config)
            queue.config.max_length += by
        try:
            return original(queue, *args, **more)
        finally:
            queue.config = config

    patch.setattr(module, "_sift", sift)


def _entered(name: str, text: str, by: int) -> Callable[[Patch], None]:
    return bug(name, "R157", text, "letters", 150)(lambda patch: _limit_is_off(patch, by))


takes_one_more = _entered("full-queue-takes-one", "A full queue takes one message more.", 1)
refuses_the_last = _entered("last-place-stays-free", "A queue refuses what would fill its last place.", -1)
