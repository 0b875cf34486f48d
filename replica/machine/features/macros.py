"""Keeps the macro queues of a domain: decides how they may be changed, and does what a record says of them. Which
member is chosen for messages is decided in `plan.deal` and `plan.fan_in`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from replica.machine.plan.dead_letters import check_taken
from replica.machine.plan.fan_in import misfit
from replica.machine.plan.members import proxy_member, proxy_named, queue_meant, queues_of
from replica.machine.plan.queue import check_free
from replica.machine.plan.weighed import STEERED, table_in_force
from replica.machine.state import config as rules
from replica.machine.state.errors import Refused
from replica.machine.state.macros import MacroQueue, Macros
from replica.machine.state.proxies import Proxy
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import FULL, target_of
from replica.machine.state.weighing import Weighing, weighed
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

CREATE, ADD = record_pb2.MACRO_ACTION_CREATE, record_pb2.MACRO_ACTION_ADD
REMOVE, DELETE = record_pb2.MACRO_ACTION_REMOVE, record_pb2.MACRO_ACTION_DELETE
ADD_PROXY = record_pb2.MACRO_ACTION_ADD_PROXY
PRIORITY_MAX = 9
PAGE_MACROS_MAX = 100
PAGE_MEMBERS_MAX = 10_000
"""Of the macro queues of a page together, which bounds a frame; one is shown whole, whatever it has."""
DEALT_MAX = 1_000_000
"""Dedup ids of one macro queue, the newest: as many as one queue may keep."""
POLICIES = MappingProxyType(
    {
        pb.RELATIONSHIP_CONSUMER: (
            pb.MACRO_POLICY_PRIORITIZED,
            pb.MACRO_POLICY_CHRONOLOGICAL,
            pb.MACRO_POLICY_MESSAGE_PRIORITY,
            pb.MACRO_POLICY_ROUND_ROBIN,
            pb.MACRO_POLICY_FIRST_AVAILABLE,
        ),
        pb.RELATIONSHIP_PRODUCER: (
            pb.MACRO_POLICY_FIRST_AVAILABLE,
            pb.MACRO_POLICY_ROUND_ROBIN,
            pb.MACRO_POLICY_FASTEST_RESPONSE,
            pb.MACRO_POLICY_SHORTEST_QUEUE,
            pb.MACRO_POLICY_BY_GROUP,
            pb.MACRO_POLICY_DUPLICATE,
            pb.MACRO_POLICY_DUPLICATE_BEST_EFFORT,
        ),
    }
)
"""Of each relationship; the first one is what it has when nobody asks for one."""


@dataclass(frozen=True, slots=True)
class MacroCall:
    action: record_pb2.MacroAction
    name: str
    request_id: bytes
    request_hash: int
    relationship: pb.Relationship = pb.RELATIONSHIP_UNSPECIFIED  # CREATE
    policy: pb.MacroPolicy = pb.MACRO_POLICY_UNSPECIFIED  # CREATE
    queue: str = ""  # ADD, REMOVE
    priority: int = 0  # ADD
    expected_version: int = 0  # 0: any


def named_macro(state: State, name: str) -> MacroQueue:
    macro = state.macros.by_name.get(name)
    if macro is not None:
        return macro
    what = "a queue and no macro queue" if name in state.ids else "not there; create it, or list those that are"
    text = f"there is no macro queue {name!r}: it is {what}"
    raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, {"queue": name})


def plan_macro(state: State, now_ms: int, call: MacroCall) -> record_pb2.RecordHeader:
    if call.action == CREATE:
        op = _create(state, call)
    else:
        macro = _changing(state, call)
        op = record_pb2.MacroOp(action=call.action, macro_id=macro.queue_id)
        proxy = None if macro.is_producer else proxy_named(state, call.queue)
        if call.action == ADD and proxy is not None:
            op.action = ADD_PROXY  # an older version stops at it, and does not go on with another state
            op.queue_id, op.priority = _joining_proxy(state, macro, call, proxy), call.priority
        elif call.action == ADD:
            op.queue_id, op.priority = _joining(state, macro, call), call.priority
        elif call.action == REMOVE:
            op.queue_id = _leaving(state, macro, call)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, macro=op
    )


def check_before_made(state: State, call: MacroCall, config: admin_pb2.QueueConfig) -> None:
    """Of a member whose queue is still to be made, with these attributes: refuses what would be refused once it is."""
    macro = _changing(state, call)
    _check_room(state, macro, call)
    _check_fits(state, macro, call, QueueState(0, queue_meant(state, macro, call.queue), config, 0))


def _changing(state: State, call: MacroCall) -> MacroQueue:
    macro = named_macro(state, call.name)
    if call.expected_version not in (0, macro.version):
        text = f"macro queue {macro.name} has version {macro.version}, not {call.expected_version}; read it again"
        raise Refused(common_pb2.REASON_VERSION_MISMATCH, text, {"version": str(macro.version)})
    return macro


def _create(state: State, call: MacroCall) -> record_pb2.MacroOp:
    rules.check_name(call.name, state.limits, what="name of a macro queue")
    check_free(state, call.name)
    check_taken(state, call.name, "a macro queue takes none")
    if len(state.macros.by_name) >= state.limits.macros_max:
        text = f"there are {len(state.macros.by_name)} macro queues, which is the most there may be"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(state.limits.macros_max)})
    relationship = call.relationship or pb.RELATIONSHIP_CONSUMER  # R073
    known = POLICIES.get(relationship)
    if known is None:
        text = f"macro queue {call.name}: a relationship is CONSUMER or PRODUCER"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text)
    policy = call.policy or known[0]
    if policy not in known:
        names = ", ".join(pb.MacroPolicy.Name(each).removeprefix("MACRO_POLICY_") for each in known)
        kind = pb.Relationship.Name(relationship).removeprefix("RELATIONSHIP_")
        text = f"macro queue {call.name}: the policy of a {kind} is one of {names}"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text)
    return record_pb2.MacroOp(
        action=CREATE, macro_id=state.next_queue_id, name=call.name, relationship=relationship, policy=policy
    )


def _check_room(state: State, macro: MacroQueue, call: MacroCall) -> None:
    member = {"queue": macro.name, "member": call.queue}
    if not 0 <= call.priority <= PRIORITY_MAX:
        text = f"member {call.queue} of macro queue {macro.name}: a member priority is 0 to {PRIORITY_MAX}"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, member)
    if len(macro.members) >= state.limits.macro_members_max:
        text = f"macro queue {macro.name} has {len(macro.members)} members, which is the most it may have"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, member)


def _joining_proxy(state: State, macro: MacroQueue, call: MacroCall, proxy: Proxy) -> int:
    """M7. Whether the queue that it leads to goes with the others is seen when it is reached."""
    member = {"queue": macro.name, "member": call.queue}
    if proxy.relationship == pb.RELATIONSHIP_PRODUCER:
        text = f"proxy {proxy.name} of {proxy.target} is a PRODUCER: nothing is received from it"
        raise Refused(common_pb2.REASON_RELATIONSHIP_MISMATCH, text, member)
    if proxy.queue_id in macro.members:
        text = f"proxy {proxy.name} is a member of macro queue {macro.name} already, with its member priority"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, f"{text} {macro.members[proxy.queue_id]}", member)
    _check_room(state, macro, call)
    return proxy.queue_id


def _joining(state: State, macro: MacroQueue, call: MacroCall) -> int:
    """R074: what does not go with it is refused by the member's name."""
    member = {"queue": macro.name, "member": call.queue}
    _check_room(state, macro, call)
    name = queue_meant(state, macro, call.queue)
    if call.queue.startswith(FULL) and not macro.is_producer:
        text = f"no proxy of this domain leads to {call.queue}: `tandemq proxy create NAME {call.queue}`, then add it"
        raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, member)
    if call.queue in state.macros.by_name:
        text = f"{call.queue} is a macro queue itself: name its members instead"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, text, member)
    queue_id = state.ids.get(name)
    if queue_id is None:
        text = f"there is no queue {name!r} in this domain: create it, then add it to macro queue {macro.name}"
        raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, member)
    queue = state.queues[queue_id]
    if queue_id in macro.members:
        known = f"as {queue.name}, " if call.queue != queue.name else ""
        text = f"queue {call.queue} is a member of macro queue {macro.name} already, {known}with its member priority"
        raise Refused(common_pb2.REASON_CONFIG_ERROR, f"{text} {macro.members[queue_id]}", member)
    _check_fits(state, macro, call, queue)
    return queue_id


