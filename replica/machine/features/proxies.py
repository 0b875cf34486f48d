"""Keeps the proxies of a domain (M11): decides which may be made, and does what a record says of them. Reaches nobody:
whether the queue that one leads to is there is for who opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from replica.machine.plan.dead_letters import check_taken
from replica.machine.plan.queue import check_free
from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.proxies import Proxies, Proxy
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, macro_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CREATE, DELETE = record_pb2.PROXY_ACTION_CREATE, record_pb2.PROXY_ACTION_DELETE
PAGE_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ProxyCall:
    action: record_pb2.ProxyAction
    name: str
    request_id: bytes
    request_hash: int
    target: str = ""  # CREATE: a full name, as whoever asks has read it
    relationship: macro_service_pb2.Relationship = macro_service_pb2.RELATIONSHIP_UNSPECIFIED  # CREATE
    expected: admin_pb2.QueueConfig | None = None  # CREATE


def named_proxy(state: State, name: str) -> Proxy:
    proxy = state.proxies.by_name.get(name)
    if proxy is not None:
        return proxy
    there = name in state.ids or name in state.macros.by_name
    what = "a queue, or a macro queue, and no proxy" if there else "not there; create it, or list those that are"
    text = f"there is no proxy {name!r}: it is {what}"
    raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, {"queue": name})


class TargetPlace(NamedTuple):
    """Of the queue that a proxy leads to."""

    manager: str
    queue: str


def target_of(proxy: Proxy) -> TargetPlace:
    manager, _, queue = proxy.target.removeprefix("//").partition("/")
    return TargetPlace(manager, queue)


def plan_proxy(state: State, now_ms: int, call: ProxyCall) -> record_pb2.RecordHeader:
    if call.action == CREATE:
        op = _create(state, call)
    else:
        op = record_pb2.ProxyOp(action=call.action, proxy_id=named_proxy(state, call.name).queue_id)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, proxy=op
    )


def _create(state: State, call: ProxyCall) -> record_pb2.ProxyOp:
    rules.check_name(call.name, state.limits, what="name of a proxy")
    check_free(state, call.name)
    check_taken(state, call.name, "a proxy takes none: they stay with their manager")
    if len(state.proxies.by_name) >= state.limits.proxies_max:
        text = f"there are {len(state.proxies.by_name)} proxies, which is the most there may be"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(state.limits.proxies_max)})
    if call.relationship not in macro_service_pb2.Relationship.values():
        text = f"proxy {call.name}: a relationship is CONSUMER or PRODUCER, or unset for both"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text)
    return record_pb2.ProxyOp(
        action=CREATE,
        proxy_id=state.next_queue_id,
        name=call.name,
        target=call.target,
        relationship=call.relationship,
        expected=call.expected,
    )


def apply_proxy(state: State, time_ms: int, op: record_pb2.ProxyOp) -> None:
    if op.action == CREATE:
        assert op.proxy_id >= state.next_queue_id, "numbers of queues are never used again"
        assert op.name not in state.ids, "a queue and a proxy of one name"
        assert op.name not in state.proxies.by_name, "two proxies of one name"
        state.proxies.add(Proxy(op.name, op.proxy_id, op.target, op.relationship, op.expected, time_ms))
        state.next_queue_id = op.proxy_id + 1
        return
    assert op.action == DELETE, "an action without a meaning"
    state.macros.forget_queue(op.proxy_id)
    state.proxies.remove(state.proxies.by_id[op.proxy_id])


def page_of_proxies(state: State, after: str, most: int) -> tuple[list[Proxy], str]:
    """Those with a name behind `after`, by name, at most `most`; and what the next page begins behind, empty on the
    last one.
    """
    names = sorted(each for each in state.proxies.by_name if each > after)
    page = [state.proxies.by_name[each] for each in names[:most]]
    return page, page[-1].name if len(names) > most else ""


class ProxyRow(msgspec.Struct, array_like=True):
    """As it stands in a snapshot."""

    name: str
    queue_id: int
    target: str
    relationship: int
    expected: bytes
    created_ms: int


def proxy_rows(state: State) -> list[ProxyRow]:
    return [
        ProxyRow(
            proxy.name,
            proxy.queue_id,
            proxy.target,
            int(proxy.relationship),
            proxy.expected.SerializeToString(deterministic=True),
            proxy.created_ms,
        )
        for _, proxy in sorted(state.proxies.by_id.items())
    ]


def proxies_of(rows: Sequence[ProxyRow]) -> Proxies:
    made = Proxies()
    for row in rows:
        expected = admin_pb2.QueueConfig.FromString(row.expected)
        made.add(Proxy(row.name, row.queue_id, row.target, row.relationship, expected, row.created_ms))  # type: ignore[arg-type]  # enum number
    return made
