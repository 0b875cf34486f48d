"""Writes events and reads answers as the JSON that a classifier command speaks; it never judges what they say.

The structs below are the published contract: `failover/schema/*.json` is generated from them, and a test compares. A
command gets more fields over time and must ignore those it does not know; so do we with a command's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from failover.classifier import CONNECTED_KINDS, SCHEMA_VERSION, DomainFacts, Event, EventKind
from failover.marks import DataMark, Role

Count = Annotated[int, msgspec.Meta(ge=0)]
DURATION_MS_MAX = 86_400_000  # a day: whoever answers for longer does not know what he says
TOKEN_CHARS_MAX = 1024
RoleName = Literal[
    "INIT", "PROBE", "REPLICA", "MASTER", "MASTER_SUSPENDED", "CEDING", "FAILED", "DIVERGED", "MAINTENANCE"
]
DataName = Literal["EMPTY", "SYNCING", "STALE", "IN_SYNC", "SOLE", "DAMAGED"]
KindName = Literal[
    "PEER_LOST",
    "PEER_SLOW",
    "COLD_START_ALONE",
    "HANDOFF_IN_DOUBT",
    "AUTHORITY_LOST",
    "LOCAL_FAULT",
    "DIVERGENCE",
    "PREFLIGHT",
]
VerdictName = Literal["CONTINUE_AS_MASTER", "ASSUME_MASTERSHIP", "FAILED_INSTANCE", "WAIT", "PEER_ALIVE"]
VerdictCode = Literal[20, 21, 22, 23, 24]
EvidenceName = Literal["none", "peer_outdated", "lease", "peer_powered_off", "operator"]


class BadEventError(ValueError):
    """The JSON is no event of this version; the message says where."""


class PeerOfDomain(msgspec.Struct, frozen=True, kw_only=True):
    """What the peer last said of its own copy; empty texts and 0 when it never said."""

    role: str = ""
    data: str = ""
    epoch: Count = 0
    index: Annotated[
        int, msgspec.Meta(ge=0, description="Highest log index that the peer is known to hold durably; 0: unknown.")
    ] = 0


class DomainJson(msgspec.Struct, frozen=True, kw_only=True):
    """One domain that the event is about, as this member knows it."""

    name: str
    role: Annotated[RoleName, msgspec.Meta(description="Held when the link was lost.")]
    data: DataName
    epoch: Count
    last_index: Count
    durable_index: Count
    commit_index: Count
    not_on_peer: Annotated[
        int, msgspec.Meta(ge=0, description="Records that the peer is not known to hold: last_index - peer.index.")
    ] = 0
    peer: PeerOfDomain = PeerOfDomain()
    in_sync_set: tuple[str, ...] = ()


class SelfJson(msgspec.Struct, frozen=True, kw_only=True):
    """The member that asks."""

    member: str
    role: Annotated[
        str, msgspec.Meta(description="Of all domains of the event: a member that has two roles asks twice.")
    ] = ""
    uptime_ms: Count = 0
    write_stall_ms: Annotated[
        int, msgspec.Meta(ge=0, description="Age of the disk write that is under way; 0: none.")
    ] = 0
    room_bytes: Count = 0
    clients: Count = 0


class PeerJson(msgspec.Struct, frozen=True, kw_only=True):
    """The member that is gone, or slow."""

    member: str
    address: Annotated[str, msgspec.Meta(description="host:port where members talk to each other.")] = ""
    endpoint: Annotated[str, msgspec.Meta(description="host:port where it serves clients.")] = ""
    heard_ago_ms: Annotated[int, msgspec.Meta(ge=0, description="Since this member heard it.")] = 0
    heard_us_ago_ms: Annotated[int, msgspec.Meta(ge=0, description="Since it said that it heard this member.")] = 0
    refused: Annotated[bool, msgspec.Meta(description="Nobody listens at its port.")] = False
    connected: Annotated[bool, msgspec.Meta(description=f"Possible for {' and '.join(CONNECTED_KINDS)}.")] = False
    left: Annotated[bool, msgspec.Meta(description="It said that it goes away in good order.")] = False


class AuthorityJson(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps the register."""

    kind: Annotated[str, msgspec.Meta(description="witness, etcd, none.")] = "none"
    reachable: bool = False


class EventJson(msgspec.Struct, frozen=True, kw_only=True):
    """What a classifier command reads from its standard input: one object, then the end of the input."""

    schema_version: Annotated[
        int, msgspec.Meta(ge=0, description="1. Raised when a field changes its meaning; new fields do not raise it.")
    ]
    event_id: Annotated[
        str, msgspec.Meta(description="The same for each attempt of one question; an answer in JSON must repeat it.")
    ]
    event: KindName
    attempt: Annotated[int, msgspec.Meta(ge=1)]
    decide_by_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0, description="Time left for this call; then the process group gets SIGTERM, a second later SIGKILL."
        ),
    ]
    link_generation: Count
    cause: Annotated[str, msgspec.Meta(description="How the connection ended, or what is wrong.")]
    pair: str
    self: SelfJson
    peer: PeerJson
    domains: tuple[DomainJson, ...]
    authority: AuthorityJson = AuthorityJson()
    recent: Annotated[tuple[str, ...], msgspec.Meta(description="Last changes of role and verdicts, newest last.")] = ()


