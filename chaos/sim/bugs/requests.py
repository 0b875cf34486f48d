"""Bugs of requests and their answers; plants them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chaos.sim.bugs.planting import Patch, bug
from replica.core.ordering.replying import Replying
from replica.machine import Refused
from replica.machine.state.completions import Completions
from tandemq.v1.common_pb2 import REASON_ALREADY_REPLIED

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.calls import SendReply, Waiter


@bug("second-answer-is-confirmed", "R018", "Who answers second is told that his answer counts.", "requests", first=3)
def second_answer_is_confirmed(patch: Patch) -> None:
    module: Any = import_module("replica.machine.plan.reply")
    original = module._may_answer

    def may_answer(queue: Any, call: Any) -> bool:
        try:
            return bool(original(queue, call))
        except Refused as refused:
            if refused.reason != REASON_ALREADY_REPLIED:
                raise
            return False

    patch.setattr(module, "_may_answer", may_answer)


@bug("reply-before-commit", "R018, ruling 13", "An answer is confirmed before it is committed.", "requests", first=127)
def answered_before_commit(patch: Patch) -> None:
    original = Replying.order

    def at_once(log_index: int, answer: Callable[[], None], on_lost: Callable[[], None]) -> None:
        del log_index, on_lost
        answer()

    def order(self: Replying, waiter: Waiter, call: SendReply) -> None:
        self.orders.when_committed = at_once  # type: ignore[method-assign]
        try:
            original(self, waiter, call)
        finally:
            del self.orders.when_committed

    patch.setattr(Replying, "order", order)


@bug("answers-are-exchanged", "R018", "The sender of one request is told the answer to another.", "requests")
def answers_are_exchanged(patch: Patch) -> None:
    original = Completions.read

    def read(self: Completions, index: int) -> Any:
        return original(self, next(reversed(self.answers)) if index in self.answers else index)

    patch.setattr(Completions, "read", read)


@bug("answer-is-not-copied", "R018", "The queue that a request names for its answer gets none.", "requests", first=3)
def answer_is_not_copied(patch: Patch) -> None:
    patch.setattr(Completions, "owe", lambda _self, _index, _to, _correlation_id: None)


@bug("request-given-up-early", "R018", "A request is given up in half of its time.", "requests")
def request_is_given_up_early(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.completion")
    original = module.milliseconds
    patch.setattr(module, "milliseconds", lambda duration: original(duration) // 2)