def _check_fits(state: State, macro: MacroQueue, call: MacroCall, queue: QueueState) -> None:
    if problem := misfit(macro, queue, list(queues_of(state, macro.members))):
        text = f"queue {queue.name} cannot be a member of macro queue {macro.name}: {problem}"
        raise Refused(common_pb2.REASON_CONFIG_MISMATCH, text, {"queue": macro.name, "member": call.queue})


def _leaving(state: State, macro: MacroQueue, call: MacroCall) -> int:
    queue_id = state.ids.get(queue_meant(state, macro, call.queue))
    if queue_id is None and (proxy := proxy_member(state, macro, call.queue)) is not None:
        return proxy.queue_id
    if queue_id is None or queue_id not in macro.members:
        text = f"macro queue {macro.name} has no member {call.queue!r}"
        raise Refused(common_pb2.REASON_QUEUE_NOT_FOUND, text, {"queue": macro.name, "member": call.queue})
    return queue_id


def apply_macro(state: State, time_ms: int, op: record_pb2.MacroOp) -> None:
    if op.action == CREATE:
        assert op.macro_id >= state.next_queue_id, "numbers of queues are never used again"
        assert op.name not in state.ids, "a queue and a macro queue of one name"
        assert op.name not in state.macros.by_name, "two macro queues of one name"
        state.macros.add(MacroQueue(op.name, op.macro_id, op.relationship, op.policy, time_ms))
        state.next_queue_id = op.macro_id + 1
        return
    macro = state.macros.by_id[op.macro_id]
    macro.version += 1
    match op.action:
        case record_pb2.MACRO_ACTION_ADD | record_pb2.MACRO_ACTION_ADD_PROXY:
            state.macros.join(macro, op.queue_id, op.priority)
        case record_pb2.MACRO_ACTION_REMOVE:
            state.macros.leave(macro, op.queue_id)
        case _:
            assert op.action == DELETE, "an action without a meaning"
            state.macros.remove(macro)
            state.producers.forget_queue(macro.queue_id)


