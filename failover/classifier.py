"""Decides the verdict on a lost link where an authority of class A exists; it never claims, and never runs anything.

The contract is that of pair-protocol.md 4.3: one event in, one verdict out, dropped by the caller if the link
generation has moved on meanwhile. Behind an authority of class A the verdict only says who may ask; the claim decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from failover.marks import DataMark, Role


class Verdict(Enum):
    """The values are the exit codes of a classifier command. Any other code is no answer, which never promotes."""

    CONTINUE_AS_MASTER = 20
    ASSUME_MASTERSHIP = 21
    FAILED_INSTANCE = 22
    WAIT = 23
    PEER_ALIVE = 24


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """The link to the peer was lost in one domain; what this member knew at that moment."""

    event_id: str
    link_generation: int  # a verdict on an older generation is dropped
    domain: str
    member: str
    peer: str
    role: Role  # held when the link was lost, before PROBE (P9)
    data: DataMark
    epoch: int
    last_index: int  # durable here
    commit_index: int  # known to be on every copy that must have it
    peer_index: int  # highest that the peer acknowledged; 0 when this member was not master
    silent_ms: int
    link_reset_and_refused: bool


class AuthorityClassifier:
    """Both sides may ask the register at once; its compare-and-set lets one of them through."""

    def classify(self, event: LinkLoss) -> Verdict:
        """20 for a master, 21 for a member with a good copy, else wait."""
        if event.role in (Role.MASTER, Role.MASTER_SUSPENDED):
            return Verdict.CONTINUE_AS_MASTER
        if event.role in (Role.REPLICA, Role.PROBE) and event.data.is_good:
            return Verdict.ASSUME_MASTERSHIP
        return Verdict.WAIT
