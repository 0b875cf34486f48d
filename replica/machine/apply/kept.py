"""Does what records say of reactions that are kept: they are found by their keys until they leave; never decides."""

from __future__ import annotations

from collections.abc import Iterable

from replica.machine.state.kept import KeptIndex
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.peer.v1.record_pb2 import DeniedHits, EnqueueOp
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED


def keep(state: State, store: QueueState, op: EnqueueOp) -> None:
    """The one message that enters is a reaction."""
    assert op.count == 1, "a kept reaction stands alone"
    if store.kept is None or store.kept.queue_id != op.kept.queue_id:
        store.kept = KeptIndex(op.kept.queue_id)  # the queue before it is gone, and took its own along
    store.kept.put(op.first_index, op.kept.by, op.kept.hashes)
    state.kept[op.kept.queue_id] = store


def deny(state: State, op: DeniedHits) -> None:
    """A kept reaction leaves these messages alone for good, whoever is master and whatever is granted later (V16)."""
    store = state.queues[op.store_id]
    assert store.kept is not None, "only one that is kept is denied a message"
    assert op.index in store.kept, "only one that is kept is denied a message"
    runs = [(part.first, part.first + part.count) for part in op.ranges]
    store.kept.deny(op.index, runs, op.first_index)
    state.touch((op.store_id,))


def note_ends(state: State, queue_ids: Iterable[int]) -> None:
    """A record was about these queues: where nothing is kept any more, nobody looks for it."""
    for queue_id in queue_ids:
        store = state.queues.get(queue_id)
        if store is None or store.kept is None or store.kept:
            continue
        if state.kept.get(store.kept.queue_id) is store:
            del state.kept[store.kept.queue_id]
        store.kept = None


def end_kept(state: State, queue: QueueState, freed: list[int]) -> None:
    """A queue is deleted: what is kept for it ends with it; what is kept in it does so too."""
    if queue.kept is not None and state.kept.get(queue.kept.queue_id) is queue:
        del state.kept[queue.kept.queue_id]
    store = state.kept.pop(queue.queue_id, None)
    if store is None:
        return
    for start, end in list(store.unleased_in(0, store.next_index)):
        state.take_unleased(store, start, end)
        store.forget(start, end, freed, FINAL_STATE_PURGED)
        store.totals.purged += end - start
    store.kept = store.kept or None
    state.touch((store.queue_id,))
