"""Bugs of macro queues; plants them."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any

import replica.core.delivery.fan_in
import replica.core.ordering.orders
import replica.machine.plan.deal
from chaos.sim.bugs.planting import Patch, bug
from replica.core.delivery.fan_in import FanIn
from replica.machine.plan.deal import plan_deal
from replica.machine.plan.duplicating import plan_copies_at_members
from replica.machine.plan.fan_in import asked_in_order
from replica.machine.plan.weighed import table_in_force
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from replica.core.state.calls import Consumer
    from replica.core.state.outcomes import FarLease
    from replica.machine import EnqueueCall
    from replica.machine.plan.enqueue import EnqueuePlan
    from replica.machine.plan.fan_in import MemberAsked
    from replica.machine.state.feature_rows import WeightTable
    from replica.machine.state.macros import MacroQueue
    from replica.machine.state.state import State

PROFILE = "macro"
DRAIN_MS = 30_000
"""What is taken at the end is held longer."""


@bug("dealt-anew-when-repeated", "M2", "A batch that is sent again is dealt again.", PROFILE)
def repetitions_are_dealt_anew(patch: Patch) -> None:
    numbers = count(1)

    def deal(state: State, now_ms: int, macro: MacroQueue, call: EnqueueCall, *more: Any) -> EnqueuePlan:
        anew = replace(call, request_id=next(numbers).to_bytes(16, "big")) if call.request_id else call
        return plan_deal(state, now_ms, macro, anew, *more)

    patch.setattr(replica.core.ordering.orders, "plan_deal", deal)


@bug("half-a-duplicate", "M4", "Now and then a message does not enter the last member.", PROFILE)
def duplicates_lack_a_member(patch: Patch) -> None:
    def some(state: State, now_ms: int, macro: MacroQueue, call: EnqueueCall, lines: Collection[int]) -> RecordHeader:
        header = plan_copies_at_members(state, now_ms, macro, call, lines)
        if len(header.txn.enqueues) > 1 and state.applied_index % 5 == 0:
            del header.txn.enqueues[-1]
        return header

    patch.setattr(replica.machine.plan.deal, "plan_copies_at_members", some)


@bug("turn-lost-at-takeover", "M3", "A new master begins with the first member, whoever's turn it was.", PROFILE)
def turns_begin_anew(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")
    original = module._role

    def role(state: State, time_ms: int) -> Any:
        for macro in state.macros.by_id.values():
            macro.last = 0
        return original(state, time_ms)

    patch.setattr(module, "_role", role)


@bug("closed-member-blocks", "M5", "A closed member that is first in line holds up the others.", PROFILE, first=4)
def closed_members_block(patch: Patch) -> None:
    original = FanIn.plan

    def plan(self: FanIn, consumer: Consumer) -> RecordHeader | FarLease | None:
        state = self.orders.machine.state
        macro = state.macros.by_id.get(consumer.queue_id)
        first = macro.by_priority()[0] if macro is not None and macro.members else 0
        if first and not state.queues[first].open_members:
            return None
        return original(self, consumer)

    patch.setattr(FanIn, "plan", plan)


@bug("head-delivered-twice", "M6", "A member's head is held for a moment, and given to the next one then.", PROFILE)
def heads_are_not_held(patch: Patch) -> None:
    original = FanIn.plan

    def plan(self: FanIn, consumer: Consumer) -> RecordHeader | FarLease | None:
        header = original(self, consumer)
        if isinstance(header, RecordHeader) and 0 < header.lease.duration_ms < DRAIN_MS:
            header.lease.expires_at_ms, header.lease.duration_ms = header.time_ms + 1, 1
        return header

    patch.setattr(FanIn, "plan", plan)


@bug("weights-used-after-end", "M9", "A table of weights deals on when its time is over.", PROFILE, first=3)
def weights_outlive_their_end(patch: Patch) -> None:
    def table(state: State, macro: MacroQueue, _time_ms: int) -> WeightTable | None:
        return table_in_force(state, macro, 0)

    patch.setattr(replica.machine.plan.deal, "table_in_force", table)


@bug("oldest-by-member", "M5", "CHRONOLOGICAL asks the members in the order of adding.", PROFILE)
def ages_are_not_compared(patch: Patch) -> None:
    def by_member(state: State, macro: MacroQueue, now_ms: int, *, immediate: bool) -> Iterator[MemberAsked]:
        asked = list(asked_in_order(state, macro, now_ms, immediate=immediate))
        return iter(sorted(asked, key=lambda each: each.queue.queue_id))

    patch.setattr(replica.core.delivery.fan_in, "asked_in_order", by_member)
