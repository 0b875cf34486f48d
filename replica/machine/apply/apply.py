"""Does what a record says, the same on every member; never decides, refuses or looks at a clock.

A record that does not fit the state is a broken invariant and an AssertionError: the member stops rather than differ.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from replica.machine.apply.completion import apply_reply, begin_messages, take_owed
from replica.machine.apply.groups import begin_groups, gather, gather_again
from replica.machine.apply.kept import keep, note_ends
from replica.machine.apply.lives import apply_alias, apply_defaults
from replica.machine.apply.locks import lock, unlock
from replica.machine.apply.moves import apply_remove, count_delivery, take_moved
from replica.machine.apply.queue import apply_queue
from replica.machine.apply.save import apply_save
from replica.machine.apply.sides import apply_passed, apply_select, apply_side
from replica.machine.apply.stage import apply_staging, end_staged, note_unit, take_staged
from replica.machine.apply.time import apply_expire, end_lease, place, return_messages, return_undone
from replica.machine.features.batches import note_acked, note_batch
from replica.machine.features.macros import apply_macro, charge, note_dealt
from replica.machine.features.proxies import apply_proxy
from replica.machine.features.readers import apply_reader
from replica.machine.features.rights import apply_rights
from replica.machine.features.weights import apply_weights
from replica.machine.plan.settle import ACK, EXTEND, REJECT, RELEASE, settled_key
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.state.changes import Applied
from replica.machine.state.dealing import dealt_run
from replica.machine.state.dedup import DuplicateRun
from replica.machine.state.dedup_ids import DedupIds
from replica.machine.state.gathering import GroupMember, Standings, WholeGroups
from replica.machine.state.queue import Lease, QueueState
from replica.machine.state.requests import lease_id_of
from replica.machine.state.segments import PRIORITY_DEFAULT, extra_of
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_CONSUMED, FINAL_STATE_DROPPED, FINAL_STATE_REJECTED

_FINAL = MappingProxyType({ACK: FINAL_STATE_CONSUMED, REJECT: FINAL_STATE_REJECTED})


def apply(state: State, log_index: int, epoch: int, header: record_pb2.RecordHeader) -> Applied:
    assert log_index == state.applied_index + 1, "records are applied in order, each once"
    assert header.time_ms >= state.time_ms, "a domain's time never falls"
    state.time_ms = header.time_ms
    name, queue_id = "", 0
    kind = header.WhichOneof("op")
    match kind:
        case "enqueue":
            queue_id = header.enqueue.queue_id
            applied = _enqueue(state, log_index, epoch, header, header.enqueue)
        case "lease":
            queue_id = header.lease.queue_id
            applied = _lease(state, lease_id_of(epoch, log_index), header.time_ms, header.lease)
        case "settle":
            queue_id = header.settle.queue_id
            applied = _settle(state, header.settle)
        case "expire":
            applied = apply_expire(state, header.time_ms, header.expire)
        case "queue":
            queue_id = header.queue.queue_id
            name = header.queue.name or state.queues[queue_id].name
            applied = apply_queue(state, header.time_ms, header.queue)
        case "remove":
            queue_id = header.remove.queue_id
            applied = apply_remove(state, header.remove)
        case "reply":
            queue_id = header.reply.queue_id
            applied = apply_reply(state, log_index, header.reply, header.request_hash)
        case "alias":
            queue = apply_alias(state, header.alias)
            name, queue_id = queue.name, queue.queue_id
            applied = Applied((queue_id,), [])
        case "txn":
            applied = _txn(state, log_index, epoch, header)
        case "save":
            queue_id = header.save.queue_id
            applied = apply_save(state, header.save)
        case "defaults":
            apply_defaults(state, header.defaults)
            applied = Applied((), [])
        case _:
            applied = _beside_queues(state, log_index, epoch, header)
    applied = _note(state, log_index, applied)
    if header.request_id:
        touched = state.queues.get(queue_id)
        version = _version_of(state, kind) if kind in ("defaults", "rights") else touched.version if touched else 0
        state.requests.add(log_index, epoch, header, name, version)
    return applied


def _version_of(state: State, kind: str) -> int:
    return state.defaults_version if kind == "defaults" else state.rights.version


def _note(state: State, log_index: int, applied: Applied) -> Applied:
    """Whatever the record was: what else follows from it."""
    if state.shared and applied.freed:
        applied = applied._replace(freed=_of_no_queue(state, applied.freed))
    state.applied_index = log_index
    state.touch(applied.queue_ids)
    if state.kept:
        note_ends(state, applied.queue_ids)
    if state.gathering:
        gather_again(state, applied.queue_ids)
    if state.changes is not None:
        state.changes.note(applied)
    if state.idle.used:
        _note_idle(state, applied.queue_ids)
    return applied


def _beside_queues(state: State, log_index: int, epoch: int, header: record_pb2.RecordHeader) -> Applied:
    """What is no operation on a queue."""
    kind = header.WhichOneof("op")
    match kind:
        case "stage" | "publish" | "unstage" | "release":
            return apply_staging(state, log_index, header)
        case "reader":
            apply_reader(state, log_index, header.time_ms, header.reader)
            return Applied((), [])
        case "weights":
            apply_weights(state, header.time_ms, header.weights)
            return Applied((), [])
        case "macro" | "proxy" | "rights":
            _apply_second(state, log_index, header)
            return Applied((), [])
        case "side":
            return apply_side(state, log_index, header.time_ms, header.side)
        case "passed":
            return apply_passed(state, log_index, header.time_ms, header.passed)
        case "select":
            return apply_select(state, log_index, lease_id_of(epoch, log_index), header)
        case _:
            assert kind == "role", f"no record is of kind {kind}"
            state.history_id = state.history_id or header.role.history_id  # a history gets its id once
            returned = _end_units(state, header.role)
            return _role(state, header.time_ms)._replace(queue_ids=returned)


def _apply_second(state: State, log_index: int, header: record_pb2.RecordHeader) -> None:
    """Of the kinds that came with protocol 2: changes of what is not there at first. Sides follow their queues."""
    state.beyond_first = True
    match header.WhichOneof("op"):
        case "macro":
            apply_macro(state, header.time_ms, header.macro)
        case "proxy":
            apply_proxy(state, header.time_ms, header.proxy)
        case _:
            apply_rights(state, log_index, header.time_ms, header.rights)


def _note_idle(state: State, queue_ids: Sequence[int]) -> None:
    """R162: the clock begins with whatever used the queue last or left it empty."""
    for queue_id in queue_ids:
        queue = state.queues.get(queue_id)
        if queue is not None and queue.idle_ms and not queue.length:
            queue.idle_since_ms = state.time_ms
            state.idle.touch(queue)


def _txn(state: State, log_index: int, epoch: int, header: record_pb2.RecordHeader) -> Applied:
    """U2: what is settled, answered or removed leaves before anything enters."""
    op = header.txn
    done = [_settle(state, settle) for settle in op.settles]
    done += [apply_reply(state, log_index, reply, reply.fingerprint) for reply in op.replies]
    done += [apply_remove(state, remove) for remove in op.removes]
    entered = [_enqueue(state, log_index, epoch, header, enqueue) for enqueue in op.enqueues]
    if op.writer:
        note_unit(state, header.time_ms, op)
    if op.HasField("deal") and op.deal.client_id:
        run = dealt_run(log_index, epoch, op.deal, op.enqueues)
        sender = op.deal.macro_id, op.deal.client_id
        state.producers.add(*sender, run, header.time_ms, header.request_hash & 0xFFFFFFFF)
    if op.deal.weighed:
        counts = [(each.queue_id, each.count - len(each.refusals) - len(each.duplicates)) for each in op.enqueues]
        charge(state, op.deal.macro_id, header.time_ms, counts)
    # A queue that got messages and gave answers needs the body for either.
    holders = sum(enqueue.first_index > 0 for enqueue in op.enqueues) + len({reply.queue_id for reply in op.replies})
    if holders > 1:
        state.shared[log_index] = holders
    freed = [each for applied in done for each in applied.freed]
    freed += [each for applied in entered for each in applied.freed if each != log_index]
    if op.enqueues and not holders:
        freed.append(log_index)
    touched = dict.fromkeys(queue_id for applied in (*done, *entered) for queue_id in applied.queue_ids)
    return Applied(tuple(touched), freed)


def _of_no_queue(state: State, freed: list[int]) -> list[int]:
    """Of records that one of their queues needs no more, those that no other one needs (U14)."""
    left: list[int] = []
    for log_index in freed:
        holders = state.shared.get(log_index, 1)
        if holders > 1:
            state.shared[log_index] = holders - 1
        else:
            state.shared.pop(log_index, None)
            left.append(log_index)
    return left


def _enqueue(
    state: State, log_index: int, epoch: int, header: record_pb2.RecordHeader, op: record_pb2.EnqueueOp
) -> Applied:
    time_ms = header.time_ms
    queue = state.queues[op.queue_id]
    refusals = tuple((refusal.ordinal, refusal.reason) for refusal in op.refusals) if op.refusals else ()
    doubles = tuple((double.ordinal, double.index) for double in op.duplicates) if op.duplicates else ()
    count = op.count - len(refusals) - len(doubles)
    if op.client_id or op.macro_id:
        answer = op.first_index, log_index, epoch, refusals, op.downgraded, doubles
        _note_sender(state, header, op, DuplicateRun(op.first_sequence, op.count, *answer))
    queue.last_activity_ms = time_ms
    if refusals:
        queue.totals.refused_full += any(reason == common_pb2.REASON_QUEUE_FULL for _, reason in refusals)
    queue.totals.duplicates += len(doubles)
    if not count:
        return Applied((op.queue_id,), [log_index])
    freed: list[int] = []
    for part in op.dropped:
        low, high = part.first, part.first + part.count
        taken = queue.take_ready(low, high) + queue.take_blocked(low, high)
        assert taken == part.count, "dropped what is neither ready nor blocked"
        queue.forget(low, high, freed, FINAL_STATE_DROPPED)
        queue.totals.dropped += part.count
    start, end = op.first_index, op.first_index + count
    assert start == queue.next_index, "indexes are dense"
    standings = _standings(queue, op) if op.updated else {}
    source_id = _take_from_elsewhere(state, op, freed) if op.internal else 0
    ordinals: array[int] = array("H")
    if refusals or doubles:
        left_out = {ordinal for ordinal, _ in (*refusals, *doubles)}
        ordinals.extend(ordinal for ordinal in range(op.count) if ordinal not in left_out)
    if op.dedup_ids:
        _remember_ids(state, queue, time_ms, op, ordinals)
    is_elsewhere = op.first_ordinal or (op.macro_id and op.ordinals)
    if op.priorities or op.expires_at_ms or ordinals or op.deliver_at_ms or op.groups or is_elsewhere:
        priorities = _of_accepted(op.priorities, ordinals)
        expiries = _of_accepted(op.expires_at_ms, ordinals)
        expiry, each = _expiries(expiries)
        groups = array("Q", _of_accepted(op.groups, ordinals))
        places = _places(op, ordinals) if is_elsewhere else ordinals
        extra = extra_of(places, bytes(priorities), each, groups)
        queue.segments.append(start, log_index, count, op.payload_bytes, expiry, extra)
        if expiry or each:
            queue.timed += count if expiry else sum(1 for at_ms in each if at_ms)
            state.schedule_messages(queue, start, end)
        times_ms = _of_accepted(op.deliver_at_ms, ordinals)
        if op.group_sequences:
            gather(state, queue, start, groups, _members(op, ordinals), times_ms, standings)
        else:
            place(state, queue, start, end, times_ms, groups)
    else:
        queue.segments.append(start, log_index, count, op.payload_bytes)
        queue.ready[PRIORITY_DEFAULT].add(start, end)
    if op.volatiles:
        marks = _of_accepted(op.volatiles, ordinals)
        for low, high in _marked(marks, start, end):
            queue.volatile.add(low, high)
    if queue.completions is not None:
        begin_messages(state, queue, start, end)
        for low, high in _marked(_of_accepted(op.addressed, ordinals), start, end) if op.addressed else ():
            queue.completions.addressed.add(low, high)
    queue.next_index = end
    queue.length += count
    queue.weigh(op.payload_bytes)
    queue.totals.enqueued += count
    queue.totals.highest_length = max(queue.totals.highest_length, queue.length)
    _show(state, log_index, queue, op)
    touched = (op.queue_id, source_id, *(left.queue_id for left in op.more_moved_from)) if source_id else (op.queue_id,)
    return Applied(touched, freed)


def _note_sender(state: State, header: record_pb2.RecordHeader, op: record_pb2.EnqueueOp, run: DuplicateRun) -> None:
    """A producer's sequences are those of the macro queue, where it has sent to one (M2)."""
    if op.macro_id:
        if op.first_index:
            state.macros.by_id[op.macro_id].last = op.queue_id
        if op.weighed:
            entered = op.count - len(op.refusals) - len(op.duplicates)
            charge(state, op.macro_id, header.time_ms, [(op.queue_id, entered)])
        run = run._replace(queue_id=op.queue_id)
    if op.client_id:
        fingerprint = header.request_hash & 0xFFFFFFFF
        state.producers.add(op.macro_id or op.queue_id, op.client_id, run, header.time_ms, fingerprint)
        if (owned := state.queues[op.queue_id].owned) is not None and not op.macro_id:
            before_ms = state.producers.known_since_ms(header.time_ms)
            owned.remember(op.queue_id, op.client_id, header.time_ms, before_ms)


