"""What a core adds to a write and is given back once it is durable: which of its steps may go on. Values only.

Not tuples, named or plain: two of different kinds that hold the same numbers are never equal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochStored:
    """The first record of an epoch of ours, with the facts that go with it (P6)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SoloStored:
    """From where on this member answers alone, or that it does so no more (P2, P3)."""


@dataclass(frozen=True, slots=True)
class BaseStored:
    """The snapshot at the end of a full transfer: the new base of the log."""

    sync_id: int
    log_index: int


@dataclass(frozen=True, slots=True)
class OpenStored:
    """The mark IN_SYNC: everything up to this transfer's SYNC_END is here."""

    sync_id: int


@dataclass(frozen=True, slots=True)
class CededStored:
    """The promise of the epoch that this handoff gives away (P15)."""

    handoff_id: bytes


WriteToken = EpochStored | SoloStored | BaseStored | OpenStored | CededStored
