"""Does what changes a queue as a whole: its attributes, its names, its end; never decides whether it may."""

from __future__ import annotations

from replica.machine.apply.kept import end_kept
from replica.machine.apply.stage import forget_queue
from replica.machine.features.batches import forget_batches
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State, enabled_at_ms
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


def delete(state: State, queue: QueueState, freed: list[int]) -> None:
    """With its messages, leases, names and producers."""
    freed.extend(queue.log_indexes())
    if state.kept:
        end_kept(state, queue, freed)
    for lease_id in queue.leases:
        del state.leases[lease_id]
    for name in (queue.name, *queue.aliases):
        del state.ids[name]
    del state.queues[queue.queue_id]
    state.owners.end(queue, queue.config.owner)
    state.dying.pop(queue.queue_id, None)
    state.saving.pop(queue.queue_id, None)
    state.owing.pop(queue.queue_id, None)
    state.gathering.discard(queue.queue_id)
    state.sided.pop(queue.queue_id, None)
    state.own_sides.pop(queue.queue_id, None)
    state.producers.forget_queue(queue.queue_id)
    forget_batches(state, queue.queue_id)
    state.macros.forget_queue(queue.queue_id)
    state.gone.add(queue.totals)
    forget_queue(state, queue.queue_id, freed)


def enable(queue: QueueState, time_ms: int) -> None:
    """Sending, receiving or both: whatever was to be enabled by then."""
    config = admin_pb2.QueueConfig()
    config.CopyFrom(queue.config)
    if 0 < enabled_at_ms(config, receiving=False) <= time_ms:
        config.enqueue_enabled = True
        config.ClearField("enqueue_enabled_at")
    if 0 < enabled_at_ms(config, receiving=True) <= time_ms:
        config.dequeue_enabled = True
        config.ClearField("dequeue_enabled_at")
    queue.config = config
    queue.version += 1


def apply_alias(state: State, op: record_pb2.AliasOp) -> QueueState:
    """The queue that has it now, or had it."""
    queue_id = op.queue_id or state.ids[op.alias]
    queue = state.queues[queue_id]
    if op.queue_id:
        assert op.alias not in state.ids, "two queues of one name"
        state.ids[op.alias] = queue_id
        queue.aliases = tuple(sorted((*queue.aliases, op.alias)))
    else:
        assert op.alias in queue.aliases, "a queue keeps its name"
        del state.ids[op.alias]
        queue.aliases = tuple(alias for alias in queue.aliases if alias != op.alias)
    return queue


def apply_defaults(state: State, op: record_pb2.DefaultsOp) -> None:
    state.defaults = admin_pb2.QueueConfig()
    state.defaults.CopyFrom(op.config)
    state.defaults_version += 1