def _show(state: State, log_index: int, queue: QueueState, op: record_pb2.EnqueueOp) -> None:
    """What entered is visible once it is committed."""
    last_index = queue.next_index - 1
    if log_index <= state.commit_index:
        queue.visible_index = state.stages.seen(op.queue_id, last_index)
    else:
        state.pending.append((log_index, op.queue_id, last_index))
    if op.staged:
        end_staged(state, log_index)


def _take_from_elsewhere(state: State, op: record_pb2.EnqueueOp, freed: list[int]) -> int:
    """What the manager put here leaves another queue, or is owed by it no longer; the queue that messages left."""
    if op.HasField("kept"):
        keep(state, state.queues[op.queue_id], op)
    if op.answers.queue_id:
        take_owed(state, op)
    if op.moved_from.queue_id:
        take_moved(state, op, freed)
    if op.staged:
        take_staged(state, op, freed)
    return op.moved_from.queue_id


def _standings(queue: QueueState, op: record_pb2.EnqueueOp) -> Standings:
    """Of the groups whose members this changes."""
    return queue.groups.standings(op.groups) if isinstance(queue.groups, WholeGroups) else {}


def _members(op: record_pb2.EnqueueOp, ordinals: array[int]) -> list[GroupMember]:
    """Of what entered; those of no group are not looked at."""
    columns = (op.group_sequences, op.group_bytes, op.lasts_in_group)
    return [GroupMember(*row) for row in zip(*(_of_accepted(column, ordinals) for column in columns), strict=True)]


