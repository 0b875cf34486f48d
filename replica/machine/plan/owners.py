"""Decides whether a principal may keep more than it does, by `security.quotas` of the master; changes nothing.

What counts for it are the queues that it made, whoever sends to them. What a manager makes for itself, dead letters for
one, counts and is not held back; what a client has moved is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from types import MappingProxyType

from replica.machine.plan.dropping import Departing, leaving_of
from replica.machine.state.errors import Refused
from replica.machine.state.kept_quotas import KeptQuota
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tandemq.over_quota import QUOTA
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2

AGAIN_MS = 1_000
"""When there may be room for more bytes: nobody knows."""


def check_queues(state: State, owner: str) -> None:
    """Refused, and not to be repeated: one of its queues has to go first."""
    quota = state.limits.kept_quotas.of(owner) if owner else None
    if quota is None or not quota.queues:
        return
    owned = state.owners.by_name.get(owner)
    if owned is not None and owned.queues >= quota.queues:
        text = f"{owner} has {owned.queues} queues and may have {quota.queues} (security.quotas): delete one first"
        raise _exceeded(text, "queues", quota.queues, owner)


def check_entering(
    state: State, ops: Iterable[record_pb2.EnqueueOp], leaving: Mapping[int, Departing] = MappingProxyType({})
) -> None:
    """Refused when what enters by one record is more than the owners of those queues may store. `leaving`: what leaves
    queues by the same record, by their numbers.
    """
    if not state.owners.by_name:
        return
    check_stored(state, ((state.queues[op.queue_id], _more(state, op, leaving)) for op in ops))


def check_stored(state: State, entering: Iterable[tuple[QueueState, int]]) -> None:
    """The same, by payload bytes for each queue."""
    more: dict[str, int] = {}
    for queue, size in entering:
        if queue.owned is not None:
            more[queue.config.owner] = more.get(queue.config.owner, 0) + size
    for owner, size in more.items():
        quota = state.limits.kept_quotas.of(owner)
        if quota is not None and quota.stored:
            _check_room(owner, state.owners.by_name[owner].bytes, quota, size)


def check_moved(state: State, op: record_pb2.EnqueueOp, source: QueueState, leaving: Departing) -> None:
    """The same, of what enters a queue by a client's order and leaves another one, which may be the same owner's."""
    to = state.queues[op.queue_id]
    stays = leaving.payload_bytes if to.owned is source.owned else 0
    check_stored(state, [(to, _more(state, op, {}) - stays)])


def check_coming(state: State, to: QueueState, source: QueueState, size: int, before: int) -> None:
    """Refused when the owner of `to` may not store so many bytes that come from another owner's queue, behind as many
    `before` them.
    """
    quota = state.limits.kept_quotas.of(to.config.owner) if to.owned is not None else None
    if to.owned is not None and to.owned is not source.owned and quota is not None and quota.stored:
        _check_room(to.config.owner, to.owned.bytes + before, quota, size)


def without_room(state: State, queues: Iterable[QueueState], size: int, *, each: bool) -> set[int]:
    """Numbers of those whose owner may not store `size` payload bytes more. `each`: all of them are to get as much, the
    first ones first; else one of them is.
    """
    found: set[int] = set()
    more: dict[str, int] = {}
    for queue in queues:
        owner = queue.config.owner
        quota = state.limits.kept_quotas.of(owner) if queue.owned is not None else None
        if queue.owned is None or quota is None or not quota.stored:
            continue
        if queue.owned.bytes + more.get(owner, 0) + size > quota.stored:
            found.add(queue.queue_id)
        elif each:
            more[owner] = more.get(owner, 0) + size
    return found


def _more(state: State, op: record_pb2.EnqueueOp, leaving: Mapping[int, Departing]) -> int:
    queue, gone = state.queues[op.queue_id], leaving.get(op.queue_id)
    dropped = leaving_of(queue, [(each.first, each.first + each.count) for each in op.dropped])
    return op.payload_bytes - dropped.payload_bytes - (gone.payload_bytes if gone is not None else 0)


def _check_room(owner: str, held: int, quota: KeptQuota, size: int) -> None:
    if size <= 0 or held + size <= quota.stored:
        return
    text = f"queues of {owner} hold {held} bytes and may hold {quota.stored} (security.quotas)"
    if size > quota.stored:
        raise _exceeded(f"{text}: {size} more never fit; send less at once", "stored", quota.stored, owner)
    text = f"{text}: there is no room for {size} more; consume, or repeat it later"
    raise _exceeded(text, "stored", quota.stored, owner, AGAIN_MS)


def check_identity(state: State, queue: QueueState, client_id: bytes, time_ms: int) -> None:
    """Of a batch by sequences: whether its sender may be one more that is remembered."""
    owned, owner = queue.owned, queue.config.owner
    quota = state.limits.kept_quotas.of(owner) if owned is not None else None
    if owned is None or quota is None or not quota.identities:
        return
    before_ms = state.producers.known_since_ms(time_ms)
    last_ms = owned.identities.get((queue.queue_id, client_id), before_ms - 1)
    if last_ms >= before_ms:
        return
    used = owned.identities.values()
    live = len(used) - sum(1 for _ in takewhile(lambda used_ms: used_ms < before_ms, used))
    if live < quota.identities:
        return
    wait_ms = next(islice(used, len(used) - quota.identities, None)) - before_ms + 1
    text = (
        f"{live} clients have sent to queues of {owner} within {(time_ms - before_ms) // 1_000} s, and "
        f"{quota.identities} are remembered (security.quotas): use fewer client ids, or repeat it after {wait_ms} ms"
    )
    raise _exceeded(text, "identities", quota.identities, owner, wait_ms)


def _exceeded(text: str, kind: str, limit: int, owner: str, wait_ms: int | None = None) -> Refused:
    metadata = {QUOTA: kind, "limit": str(limit), "principal": owner}
    return Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, metadata, wait_ms)
