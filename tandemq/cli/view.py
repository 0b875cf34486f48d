"""Asks every member of a pair how it does and puts the answers side by side; it never judges which one is right.

A view names states as people say them ("MASTER", not "ROLE_MASTER"). A member that does not answer is in the view too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import grpc
import msgspec

from tandemq.channels import Open
from tandemq.cli.opening import opener as opener_of_command
from tandemq.client.connecting import why_unreachable
from tandemq.v1 import common_pb2, pair_service_pb2, pair_service_pb2_grpc

Answer = TypeVar("Answer")

# Channels of one process share their connections, and with them the wait before a redial. A view is a fresh look.
CHANNEL_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0))

OWN_DOMAIN = "local"  # every member has its own, never replicated
DETAIL_CHARS_MAX = 160  # of what gRPC says, in a sentence of ours

_SAFETY = MappingProxyType({0: "", 1: "A", 2: "B", 3: "C"})


class DomainView(msgspec.Struct, frozen=True, kw_only=True):
    """One domain at one member."""

    name: str
    role: str
    data_state: str
    link_state: str
    epoch: int
    log_index: int
    durable_index: int
    commit_index: int
    applied_index: int
    digest: str
    state_digest: str
    """Empty: the state is too large for one, or see `state_digest_later`."""
    in_sync_set: tuple[str, ...]
    last_change: str = ""
    master: str = ""
    peer_backlog: int = 0
    peer_backlog_bytes: int = 0
    peer_lag_ms: int = 0
    peer_durable_index: int = 0
    if_peer_dies: str = ""
    advice: str = ""
    handoff: str = ""
    unrecorded: bool = False
    solo_since: int = 0
    state_digest_later: bool = False
    """It is left out for now, since it takes long to make; asked again, the member has it."""


class MemberView(msgspec.Struct, frozen=True, kw_only=True):
    """One member; without an answer only its endpoint is sure."""

    name: str
    endpoint: str
    pid: int = 0
    reachable: bool = False
    problem: str = ""
    """Why it has no view; empty when it is reachable."""
    denied: bool = False
    """It answers, and whoever asks has no right to its view."""
    clock_ahead_ms: int | None = None
    """Of its wall clock, against the one here; None when it does not say. Sure to half of `round_trip_ms`."""
    round_trip_ms: int = 0
    peer_connected: bool = False
    witness_connected: bool = False
    authority: str = ""
    classifier: str = ""
    classifier_mode: str = ""
    safety_class: str = ""
    automation_paused: bool = False
    maintenance: bool = False
    waiting_event_id: str = ""
    doubts: tuple[str, ...] = ()
    """What its copy cannot prove about its last writes."""
    plain_ports: tuple[str, ...] = ()
    """Those that talk in clear text to other machines, and ask nobody who he is."""
    domains: tuple[DomainView, ...] = ()

    def domain(self, name: str) -> DomainView | None:
        return next((domain for domain in self.domains if domain.name == name), None)


class PairView(msgspec.Struct, frozen=True, kw_only=True):
    """Both members as they see themselves at about the same time."""

    schema_version: int = 1
    pair: str
    members: tuple[MemberView, ...]

    def masters(self, domain: str = "main") -> list[str]:
        return [member.name for member in self.members if (d := member.domain(domain)) and d.role == "MASTER"]

    def problems(self) -> str:
        """Why those that have no view have none."""
        return "; ".join(f"{member.endpoint}: {member.problem}" for member in self.members if member.problem)

    def lacks(self) -> list[str]:
        """What there is too little of for two copies of everything; nothing: the pair is whole, or it is no pair."""
        lacking = [f"{each.name or each.endpoint} does not answer" for each in self.members if not each.reachable]
        if not self.pair or lacking:
            return lacking
        names = {domain.name for member in self.members for domain in member.domains} - {OWN_DOMAIN}
        lacking = [] if len(self.members) > 1 else ["one member alone is known"]
        return lacking + [
            f"domain {name} is not in sync, or has no master" for name in sorted(names) if not self.whole(name)
        ]

    def whole(self, domain: str = "main") -> bool:
        """One master, and every other member a replica that holds all the master holds."""
        states = [member.domain(domain) for member in self.members]
        roles = sorted(state.role if state else "" for state in states)
        synced = all(state is not None and state.data_state == "IN_SYNC" for state in states)
        return synced and roles == sorted(["MASTER"] + ["REPLICA"] * (len(states) - 1))

    def equal(self, domain: str = "main") -> bool:
        """Whole, and the same log and the same queues everywhere; not while a member leaves its digest out for now."""
        states = [state for member in self.members if (state := member.domain(domain))]
        facts = {(state.log_index, state.digest, state.applied_index, state.state_digest) for state in states}
        return self.whole(domain) and len(facts) == 1 and not any(state.state_digest_later for state in states)


class _Asked(NamedTuple):
    """What one endpoint said, or why it said nothing."""

    answer: pair_service_pb2.GetPairStatusResponse | None
    problem: str = ""
    denied: bool = False
    clock_ahead_ms: int | None = None
    round_trip_ms: int = 0


async def look(endpoints: Iterable[str], timeout_s: float = 2.0, opener: Open | None = None) -> PairView:
    """The view over the members at these endpoints and over the peers that they name. opener: None: the command's."""
    opened = opener_of_command() if opener is None else opener
    asked: dict[str, _Asked] = {}
    waiting = list(dict.fromkeys(endpoints))
    while waiting:
        answers = await asyncio.gather(*(_ask(opened, endpoint, timeout_s) for endpoint in waiting))
        asked.update(zip(waiting, answers, strict=True))
        known = {each.answer.member.endpoint for each in asked.values() if each.answer} | asked.keys()
        peers_named = {each.answer.peer_endpoint for each in asked.values() if each.answer}
        waiting = sorted({endpoint for endpoint in peers_named if endpoint} - known)
    answered = [each for each in asked.values() if each.answer]
    members = {each.answer.member.name: _member(each.answer, each) for each in answered if each.answer}
    peers = {each.answer.peer_endpoint: each.answer.peer for each in answered if each.answer}
    for endpoint, each in asked.items():
        if each.answer is None and peers.get(endpoint) not in members:
            name = peers.get(endpoint, "")
            members[name or endpoint] = MemberView(
                name=name, endpoint=endpoint, problem=each.problem, denied=each.denied
            )
    pair = next((each.answer.header.pair for each in answered if each.answer), "")
    return PairView(pair=pair, members=tuple(sorted(members.values(), key=lambda m: (m.name, m.endpoint))))


