"""Orders the peer over a second path to mark its copy outdated, and believes its answer; without one it says nothing.

Safety class A while the peer is reachable: it answers after its own fsync, and a copy that is marked STALE is never
promoted, by anybody but an operator. Then this member goes on with that as evidence. A peer that cannot be reached may
live: no answer, which promotes nobody.

    the peer                                          verdict
    ------------------------------------------------  -----------------------------------------------------------
    is outdated in every domain of the event          20 or 21 with evidence peer_outdated
    refuses, and is master or in a higher epoch       24: it lives, and what it serves is the truth
    refuses otherwise                                 23 with its words
    cannot be reached, or answers with an error       none; what it did is unknown, asking again is harmless
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import grpc
import grpc.aio

from failover.classifier import (
    Answer,
    DomainFacts,
    Event,
    EventKind,
    Evidence,
    Outcome,
    SafetyClass,
    Verdict,
    by_authority,
)
from tandemq.channels import Open, Options, open_channel
from tandemq.v1 import common_pb2, pair_service_pb2, pair_service_pb2_grpc

SHARE = 0.9  # of the time that the event leaves
PREFLIGHT_S = 2.0
OPTIONS = (("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1))
MASTERS = (common_pb2.ROLE_MASTER, common_pb2.ROLE_MASTER_SUSPENDED, common_pb2.ROLE_CEDING)
NOT_MINE = (EventKind.LOCAL_FAULT, EventKind.DIVERGENCE, EventKind.PREFLIGHT)
"""Events that must not take a copy out of the pair."""


def judge(event: Event, replies: Sequence[pair_service_pb2.OutdateResponse]) -> tuple[Verdict, str, Evidence]:
    """The table's rows with an answer; one reply for each domain of the event, in its order."""
    pairs = list(zip(event.domains, replies, strict=True))
    said = "; ".join(f"{part.name}: {reply.text or 'outdated'}" for part, reply in pairs)
    if all(reply.done for reply in replies):
        verdict = by_authority(event)
        evidence = Evidence.NONE if verdict is Verdict.WAIT else Evidence.PEER_OUTDATED
        return verdict, f"the peer has marked its copy outdated: {said}", evidence
    if any(not reply.done and (reply.role in MASTERS or reply.epoch > part.epoch) for part, reply in pairs):
        return Verdict.PEER_ALIVE, f"the peer lives and is not to be outdated: {said}", Evidence.NONE
    return Verdict.WAIT, f"the peer refuses: {said}", Evidence.NONE


class PeerOutdate:
    """Shipped: `peer-outdate`."""

    name = "peer-outdate"
    safety = SafetyClass.A

    def __init__(self, endpoint: str, *, bias_s: float = 2.0, opener: Open = open_channel, named: Options = ()) -> None:
        """named: options of a channel that say who must answer, where connections are not plain."""
        self.endpoint, self.bias_s = endpoint, bias_s
        self._opener, self._options = opener, (*OPTIONS, *named)

    async def classify(self, event: Event) -> Answer:
        """See Classifier. A replica waits the bias first: of two that would outdate each other, the master goes on."""
        clock = asyncio.get_running_loop().time
        began = clock()
        none = Answer(event.event_id, event.link_generation, None, by=self.name)
        if event.kind in NOT_MINE or by_authority(event) is Verdict.WAIT:
            # Nothing to gain for this member: the peer's copy may be the better one.
            reason = f"the peer is not outdated for {event.kind.value} by a member in this state"
            return replace(none, verdict=Verdict.WAIT, reason=reason)
        time_s = event.decide_by_ms / 1000 * SHARE
        bias_s = 0.0 if event.is_master else min(self.bias_s, time_s / 2)
        await asyncio.sleep(bias_s)
        try:
            replies = await self._ask(event, time_s - bias_s)
        except grpc.aio.AioRpcError as error:
            reason = f"{self.endpoint}: {error.code().name} {error.details() or ''}".rstrip()
            answer = replace(none, reason=f"the peer could not be outdated: {reason}")
        else:
            verdict, reason, evidence = judge(event, replies)
            answer = replace(none, verdict=verdict, reason=reason, evidence=evidence)
        return replace(answer, duration_ms=round((clock() - began) * 1000))

    async def preflight(self) -> list[str]:
        """Whether a member answers there; it is asked for its status only."""
        async with self._opener(self.endpoint, self._options) as channel:
            stub = pair_service_pb2_grpc.PairServiceStub(channel)
            try:
                await stub.GetPairStatus(pair_service_pb2.GetPairStatusRequest(), timeout=PREFLIGHT_S)
            except grpc.aio.AioRpcError as error:
                return [f"{self.endpoint}: {error.code().name} {error.details() or ''}".rstrip()]
        return []

    async def report(self, outcome: Outcome) -> None:
        """Nothing to learn."""

    async def _ask(self, event: Event, time_s: float) -> list[pair_service_pb2.OutdateResponse]:
        """All domains at once. Raises AioRpcError when any of them has no answer."""
        async with self._opener(self.endpoint, self._options) as channel:
            stub = pair_service_pb2_grpc.PairServiceStub(channel)
            calls = [stub.Outdate(_request(event, part), timeout=time_s) for part in event.domains]
            return list(await asyncio.gather(*calls))


def _request(event: Event, part: DomainFacts) -> pair_service_pb2.OutdateRequest:
    reason = f"{event.kind.value} at {event.member}, event {event.event_id}"
    return pair_service_pb2.OutdateRequest(
        domain=part.name, by_member=event.member, epoch=part.epoch, reason=reason, pair=event.pair
    )
