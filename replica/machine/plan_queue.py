"""Decides whether a queue may be created, changed, opened, closed, purged or removed; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.machine import config as rules
from replica.machine.errors import Refused
from replica.machine.queue import QueueState
from replica.machine.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
DELETE, PURGE = record_pb2.QUEUE_ACTION_DELETE, record_pb2.QUEUE_ACTION_PURGE
OPEN, CLOSE = record_pb2.QUEUE_ACTION_OPEN, record_pb2.QUEUE_ACTION_CLOSE
DESTROY = record_pb2.QUEUE_ACTION_DESTROY


@dataclass(frozen=True, slots=True)
class QueueCall:
    now_ms: int
    action: record_pb2.QueueAction
    name: str
    config: admin_pb2.QueueConfig | None = None  # CREATE, UPDATE
    mask: Sequence[str] = ()  # UPDATE; empty: what is set in config
    expected_version: int = 0  # UPDATE; 0: any
    member: str = ""  # OPEN, CLOSE, DESTROY
    members: Sequence[str] = ()  # CREATE; empty: all that the machine knows
    open_members: Sequence[str] | None = None  # CREATE; None: all of them
    if_empty: bool = False  # DELETE
    request_id: bytes = b""
    request_hash: int = 0


def plan_queue(state: State, member_names: Sequence[str], call: QueueCall) -> record_pb2.RecordHeader:
    assert call.request_id not in state.requests, "find_request comes first"
    if call.action == CREATE:
        op = _create(state, member_names, call)
    else:
        op = _change(state, state.named(call.name), call)
    return record_pb2.RecordHeader(
        time_ms=state.at(call.now_ms), request_id=call.request_id, request_hash=call.request_hash, queue=op
    )


def _create(state: State, member_names: Sequence[str], call: QueueCall) -> record_pb2.QueueOp:
    rules.check_name(call.name, state.limits)
    if call.name in state.ids:
        raise Refused(common_pb2.REASON_QUEUE_EXISTS, f"queue {call.name} exists already")
    if len(state.queues) >= state.limits.queues_max:
        raise Refused(
            common_pb2.REASON_QUOTA_EXCEEDED, f"there are {len(state.queues)} queues, which is the most there may be"
        )
    members = sorted(set(call.members or member_names))
    open_members = members if call.open_members is None else sorted(set(call.open_members))
    if not members or not set(open_members) <= set(members):
        raise Refused(common_pb2.REASON_CONFIG_ERROR, "a queue opens only on members that hold it")
    return record_pb2.QueueOp(
        action=CREATE,
        queue_id=state.next_queue_id,
        name=call.name,
        config=rules.resolve(call.config, state.limits),
        members=members,
        open_members=open_members,
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
            op.config.CopyFrom(rules.updated(queue.config, new, call.mask, state.limits))
        case record_pb2.QUEUE_ACTION_DELETE:
            if call.if_empty and queue.length:
                raise Refused(common_pb2.REASON_NOT_EMPTY, f"queue {queue.name} holds {queue.length} messages")
            op.removed = queue.length
        case record_pb2.QUEUE_ACTION_PURGE:
            op.removed = queue.ready_count
        case record_pb2.QUEUE_ACTION_OPEN | record_pb2.QUEUE_ACTION_CLOSE | record_pb2.QUEUE_ACTION_DESTROY:
            _check_member(queue, call)
            op.member = call.member
            if call.action == DESTROY and queue.members == {call.member}:
                op.removed = queue.length
        case _:
            raise Refused(common_pb2.REASON_BAD_REQUEST, f"there is no action {call.action} on a queue")
    return op


def _check_member(queue: QueueState, call: QueueCall) -> None:
    """Any event that the state does not expect is INVALID_STATE."""
    if call.member not in queue.members:
        problem = f"{call.member or 'no member'} holds no instance of queue {queue.name}"
    elif call.action == OPEN and call.member in queue.open_members:
        problem = f"queue {queue.name} is open at {call.member} already"
    elif call.action == CLOSE and call.member not in queue.open_members:
        problem = f"queue {queue.name} is not open at {call.member}"
    else:
        return
    raise Refused(common_pb2.REASON_INVALID_STATE, problem)