async def _ask(opener: Open, endpoint: str, timeout_s: float) -> _Asked:
    async with opener(endpoint, CHANNEL_OPTIONS) as channel:
        stub = pair_service_pb2_grpc.PairServiceStub(channel)
        wall_s, began_s = time.time(), time.monotonic()
        try:
            answer = await heard(stub.GetPairStatus(pair_service_pb2.GetPairStatusRequest(), timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            away = error.code() is grpc.StatusCode.UNAVAILABLE
            why = await why_unreachable(opener, [endpoint]) if away else ""
            denied = error.code() is grpc.StatusCode.PERMISSION_DENIED
            return _Asked(None, why or problem_of(error, timeout_s), denied=denied)
        took_s = time.monotonic() - began_s
    ahead_ms = None
    if answer.member.HasField("now"):
        ahead_ms = round(answer.member.now.ToMilliseconds() - (wall_s + took_s / 2) * 1000)
    return _Asked(answer, clock_ahead_ms=ahead_ms, round_trip_ms=round(took_s * 1000))


async def heard(call: Awaitable[Answer | None]) -> Answer:
    """The answer. Raises AioRpcError also for one that nobody can read: gRPC gives None for it."""
    answer = await call
    if answer is None:
        none = grpc.aio.Metadata()
        text = "what answers there sends what nobody can read"
        raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, none, none, text)
    return answer


def problem_of(error: grpc.aio.AioRpcError, timeout_s: float) -> str:
    """Why a member did not say how it does, for somebody who knows no gRPC."""
    said = " ".join((error.details() or "").split())[:DETAIL_CHARS_MAX]
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return f"nobody answers there who speaks gRPC ({said})"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {timeout_s:g} s"
        case grpc.StatusCode.UNIMPLEMENTED:
            return "a gRPC server answers there, but it is no member of a pair"
        case grpc.StatusCode.PERMISSION_DENIED:
            return said
        case code:
            return f"what answers there is no member of a pair, or an ill one: {code.name} {said}"


def _member(answer: pair_service_pb2.GetPairStatusResponse, asked: _Asked) -> MemberView:
    member = answer.member
    return MemberView(
        name=member.name,
        endpoint=member.endpoint,
        pid=member.pid,
        reachable=True,
        clock_ahead_ms=asked.clock_ahead_ms,
        round_trip_ms=asked.round_trip_ms,
        peer_connected=member.peer_connected,
        witness_connected=member.witness_connected,
        authority=member.authority,
        classifier=member.classifier,
        classifier_mode=member.classifier_mode,
        safety_class=_SAFETY[member.safety_class],
        automation_paused=member.automation_paused,
        maintenance=member.maintenance,
        waiting_event_id=member.waiting_event_id,
        doubts=tuple(member.doubts),
        plain_ports=tuple(member.plain_ports),
        domains=tuple(_domain(domain) for domain in member.domains),
    )


def _domain(domain: pair_service_pb2.DomainStatus) -> DomainView:
    return DomainView(
        name=domain.name,
        role=common_pb2.Role.Name(domain.role).removeprefix("ROLE_"),
        data_state=common_pb2.DataState.Name(domain.data_state).removeprefix("DATA_STATE_"),
        link_state=common_pb2.LinkState.Name(domain.link_state).removeprefix("LINK_STATE_"),
        epoch=domain.epoch,
        log_index=domain.log_index,
        durable_index=domain.durable_index,
        commit_index=domain.commit_index,
        applied_index=domain.applied_index,
        digest=domain.digest,
        state_digest=domain.state_digest,
        in_sync_set=tuple(domain.in_sync_set),
        last_change=domain.last_change,
        master=domain.master,
        peer_backlog=domain.peer_backlog,
        peer_backlog_bytes=domain.peer_backlog_bytes,
        peer_lag_ms=domain.peer_lag.ToMilliseconds(),
        peer_durable_index=domain.peer_durable_index,
        if_peer_dies=domain.if_peer_dies,
        advice=domain.advice,
        handoff=domain.handoff,
        unrecorded=domain.unrecorded,
        solo_since=domain.solo_since,
        state_digest_later=domain.state_digest_later,
    )
