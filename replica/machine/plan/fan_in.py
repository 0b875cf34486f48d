"""Decides which queues may be members of a macro queue, and in which order they are asked; changes nothing.

It is evaluated at every dequeue (R082), over the members as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from replica.machine.plan.lease import unexpired
from replica.machine.plan.members import is_way, queues_of
from replica.machine.state.errors import Refused, Unseen
from replica.machine.state.macros import MacroQueue
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import SYSTEM
from tandemq.v1 import common_pb2
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

TWO_WAY = admin_pb2.QUEUE_TYPE_TWO_WAY
COMPARING = (pb.MACRO_POLICY_CHRONOLOGICAL, pb.MACRO_POLICY_MESSAGE_PRIORITY)
"""Policies that look at the heads themselves."""


def misfit(
    macro: MacroQueue, queue: QueueState, others: Sequence[QueueState], config: admin_pb2.QueueConfig | None = None
) -> str:
    """Why a queue does not go with a macro queue and its other members; empty: it does (R074). `config`: what it would
    be changed to.
    """
    config = config or queue.config
    if queue.name.startswith(SYSTEM) and not (macro.is_producer and is_way(queue)):
        return "it is the manager's own"
    if problem := _misfit_of_sides(macro, queue, others, config):
        return problem
    if config.single_active and not macro.is_producer:
        return "it serves one consumer at a time (single_active)"
    kind = config.queue_type
    if any(TWO_WAY in (kind, each.config.queue_type) for each in others if is_way(queue) or is_way(each)):
        return "no answer comes back from a queue of another manager, and members are TWO_WAY"
    others = [each for each in others if not is_way(each)]
    if others and not is_way(queue) and kind != others[0].config.queue_type:
        name = admin_pb2.QueueType.Name(kind).removeprefix("QUEUE_TYPE_")
        return f"it is {name}, and the other members are not"
    return ""


def _misfit_of_sides(
    macro: MacroQueue, queue: QueueState, others: Sequence[QueueState], config: admin_pb2.QueueConfig
) -> str:
    """M10: of a macro queue that is sent to either all members have sides, in one order of one domain, or none has."""
    if queue.side is not None:
        return "it is a member's side of another queue"
    sided = _has_sides(config)
    if sided and not macro.is_producer:
        text = "each side of a queue with PRODUCER replication is consumed at its own member, by the queue's own name"
        return f"{text}; a macro queue over such queues is sent to (PRODUCER)"
    if sided and config.queue_type == TWO_WAY:
        return "it has PRODUCER replication and is TWO_WAY: what both sides answer is asked for by its own name"
    for each in others:
        if _has_sides(each.config) != sided:
            return f"either all members have PRODUCER replication or none has, and {each.name} is not like it"
        if sided and each.config.lockstep != config.lockstep:
            return f"all members have one lockstep, and that of {each.name} is another"
    return ""


def _has_sides(config: admin_pb2.QueueConfig) -> bool:
    return config.replication == admin_pb2.REPLICATION_PRODUCER


def check_stays(state: State, queue: QueueState, made: admin_pb2.QueueConfig) -> None:
    """A member changes into nothing that it could not be added as."""
    for macro_id in state.macros.homes.get(queue.queue_id, ()):
        macro = state.macros.by_id[macro_id]
        others = [each for each in queues_of(state, macro.members) if each is not queue]
        if problem := misfit(macro, queue, others, made):
            text = f"queue {queue.name} could not be a member of macro queue {macro.name} any more: {problem}"
            facts = {"queue": macro.name, "member": queue.name}
            hidden = f"queue {queue.name} could not be a member of a macro queue any more that has it: {problem}"
            unseen = Unseen((macro.name,), hidden)
            raise Refused(common_pb2.REASON_CONFIG_MISMATCH, f"{text}; remove it there first", facts, unseen=unseen)


def check_takes(macro: MacroQueue, *, producing: bool) -> None:
    """M12."""
    if producing == macro.is_producer:
        return
    kind = "PRODUCER" if macro.is_producer else "CONSUMER"
    does = "received from" if producing else "sent to"
    text = f"macro queue {macro.name} is a {kind}: messages are {does} it, and not the other way; use its members"
    raise Refused(common_pb2.REASON_RELATIONSHIP_MISMATCH, text, {"queue": macro.name})


class MemberAsked(NamedTuple):
    """A member that may have something for a consumer."""

    queue: QueueState
    most: int
    """Messages that it gives before the others are looked at again; 0: as many as are asked for."""


def asked_in_order(state: State, macro: MacroQueue, now_ms: int, *, immediate: bool) -> Iterator[MemberAsked]:
    """The member that is served first before the others."""
    time_ms = state.at(now_ms)
    ids = macro.in_turn() if macro.policy == pb.MACRO_POLICY_ROUND_ROBIN else macro.by_priority()
    able = (queue for queue in queues_of(state, ids) if _may_give(queue, immediate=immediate))
    match macro.policy:
        case pb.MACRO_POLICY_CHRONOLOGICAL | pb.MACRO_POLICY_MESSAGE_PRIORITY:
            heads = [head for queue in able if (head := _head(queue, time_ms)) is not None]
            by_priority = macro.policy == pb.MACRO_POLICY_MESSAGE_PRIORITY
            # What one record has brought is of one moment, so it may be given together.
            heads.sort(key=lambda head: (-head.priority if by_priority else 0, head.log_index))
            return (MemberAsked(head.queue, head.messages) for head in heads)
        case _:
            return (MemberAsked(queue, 0) for queue in able)


class FarHead(NamedTuple):
    """What a member at another manager gives next, as it is known here."""

    proxy_id: int
    priority: int
    entered_ms: int
    """By the clock of that manager."""
    messages: int
    """Those that follow it and are like it included; 0: it has not said yet whether it has something."""


def asked_among(
    state: State,
    macro: MacroQueue,
    now_ms: int,
    far: Mapping[int, FarHead],
    entered_ms: Callable[[int], int],
    *,
    immediate: bool,
    last: int,
) -> Iterator[MemberAsked | FarHead]:
    """The same where some members are at other managers (M7). Nobody may be asked behind one that has not said yet
    whether it has something. `far`: by proxy, those that have something, or may. `entered_ms`: of a record, by its log
    index. `last`: the member that gave something last.
    """
    if macro.policy in COMPARING:
        yield from (each for each in far.values() if not each.messages)
        by_priority = macro.policy == pb.MACRO_POLICY_MESSAGE_PRIORITY
        time_ms = state.at(now_ms)
        able = (queue for queue in queues_of(state, macro.by_priority()) if _may_give(queue, immediate=immediate))
        rows: list[tuple[tuple[int, int, bool, int], MemberAsked | FarHead]] = []
        for head in filter(None, (_head(queue, time_ms) for queue in able)):
            age = entered_ms(head.log_index), False, head.log_index
            rows.append(((-head.priority if by_priority else 0, *age), MemberAsked(head.queue, head.messages)))
        for number, each in enumerate(far.values()):
            rows.append(((-each.priority if by_priority else 0, each.entered_ms, True, number), each))
        yield from (each for _, each in sorted(rows, key=lambda row: row[0]))
        return
    ids = macro.in_turn(last) if macro.policy == pb.MACRO_POLICY_ROUND_ROBIN else macro.by_priority()
    for member_id in ids:
        if member_id in far:
            yield far[member_id]
        for queue in queues_of(state, (member_id,)):
            if _may_give(queue, immediate=immediate):
                yield MemberAsked(queue, 0)


class _Head(NamedTuple):
    queue: QueueState
    priority: int
    log_index: int
    messages: int  # itself, and those that follow it in its record


def _head(queue: QueueState, time_ms: int) -> _Head | None:
    """What the queue would give next."""
    below = queue.visible_index + 1
    for priority, level in reversed(list(enumerate(queue.ready))):
        if not level.size or level.first >= below:
            continue
        for start, end in level.runs(0, below):
            for part in queue.segments.parts(start, end):
                runs = unexpired(part, time_ms) if part.timed else iter(((part.start, part.end),))
                if (run := next(runs, None)) is not None:
                    return _Head(queue, priority, part.log_index, run[1] - run[0])
    return None


def _may_give(queue: QueueState, *, immediate: bool) -> bool:
    config = queue.config
    if not queue.open_members or not config.dequeue_enabled or config.single_active:
        return False
    return queue.has_ready() and not (immediate and config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY)
