"""Decides whether a queue may get or lose another name, and what new queues get; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replica.machine.plan.dead_letters import OF_PRODUCERS, check_alias, check_taken
from replica.machine.plan.queue import check_free
from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2


@dataclass(frozen=True, slots=True)
class AliasCall:
    alias: str
    queue: str  # that gets it; empty: it is taken away
    request_id: bytes
    request_hash: int


@dataclass(frozen=True, slots=True)
class DefaultsCall:
    config: admin_pb2.QueueConfig
    mask: Sequence[str]  # empty: what is set in config
    expected_version: int  # 0: any
    request_id: bytes
    request_hash: int


def plan_alias(state: State, now_ms: int, call: AliasCall) -> record_pb2.RecordHeader:
    assert call.request_id not in state.requests, "find_request comes first"
    op = _add(state, call) if call.queue else _remove(state, call)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, alias=op
    )


def _add(state: State, call: AliasCall) -> record_pb2.AliasOp:
    rules.check_name(call.alias, state.limits)
    check_free(state, call.alias)
    queue = state.named(call.queue)
    if queue.name != call.queue:
        text = f"{call.queue} is itself an alias; give the alias to queue {queue.name}"
        raise Refused(common_pb2.REASON_BAD_NAME, text, {"queue": queue.name})
    if queue.passed is not None:
        check_taken(state, call.alias, OF_PRODUCERS)
    check_alias(state, call.alias, queue)
    if len(queue.aliases) >= state.limits.aliases_max:
        text = f"queue {queue.name} has {len(queue.aliases)} aliases, which is the most there may be"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text)
    return record_pb2.AliasOp(alias=call.alias, queue_id=queue.queue_id)


def _remove(state: State, call: AliasCall) -> record_pb2.AliasOp:
    queue_id = state.ids.get(call.alias)
    if queue_id is None:
        raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, f"there is no alias {call.alias!r}")
    if state.queues[queue_id].name == call.alias:
        raise Refused(common_pb2.REASON_BAD_NAME, f"{call.alias} is the name of a queue and no alias; delete the queue")
    return record_pb2.AliasOp(alias=call.alias)


def defaults_of(state: State) -> admin_pb2.QueueConfig:
    """What a queue gets whose creator says nothing: every attribute with a value."""
    return rules.resolve(None, state.limits, state.defaults)


def plan_defaults(state: State, now_ms: int, call: DefaultsCall) -> record_pb2.RecordHeader:
    assert call.request_id not in state.requests, "find_request comes first"
    if call.expected_version not in (0, state.defaults_version):
        raise Refused(
            common_pb2.REASON_VERSION_MISMATCH,
            f"the defaults have version {state.defaults_version}, not {call.expected_version}; read them again",
            {"version": str(state.defaults_version)},
        )
    config = rules.updated(defaults_of(state), call.config, call.mask, state.limits)
    if config.owner:
        text = "owner is no default: a queue is its maker's, or whose an administrator says when it is made"
        raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms),
        request_id=call.request_id,
        request_hash=call.request_hash,
        defaults=record_pb2.DefaultsOp(config=config),
    )
