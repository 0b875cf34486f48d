"""Bugs of the queues and of what their callers are answered; plants them."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import replica.machine.plan.enqueue
from chaos.sim.bugs.planting import Patch, bug
from replica.core.delivery.ahead import Ahead
from replica.core.delivery.consumers import Consumers
from replica.core.ordering.holding import Holding
from replica.core.ordering.orders import Orders
from replica.machine import Machine
from replica.machine.state.dedup import Producers
from tandemq.peer.v1.record_pb2 import EnqueueOp, SettleOp

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from replica.core.state.calls import Consumer, Waiter
    from replica.machine import RequestAnswer, SettleCall
    from replica.machine.state.dedup import Producer
    from replica.machine.state.queue import QueueState


def _at_once(log_index: int, answer: Callable[[], None], on_lost: Callable[[], None]) -> None:
    del log_index, on_lost
    answer()


@bug("no-dedupe", "ruling 17", "A batch that comes again is executed again.", "swarm", first=1)
def no_dedup(patch: Patch) -> None:
    patch.setattr(replica.machine.plan.enqueue, "find_repeated", lambda _state, _queue_id, _name, _call: None)
    original = Producers.add

    def add(self: Producers, queue_id: int, client_id: bytes, run: Any, time_ms: int, fingerprint: int = 0) -> None:
        producer = self.get(queue_id, client_id)
        if producer is None or run.first_sequence == producer.last_sequence + 1:  # else an assertion finds it first
            original(self, queue_id, client_id, run, time_ms, fingerprint)

    patch.setattr(Producers, "add", add)


@bug("dedupe-forgets-early", "ruling 17", "A producer is forgotten as soon as another one has sent.", "swarm", first=1)
def dedup_forgets_early(patch: Patch) -> None:
    def forget(self: Producers, _producer: Producer, _time_ms: int) -> None:
        while len(self._producers) > 1:
            _, oldest = self._producers.popitem(last=False)
            self.rows -= oldest.rows

    patch.setattr(Producers, "_forget", forget)


@bug(
    "settled-before-commit",
    "semantics 3.7, ruling 13",
    "A settle is answered before it is committed.",
    "tail",
    first=33,
)
def settled_before_commit(patch: Patch) -> None:
    original = Orders._settle

    def settle(self: Orders, waiter: Waiter, call: SettleCall) -> None:
        self.when_committed = _at_once  # type: ignore[method-assign]
        try:
            original(self, waiter, call)
        finally:
            del self.when_committed

    patch.setattr(Orders, "_settle", settle)


@bug(
    "leased-ahead-at-once",
    "ruling 13",
    "What is leased with its own record is delivered before that is committed.",
    "tail",
    first=1,
)
def leased_ahead_at_once(patch: Patch) -> None:
    original = Ahead.lease

    def lease(self: Ahead, turn: deque[Consumer], op: EnqueueOp, log_index: int) -> None:
        orders = self.orders
        orders.when_committed = _at_once  # type: ignore[method-assign]
        try:
            original(self, turn, op, log_index)
        finally:
            del orders.when_committed

    patch.setattr(Ahead, "lease", lease)


@bug("index-restarts", "semantics 3.12", "A queue that was purged numbers from 1 again.", "swarm", first=22)
def index_restarts(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.queue")
    original = module._purge

    def purge(state: Any, queue: QueueState, freed: list[int]) -> None:
        original(state, queue, freed)
        if not queue.length:
            queue.next_index, queue.visible_index = 1, 0

    patch.setattr(module, "_purge", purge)


@bug(
    "leases-lost-at-takeover",
    "semantics 3.7",
    "A new master forgets what its predecessor had leased out.",
    "restart",
    first=3,
)
def leases_lost_at_takeover(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._role

    def role(state: Any, time_ms: int) -> Any:
        applied = original(state, time_ms)
        for queue in state.queues.values():
            queue.leases.clear()
        state.leases.clear()
        return applied

    patch.setattr(module, "_role", role)


@bug("leases-never-end", "semantics 3.7", "What a dead consumer holds is never delivered again.", "swarm", first=1)
def leases_never_end(patch: Patch) -> None:
    patch.setattr(Orders, "expire", lambda _self: None)


@bug("held-released-twice", "R121", "A request that is held is answered and stays held.", "restart", first=1)
def held_released_twice(patch: Patch) -> None:
    def release(self: Holding, key: Any) -> Any:
        self.repetitions.pop(key, None)
        return self.held.get(key)

    patch.setattr(Holding, "_release", release)


@bug("one-copy-is-enough", "ruling 1", "A queue that requires two copies is content with one.", "swarm", first=3)
def one_copy_is_enough(patch: Patch) -> None:
    patch.setattr(Orders, "wanted_copies", lambda _self, pending, _queue_id=None: max(pending.min_copies, 1))


@bug(
    "repeated-dequeue-is-empty",
    "semantics 3.7",
    "A Dequeue that comes again is answered with nothing.",
    "swarm",
    first=1,
)
def repeated_dequeue_is_empty(patch: Patch) -> None:
    original = Consumers._repeat

    def repeat(self: Consumers, consumer: Consumer, found: RequestAnswer) -> None:
        original(self, consumer, replace(found, ranges=()))

    patch.setattr(Consumers, "_repeat", repeat)


@bug("lease-cut-short", "semantics 3.7", "A lease lasts a tenth of what was asked for.", "swarm", first=1)
def lease_cut_short(patch: Patch) -> None:
    original = replica.machine.plan.lease.plan_lease

    def plan_lease(state: Any, now_ms: int, call: Any) -> Any:
        return original(state, now_ms, replace(call, duration_ms=call.duration_ms // 10))

    patch.setattr(import_module("replica.core.delivery.consumers"), "plan_lease", plan_lease)


@bug(
    "extension-is-lost",
    "semantics 3.7",
    "A lease is confirmed as extended, and ends when it would have.",
    "swarm",
    first=24,
)
def extension_is_lost(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._settle

    def settle(state: Any, op: SettleOp) -> Any:
        kept = SettleOp()
        kept.CopyFrom(op)
        del kept.effects[:]
        kept.effects.extend(each for each in op.effects if each.outcome != module.EXTEND)
        return original(state, kept)

    patch.setattr(module, "_settle", settle)


@bug("group-goes-on-early", "semantics 3.3", "A message that was given out does not hold its group.", "groups", first=1)
def group_goes_on_early(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._lease

    def lease(state: Any, lease_id: int, time_ms: int, op: Any) -> Any:
        applied = original(state, lease_id, time_ms, op)
        queue = state.queues[op.queue_id]
        for part in op.ranges if queue.groups is not None else ():
            queue.leave_lines(part.first, part.first + part.count)
        return applied

    patch.setattr(module, "_lease", lease)


@bug(
    "group-given-out-before-commit",
    "semantics 3.3",
    "A message of a group leaves before both members know of its lease.",
    "groups",
    first=162,
)
def group_given_out_before_commit(patch: Patch) -> None:
    patch.setattr(Machine, "is_ordered", lambda _self, _queue_id: False)


@bug("group-lost-at-takeover", "semantics 3.3", "A new master forgets who waits behind whom.", "groups", first=1)
def group_is_lost_at_takeover(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._role

    def role(state: Any, time_ms: int) -> Any:
        for queue in state.queues.values():
            if queue.groups is not None:
                for level, ready in zip(queue.groups.blocked, queue.ready, strict=True):
                    for start, end in list(level):
                        level.discard(start, end)
                        ready.add(start, end)
        return original(state, time_ms)

    patch.setattr(module, "_role", role)


@bug("leases-not-restarted", "semantics 3.7", "A takeover leaves the leases as short as they were.", "restart", first=3)
def leases_are_not_restarted(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    patch.setattr(module, "_role", lambda _state, _time_ms: module.Applied((), []))
