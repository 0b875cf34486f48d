"""Bugs of rights; plants them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import replica.services.guard
from chaos.sim.bugs.planting import Patch, bug
from replica.machine.state.rights import Grant, Key, Rights
from replica.node.access import PRINCIPAL, Access
from replica.services.needs import NEEDS, SEE, Need


@bug("hop-believed-from-anybody", "R006", "Any caller that names another principal is believed.", "rights")
def hop_is_believed_from_anybody(patch: Patch) -> None:
    """Any caller that names another principal is believed, and not the other member alone."""
    original = Access.caller

    def caller(self: Access, context: Any) -> str:
        said = {key: str(value) for key, value in context.invocation_metadata() or ()}
        return said.get(PRINCIPAL) or original(self, context)

    patch.setattr(Access, "caller", caller)
    patch.setattr(Access, "claims_of", lambda _self, _context: [])


@bug(
    "right-counts-uncommitted",
    "R006",
    "A right counts before it is committed.",
    "rights",
    first=49,
)
def right_counts_uncommitted(patch: Patch) -> None:
    original = Rights.change

    def change(self: Rights, log_index: int, key: Key, grant: Grant | None, version: int) -> None:
        original(self, log_index, key, grant, version)
        self.in_force.set(key, grant, version)

    patch.setattr(Rights, "change", change)


def a_row_asks_too_little(patch: Patch) -> None:
    """Whoever sees a queue may browse it."""
    rows = {**NEEDS, "QueueService/BrowsePage": (Need(SEE, "queue"),)}
    patch.setattr(replica.services.guard, "NEEDS", MappingProxyType(rows))


HOLES = (hop_is_believed_from_anybody, a_row_asks_too_little)
"""What the demo of rights and the hostile inputs must find on a pair of processes."""