def note_dealt(state: State, op: record_pb2.EnqueueOp, ordinals: Sequence[int]) -> None:
    """Which member messages with dedup ids have entered, those at the ordinals (none: all): a repetition finds it,
    whoever's turn it is. What the member has forgotten need not be known any more.
    """
    dealt, names = state.macros.by_id[op.macro_id].dealt, op.dedup_ids
    for ordinal in ordinals or range(op.count):
        if name := names[ordinal if len(names) > 1 else 0]:
            dealt[name] = op.queue_id
            dealt.move_to_end(name)
    while dealt:
        name, queue_id = next(iter(dealt.items()))
        ids = state.queues[queue_id].dedup_ids
        if ids is not None and name in ids and len(dealt) <= DEALT_MAX:
            return
        del dealt[name]


def charge(state: State, macro_id: int, time_ms: int, dealt: Sequence[tuple[int, int]]) -> None:
    """A batch was dealt by the table of the macro queue's name (M9): queues, and how many messages each has of it."""
    macro = state.macros.by_id[macro_id]
    macro.weighing = weighed(state.weights[macro.name], macro.members, macro.weighing, time_ms)
    macro.weighing.charge(dealt)


class ShownMember(NamedTuple):
    queue: str
    priority: int
    queue_id: int
    mean_ms: int | None = None  # how soon it settles, as the master has seen it; None: nobody knows
    share: int | None = None  # parts of a million that it is dealt; None: no table of weights is in force
    target: str = ""  # of a proxy, or a way to a queue of another manager: the queue that it leads to
    state: pb.MemberState = pb.MEMBER_STATE_UNSPECIFIED


class ShownWeights(NamedTuple):
    """The table of weights under its name, where its policy looks at one."""

    version: int
    until_ms: int
    in_force: bool


