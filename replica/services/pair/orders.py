"""PairService's orders: takes an operator's word, has the cores carry it out, and writes it into the event log with the
caller's address, also when it is refused; decides nothing itself.

A malformed order ends in an error. One that does not fit the present state is an answer: not done, why, and what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from failover.classifier import Verdict
from replica.node.access import called_by
from replica.node.members import MAIN
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services.pair.operators_word import problem_of_word
from tandemq.ambient import monotonic_ms
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.operations.operator import Decider, Operator
    from replica.rpc.handlers import Method

REASON_CHARS_MAX = 500
WAIT_S = 5.0
"""How long an order waits for what follows from it before it answers."""
REST_S = 0.5
"""For further domains, once the first has followed."""
LOOK_S = 0.02
_VERDICTS = "20 continue, 21 assume, 22 failed instance, 23 wait, 24 peer alive"


def journalled(operator: Operator, methods: Mapping[str, Method]) -> dict[str, Method]:
    """The same methods; those that are orders written into the event log as well, done or refused."""
    wrapped = {name: _journalled(operator, name, methods[name]) for name in _ORDERS.keys() & methods.keys()}
    return {**methods, **wrapped}


def _journalled(operator: Operator, name: str, method: Method) -> Method:
    asked_as, answered_as = _ORDERS[name]
    handle: Any = method.unary_unary

    async def carry_out(request: bytes, context: Context) -> bytes:
        outcome, text = "refused", "refused"
        try:
            answer: bytes = await handle(request, context)
            said = answered_as.FromString(answer)
            outcome, text = "done" if said.done else "refused", said.text
            return answer
        finally:  # an abort ends it too
            _note_order(operator, name.lower(), asked_as, request, context, outcome, text or str(context.details()))

    return grpc.unary_unary_rpc_method_handler(carry_out)


def _note_order(
    operator: Operator, order: str, asked_as: Any, request: bytes, context: Context, outcome: str, text: str
) -> None:
    try:
        asked = asked_as.FromString(request)
    except DecodeError:
        return  # nobody knows what was asked
    if outcome == "refused":
        text = context.details() or text
    domain = operator.members.by_name.get(asked.domain or MAIN)
    by, reason = called_by(operator.members.access, context), asked.reason[:REASON_CHARS_MAX]
    dry = " (dry run)" if getattr(asked, "dry_run", False) else ""
    said = f" ({reason})" if reason else ""
    facts = {"order": order, "reason": reason, "by": by, "outcome": text}
    text = f"an operator at {by} ordered {order}{dry}{said}: {text}"
    operator.reports.note(pb.PAIR_EVENT_KIND_OPERATOR, text, domain, facts)


_ORDERS: Mapping[str, tuple[Any, Any]] = MappingProxyType(
    {
        "Handoff": (pb.HandoffRequest, pb.HandoffResponse),
        "Resync": (pb.ResyncRequest, pb.ResyncResponse),
        "Outdate": (pb.OutdateRequest, pb.OutdateResponse),
        "Resolve": (pb.ResolveRequest, pb.ResolveResponse),
    }
)
"""Orders that other modules answer."""


class OrderHandlers:
    """The handlers of an operator's orders at one member."""

    def __init__(self, operator: Operator, members: Members) -> None:
        self.operator = operator
        self.members = members

    def methods(self) -> dict[str, Method]:
        """For `service_failures.pair_handler`."""
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "ForceFailover": unary(self.force_failover),
            "Decide": unary(self.decide),
            "SetAutomation": unary(self.set_automation),
            "SetMaintenance": unary(self.set_maintenance),
        }

    # -- what every order has --------------------------------------------------------------------------------------

    def _journal(
        self, order: str, reason: str, context: Context, outcome: str, domain: Domain | None, facts: Mapping[str, str]
    ) -> None:
        by = called_by(self.members.access, context)
        said = f" ({reason})" if reason else ""
        recorded = {"order": order, "reason": reason, "by": by, "outcome": outcome, **facts}
        text = f"an operator at {by} ordered {order}{said}: {outcome}"
        self.operator.reports.note(pb.PAIR_EVENT_KIND_OPERATOR, text, domain, recorded)

    async def _refuse(self, order: str, reason: str, context: Context, why: Reason, text: str) -> NoReturn:
        self._journal(order, reason[:REASON_CHARS_MAX], context, f"refused: {text}", None, {})
        await abort(context, refusal(why, text))

    async def _check_reason(self, order: str, reason: str, context: Context, *, needed: bool) -> None:
        if needed and not reason.strip():
            text = f"{order} needs a reason: it stands in the event log, for those who ask later"
            await self._refuse(order, "", context, Reason.REASON_BAD_REQUEST, text)
        if len(reason) > REASON_CHARS_MAX:
            text = f"the reason has {len(reason)} characters, at most {REASON_CHARS_MAX}"
            await self._refuse(order, reason, context, Reason.REASON_BAD_REQUEST, text)

    async def _paired(self, order: str, reason: str, name: str, context: Context) -> Domain:
        domain = self.members.by_name.get(name or MAIN)
        if domain is None:
            names = ", ".join(sorted(self.members.by_name))
            text = f"no domain is called {name[:80]!r} here; there are {names}"
            await self._refuse(order, reason, context, Reason.REASON_BAD_NAME, text)
        if not domain.shared.peer:
            text = f"domain {domain.shared.name} of {self.members.member} has no second member: nothing to decide about"
            await self._refuse(order, reason, context, Reason.REASON_INVALID_STATE, text)
        return domain

    async def _judge(self, order: str, reason: str, context: Context) -> Decider:
        if self.operator.judge is None:
            text = f"{self.members.member} belongs to no pair: there is no peer to decide about"
            await self._refuse(order, reason, context, Reason.REASON_INVALID_STATE, text)
        return self.operator.judge

    # -- failover --------------------------------------------------------------------------------------------------

    async def force_failover(self, request: bytes, context: Context) -> bytes:
        """See PairService.ForceFailover."""
        order = "failover"
        asked = await parse(pb.ForceFailoverRequest, request, context)
        await self._check_reason(order, asked.reason, context, needed=asked.confirmed)
        domain = await self._paired(order, asked.reason, asked.domain, context)
        shared, me = domain.shared, self.members.member
        last, heard = shared.log.last_index, self.operator.peer_index(domain)
        answer = pb.ForceFailoverResponse(epoch=shared.state.epoch, last_index=last, peer_last_index=heard)
        gap = _gap(me, shared.peer, last, heard)
        if domain.shared.serving:
            answer.text = f"nothing was done: {me} is master of {shared.name} already"
        elif not asked.confirmed:
            answer.text = f"nothing was done. {gap}. To go on: accept the loss after {last}"
        elif asked.accept_loss_after != last:
            answer.text = f"nothing was done: the loss after {asked.accept_loss_after} was accepted, but {gap}"
        elif self.operator.maintenance:
            answer.text = f"nothing was done: {me} is in maintenance; `tandemq pair maintenance off` first"
        elif why := problem_of_word(self.members, domain) or domain.mastership.force(asked.reason):
            answer.text = f"nothing was done: {why}"
        else:
            self.members.node.dispatch(domain)
            answer.done = await _until(lambda: domain.shared.serving)
            answer.epoch = shared.state.epoch
            answer.text = f"{me} is master of {shared.name} in epoch {answer.epoch}, alone. {gap}"
            if not answer.done:
                answer.text = f"begun, and not done within {WAIT_S:g} s: {shared.last_change}; look at the status"
        facts = {"accept_loss_after": str(asked.accept_loss_after), "peer_last_index": str(heard)}
        self._journal(order, asked.reason, context, answer.text, domain, facts)
        return answer.SerializeToString()

    # -- verdicts --------------------------------------------------------------------------------------------------

    async def decide(self, request: bytes, context: Context) -> bytes:
        """See PairService.Decide."""
        order = "decide"
        asked = await parse(pb.DecideRequest, request, context)
        await self._check_reason(order, asked.reason, context, needed=True)
        judge = await self._judge(order, asked.reason, context)
        if asked.domain:
            await self._paired(order, asked.reason, asked.domain, context)
        if asked.verdict not in {each.value for each in Verdict}:
            text = f"verdict {asked.verdict} is unknown; there are {_VERDICTS}"
            await self._refuse(order, asked.reason, context, Reason.REASON_BAD_REQUEST, text)
        if self.operator.maintenance:
            text = f"{self.members.member} is in maintenance; `tandemq pair maintenance off` first"
            await self._refuse(order, asked.reason, context, Reason.REASON_INVALID_STATE, text)
        verdict = Verdict(asked.verdict)
        meant = [d for d in self.members.node.paired() if asked.domain in ("", d.shared.name)]
        waiting = [d for d in meant if not _alone(d)]
        done, text, event_id = judge.decide(asked.domain, asked.event_id, asked.verdict, asked.reason)
        goes_on = verdict in (Verdict.CONTINUE_AS_MASTER, Verdict.ASSUME_MASTERSHIP)
        if done and goes_on and await _until(lambda: any(map(_alone, waiting))):
            # A verdict for masters leaves domains alone of which this member was replica, and the other way round.
            await _until(lambda: all(map(_alone, waiting)), REST_S)
            epochs = ", ".join(f"{d.shared.name} in epoch {d.shared.state.epoch}" for d in waiting if _alone(d))
            text = f"{self.members.member} serves {epochs}, alone"
        elif done and goes_on and waiting:
            done = False
            text = f"taken, and nothing followed from it yet: {waiting[0].shared.last_change}"
        facts = {"verdict": verdict.name, "event_id": event_id}
        self._journal(f"{order} {verdict.name}", asked.reason, context, text, None, facts)
        return pb.DecideResponse(done=done, text=text, event_id=event_id).SerializeToString()

    async def set_automation(self, request: bytes, context: Context) -> bytes:
        """See PairService.SetAutomation."""
        asked = await parse(pb.SetAutomationRequest, request, context)
        order = "pause" if asked.paused else "resume"
        await self._check_reason(order, asked.reason, context, needed=False)
        judge = await self._judge(order, asked.reason, context)
        changed = judge.paused is not asked.paused
        await judge.pause(paused=asked.paused)
        for domain in self.members.node.paired():
            domain.mastership.on_tick(monotonic_ms())  # an answer that waited counts from now on
            self.members.node.dispatch(domain)
        state = "paused" if asked.paused else "on"
        outcome = f"automatic changes of role are {state}" + ("" if changed else ", as before")
        self._journal(order, asked.reason, context, outcome, None, {"paused": str(asked.paused).lower()})
        return pb.SetAutomationResponse(paused=judge.paused).SerializeToString()

    # -- maintenance -----------------------------------------------------------------------------------------------

    async def set_maintenance(self, request: bytes, context: Context) -> bytes:
        """See PairService.SetMaintenance."""
        asked = await parse(pb.SetMaintenanceRequest, request, context)
        order = f"maintenance {'on' if asked.on else 'off'}"
        await self._check_reason(order, asked.reason, context, needed=False)
        await self._judge(order, asked.reason, context)
        operator, me = self.operator, self.members.member
        if operator.maintenance is asked.on:
            text = f"{me} is {'in' if asked.on else 'not in'} maintenance already"
        elif not asked.on:
            await operator.end_maintenance()
            text = f"{me} takes part again"
        elif why := await operator.begin_maintenance(asked.reason, confirmed=asked.confirmed):
            text = f"nothing was changed: {why}"
        else:
            text = f"{me} takes part in nothing until `tandemq pair maintenance off`"
        self._journal(order, asked.reason, context, text, None, {"on": str(operator.maintenance).lower()})
        return pb.SetMaintenanceResponse(on=operator.maintenance, text=text).SerializeToString()


def _gap(member: str, peer: str, last_index: int, peer_index: int) -> str:
    """What a forced failover loses, as far as it is known here."""
    if peer_index > last_index:
        lost = peer_index - last_index
        return (
            f"{member} holds everything up to {last_index}, {peer} was heard to hold {peer_index}: the {lost} "
            f"operations between, and whatever {peer} acknowledged since, would be lost"
        )
    return (
        f"{member} holds everything up to {last_index}, and {peer} was never heard to hold more; whatever {peer} "
        "acknowledged since it was last heard would be lost"
    )


def _alone(domain: Domain) -> bool:
    return domain.shared.serving and domain.shared.peer not in domain.mastership.commit.required


async def _until(condition: Callable[[], bool], wait_s: float = WAIT_S) -> bool:
    deadline = asyncio.get_running_loop().time() + wait_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
