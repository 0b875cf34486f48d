"""Bugs of dead letters and of the moves that take them where they belong; plants them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chaos.sim.bugs.planting import Patch, bug


@bug("rejected-is-removed", "0012", "What a consumer rejects is removed, though there is a dead-letter queue.", "swarm")
def rejected_is_removed(patch: Patch) -> None:
    module: Any = import_module("replica.machine.plan.settle")
    patch.setattr(module, "dead_letter_name", lambda _queue: "")


@bug("letters-are-copied", "0012", "A dead letter is copied, and stays where it was as well.", "swarm")
def letters_are_copied(patch: Patch) -> None:
    module: Any = import_module("replica.machine.apply.apply")

    def take_moved(state: Any, op: Any, _freed: list[int]) -> None:
        source = state.queues[op.moved_from.queue_id]
        for part in op.moved_from.ranges:
            state.take_unleased(source, part.first, part.first + part.count)
            source.make_ready(part.first, part.first + part.count)

    patch.setattr(module, "take_moved", take_moved)