class ShownMacro(NamedTuple):
    """A macro queue as it is answered."""

    name: str
    relationship: pb.Relationship
    policy: pb.MacroPolicy
    version: int
    created_ms: int
    members: tuple[ShownMember, ...]
    choices: tuple[tuple[str, int], ...] = ()  # reasons of its choices, and how often, at the master since it started
    weights: ShownWeights | None = None


def shown_macro(state: State, name: str) -> ShownMacro:
    """Refused (QUEUE_NOT_FOUND) when it is not there."""
    macro = named_macro(state, name)
    members = tuple(_shown_member(state, macro, each, how) for each, how in macro.members.items())
    return ShownMacro(macro.name, macro.relationship, macro.policy, macro.version, macro.created_ms, members)


def _shown_member(state: State, macro: MacroQueue, queue_id: int, priority: int) -> ShownMember:
    proxy = state.proxies.by_id.get(queue_id)
    if proxy is not None:
        return ShownMember(proxy.name, priority, queue_id, target=proxy.target)
    queue = state.queues[queue_id]
    way = target_of(queue.name)
    target = way.full_name if way is not None else ""
    return ShownMember(queue.name, priority, queue_id, target=target, state=_state_of(macro, queue))


def _state_of(macro: MacroQueue, queue: QueueState) -> pb.MemberState:
    """R077: what is opened with a macro queue is each of its members, and one that is not says so."""
    if not queue.open_members:
        return pb.MEMBER_STATE_CLOSED
    if not (queue.config.enqueue_enabled if macro.is_producer else queue.config.dequeue_enabled):
        return pb.MEMBER_STATE_DISABLED
    if len(queue.open_members) < len(queue.members):
        return pb.MEMBER_STATE_OPEN_IN_PART
    return pb.MEMBER_STATE_UNSPECIFIED


def shown_weights(state: State, name: str, time_ms: int) -> ShownMacro:
    """With what the table of its name does at this domain time, and whether its policy looks at it at all."""
    shown, macro = shown_macro(state, name), state.macros.by_name[name]
    table = state.weights.get(name)
    if table is None or not macro.is_producer or macro.policy not in STEERED:
        return shown
    in_force = table_in_force(state, macro, time_ms) is not None
    shown = shown._replace(weights=ShownWeights(table.version, table.valid_until_ms, in_force))
    if not in_force:
        return shown
    shares = weighed(table, macro.members, macro.weighing, time_ms).shares
    members = (each._replace(share=shares.get(each.queue_id, 0)) for each in shown.members)
    return shown._replace(members=tuple(members))


def page_of_macros(state: State, after: str, most: int) -> tuple[list[ShownMacro], str]:
    """Those with a name behind `after`, by name, `most` of them or fewer; and what the next page begins behind, empty
    on the last one.
    """
    page: list[ShownMacro] = []
    members = 0
    for name in sorted(each for each in state.macros.by_name if each > after):
        if page and (len(page) >= most or members + len(state.macros.by_name[name].members) > PAGE_MEMBERS_MAX):
            return page, page[-1].name
        page.append(shown_macro(state, name))
        members += len(page[-1].members)
    return page, ""


class MacroRow(msgspec.Struct, array_like=True):
    """As it stands in a snapshot."""

    name: str
    queue_id: int
    relationship: int
    policy: int
    created_ms: int
    version: int
    members: list[tuple[int, int]]
    last: int
    dealt: list[tuple[str, int]] = msgspec.field(default_factory=list)
    weighing: Weighing | None = None


def macro_rows(state: State) -> list[MacroRow]:
    return [
        MacroRow(
            macro.name,
            macro.queue_id,
            int(macro.relationship),
            int(macro.policy),
            macro.created_ms,
            macro.version,
            list(macro.members.items()),
            macro.last,
            list(macro.dealt.items()),
            macro.weighing,
        )
        for _, macro in sorted(state.macros.by_id.items())
    ]


def macros_of(rows: Sequence[MacroRow]) -> Macros:
    made = Macros()
    for row in rows:
        made.add(
            MacroQueue(
                row.name,
                row.queue_id,
                row.relationship,  # type: ignore[arg-type]  # enum number
                row.policy,  # type: ignore[arg-type]  # enum number
                row.created_ms,
                row.version,
                dict(row.members),
                row.last,
                OrderedDict(row.dealt),
                weighing=row.weighing,
            )
        )
    return made
