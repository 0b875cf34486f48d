"""TransactionService: units of work. A request becomes one call of its domain's core; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from replica.core.state.calls import PendingCall, Transact
from replica.core.state.outcomes import Failed, Moved, UnitDone
from replica.machine import QueuePut, QueueSettling, Refused, UnitCall, UnitIdentity
from replica.machine.plan.unit import QUEUES_MAX
from replica.machine.state.system_names import is_system
from replica.node.members import LOCAL, MAIN
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_of, level_of, results_of
from replica.services.checks import problem_of_identity, problem_of_ttl, stale_epoch
from replica.services.elsewhere import ensure, in_other_domain, no_domain
from replica.services.locality import check_origin
from replica.services.messages.enqueue import columns_and_body, problem_of_unit_bytes
from replica.services.messages.entering import Entering, entering_of, here
from replica.services.messages.open_units import OpenUnitHandlers, knows
from replica.services.weighing import problem_of_unit, too_many
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.state.outcomes import EnqueueDone
    from replica.machine import Limits
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message

SERVICE = "tandemq.v1.TransactionService"


class TransactionHandlers:
    """The handlers of TransactionService at one member."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        methods = OpenUnitHandlers(self.members).methods()
        methods["Transact"] = grpc.unary_unary_rpc_method_handler(self.transact)
        return generic_handler(SERVICE, methods)

    async def transact(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.Transact."""
        limits = self.members.node.limits
        if (problem := problem_of_unit_bytes(request, limits) or problem_of_unit(request, limits)) is not None:
            await abort(context, problem)
        parsed = await parse(pb.TransactRequest, request, context, len(request))
        await check_request_id(parsed.request_id, context)
        named = problem_of_identity(parsed.writer, parsed.query_id, parsed.number, parsed.after)
        if (problem := _problem_of_counts(parsed, limits) or named) is not None:
            await abort(context, problem)
        try:
            settles = [QueueSettling(here(self.members, each.queue), each.settlements) for each in parsed.settles]
            entering = entering_of(self.members, parsed)
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        if parsed.domain and parsed.domain not in self.members.by_name:
            unknown = no_domain(self.members, parsed.domain)
            await abort(context, Failed(unknown.reason, unknown.message, unknown.metadata, None))
        names = list(dict.fromkeys([each.queue for each in settles] + [each.queue for each in entering]))
        rows = [row for each in entering for row in each.rows]
        if (problem := _problem_of_names(self.members, names, parsed.domain) or problem_of_ttl(rows)) is not None:
            await abort(context, problem)
        for name in names:
            await check_origin(self.members, name, context)
        try:
            asked = await self._call(parsed, settles, entering, rows, forward.member_of(self.members, context))
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        return await forward.unary(
            self.members,
            "TransactionService/Transact",
            request,
            context,
            lambda: _home_of(self.members, names, parsed.domain),
            lambda domain: self._transact(domain, parsed, asked, names, entering),
        )

    async def _call(
        self,
        request: pb.TransactRequest,
        settles: list[QueueSettling],
        entering: list[Entering],
        rows: list[Message],
        member: str,
    ) -> Transact:
        limits = self.members.node.limits
        puts: list[QueuePut] = []
        body = b""
        if entering:
            name = entering[0].queue if len(entering) == 1 else ""
            managers = bool(request.forwarder) or any(each.onward for each in entering)
            columns, body = await columns_and_body(
                name, rows, limits, too_large=Reason.REASON_TXN_TOO_LARGE, managers=managers
            )
            start = 0
            for each in entering:
                puts.append(QueuePut(each.queue, columns.part(start, len(each.rows))))
                start += len(each.rows)
        parts = [each.SerializeToString(deterministic=True) for each in request.settles]
        # Which messages of the body are whose is part of what was asked for.
        shares = [part for put in puts for part in (put.queue.encode(), put.columns.count.to_bytes(8, "big"))]
        identity = None
        if request.writer:
            content = request.digest or fingerprint(body, *shares)
            identity = UnitIdentity(request.writer, request.query_id, request.number, request.after, content)
            parts += [b"", *(f"{each}".encode() for each in identity)]
        digest = fingerprint(body, *shares, b"", *parts)
        call = UnitCall(settles, puts, member, request.request_id, digest, identity)
        return Transact(call, body, request.min_copies)

    async def _transact(
        self,
        domain: Domain,
        request: pb.TransactRequest,
        asked: Transact,
        names: list[str],
        entering: list[Entering],
    ) -> Answered:
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        # Again: a queue that was made meanwhile may be of another domain.
        if (problem := _problem_of_names(self.members, names, request.domain)) is not None:
            return problem
        for each in entering:
            lack = await ensure(self.members, domain, each.queue, each.target) if is_system(each.queue) else None
            if lack is not None:
                return lack
        node, waiter = self.members.node, FutureWaiter()
        domain.submit(PendingCall(waiter, asked), node.clock.now_ms())
        node.dispatch(domain)
        result = await waiter.future
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, UnitDone)
        header = header_of(self.members, domain, volatile=result.volatile)
        header.epoch, header.copies = result.epoch, result.copies
        header.level = level_of(result.copies, volatile=result.volatile)
        response = pb.TransactResponse(header=header, duplicate=result.duplicate, last_number=request.number)
        if (repeated := result.repeated) is not None:
            response.last_number, response.digest, response.differs = repeated.last, repeated.digest, repeated.differs
            if repeated.known is not None:
                response.known_digest = repeated.known
        if result.puts:
            _fill_in(response, request, domain.shared.domain, entering, result.puts)
        return response.SerializeToString()


def _fill_in(
    response: pb.TransactResponse,
    request: pb.TransactRequest,
    domain: int,
    entering: list[Entering],
    puts: Sequence[EnqueueDone],
) -> None:
    """What each message came to, under the put that it was asked for by."""
    for put in request.puts:
        response.puts.add(queue=put.queue)
    first_ordinal = 0
    for each, done in zip(entering, puts, strict=True):
        if not request.forwarder:  # a manager that forwards reads its number alone, and they are a sixth of the work
            results = results_of(domain, each.queue, each.rows, done, first_ordinal)
            for place, result in zip(each.places, results, strict=True):
                response.puts[place].results.append(result)
        first_ordinal += len(each.rows)
        for place in set(each.places) if each.onward else ():
            response.puts[place].forwarded = each.queue


def _problem_of_counts(request: pb.TransactRequest, limits: Limits) -> Failed | None:
    """Before anything walks over them: what is left is 10,000 of each at most."""
    for what, count, most in (
        ("queues", max(len(request.settles), len(request.puts)), QUEUES_MAX),
        (
            "settlements",
            sum(len(each.settlements) for each in request.settles[:QUEUES_MAX]),
            limits.settlement_ranges_max,
        ),
        ("messages", sum(len(each.messages) for each in request.puts[:QUEUES_MAX]), limits.batch_messages_max),
    ):
        if (problem := too_many(what, count, most)) is not None:
            return problem
    return None


def _problem_of_names(members: Members, names: list[str], wanted: str) -> Failed | None:
    """U1: one domain. A queue of the manager's own is made in that one. `wanted`: its name, where the caller says it:
    then the refusal names a queue that is not in that one.
    """
    if not names:
        text = "a unit of work without settlements and messages; name at least one of them"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    known = _first_known(members, names)
    first = _home_of(members, names, wanted)
    for name in names:
        other = members.of_queue(name)
        if is_system(name) or not knows(other, name):
            continue
        if wanted and other.shared.name != wanted:
            return refusal(Reason.REASON_CROSS_DOMAIN, in_other_domain(members, name, wanted), {"queue": name})
        if other is not first:
            text = (
                f"queue {known} is in domain {first.shared.name}, queue {name} in {other.shared.name}; "
                "a unit of work has one domain"
            )
            return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": name})
    return None


def _home_of(members: Members, names: list[str], wanted: str) -> Domain:
    """Where the unit is ordered."""
    if wanted:
        return members.by_name[wanted]  # a queue that is nowhere is missing there, and dead letters are those of it
    if all(map(is_system, names)):
        return members.by_name[MAIN if members.peer else LOCAL]
    return members.of_queue(_first_known(members, names))


def _first_known(members: Members, names: list[str]) -> str:
    """One that is nowhere says nothing of the domain; it is refused there, unless the call is a repetition."""
    asked = [name for name in names if not is_system(name)]
    return next((name for name in asked if knows(members.of_queue(name), name)), (asked or names)[0])
