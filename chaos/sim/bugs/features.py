"""Bugs of what a queue does beside giving out messages in order: delays, deaths, moves, drops, ids; plants them."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

import replica.machine.plan.enqueue
from chaos.sim.bugs.planting import Patch, bug
from replica.core.ordering.sweeps import Sweeps
from replica.machine.state.dedup_ids import DedupIds
from replica.machine.state.gathering import Gathering
from replica.machine.state.queue import QueueState
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replica.core.ordering.sweep import Sweep
    from replica.machine.sets.ranges import Run


def _at_takeover(patch: Patch, forget: Callable[[Any, QueueState], None]) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._role

    def role(state: Any, time_ms: int) -> Any:
        for queue in state.queues.values():
            forget(state, queue)
        return original(state, time_ms)

    patch.setattr(module, "_role", role)


@bug("delay-is-halved", "semantics 3.12", "A delayed message waits half of what its producer asked for.", "letters")
def delay_is_halved(patch: Patch) -> None:
    module: Any = replica.machine.plan.enqueue
    original = module.delivery_times

    def delivery_times(time_ms: int, delays_ms: Any, deliver_at_ms: Any) -> Any:
        return original(time_ms, [delay // 2 for delay in delays_ms], deliver_at_ms)

    patch.setattr(module, "delivery_times", delivery_times)


@bug("delay-lost-at-takeover", "semantics 3.12", "A new master delivers what is delayed at once.", "letters", first=2)
def delay_is_lost_at_takeover(patch: Patch) -> None:
    def forget(_state: Any, queue: QueueState) -> None:
        for start, end, _ in list(queue.delayed):
            queue.delayed.take(start, end, [])
            queue.make_ready(start, end)

    _at_takeover(patch, forget)


@bug("release-is-at-once", "semantics 3.12", "What is given back with a delay is delivered at once.", "letters")
def release_is_at_once(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module.return_messages

    def return_messages(state: Any, queue: QueueState, start: int, end: int, _when_ms: int = 0) -> None:
        original(state, queue, start, end)

    patch.setattr(module, "return_messages", return_messages)


@bug("waiting-holds-no-group", "semantics 3.3", "What waits for its time lets its group go on.", "letters", first=5)
def waiting_holds_no_group(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module.return_messages

    def return_messages(state: Any, queue: QueueState, start: int, end: int, when_ms: int = 0) -> None:
        if when_ms and queue.groups is not None:
            queue.leave_lines(start, end)
        original(state, queue, start, end, when_ms)

    patch.setattr(module, "return_messages", return_messages)


@bug("delayed-is-lost-at-takeover", "ruling 1", "A new master forgets what is delayed.", "letters")
def delayed_is_lost_at_takeover(patch: Patch) -> None:
    def forget(_state: Any, queue: QueueState) -> None:
        for start, end, _ in list(queue.delayed):
            queue.delayed.take(start, end, [])
            queue.forget(start, end, [], FINAL_STATE_PURGED)

    _at_takeover(patch, forget)


@bug("dies-too-early", "semantics 3.7", "A message dies one delivery before its queue's limit.", "letters", first=3)
def dies_too_early(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.time")
    original = module.deliveries_max
    patch.setattr(module, "deliveries_max", lambda queue: max(original(queue) - 1, min(original(queue), 1)))


@bug("never-dies", "semantics 3.7", "No number of failed deliveries ends a message.", "letters")
def never_dies(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.time")
    patch.setattr(module, "deliveries_max", lambda _queue: 0)


@bug(
    "death-forgotten-at-takeover",
    "0012",
    "A new master delivers what has died, and was not moved.",
    "letters",
    first=58,
)
def death_is_forgotten_at_takeover(patch: Patch) -> None:
    def forget(state: Any, queue: QueueState) -> None:
        for start, end, _ in list(queue.dying):
            queue.dying.take(start, end)
            queue.make_ready(start, end)
        state.dying.pop(queue.queue_id, None)

    _at_takeover(patch, forget)


@bug("letter-miscounts", "0012", "A dead letter says one delivery more than it had.", "letters")
def letter_miscounts(patch: Patch) -> None:
    module: Any = import_module("replica.core.messages.copies")
    original = module.dead_letter

    def dead_letter(found: Any, queue: str, reason: str | None, *, volatile: bool) -> Any:
        return original(found._replace(deliveries=found.deliveries + 1), queue, reason, volatile=volatile)

    patch.setattr(module, "dead_letter", dead_letter)


@bug("end-forgotten-at-takeover", "R025", "A new master does not know how messages ended.", "letters")
def end_is_forgotten_at_takeover(patch: Patch) -> None:
    def forget(_state: Any, queue: QueueState) -> None:
        if queue.completions is not None:
            queue.completions.by_state.clear()

    _at_takeover(patch, forget)


@bug("swept-and-kept", "0012", "What an administrator moves stays where it was as well.", "letters")
def swept_and_kept(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module.take_moved

    def take_moved(state: Any, op: Any, freed: list[int]) -> None:
        if op.moved_final != FINAL_STATE_PURGED:
            original(state, op, freed)

    patch.setattr(module, "take_moved", take_moved)


@bug("sweep-begins-anew", "0012", "A move that is asked for again moves what came meanwhile.", "letters")
def sweep_begins_anew(patch: Patch) -> None:
    original = Sweeps._begin

    def begin(self: Sweeps, sweep: Sweep) -> Any:
        now = self.shared.log.last_index.to_bytes(8, "big")
        sweep.request_id = hashlib.blake2b(sweep.request_id + now, digest_size=16).digest()
        return original(self, sweep)

    patch.setattr(Sweeps, "_begin", begin)


@bug("id-lost-at-takeover", "semantics 3.3", "A new master forgets the dedup ids.", "letters")
def id_is_lost_at_takeover(patch: Patch) -> None:
    def forget(_state: Any, queue: QueueState) -> None:
        queue.dedup_ids = None

    _at_takeover(patch, forget)


@bug("id-kept-for-ever", "semantics 3.3", "A dedup id is known beyond its window.", "letters", first=11)
def id_is_kept_for_ever(patch: Patch) -> None:
    patch.setattr(DedupIds, "find", lambda self, name, _time_ms, _config: self._rows.get(name, (0, 0))[0])
    patch.setattr(DedupIds, "forget", lambda _self, _time_ms, _config: None)


@bug(
    "expired-is-delivered",
    "semantics 3.12",
    "A message whose time is over is delivered all the same.",
    "letters",
    first=3,
)
def expired_is_delivered(patch: Patch) -> None:
    module: Any = import_module("replica.machine.plan.lease")
    patch.setattr(module, "unexpired", lambda part, _time_ms: ((part.start, part.end),))


@bug("drops-the-newest", "R159", "A full queue drops what came last.", "requests")
def drops_the_newest(patch: Patch) -> None:
    def droppable(self: QueueState) -> Iterator[Run]:
        for level in self.ready:
            yield from ((at, at + 1) for start, end in reversed(list(level)) for at in reversed(range(start, end)))

    patch.setattr(QueueState, "droppable", droppable)


@bug("drops-whatever-priority", "R159", "A full queue drops the oldest, of whatever priority.", "requests", first=3)
def drops_whatever_priority(patch: Patch) -> None:
    def droppable(self: QueueState) -> Iterator[Run]:
        yield from sorted(run for level in self.ready for run in level)

    patch.setattr(QueueState, "droppable", droppable)


@bug("drops-one-more", "R159", "A full queue drops one message more than it must.", "requests")
def drops_one_more(patch: Patch) -> None:
    module: Any = replica.machine.plan.enqueue
    original = module.drops_for
    patch.setattr(module, "drops_for", lambda queue, count, *more: original(queue, count + (count > 0), *more))


@bug("group-without-a-member", "V19", "A group is delivered when its last member is there.", "gathering")
def group_without_a_member(patch: Patch) -> None:
    patch.setattr(Gathering, "is_whole", property(lambda gathering: gathering.begun or gathering.last > 0))


@bug("group-by-index", "V19", "The members of a group are delivered as they came.", "gathering")
def group_by_index(patch: Patch) -> None:
    def first(gathering: Gathering) -> int:
        return min(gathering.members) if gathering.is_whole and gathering.members else 0

    patch.setattr(Gathering, "first", property(first))
