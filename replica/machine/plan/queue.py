"""Decides whether a queue may be created, changed, opened, closed, purged or removed; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from replica.machine.plan.dead_letters import OF_PRODUCERS, check_taken, check_way
from replica.machine.plan.fan_in import check_stays
from replica.machine.plan.owners import check_queues
from replica.machine.plan.save import mark_change
from replica.machine.plan.sides import put_destroyed, put_restarted, refuse_where_plain
from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import is_system, kept_for, met_in
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
DELETE, PURGE = record_pb2.QUEUE_ACTION_DELETE, record_pb2.QUEUE_ACTION_PURGE
OPEN, CLOSE = record_pb2.QUEUE_ACTION_OPEN, record_pb2.QUEUE_ACTION_CLOSE
DESTROY, CONFIGURE = record_pb2.QUEUE_ACTION_DESTROY, record_pb2.QUEUE_ACTION_CONFIGURE

OF_KEPT: Sequence[Literal["require_two", "annotation", "labels"]] = ("require_two", "annotation", "labels")
"""Attributes that an operator may change of a queue of kept reactions."""


@dataclass(frozen=True, slots=True)
class QueueCall:
    action: record_pb2.QueueAction
    name: str
    config: admin_pb2.QueueConfig | None = None  # CREATE, UPDATE; OPEN: what the instance takes them to be
    mask: Sequence[str] = ()  # UPDATE; empty: what is set in config
    expected_version: int = 0  # UPDATE; 0: any
    member: str = ""  # OPEN, CLOSE: empty: all that hold it; DESTROY, RESTART_SIDE
    after: int | None = None  # RESTART_SIDE; None: everything that is still there is for it
    members: Sequence[str] = ()  # CREATE; empty: all that the machine knows
    open_members: Sequence[str] | None = None  # CREATE; None: all of them
    if_empty: bool = False  # DELETE
    configuring: bool = False  # CREATE: what freezes at CONFIGURE can still be changed; opened nowhere
    request_id: bytes = b""
    request_hash: int = 0


def plan_queue(state: State, member_names: Sequence[str], now_ms: int, call: QueueCall) -> record_pb2.RecordHeader:
    assert call.request_id not in state.requests, "find_request comes first"
    if call.action == CREATE:
        op = _create(state, member_names, call)
    else:
        op = _change(state, state.named(call.name), call)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, queue=op
    )


def _create(state: State, member_names: Sequence[str], call: QueueCall) -> record_pb2.QueueOp:
    if not is_system(call.name):
        rules.check_name(kept_for(call.name) or met_in(call.name) or call.name, state.limits)
    check_free(state, call.name)
    if len(state.queues) >= state.limits.queues_max:
        raise Refused(
            common_pb2.REASON_QUOTA_EXCEEDED, f"there are {len(state.queues)} queues, which is the most there may be"
        )
    members = sorted(set(call.members or member_names))
    open_members = members if call.open_members is None else sorted(set(call.open_members))
    if call.configuring:
        open_members = []
    if not members or not set(open_members) <= set(members):
        raise Refused(common_pb2.REASON_CONFIG_ERROR, "a queue opens only on members that hold it")
    config = rules.resolve(call.config, state.limits, state.defaults)
    if call.request_id:  # what a manager makes for itself has none
        check_queues(state, config.owner)
    check_way(state, call.name, config)
    if config.replication == admin_pb2.REPLICATION_PRODUCER:
        check_taken(state, call.name, OF_PRODUCERS)
    return record_pb2.QueueOp(
        action=CREATE,
        queue_id=state.next_queue_id,
        name=call.name,
        config=config,
        members=members,
        open_members=open_members,
        configuring=call.configuring,
    )


def check_free(state: State, name: str) -> None:
    """Names, aliases, macro queues and proxies share one name space (M1)."""
    if (proxy := state.proxies.by_name.get(name)) is not None:
        text = f"{name} is a proxy of {proxy.target}"
        raise Refused(common_pb2.REASON_QUEUE_EXISTS, text, {"queue": name})
    if name in state.macros.by_name:
        raise Refused(common_pb2.REASON_QUEUE_EXISTS, f"{name} is a macro queue", {"queue": name})
    queue_id = state.ids.get(name)
    if queue_id is None:
        return
    queue = state.queues[queue_id]
    if queue.name == name:
        raise Refused(common_pb2.REASON_QUEUE_EXISTS, f"queue {name} exists already")
    raise Refused(
        common_pb2.REASON_ALIAS_EXISTS,
        f"{name} is an alias of queue {queue.name}; choose another name, or remove the alias first",
        {"queue": queue.name},
    )


def _change(state: State, queue: QueueState, call: QueueCall) -> record_pb2.QueueOp:
    op = record_pb2.QueueOp(action=call.action, queue_id=queue.queue_id)
    match call.action:
        case record_pb2.QUEUE_ACTION_UPDATE:
            if call.expected_version not in (0, queue.version):
                raise Refused(
                    common_pb2.REASON_VERSION_MISMATCH,
                    f"queue {queue.name} has version {queue.version}, not {call.expected_version}; read it again",
                    {"version": str(queue.version)},
                )
            new = call.config or admin_pb2.QueueConfig()
            frozen = not queue.configuring
            made = rules.updated(queue.config, new, call.mask, state.limits, frozen=frozen, defaults=state.defaults)
            _check_change(state, queue, made)
            mark_change(queue, made, op)
            op.config.CopyFrom(made)
        case record_pb2.QUEUE_ACTION_DELETE:
            if call.if_empty and queue.length:
                raise Refused(common_pb2.REASON_NOT_EMPTY, f"queue {queue.name} holds {queue.length} messages")
            op.removed = queue.length
        case record_pb2.QUEUE_ACTION_PURGE:
            refuse_where_plain(queue, "what a purge removes one side may have been given already; delete the queue")
            op.removed = queue.ready_count + queue.blocked_count + queue.delayed.size + queue.dying.size
        case record_pb2.QUEUE_ACTION_OPEN | record_pb2.QUEUE_ACTION_CLOSE | record_pb2.QUEUE_ACTION_DESTROY:
            _check_move(queue, call)
            op.member = call.member
            if call.action == OPEN and call.config is not None:
                _open_with(state, queue, call.config, op)
            if call.action == DESTROY:
                put_destroyed(queue, op)
            if call.action == DESTROY and queue.members == {call.member}:
                op.removed = queue.length
        case record_pb2.QUEUE_ACTION_RESTART_SIDE:
            op.member = call.member
            put_restarted(queue, op, call.after)
        case record_pb2.QUEUE_ACTION_CONFIGURE:
            if not queue.configuring:
                _illegal(f"queue {queue.name} is configured already; open it")
        case _:
            raise Refused(common_pb2.REASON_BAD_REQUEST, f"there is no action {call.action} on a queue")
    return op


def _open_with(state: State, queue: QueueState, options: admin_pb2.QueueConfig, op: record_pb2.QueueOp) -> None:
    """R049: the first instance brings its options, the others agree."""
    first, frozen = not queue.open_members, queue.next_index > 1
    made = rules.opened(queue.config, options, state.limits, first=first, frozen=frozen, defaults=state.defaults)
    if made is not None and made != queue.config:
        _check_change(state, queue, made)
        mark_change(queue, made, op)
        op.config.CopyFrom(made)


def _check_change(state: State, queue: QueueState, made: admin_pb2.QueueConfig) -> None:
    if made.owner != queue.config.owner:
        check_queues(state, made.owner)
    _check_kept(queue, made)
    _check_group_mode(queue, made)
    check_way(state, queue.name, made)
    check_stays(state, queue, made)


def _check_kept(queue: QueueState, made: admin_pb2.QueueConfig) -> None:
    """V11: what is kept there is as durable as was said, and nobody puts anything in or takes it out by hand."""
    kept = kept_for(queue.name)
    if not kept:
        return
    before, after = admin_pb2.QueueConfig(), admin_pb2.QueueConfig()
    for copy, config in ((before, queue.config), (after, made)):
        copy.CopyFrom(config)
        for name in OF_KEPT:
            copy.ClearField(name)
    if before != after:
        text = (
            f"queue {queue.name} holds what is kept for {kept}, and is the manager's own: {', '.join(OF_KEPT)} may "
            "be changed; purge or delete it to end what is kept"
        )
        raise Refused(common_pb2.REASON_READ_ONLY, text, {"queue": queue.name})


def _check_group_mode(queue: QueueState, made: admin_pb2.QueueConfig) -> None:
    """What is in the queue entered without a place in a group's line, or has one."""
    if queue.length and made.group_mode != queue.config.group_mode:
        text = f"queue {queue.name} holds {queue.length} messages, and group_mode changes only while it is empty"
        text = f"{text}: let them be consumed, or purge the queue, and change it then"
        raise Refused(common_pb2.REASON_NOT_EMPTY, text, {"length": str(queue.length)})


def _check_move(queue: QueueState, call: QueueCall) -> None:
    """Any event that the state does not expect is INVALID_STATE (R095)."""
    name, member = queue.name, call.member
    if call.action == OPEN and queue.configuring:
        _illegal(f"queue {name} is still being configured; configure it first")
    if not member:
        if call.action == OPEN and queue.open_members == queue.members:
            _illegal(f"queue {name} is open already")
        if call.action == CLOSE and not queue.open_members:
            _illegal(f"queue {name} is not open")
        if call.action != DESTROY:
            return
    if member not in queue.members:
        _illegal(f"{member or 'no member'} holds no instance of queue {name}")
    if call.action == OPEN and member in queue.open_members:
        _illegal(f"queue {name} is open at {member} already")
    if call.action == CLOSE and member not in queue.open_members:
        _illegal(f"queue {name} is not open at {member}")


def _illegal(problem: str) -> NoReturn:
    raise Refused(common_pb2.REASON_INVALID_STATE, problem)