class AnswerJson(msgspec.Struct, frozen=True, kw_only=True):
    """What a classifier command may write to its standard output: nothing, or this, in one line.

    The exit code is the verdict; what is written here may only add to it.
    """

    event_id: Annotated[str, msgspec.Meta(description="Of the event that was read.")]
    verdict: Annotated[
        VerdictName | VerdictCode | None,
        msgspec.Meta(description="If given, by name or number, it must agree with the exit code."),
    ] = None
    reason: Annotated[str, msgspec.Meta(description="One sentence for an operator.")] = ""
    evidence: EvidenceName = "none"
    token: Annotated[str, msgspec.Meta(max_length=TOKEN_CHARS_MAX)] = ""
    valid_for_ms: Annotated[
        int, msgspec.Meta(ge=0, le=DURATION_MS_MAX, description="0: as long as the link generation lasts.")
    ] = 0
    retry_ms: Annotated[
        int,
        msgspec.Meta(ge=0, le=DURATION_MS_MAX, description="With WAIT: when to ask again; 0: the manager's choice."),
    ] = 0


def document(event: Event) -> dict[str, Any]:
    """The event as the object that a command reads."""
    return {
        "schema_version": SCHEMA_VERSION,
        "event_id": event.event_id,
        "event": event.kind.value,
        "attempt": event.attempt,
        "decide_by_ms": event.decide_by_ms,
        "link_generation": event.link_generation,
        "cause": event.cause,
        "pair": event.pair,
        "self": {
            "member": event.member,
            "role": event.domains[0].role.name if event.domains else "",
            "uptime_ms": event.uptime_ms,
            "write_stall_ms": event.write_stall_ms,
            "room_bytes": event.room_bytes,
            "clients": event.clients,
        },
        "peer": {
            "member": event.peer,
            "address": event.peer_address,
            "endpoint": event.peer_endpoint,
            "heard_ago_ms": event.heard_ago_ms,
            "heard_us_ago_ms": event.heard_us_ago_ms,
            "refused": event.refused,
            "connected": event.peer_connected,
            "left": event.peer_left,
        },
        "domains": [_domain_document(facts) for facts in event.domains],
        "authority": {"kind": event.authority, "reachable": event.authority_reachable},
        "recent": list(event.recent),
    }


def _domain_document(facts: DomainFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "role": facts.role.name,
        "data": facts.data.name,
        "epoch": facts.epoch,
        "last_index": facts.last_index,
        "durable_index": facts.durable_index,
        "commit_index": facts.commit_index,
        "not_on_peer": max(0, facts.last_index - facts.peer_index),
        "peer": {
            "role": facts.peer_role,
            "data": facts.peer_data,
            "epoch": facts.peer_epoch,
            "index": facts.peer_index,
        },
        "in_sync_set": list(facts.in_sync_set),
    }


def encode(event: Event) -> bytes:
    """One line of JSON, without a line end."""
    return json.dumps(document(event), ensure_ascii=True, separators=(",", ":")).encode()


def decode(text: bytes | str) -> Event:
    """The event that `encode` wrote. Raises BadEventError, naming the field, for anything else."""
    try:
        return _event(msgspec.json.decode(text, type=EventJson))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadEventError(f"no event: {error}") from error


def from_document(value: object) -> Event:
    """As `decode`, from JSON that has been parsed already."""
    try:
        return _event(msgspec.convert(value, EventJson))
    except msgspec.ValidationError as error:
        raise BadEventError(f"no event: {error}") from error


def _event(read: EventJson) -> Event:
    if read.schema_version != SCHEMA_VERSION:
        raise BadEventError(
            f"the event has schema version {read.schema_version}, this program reads {SCHEMA_VERSION}; "
            "use the version of tandemq that wrote it"
        )
    mine, peer = read.self, read.peer
    return Event(
        event_id=read.event_id,
        kind=EventKind(read.event),
        link_generation=read.link_generation,
        pair=read.pair,
        member=mine.member,
        peer=peer.member,
        domains=tuple(_facts(domain) for domain in read.domains),
        attempt=read.attempt,
        decide_by_ms=read.decide_by_ms,
        cause=read.cause,
        heard_ago_ms=peer.heard_ago_ms,
        heard_us_ago_ms=peer.heard_us_ago_ms,
        refused=peer.refused,
        peer_connected=peer.connected,
        peer_left=peer.left,
        peer_address=peer.address,
        peer_endpoint=peer.endpoint,
        authority=read.authority.kind,
        authority_reachable=read.authority.reachable,
        uptime_ms=mine.uptime_ms,
        write_stall_ms=mine.write_stall_ms,
        room_bytes=mine.room_bytes,
        clients=mine.clients,
        recent=read.recent,
    )


def _facts(read: DomainJson) -> DomainFacts:
    return DomainFacts(
        name=read.name,
        role=Role[read.role],
        data=DataMark[read.data],
        epoch=read.epoch,
        last_index=read.last_index,
        durable_index=read.durable_index,
        commit_index=read.commit_index,
        peer_index=read.peer.index,
        peer_role=read.peer.role,
        peer_data=read.peer.data,
        peer_epoch=read.peer.epoch,
        in_sync_set=read.in_sync_set,
    )


SCHEMAS: Mapping[str, type[msgspec.Struct]] = MappingProxyType({"event": EventJson, "answer": AnswerJson})


def schema(name: str) -> str:
    """The JSON Schema (2020-12) of `event` or `answer`, as published in failover/schema."""
    struct = SCHEMAS[name]
    made: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"tandemq:classifier-{name}-{SCHEMA_VERSION}",
        **msgspec.json.schema(struct),
    }
    for each in made["$defs"].values():
        each["description"] = " ".join(each["description"].split())
    return json.dumps(made, indent=2) + "\n"


def schema_file(name: str) -> str:
    return f"classifier-{name}-{SCHEMA_VERSION}.json"