def _places(op: record_pb2.EnqueueOp, ordinals: array[int]) -> array[int]:
    """In the record's body, of what entered."""
    if op.ordinals:
        return array("H", [op.ordinals[ordinal] for ordinal in ordinals or range(op.count)])
    return array("H", [op.first_ordinal + ordinal for ordinal in ordinals or range(op.count)])


def _remember_ids(
    state: State, queue: QueueState, time_ms: int, op: record_pb2.EnqueueOp, ordinals: Sequence[int]
) -> None:
    known, names = queue.dedup_ids or DedupIds(), op.dedup_ids
    queue.dedup_ids = known
    for index, ordinal in enumerate(ordinals or range(op.count), op.first_index):
        if name := names[ordinal if len(names) > 1 else 0]:
            known.add(name, index, time_ms)
    known.forget(time_ms, queue.config)
    if op.macro_id:
        note_dealt(state, op, ordinals)


def _of_accepted(column: Sequence[int], ordinals: Sequence[int]) -> Sequence[int]:
    return [column[ordinal] for ordinal in ordinals] if ordinals and len(column) > 1 else column


def _expiries(column: Sequence[int]) -> tuple[int, array[int]]:
    """One for all, or one each: only a batch whose messages differ pays for each of them."""
    if not column or min(column) == max(column):
        return (column[0] if column else 0), array("Q")
    return 0, array("Q", column)


