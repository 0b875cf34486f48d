"""ReactionService: acts on messages that were sent before. A request is run turn by turn until its record is ordered;
what a turn does is decided in `reacting`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from replica.core.ordering.reacting import Reacting
from replica.core.ordering.reaction import outcome_of, total_of
from replica.core.ordering.reaction_rows import BYTES_MAX, too_large
from replica.core.ordering.travelling import report_place
from replica.core.state.outcomes import Failed, Moved, ReactionDone
from replica.machine import Refused
from replica.machine.plan.content import check_message
from replica.machine.plan.unit import QUEUES_MAX
from replica.machine.state.system_names import is_system
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import REQUEST_BYTES_MAX, Context, check_request_id, parse
from replica.services import filters, forward
from replica.services.answers import Answered, FutureWaiter, header_as_of
from replica.services.checks import problem_of_identity, stale_epoch
from replica.services.elsewhere import ensure, ensure_kept, in_other_domain, no_domain
from replica.services.locality import check_origin
from replica.services.messages.changes import problem_of_update
from replica.services.messages.open_units import OpenUnitHandlers, knows
from replica.services.messages.reaction_ways import ReactionWay, at_members, reaction_of, way_of
from replica.services.passage import problem_of_meant
from replica.services.weighing import problem_of_reaction, too_many
from replica.services.which_domain import check_domain, problem_of_link
from tandemq.ambient import monotonic_s
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.ordering.reaction import Reaction
    from replica.core.state.outcomes import Answer
    from replica.node.members import Members
    from replica.services.messages.custom import Customs
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.common_pb2 import ResponseHeader

SERVICE = "tandemq.v1.ReactionService"
RUNNING_MAX = 64
"""Reactions at one member that need more than one turn; each takes its turns of the one loop."""
AGAIN_MS = 1_000
INPUT_BYTES_MAX = 1 << 20
"""For who is asked (custom)."""
DECIDING_S = 0.25
"""What a record, and its answer, need when everybody was asked: its caller is still to hear of it."""
_NO_REPORT = (pb.EXCEPTION_REPORT_UNSPECIFIED, pb.EXCEPTION_REPORT_NONE)


class ReactionHandlers:
    """The handlers of ReactionService at one member."""

    def __init__(self, members: Members, customs: Customs, *, enabled: bool) -> None:
        """`enabled`: for clients of this member; those of its peer come by that one's door (V1)."""
        self.members = members
        self.units = OpenUnitHandlers(members)
        self.customs = customs
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
        if parsed.writer:
            named = named or problem_of_meant(context, self.members.pair or self.members.member)
        if (problem := _problem_of(parsed.reaction) or named) is not None:
            await abort(context, problem)
        if parsed.unit_id and (parsed.reaction.HasField("custom") or parsed.more_queues):
            text = "reaction.custom and more_queues are no part of a unit of work: leave out unit_id"
            await abort(context, _bad(text))
        if await filters.check(parsed.reaction.target, context) is None:
            text = "reaction.target is empty: say which messages by ids, correlation_id, group_id or selector"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        if (problem := too_many("queues", 1 + len(parsed.more_queues), QUEUES_MAX)) is not None:
            await abort(context, problem)
        try:
            if parsed.domain and parsed.domain not in self.members.by_name:
                raise no_domain(self.members, parsed.domain)
            way = way_of(self.members, parsed)
        except Refused as refused:
            await abort(context, refusal(refused.reason, refused.message, refused.metadata))
        for name in way.names:
            await check_origin(self.members, name, context)
        if way.onward is None and not parsed.unit_id:
            await check_domain(self.members, way.queue, parsed.domain, context)
        home = await self.units.domain_of(parsed.unit_id, context) if parsed.unit_id else None
        return await forward.unary(
            self.members,
            "ReactionService/React",
            request,
            context,
            lambda: home or self._home(parsed, way),
            lambda domain: self._react(domain, parsed, way, context, request),
        )

    def _home(self, request: pb.ReactRequest, way: ReactionWay) -> Domain:
        """A queue that is nowhere is missing in the domain that was asked for."""
        wanted = self.members.by_name[request.domain] if request.domain else None
        if wanted is not None and (
            way.onward is not None or knows(wanted, way.queue) or not knows(self.members.of_queue(way.queue), way.queue)
        ):
            return wanted
        return self.members.of_queue(way.queue) if way.onward is None else self.members.home()

    async def _react(
        self, domain: Domain, request: pb.ReactRequest, way: ReactionWay, context: Context, data: bytes
    ) -> Answered:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        if request.unit_id:
            other = self.units.problem_of_domain(domain, way.queue) or self.units.owners.problem_of_call(
                domain, request.unit_id, context, "ReactionService/React", data
            )
            if other is not None:
                return other
        if request.domain and request.domain != domain.shared.name:
            text = in_other_domain(self.members, way.queue, request.domain)
            return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": way.queue})
        unsaid = problem_of_link(self.members, way.queue) if way.onward is not None and not request.domain else None
        if unsaid is not None:
            return unsaid
        machine = domain.shared.machine
        try:
            way = at_members(machine.state, request, way) if machine is not None else way
        except Refused as refused:
            return refusal(refused.reason, refused.message, refused.metadata)
        result = await self._carry_out(domain, request, way, context)
        if isinstance(result, Failed) and request.writer and _is_of_report(result, way):
            # A link does not wait for the place of a report; nothing was done. What goes on still asks for it.
            asked = pb.Reaction()
            asked.CopyFrom(way.asked)
            asked.report_to = ""
            result = await self._carry_out(domain, request, way._replace(asked=asked, report=None), context)
        if not isinstance(result, ReactionDone):
            assert isinstance(result, Failed | Moved), "a reaction ends with its own answer"
            return result
        header = header_as_of(self.members, domain, result.epoch, result.copies)
        response = _response(request, way, result, header)
        response.forwarded = way.queue if result.counts.forwarded else ""
        return response.SerializeToString()

    async def _carry_out(self, domain: Domain, request: pb.ReactRequest, way: ReactionWay, context: Context) -> Answer:
        """With the queues that it needs of the manager's own."""
        for name in way.names[1:]:
            if (elsewhere := self._elsewhere(domain, name)) is not None:
                return elsewhere
        for onward in (way.onward, way.report):
            lack = await ensure(self.members, domain, onward.through, onward.target) if onward is not None else None
            if lack is not None:
                return lack
        keeps = way.onward is None and way.asked.HasField("ttl")
        for name in (way.queue, *way.others) if keeps else ():
            lack = await ensure_kept(self.members, domain, name)
            if lack is not None:
                return lack
        custom, access, member = way.asked.custom, self.members.access, self.members.member
        who = access.asked_about(context) if access is not None else ""
        listed = access is None or access.stands_above(access.caller(context))
        if custom.name and (problem := self.customs.problem_of(custom.name, member, listed=listed)) is not None:
            return problem
        reaction = reaction_of(self.members, request, way, who)
        try:
            return await self._run(domain, reaction, custom, self._until_s(context))
        finally:
            for home in reaction.homes:
                if home.asking is not None:
                    self.customs.count(home.queue, home.asking)

    def _elsewhere(self, domain: Domain, to: str) -> Failed | None:
        """A record is of one domain."""
        other = self.members.of_queue(to) if to else domain
        machine = other.shared.machine
        if other is domain or is_system(to) or machine is None or machine.queue_id(to) is None:
            return None
        text = (
            f"queue {to} is in domain {other.shared.name}, the messages are in {domain.shared.name}: a reaction has "
            "one domain"
        )
        return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": to})

    def _until_s(self, context: Context) -> float:
        """Of the loop, when nobody is asked any more."""
        total_s = self.customs.total_s
        left_s = forward.time_left_s(context, int(1_000 * (total_s + DECIDING_S))) - DECIDING_S
        return asyncio.get_running_loop().time() + min(total_s, left_s)

    async def _run(self, domain: Domain, reaction: Reaction, custom: pb.ReactionCustom, until_s: float) -> Answer:
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
                    if (problem := await self._ask(reaction, custom, until_s)) is not None:
                        return problem
                    async with self.members.looking:
                        await asyncio.sleep(took_s)  # everybody else has as much of the loop
                        began_s = monotonic_s()
                        over = reacting.turn(reaction, waiter, node.clock.now_ms())
                        node.dispatch(domain)
                        took_s = monotonic_s() - began_s
            finally:
                self._looking -= 1
        return await waiter.future

    async def _ask(self, reaction: Reaction, custom: pb.ReactionCustom, until_s: float) -> Failed | None:
        """Whoever is to be asked before the next turn; what he says is bounded before it is all here."""
        for home in reaction.homes:
            asking = home.asking
            if asking is None or not asking.questions:
                continue
            others = sum(each.asking.bytes for each in reaction.homes if each.asking is not None) - asking.bytes
            await self.customs.ask(custom, home.queue, asking, until_s, BYTES_MAX - others)
            if others + asking.bytes > BYTES_MAX:
                refused = too_large(BYTES_MAX, "the answers about its messages")
                return Failed(refused.reason, refused.message, refused.metadata, None)
        return None


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
        return _bad("the reaction has no action; say delete, move, update or custom")
    if action == "move" and not reaction.move.queue:
        return _bad("reaction.move.queue is empty: say where the messages are to go")
    if action != "delete" and reaction.exception_report not in _NO_REPORT:
        return _bad("reaction.exception_report goes with delete: nothing else ends a message")
    if action == "custom":
        return _problem_of_custom(reaction)
    return problem_of_update(reaction.update) if action == "update" else None


