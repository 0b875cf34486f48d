"""The contract between a manager and whatever decides who lives: one event in, one answer out; it never runs anything.

Values only, plus the one rule that every caller of a classifier must keep: an answer counts for the event and the link
generation that it was given for, and for nothing else (pair-protocol.md 4.3). What a verdict may do then is decided by
`failover.gate`; who asks, and when, by `replica`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Protocol

from failover.marks import DataMark, Role

SCHEMA_VERSION = 1
"""Of the JSON that a command is given. Raised when a field changes its meaning; new fields do not raise it."""


class Verdict(Enum):
    """The values are the exit codes of a classifier command. Any other code is no answer, which never promotes."""

    CONTINUE_AS_MASTER = 20
    ASSUME_MASTERSHIP = 21
    FAILED_INSTANCE = 22
    WAIT = 23
    PEER_ALIVE = 24


class EventKind(StrEnum):
    """Why a classifier is asked."""

    PEER_LOST = "PEER_LOST"
    PEER_SLOW = "PEER_SLOW"  # connected and beating, but its disk does not come along
    COLD_START_ALONE = "COLD_START_ALONE"  # never connected since this process started
    HANDOFF_IN_DOUBT = "HANDOFF_IN_DOUBT"  # ceded, and the peer is gone before it said that it serves
    AUTHORITY_LOST = "AUTHORITY_LOST"  # the peer is lost and the authority cannot be asked either
    LOCAL_FAULT = "LOCAL_FAULT"  # disk, checksum or stall of this member
    DIVERGENCE = "DIVERGENCE"  # two histories that both served; the answer is journalled, never acted upon
    PREFLIGHT = "PREFLIGHT"  # a rehearsal; the answer is never acted upon


CONNECTED_KINDS = (EventKind.PEER_SLOW, EventKind.LOCAL_FAULT)
"""Asked about while the peer is connected."""
OWN_FAULTS = (EventKind.LOCAL_FAULT,)
"""About this member, not about its peer: asked even where the register decides who lives."""


class Evidence(StrEnum):
    """What a verdict rests on, beyond opinion."""

    NONE = "none"
    PEER_OUTDATED = "peer_outdated"  # the peer has durably marked its copy STALE
    LEASE = "lease"
    PEER_POWERED_OFF = "peer_powered_off"
    OPERATOR = "operator"


class SafetyClass(StrEnum):
    """How sure it is that no second member can acknowledge anything. Ordered: A is the safest."""

    A = "A"
    B = "B"
    C = "C"


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """One domain as the asking member knows it; of the peer, what it last said."""

    name: str
    role: Role  # held when the link was lost, before PROBE (P9)
    data: DataMark
    epoch: int
    last_index: int  # ordered here
    durable_index: int
    commit_index: int  # known to be on every copy that must have it
    peer_index: int  # highest that the peer is known to hold durably; 0 = unknown
    peer_role: str = ""  # names as in Role and DataMark; "" = it never said
    peer_data: str = ""
    peer_epoch: int = 0
    in_sync_set: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One question. The same loss asked again is a new attempt of the same event id."""

    event_id: str
    kind: EventKind
    link_generation: int  # an answer to an older generation is dropped
    pair: str
    member: str
    peer: str
    domains: tuple[DomainFacts, ...]
    attempt: int = 1
    decide_by_ms: int = 5_000  # time left for this call
    cause: str = ""  # how the connection ended, or what is wrong, as the log says it
    heard_ago_ms: int = 0  # since this member heard the peer
    heard_us_ago_ms: int = 0  # since the peer said that it heard this member
    refused: bool = False  # nobody listens at the peer's port
    peer_connected: bool = False  # possible for CONNECTED_KINDS
    peer_left: bool = False  # it said that it goes away in good order
    peer_address: str = ""  # peer port
    peer_endpoint: str = ""  # client port
    authority: str = "none"  # witness, etcd, none
    authority_reachable: bool = False
    uptime_ms: int = 0
    write_stall_ms: int = 0
    room_bytes: int = 0
    clients: int = 0
    recent: tuple[str, ...] = ()  # last changes of role and verdicts, newest last

    @property
    def is_master(self) -> bool:
        """Whether this member was master of what the event is about; all its domains have one role."""
        return all(part.role in (Role.MASTER, Role.MASTER_SUSPENDED, Role.CEDING) for part in self.domains)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking. `verdict` None = no answer, `reason` says why; it changes nothing."""

    event_id: str
    link_generation: int
    verdict: Verdict | None
    reason: str = ""
    evidence: Evidence = Evidence.NONE
    token: str = ""
    valid_for_ms: int = 0  # 0 = as long as the link generation lasts
    retry_ms: int = 0  # with WAIT: when to ask again; 0 = the caller's choice
    duration_ms: int = 0
    by: str = ""  # name of the classifier


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the manager made of an answer; the classifier is notified of it, and it is written to the journal."""

    event_id: str
    effect: str  # "claimed", "served", "suspended", "stepped down", "dropped", "observed", ...
    why: str = ""


