"""Translates the enum numbers of the wire into the names of the core. Decides nothing."""

from __future__ import annotations

from failover.marks import DataMark


def data_of(number: int) -> DataMark:
    """The mark behind a wire number; one that this version does not know counts as damaged: it has no vote."""
    try:
        return DataMark(number)
    except ValueError:
        return DataMark.DAMAGED