def _marked(marks: Sequence[int], start: int, end: int) -> Iterable[Run]:
    if len(marks) == 1:
        return ((start, end),) if marks[0] else ()
    return ((start + at, start + at + 1) for at, mark in enumerate(marks) if mark)


def _lease(state: State, lease_id: int, time_ms: int, op: record_pb2.LeaseOp) -> Applied:
    queue = state.queues[op.queue_id]
    freed: list[int] = []
    if op.macro_id:
        state.macros.by_id[op.macro_id].last = op.queue_id
    if op.reaction:
        lock(state, lease_id, op)
        return Applied((op.queue_id,), freed, lease_id)
    runs = [(part.first, part.first + part.count) for part in op.ranges]
    for start, end in runs:
        assert queue.take_ready(start, end) == end - start, "leased what is not ready"
    if queue.groups is not None:
        begin_groups(queue, runs)
    queue.last_activity_ms = time_ms
    if op.immediate:
        for start, end in runs:
            queue.forget(start, end, freed, FINAL_STATE_CONSUMED)
            queue.totals.acked += end - start
            queue.totals.delivered += end - start
        return Applied((op.queue_id,), freed)
    held = RangeSet(runs)
    times = op.expires_at_ms, op.duration_ms, time_ms
    lease = Lease(lease_id, op.queue_id, held, op.client_id, *times, op.unit, None, op.macro_id)
    queue.totals.delivered += lease.ranges.size
    queue.leases[lease_id] = state.leases[lease_id] = lease
    if lease.duration_ms:
        state.lease_ends.push(lease.expires_at_ms, op.queue_id, lease_id)
    if op.batch_number:
        note_batch(state, op, lease_id, runs)
    return Applied((op.queue_id,), freed, lease_id)