class Classifier(Protocol):
    """Decides who lives. Called by one caller at a time; a call may be cancelled at its time limit."""

    @property
    def name(self) -> str:
        """As it stands in the configuration, status and logs."""
        ...

    @property
    def safety(self) -> SafetyClass:
        """What a promotion by this classifier alone, without an authority, is worth."""
        ...

    async def classify(self, event: Event) -> Answer:
        """One answer for this event. Raises nothing: what goes wrong is an Answer without a verdict."""
        ...

    async def preflight(self) -> list[str]:
        """What would keep it from answering, one sentence each; empty = ready."""
        ...

    async def report(self, outcome: Outcome) -> None:
        """What became of an answer. Best effort; never awaited by anything that serves clients."""
        ...


def by_authority(event: Event) -> Verdict:
    """The verdict where an authority exists: both may ask at once, its compare-and-set lets one of them through.

    20 for a master, 21 for a member with a good copy, else wait. A fault of this member's own: stop while the
    peer is there to go on.
    """
    if event.kind in OWN_FAULTS:
        paired = all(event.peer in part.in_sync_set for part in event.domains)
        return Verdict.FAILED_INSTANCE if event.peer_connected and paired else Verdict.WAIT
    if event.is_master:
        return Verdict.CONTINUE_AS_MASTER
    if all(part.role in (Role.REPLICA, Role.PROBE) and part.data.is_good for part in event.domains):
        return Verdict.ASSUME_MASTERSHIP
    return Verdict.WAIT


@dataclass(slots=True)
class AuthorityClassifier:
    """Shipped: `witness` and `etcd`. Answers from the event alone, at once; the claim is what decides."""

    name: str = "witness"
    safety: SafetyClass = field(default=SafetyClass.A)

    async def classify(self, event: Event) -> Answer:
        """See by_authority."""
        return self.now(event)

    def now(self, event: Event) -> Answer:
        """The same without waiting: a takeover does not go through the loop for it."""
        verdict = by_authority(event)
        why = event.cause if event.kind in OWN_FAULTS else "the register decides"
        return Answer(event.event_id, event.link_generation, verdict, why, by=self.name)

    async def preflight(self) -> list[str]:
        """The authority's reachability is the manager's to report."""
        return []

    async def report(self, outcome: Outcome) -> None:
        """Nothing to learn."""


@dataclass(slots=True)
class Suspend:
    """Shipped: `suspend`, the default when nothing is configured. Nobody is promoted without an operator."""

    name: str = "suspend"
    safety: SafetyClass = field(default=SafetyClass.A)

    async def classify(self, event: Event) -> Answer:
        """Always WAIT."""
        reason = "no classifier is configured: an operator must say who lives (tandemq pair decide)"
        return Answer(event.event_id, event.link_generation, Verdict.WAIT, reason, by=self.name)

    async def preflight(self) -> list[str]:
        """Always ready."""
        return []

    async def report(self, outcome: Outcome) -> None:
        """Nothing to learn."""
