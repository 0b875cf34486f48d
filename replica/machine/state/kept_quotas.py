"""Holds how much each principal may keep in a domain, by the configuration of the member; decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class KeptQuota(NamedTuple):
    """What one principal may keep in a domain; 0: as much as it wants."""

    queues: int = 0
    stored: int = 0
    """Payload bytes of messages in its queues."""
    identities: int = 0
    """Clients that have sent to its queues within the time for which their batches are remembered."""


class KeptQuotas:
    """Of one manager, by owner. What is refused by them is counted here, at the master."""

    def __init__(
        self, by_owner: Mapping[str, KeptQuota] = MappingProxyType({}), everybody: KeptQuota | None = None
    ) -> None:
        """`everybody`: of each that has none of its own."""
        self.by_owner, self.everybody = by_owner, everybody
        self.refused: Counter[str] = Counter(dict.fromkeys(KeptQuota._fields, 0))

    def of(self, owner: str) -> KeptQuota | None:
        """None: it may keep as much as it wants."""
        return self.by_owner.get(owner, self.everybody)

    def note_refusal(self, kind: str) -> None:
        """It was asked for more than that."""
        self.refused[kind] += 1


NO_QUOTAS = KeptQuotas()
