"""Bugs of reactions; plants them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import replica.core.ordering.open_units
import replica.core.ordering.reacting
import replica.core.ordering.reaction_looks
import replica.core.ordering.reaction_questions
import replica.machine.apply.apply
from chaos.sim.bugs.planting import Patch, bug
from chaos.sim.kernel.asked import ASIDE
from replica.core.ordering.kept_looks import Candidates, KeptLooks
from replica.core.ordering.kept_reactions import KeptReactions
from replica.core.ordering.kept_watch import QueueWatch
from replica.core.ordering.reacting import Reacting
from replica.core.ordering.reaction import Effect, Reaction
from replica.core.ordering.reaction_questions import said_of, targets_of
from replica.machine.apply.locks import forget_locked
from replica.machine.plan.open_unit import plan_end
from replica.machine.plan.react import plan_react
from replica.machine.state.completions import Completions
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REACTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.core.ordering.reaction import Advice
    from replica.core.selection.filters import Read
    from replica.core.state.calls import Waiter
    from replica.machine import Lease, Narrower, Part, QueueState
    from replica.machine.plan.react import ReactCall
    from replica.machine.sets.ranges import Run
    from replica.machine.state.state import State
    from tandemq.peer.v1.record_pb2 import ReactionCounts, RecordHeader

REACTIONS = "reactions"


@bug("reaction-executed-twice", "V14", "A reaction that is repeated is another one.", REACTIONS)
def reactions_are_not_remembered(patch: Patch) -> None:
    original, numbers = Reacting.turn, count(1)

    def turn(self: Reacting, reaction: Reaction, waiter: Waiter, now_ms: int) -> bool:
        if self.shared.serving and self.orders.machine.find_request(reaction.request_id, reaction.request_hash):
            reaction.request_id = next(numbers).to_bytes(16, "big")
        return original(self, reaction, waiter, now_ms)

    patch.setattr(Reacting, "turn", turn)


@bug("first-by-index", "V5", "The first message is the oldest, whatever is delivered before it.", REACTIONS, first=3)
def first_is_the_oldest(patch: Patch) -> None:
    def first_of(_queue: QueueState, waiting: Sequence[Run]) -> int:
        return min(waiting)[0]

    patch.setattr(replica.core.ordering.reaction_questions, "first_of", first_of)


@bug("scattered-to-the-first-alone", "V18", "A reaction to several queues acts at the first one alone.", REACTIONS)
def other_queues_are_left_alone(patch: Patch) -> None:
    def first_alone(reaction: Reaction, queue: QueueState, waiting: Sequence[Run]) -> list[int]:
        return [] if queue.name == ASIDE else targets_of(reaction, queue, waiting)

    patch.setattr(replica.core.ordering.reacting, "targets_of", first_alone)


@bug("failed-answer-acts", "V10", "What a program gives no answer about is cancelled.", REACTIONS, first=8)
def failures_cancel(patch: Patch) -> None:
    def cancelled(asking: Advice, targets: Sequence[int], counts: ReactionCounts) -> list[int]:
        asking.effects.update(dict.fromkeys(asking.failed, Effect()))
        asking.failed.clear()
        return said_of(asking, targets, counts)

    patch.setattr(replica.core.ordering.reacting, "said_of", cancelled)


@bug(
    "asked-about-the-first-alone",
    "V10",
    "What a program says of one message is done with all of them.",
    REACTIONS,
    first=38,
)
def one_answer_for_all(patch: Patch) -> None:
    def effect_on(self: Reaction, _index: int) -> Effect:
        if self.asking is None:
            return Effect(self.to, self.update)
        return next(each for each in self.asking.effects.values() if each is not None)

    patch.setattr(Reaction, "effect_on", effect_on)


@bug("inert-acted-on", "V4", "A reaction acts on inert messages.", REACTIONS, first=6)
def nothing_is_inert(patch: Patch) -> None:
    def is_inert(_row: Read, _ordinal: int) -> bool:
        return False

    patch.setattr(replica.core.ordering.reaction_looks, "is_inert", is_inert)


@bug("old-handle-lost", "V8", "The handle of a message that is changed ends with its first version.", REACTIONS)
def handles_end_with_the_first_version(patch: Patch) -> None:
    def hand_on(self: Completions, index: int, _new_index: int) -> None:
        self.end(index, index + 1, FINAL_STATE_REACTED)

    patch.setattr(Completions, "hand_on", hand_on)


@bug("reaction-not-undone", "V15", "A unit that is rolled back cancels what its reactions have locked.", REACTIONS)
def rollbacks_act(patch: Patch) -> None:
    def end(state: State, now_ms: int, unit_id: bytes, lease_ids: Iterable[int]) -> RecordHeader | None:
        header = plan_end(state, now_ms, unit_id, lease_ids)
        for settle in header.txn.settles if header is not None else ():
            for effect in settle.effects:
                if header is not None and effect.unlock:
                    header.txn.removes.add(
                        queue_id=settle.queue_id, ranges=effect.ranges, final_state=FINAL_STATE_REACTED
                    )  # fmt: skip
        return header

    patch.setattr(replica.core.ordering.open_units, "plan_end", end)


@bug("lock-forgets-the-delay", "V15", "What a unit has locked is delivered when the unit ends.", REACTIONS, first=18)
def unlocking_makes_ready(patch: Patch) -> None:
    def unlocked(state: State, queue: QueueState, lease: Lease, start: int, end: int) -> None:
        forget_locked(lease, start, end)
        queue.make_ready(start, end)
        state.schedule_messages(queue, start, end, again=True)

    patch.setattr(replica.machine.apply.apply, "unlock", unlocked)


@bug("kept-asked-too-late", "V12", "A kept reaction is asked at the next tick, and consumers do not wait.", REACTIONS)
def kept_reactions_are_asked_too_late(patch: Patch) -> None:
    original = KeptReactions.ask

    def past(_self: KeptReactions, _queue_id: int, wanted: Narrower | None) -> Narrower | None:
        return wanted

    def ask(_self: KeptReactions) -> None:
        return

    patch.setattr(KeptReactions, "past", past)
    patch.setattr(KeptReactions, "ask", ask)
    patch.setattr(KeptReactions, "on_tick", original)


@bug("kept-used-again", "V12", "A kept reaction to the first message acts on the next one too.", REACTIONS)
def kept_reactions_are_never_used_up(patch: Patch) -> None:
    def forgetful(state: State, now_ms: int, call: ReactCall) -> RecordHeader:
        return plan_react(state, now_ms, replace(call, used=None))

    patch.setattr(replica.core.ordering.reacting, "plan_react", forgetful)


@bug(
    "kept-lost-at-takeover",
    "V11",
    "A new master does not know which reactions its predecessor kept.",
    REACTIONS,
    first=5,
)
def kept_reactions_are_lost_at_takeover(patch: Patch) -> None:
    begin, candidates = KeptReactions.begin, KeptLooks.candidates
    lost: dict[tuple[KeptLooks, int], int] = {}

    def begin_without(self: KeptReactions) -> None:
        begin(self)
        for store in self.orders.machine.state.kept.values():
            lost[self.looks, store.queue_id] = store.next_index

    def without(self: KeptLooks, queue: QueueState, store: QueueState, part: Part, index: int, row: Read) -> Candidates:
        found, first = candidates(self, queue, store, part, index, row), lost.get((self, store.queue_id), 0)
        return found._replace(indexes=[each for each in found.indexes if each >= first])

    patch.setattr(KeptReactions, "begin", begin_without)
    patch.setattr(KeptLooks, "candidates", without)


@bug(
    "kept-not-asked-on-return",
    "V13",
    "A kept reaction is not asked about what a consumer gives back.",
    REACTIONS,
    first=21,
)
def returns_are_not_asked_about(patch: Patch) -> None:
    def came_back(_self: QueueWatch, _queue: QueueState, _start: int, _end: int) -> None:
        return

    patch.setattr(QueueWatch, "_came_back", came_back)
