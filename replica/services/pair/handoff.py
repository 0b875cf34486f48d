"""PairService.Handoff: starts a handoff at the member that is asked, waits for its end, and says how it ended. Decides
nothing about it.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING

import grpc

from replica.core.handoff.attempt import HandoffOutcome
from replica.core.handoff.handoff import HOLD_MS_MAX
from replica.node.hand_over import hand_over, wait_until
from replica.node.members import MAIN
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services.forward import ANSWER_S, time_left_s
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.core.domain import Domain
    from replica.node.members import Members

WAIT_MS = 30_000
"""For a caller without a deadline."""
SETTLE_S = 2.0
"""After the mastership has moved: how long the answer waits for both copies, for the sake of the next handoff."""
_ADVICE = MappingProxyType(
    {
        "BUSY": "another handoff is under way, or this member is being stopped; ask again when that is over",
        "LAG": "the replica is too far behind; ask again when it has caught up",
        "PINNED": "automatic changes of role are paused; resume them first",
        "MAINTENANCE": "a member is in maintenance; end that first",
        "COOLDOWN": "the last handoff was a moment ago; ask again in a second, or ask at the master",
        "NOT_IN_SYNC": "the copies are not in step; wait for the state transfer",
        "NO_EPOCH": "no epoch is left (docs/OPERATIONS.md, The last epoch); move the queues to a new pair",
        "DISK": "the replica's store is full; consume, or give it room",
        "NOT_CONNECTED": "the members are not connected; look at the link",
        "NOT_MASTER": "the member that was asked is not master; ask the other one",
        "COLLISION": "the master had begun a handoff of its own, which goes on; look at the status",
        "TIMEOUT": "it took too long and was taken back; ask again, with a longer hold if the drain was the reason",
        "IN_DOUBT": "whether the mastership has moved is not known here yet; look at the status of both members",
    }
)


class HandoffHandlers:
    """The handler of PairService.Handoff."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]:
        """For `service_failures.pair_handler`."""
        return {"Handoff": grpc.unary_unary_rpc_method_handler(self.handoff)}

    async def handoff(self, request: bytes, context: Context) -> bytes:
        """See PairService.Handoff."""
        parsed = await parse(pb.HandoffRequest, request, context)
        domain = await self._domain(parsed, context)
        until = asyncio.get_running_loop().time() + time_left_s(context, WAIT_MS) - ANSWER_S
        master = self._master(domain)
        to = parsed.to or (self.members.member if master == self.members.peer else self.members.peer)
        if to == master:
            response = pb.HandoffResponse(done=True, text=f"{to} is master already")
        elif (to == self.members.peer) is not domain.shared.serving:
            response = _refused(HandoffOutcome(done=False, reasons=("NOT_MASTER",)))
        else:
            response = await self._run(domain, parsed, to, until)
        response.master, response.epoch = self._master(domain), domain.shared.state.epoch
        return response.SerializeToString()

    async def _domain(self, parsed: pb.HandoffRequest, context: Context) -> Domain:
        members = self.members
        domain = members.by_name.get(parsed.domain or MAIN)
        if domain is None:
            names = ", ".join(sorted(members.by_name))
            text = f"there is no domain {parsed.domain!r} at {members.member}; it has {names}"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        if not domain.shared.peer:
            text = f"domain {domain.shared.name} of {members.member} has no second member to hand over to"
            await abort(context, refusal(Reason.REASON_INVALID_STATE, text))
        if parsed.to not in ("", members.member, members.peer):
            text = f"to is {parsed.to!r}; the members of this pair are {members.member} and {members.peer}"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        hold_ms = parsed.hold.ToMilliseconds() if parsed.HasField("hold") else 1
        if not 0 < hold_ms <= HOLD_MS_MAX:
            text = f"hold is {hold_ms} ms; it must be from 1 to {HOLD_MS_MAX} ms"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        return domain

    async def _run(self, domain: Domain, parsed: pb.HandoffRequest, to: str, until: float) -> pb.HandoffResponse:
        hold_ms = parsed.hold.ToMilliseconds() if parsed.HasField("hold") else 0
        left_s = max(0.0, until - asyncio.get_running_loop().time())
        asked = parsed.reason or "an operator asked"
        try:
            started = hand_over(domain, self.members, asked, dry_run=parsed.dry_run, hold_ms=hold_ms)
            outcome = await asyncio.wait_for(started, left_s)
        except TimeoutError:
            domain.handoff.abort("TIMEOUT")
            self.members.node.dispatch(domain)
            outcome = HandoffOutcome(done=False, reasons=("IN_DOUBT" if domain.handoff.open else "TIMEOUT",))
        if "IN_DOUBT" in outcome.reasons:
            outcome = await self._resolve(domain, outcome, to, until)
        if not outcome.done:
            return _refused(outcome)
        if not parsed.dry_run:
            await self._until_in_step(domain, until)
        text = f"{to} would become master" if parsed.dry_run else f"{to} is master"
        response = pb.HandoffResponse(
            done=True, final_index=outcome.final_index, handoff_id=outcome.handoff_id, text=text
        )
        response.pause.FromMilliseconds(outcome.pause_ms)
        return response

    async def _resolve(self, domain: Domain, outcome: HandoffOutcome, to: str, until: float) -> HandoffOutcome:
        """In doubt: register and peer decide, and then it is known."""
        if not await wait_until(lambda: bool(self._master(domain)), until):
            return outcome
        if self._master(domain) == to:
            return outcome._replace(done=True, reasons=())
        known = tuple(reason for reason in outcome.reasons if reason != "IN_DOUBT")
        return outcome._replace(reasons=known or ("TIMEOUT",))

    async def _until_in_step(self, domain: Domain, until: float) -> None:
        until = min(until, asyncio.get_running_loop().time() + SETTLE_S)
        await wait_until(lambda: domain.handoff.is_paired, until)

    def _master(self, domain: Domain) -> str:
        return domain.shared.master


def _refused(outcome: HandoffOutcome) -> pb.HandoffResponse:
    advice = "; ".join(f"{reason}: {_ADVICE.get(reason, 'see the log')}" for reason in outcome.reasons)
    in_doubt = "IN_DOUBT" in outcome.reasons
    return pb.HandoffResponse(
        done=False,
        reasons=outcome.reasons,
        final_index=outcome.final_index,
        handoff_id=outcome.handoff_id,
        text=advice if in_doubt else f"nothing was changed. {advice}",
    )
