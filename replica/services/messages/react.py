"""ReactionService: acts on messages that were sent before. A request is run turn by turn until its record is ordered;
what a turn does is decided in `reacting`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from replica.core.ordering.reacting import Reacting
from replica.core.ordering.reaction import outcome_of
from replica.core.ordering.travelling import report_place
from replica.core.state.outcomes import Failed, Moved, ReactionDone
from replica.machine import Refused
from replica.machine.plan.content import RESERVED, check_message
from replica.machine.state.segments import PRIORITIES
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import REQUEST_BYTES_MAX, Context, check_request_id, parse
from replica.services import filters, forward
from replica.services.answers import Answered, FutureWaiter, header_of, level_of
from replica.services.checks import problem_of_identity, problem_of_ttl, stale_epoch
from replica.services.elsewhere import ensure, ensure_kept
from replica.services.locality import check_origin
from replica.services.messages.onward import Entrance, home_of
from replica.services.messages.open_units import OpenUnitHandlers
from replica.services.messages.reaction_ways import ReactionWay, reaction_of, way_of
from replica.services.weighing import problem_of_reaction
from tandemq.ambient import monotonic_s
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.ordering.reaction import Reaction
    from replica.core.state.outcomes import Answer
    from replica.node.members import Members
    from tandemq.v1.common_pb2 import ResponseHeader

SERVICE = "tandemq.v1.ReactionService"
RUNNING_MAX = 64
"""Reactions at one member that need more than one turn; each takes its turns of the one loop."""
AGAIN_MS = 1_000
_NO_REPORT = (pb.EXCEPTION_REPORT_UNSPECIFIED, pb.EXCEPTION_REPORT_NONE)


class ReactionHandlers:
    """The handlers of ReactionService at one member."""

    def __init__(self, members: Members, *, enabled: bool) -> None:
        """`enabled`: for clients of this member; those of its peer come by that one's door (V1)."""
        self.members = members
        self.units = OpenUnitHandlers(members)
        self.enabled = enabled
        self._looking = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        return generic_handler(SERVICE, {"React": grpc.unary_unary_rpc_method_handler(self.react)})

    async def react(self, request: bytes, context: Context) -> bytes:
        """See ReactionService.React."""
        if not self.enabled and not forward.came_over_a_hop(context):
            text = f"reactions are off at {self.members.member}: set manager.reactions, or call the other member"
            await abort(context, refusal(Reason.REASON_REACTION_DISABLED, text, {"member": self.members.member}))
        if (problem := problem_of_reaction(request)) is not None:
            await abort(context, problem)
        bytes_max = REQUEST_BYTES_MAX + self.members.node.limits.batch_bytes_max
        parsed = await parse(pb.ReactRequest, request, context, bytes_max)
        await check_request_id(parsed.request_id, context)
        named = problem_of_identity(parsed.writer, parsed.query_id, parsed.number, parsed.after)
        if (problem := _problem_of(parsed.reaction) or named) is not None:
            await abort(context, problem)
        if await filters.check(parsed.reaction.target, context) is None:
            text = "reaction.target is empty: say which messages by ids, correlation_id, group_id or selector"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        try:
            way = way_of(self.members, parsed)
        except Refused as refused:
            await abort(context, refusal(refused.reason, refused.message, refused.metadata))
        for name in way.names:
            await check_origin(self.members, name, context)
        home = await self.units.domain_of(parsed.unit_id, context) if parsed.unit_id else None
        return await forward.unary(
            self.members,
            "ReactionService/React",
            request,
            context,
            lambda: home or self._home(parsed, way),
            lambda domain: self._react(domain, parsed, way),
        )

    def _home(self, request: pb.ReactRequest, way: ReactionWay) -> Domain:
        """A queue that is nowhere is missing in the domain that was asked for."""
        domain = home_of(self.members, Entrance(way.queue, b"", way.onward))
        machine = domain.shared.machine
        if machine is not None and machine.queue_id(way.queue) is not None:
            return domain
        return self.members.by_name.get(request.domain, domain)

    async def _react(self, domain: Domain, request: pb.ReactRequest, way: ReactionWay) -> Answered:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        if request.unit_id and (other := self.units.problem_of_domain(domain, way.queue)) is not None:
            return other
        if request.domain and request.domain != domain.shared.name:
            text = f"queue {way.queue} is in domain {domain.shared.name}, and the link carries to {request.domain}"
            return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": way.queue})
        result = await self._carry_out(domain, request, way)
        if isinstance(result, Failed) and request.writer and _is_of_report(result, way):
            # A link does not wait for the place of a report; nothing was done.
            silent = pb.ReactRequest()
            silent.CopyFrom(request)
            silent.reaction.report_to = ""
            result = await self._carry_out(domain, silent, way_of(self.members, silent))
        if not isinstance(result, ReactionDone):
            assert isinstance(result, Failed | Moved), "a reaction ends with its own answer"
            return result
        header = header_of(self.members, domain)
        header.epoch, header.copies = result.epoch, result.copies
        header.level = level_of(result.copies, volatile=False)
        response = _response(result, header)
        response.forwarded = way.queue if result.counts.forwarded else ""
        return response.SerializeToString()

    async def _carry_out(self, domain: Domain, request: pb.ReactRequest, way: ReactionWay) -> Answer:
        """With the queues that it needs of the manager's own."""
        for name in way.names[1:]:
            if (elsewhere := self._elsewhere(domain, name)) is not None:
                return elsewhere
        for onward in (way.onward, way.report):
            lack = await ensure(self.members, domain, onward.through, onward.target) if onward is not None else None
            if lack is not None:
                return lack
        if way.onward is None and way.asked.HasField("ttl"):
            lack = await ensure_kept(self.members, domain, way.queue)
            if lack is not None:
                return lack
        return await self._run(domain, reaction_of(self.members, request, way))

    def _elsewhere(self, domain: Domain, to: str) -> Failed | None:
        """A record is of one domain."""
        other = self.members.of_queue(to) if to else domain
        machine = other.shared.machine
        if other is domain or machine is None or machine.queue_id(to) is None:
            return None
        text = (
            f"queue {to} is in domain {other.shared.name}, the messages are in {domain.shared.name}: a reaction has "
            "one domain"
        )
        return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": to})

    async def _run(self, domain: Domain, reaction: Reaction) -> Answer:
        """Turn by turn. It stops when nobody waits any more: nothing was done then."""
        reacting = Reacting(domain.shared, domain.orders, domain.dying.read, domain.consumers.exact_of)
        node, waiter = self.members.node, FutureWaiter()
        began_s = monotonic_s()
        over = reacting.turn(reaction, waiter, node.clock.now_ms())
        node.dispatch(domain)
        took_s = monotonic_s() - began_s
        if not over:
            if self._looking >= RUNNING_MAX:
                text = f"{RUNNING_MAX} reactions that look through a queue are under way here; repeat it later"
                return Failed(Reason.REASON_QUOTA_EXCEEDED, text, {}, AGAIN_MS)
            self._looking += 1
            try:
                while not over:
                    async with self.members.looking:
                        await asyncio.sleep(took_s)  # everybody else has as much of the loop
                        began_s = monotonic_s()
                        over = reacting.turn(reaction, waiter, node.clock.now_ms())
                        node.dispatch(domain)
                        took_s = monotonic_s() - began_s
            finally:
                self._looking -= 1
        return await waiter.future


