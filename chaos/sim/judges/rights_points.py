"""Named points of rights, met in the profile that has some."""

from __future__ import annotations

from types import MappingProxyType

POINTS = MappingProxyType(
    {
        "a right granted": "whatever struck meanwhile",
        "a right asked about after a takeover": "of another master than the one that had ordered it",
        "a claim to be somebody else refused": "at the master and at the replica",
    }
)
