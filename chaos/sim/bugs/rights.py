"""Bugs of rights; plants them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import replica.services.guard
from chaos.sim.bugs.planting import Patch
from replica.node.access import PRINCIPAL, Access
from replica.services.needs import NEEDS, SEE, Need


def hop_is_believed_from_anybody(patch: Patch) -> None:
    """Whoever says for whom he calls is believed, and not the other member alone."""
    original = Access.caller

    def caller(self: Access, context: Any) -> str:
        said = {key: str(value) for key, value in context.invocation_metadata() or ()}
        return said.get(PRINCIPAL) or original(self, context)

    patch.setattr(Access, "caller", caller)
    patch.setattr(Access, "claims_of", lambda _self, _context: [])


def a_row_asks_too_little(patch: Patch) -> None:
    """Whoever sees a queue may browse it."""
    rows = {**NEEDS, "QueueService/BrowsePage": (Need(SEE, "queue"),)}
    patch.setattr(replica.services.guard, "NEEDS", MappingProxyType(rows))


HOLES = (hop_is_believed_from_anybody, a_row_asks_too_little)
"""What the demo of rights and the hostile inputs must find on a pair of processes."""
