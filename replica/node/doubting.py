"""Says what this copy cannot prove about its last writes, until the peer has confirmed them; decides nothing by it.

Confirmed: each domain that the pair shares was in step with the peer once since this process opened the copy. Whatever
this copy had lost it then has again, or an order of the pair has given it up.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from failover.marks import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from storage.doubt import Doubt

log = logging.getLogger("tandemq.store")


class Doubting:
    """Of one member, since its start."""

    def __init__(self, doubts: Sequence[Doubt]) -> None:
        self._doubts = tuple(doubts)
        self._confirmed: set[str] = set()
        for doubt in self._doubts:
            proven = "what was on disk is gone" if doubt.is_proven else "something may be gone"
            log.warning("the last writes of this copy are in doubt: %s; %s", doubt, proven)

    def look(self, domains: Sequence[Domain]) -> None:
        """Which domains are in step now."""
        if self._doubts:
            self._confirmed.update(each.shared.name for each in domains if each.shared.link is Link.PAIRED)

    def open(self, domains: Sequence[Domain]) -> tuple[Doubt, ...]:
        """What is still in doubt. A manager without a peer has nobody to confirm anything."""
        shared = [each.shared.name for each in domains if each.shared.peer]
        settled = bool(shared) and self._confirmed.issuperset(shared)
        return () if settled else self._doubts