def _problem_of_custom(reaction: pb.Reaction) -> Failed | None:
    custom = reaction.custom
    if not custom.name:
        return _bad("reaction.custom.name is empty: say who is to be asked")
    if reaction.HasField("ttl"):
        return _bad("reaction.custom cannot be kept: nobody is asked about what arrives later; leave out ttl")
    if (size := custom.ByteSize()) > INPUT_BYTES_MAX:
        text = f"reaction.custom has {size} bytes; it may have {INPUT_BYTES_MAX}"
        return refusal(Reason.REASON_MESSAGE_TOO_LARGE, text, {"limit": str(INPUT_BYTES_MAX)})
    try:
        check_message(Message(content_type=custom.content_type, properties=custom.properties))
    except Refused as refused:
        return refusal(refused.reason, refused.message, refused.metadata)
    return None


def _bad(text: str) -> Failed:
    return refusal(Reason.REASON_BAD_REQUEST, text)


def _response(
    request: pb.ReactRequest, way: ReactionWay, done: ReactionDone, header: ResponseHeader
) -> pb.ReactResponse:
    """V14; of several queues their sums, and each (V18). What is remembered has no names: a repetition by the name of a
    macro queue, whose members may be others by now, has the sums alone.
    """
    every = (done.counts, *done.others)
    counts = total_of(every)
    response = pb.ReactResponse(
        header=header,
        outcome=pb.REACTION_OUTCOME_HELD if done.held else outcome_of(counts),
        duplicate=done.duplicate,
        unreported=counts.unreported,
        held=done.held,
        **_facts(counts),
    )
    names = (way.queue, *way.others) if way.of_macro else (request.queue, *request.more_queues)
    for name, each in zip(names, every, strict=True) if done.others and not (way.of_macro and done.duplicate) else ():
        response.homes.add(queue=name, outcome=outcome_of(each), **_facts(each))
    return response


def _facts(counts: ReactionCounts) -> dict[str, Any]:
    names = ("applied", "locked", "inert", "dying", "refused", "kept", "left", "failed")
    return {name: getattr(counts, name) for name in names}