def _settle(state: State, op: record_pb2.SettleOp) -> Applied:
    queue = state.queues[op.queue_id]
    freed: list[int] = []
    for effect in op.effects:
        lease = queue.leases.get(effect.lease_id)
        if effect.outcome == EXTEND:
            assert lease, "extended a lease that is not there"
            lease.expires_at_ms, lease.duration_ms = effect.expires_at_ms, effect.duration_ms
            state.lease_ends.push(lease.expires_at_ms, op.queue_id, lease.lease_id)
            continue
        held_ms = state.time_ms - lease.since_ms if lease else None
        for part in effect.ranges:
            start, end = part.first, part.first + part.count
            if effect.outcome == RELEASE:
                assert lease, "released what no lease holds"
                lease.ranges.remove(start, end)
                if effect.unlock:
                    unlock(state, queue, lease, start, end)
                    continue
                if effect.backout:
                    return_undone(state, queue, ((start, end),), state.time_ms, rules=True)
                else:
                    return_messages(state, queue, start, end, effect.deliver_at_ms)
                queue.totals.released += end - start
            else:
                if effect.dead_letter and lease:
                    count_delivery(queue, lease, start, end)
                held = lease.ranges.discard(start, end) if lease else 0
                if held < end - start:
                    held += state.take_waiting(queue, start, end)
                assert held == end - start, "settled what is not there"
                if effect.dead_letter:
                    state.kill(queue, start, end, effect.reason)
                else:
                    queue.forget(start, end, freed, _FINAL[effect.outcome])
                _count_settled(state, queue, effect, start, end)
                if held_ms is not None and effect.outcome == ACK:
                    queue.totals.note_processed(end - start, held_ms)
        if lease and not lease.ranges:
            end_lease(state, lease)
    if op.batch_number:
        note_acked(state, op)
    return Applied((op.queue_id,), freed)


def _count_settled(state: State, queue: QueueState, effect: record_pb2.SettleEffect, start: int, end: int) -> None:
    if effect.outcome == ACK:
        queue.totals.acked += end - start
    else:
        assert effect.outcome == REJECT, "an outcome without a meaning"
        queue.totals.rejected += end - start
    key = settled_key(effect.lease_id, effect.outcome)
    queue.remember_settled(key, start, end, state.limits.settled_leases_kept)


def _role(state: State, time_ms: int) -> Applied:
    """Consumers had no master to settle at: every lease restarts in full."""
    for lease in state.leases.values():
        if not lease.duration_ms:
            continue  # it does not end by time
        lease.expires_at_ms = time_ms + lease.duration_ms
        state.touch((lease.queue_id,))
        state.lease_ends.push(lease.expires_at_ms, lease.queue_id, lease.lease_id)
    return Applied((), [])


def _end_units(state: State, op: record_pb2.RoleOp) -> tuple[int, ...]:
    """Open units of work are gone with the old master, and what they had locked was not at fault (U10). Says of which
    queues that was.
    """
    returned: dict[int, None] = {}
    for lease_id in op.unit_leases:
        lease = state.leases[lease_id]
        assert lease.unit, "the lease of no unit ended with its master"
        queue = state.queues[lease.queue_id]
        for start, end in lease.ranges:
            if lease.locked is not None:
                unlock(state, queue, lease, start, end)
            else:
                return_messages(state, queue, start, end)
        returned[lease.queue_id] = None
        end_lease(state, lease)
    return tuple(returned)