def _is_of_report(refusal: Failed, way: ReactionWay) -> bool:
    if not way.asked.report_to:
        return False
    named = refusal.metadata.get("queue", "")
    return refusal.reason == Reason.REASON_MANAGER_NOT_FOUND or named == report_place(way.asked.report_to)[0]


def _problem_of(reaction: pb.Reaction) -> Failed | None:
    """What makes no sense, whatever is in the queue."""
    for name, value, known in (
        ("scope", reaction.scope, pb.ReactionScope),
        ("exception_report", reaction.exception_report, pb.ExceptionReport),
    ):
        if value not in known.values():
            return _bad(f"reaction.{name} {value} is unknown; known are {', '.join(known.keys()[1:])}")
    action = reaction.WhichOneof("action")
    if action is None:
        return _bad("the reaction has no action; say delete, move or update")
    if action == "move" and not reaction.move.queue:
        return _bad("reaction.move.queue is empty: say where the messages are to go")
    if action != "delete" and reaction.exception_report not in _NO_REPORT:
        return _bad("reaction.exception_report goes with delete: nothing else ends a message")
    return _problem_of_update(reaction.update) if action == "update" else None


def _problem_of_update(update: pb.ReactionUpdate) -> Failed | None:
    """What no sender may send, either."""
    if not update.ListFields():
        return _bad("reaction.update changes nothing; name at least one field")
    if update.priority >= PRIORITIES:
        return refusal(Reason.REASON_BAD_ATTRIBUTE, f"priority {update.priority}; the highest is {PRIORITIES - 1}")
    if any(name.startswith(RESERVED) for name in update.remove_properties):
        return _bad(f"names that begin with {RESERVED} are the manager's; leave them out of remove_properties")
    sent = Message(payload=update.payload, content_type=update.content_type, properties=update.set_properties)
    for name in ("ttl", "delay"):
        if update.HasField(name):
            getattr(sent, name).CopyFrom(getattr(update, name))
    try:
        check_message(sent)
    except Refused as refused:
        return refusal(refused.reason, refused.message, refused.metadata)
    return problem_of_ttl((sent,))


def _bad(text: str) -> Failed:
    return refusal(Reason.REASON_BAD_REQUEST, text)


def _response(done: ReactionDone, header: ResponseHeader) -> pb.ReactResponse:
    """V14."""
    counts = done.counts
    return pb.ReactResponse(
        header=header,
        outcome=pb.REACTION_OUTCOME_HELD if done.held else outcome_of(counts),
        applied=counts.applied,
        locked=counts.locked,
        inert=counts.inert,
        dying=counts.dying,
        refused=counts.refused,
        kept=counts.kept,
        duplicate=done.duplicate,
        unreported=counts.unreported,
        held=done.held,
    )
