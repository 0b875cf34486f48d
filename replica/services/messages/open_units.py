"""Units of work that are open for more than one call. A request becomes one call of the unit's domain; decides nothing.

The id of a unit says in which domain it is, so that each member knows where to send a call for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration

from replica.core.ordering.open_units import ID_BYTES, TIMEOUT_MS_MAX, UNITS_MAX, prefix_of
from replica.core.state.calls import (
    BeginUnit,
    CommitUnit,
    PendingCall,
    PutInUnit,
    ReplyInUnit,
    RollbackUnit,
    SettleInUnit,
)
from replica.core.state.outcomes import Failed, Moved, UnitBegun, UnitDone, UnitEnded, UnitKept
from replica.machine import Refused, milliseconds
from replica.machine.plan.content import check_message
from replica.machine.state.system_names import target_of
from replica.rpc.refusals import abort, failure, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_as_of, header_of, results_of
from replica.services.checks import problem_of_ttl, stale_epoch
from replica.services.elsewhere import Onward, ensure, onward_of, stamp
from replica.services.locality import check_origin, problem_of_origin
from replica.services.messages.enqueue import columns_and_body, problem_of_unit_bytes
from replica.services.messages.entering import check_size
from replica.services.messages.unit_owners import UnitOwners
from replica.services.messages.unit_rows import row_of, rows_of
from replica.services.weighing import problem_of_commit
from tandemq.finding.names import is_full
from tandemq.v1 import queue_service_pb2 as queue_pb2
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import COMPLETION_ACCEPTED, Level, Reason
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from replica.core.domain import Domain
    from replica.core.state.calls import OpenUnitCall, SendReply
    from replica.core.state.outcomes import Answer
    from replica.node.members import Members

CLIENT_ID_BYTES_MAX = 64
UNITS_LISTED = 1_000
SLICE_COMMITTED = 50
"""Puts that come with their commit, looked at at a time: everybody else is served between two slices."""


class UnitPut(NamedTuple):
    """A call to put something in a unit, looked at as far as it can be without the unit."""

    call: PutInUnit
    onward: Onward | None
    """Where the messages go on to another manager."""


class OpenUnitHandlers:
    """Begin, Commit, Rollback, Work and ListUnits, and what Enqueue, Settle and Reply do in a unit."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.owners = UnitOwners(members)

    def methods(self) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
        """Those of TransactionService."""
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "Begin": unary(self.begin),
            "Commit": unary(self.commit),
            "Rollback": unary(self.rollback),
            "ListUnits": unary(self.list_units),
            "Work": grpc.stream_stream_rpc_method_handler(self.work),
        }

    async def begin(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.Begin."""
        parsed = await parse(pb.BeginRequest, request, context)
        await check_request_id(parsed.request_id, context)
        if (problem := _problem_of_begin(parsed)) is not None:
            await abort(context, problem)
        await check_origin(self.members, parsed.queue, context)
        return await forward.unary(
            self.members,
            "TransactionService/Begin",
            request,
            context,
            lambda: self.members.of_queue(parsed.queue),
            lambda domain: self.begin_at(domain, parsed, self.owners.who(context)),
        )

    async def begin_at(self, domain: Domain, request: pb.BeginRequest, who: str) -> Answered:
        """At the master of the unit's domain: a BeginResponse. `who`: whose it is."""
        if not knows(domain, request.queue):
            assert domain.shared.machine is not None, "who serves has the queues' state"
            unnamed = domain.shared.machine.state.unnamed(request.queue)
            return Failed(unnamed.reason, unnamed.message, unnamed.metadata, None)
        if (problem := self.owners.problem_of_one_more(who)) is not None:
            return problem
        call = BeginUnit(request.client_id, milliseconds(request.timeout), who)
        result = await self._ask(domain, call, request.epoch)
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, UnitBegun)
        timeout = Duration()
        timeout.FromMilliseconds(result.timeout_ms)
        header = header_of(self.members, domain)
        response = pb.BeginResponse(header=header, unit_id=result.unit_id, timeout=timeout, puts_at_commit=True)
        return response.SerializeToString()

    async def commit(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.Commit."""
        limits = self.members.node.limits
        if (problem := problem_of_unit_bytes(request, limits) or problem_of_commit(request, limits)) is not None:
            await abort(context, problem)
        parsed = await parse(pb.CommitRequest, request, context, len(request))
        home = await self.domain_of(parsed.unit_id, context)
        member = forward.member_of(self.members, context)
        puts = await self._puts_of(parsed, context)

        async def committed(domain: Domain) -> Answered:
            if (problem := await self.owners.problem_at_commit(domain, parsed.unit_id, context)) is not None:
                return problem
            return await self._commit(domain, parsed, puts, member, lambda queue: self.owners.sees(context, queue))

        return await self._forward("TransactionService/Commit", request, context, home, committed)

    async def _puts_of(self, request: pb.CommitRequest, context: Context) -> list[UnitPut | Failed]:
        """What is wrong whatever the moment aborts the call; what this moment refuses is for a unit that is open."""
        made = list[UnitPut | Failed]()
        for place, put in enumerate(request.puts, 1):
            await check_request_id(put.request_id, context)
            if put.unit_id not in (b"", request.unit_id):
                await abort(
                    context, refusal(Reason.REASON_BAD_REQUEST, "a put of another unit of work than the commit")
                )
            if put.HasField("reaction"):
                text = "a reactive message is no put of a commit: send it before, with the unit_id"
                await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
            if (problem := problem_of_ttl(put.messages)) is not None:
                await abort(context, problem)
            put.unit_id = request.unit_id
            made.append(await self._put_of(put, context))
            if place % SLICE_COMMITTED == 0:
                await asyncio.sleep(0)
        return made

    async def _commit(
        self,
        domain: Domain,
        request: pb.CommitRequest,
        puts: Sequence[UnitPut | Failed],
        member: str,
        sees: Callable[[str], bool],
    ) -> Answered:
        # One that is not open was committed, with the same puts or not, or never will be; its commit says which.
        for place, put in enumerate(puts if domain.orders.units.find(request.unit_id) is not None else (), 1):
            kept = await self._keep(domain, put, request.epoch) if isinstance(put, UnitPut) else put
            if isinstance(kept, (Failed, Moved)):
                return kept
            if place % SLICE_COMMITTED == 0:
                await asyncio.sleep(0)
        try:
            call = (await self._commit_of(domain, request, member))._replace(digest=_digest_of(puts))
        except Refused as refused:
            return Failed(refused.reason, refused.message, refused.metadata, None)
        result = await self._ask(domain, call, request.epoch)
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, UnitDone)
        header = header_as_of(self.members, domain, result.epoch, result.copies, volatile=result.volatile)
        response = pb.CommitResponse(header=header, duplicate=result.duplicate)
        # Not kept which of them were marked persistent: where one was and is not, all of that queue say so.
        row, first_ordinal = Message(persistent=True), 0
        for name, done in zip(result.names, result.puts, strict=True):
            results = results_of(domain.shared.domain, name, [row] * done.count, done, first_ordinal)
            if not result.duplicate or sees(name):
                response.puts.add(queue=name, results=results)
            first_ordinal += done.count
        return response.SerializeToString()

    async def _commit_of(self, domain: Domain, request: pb.CommitRequest, member: str) -> CommitUnit:
        unit = domain.orders.units.find(request.unit_id)
        if unit is None:
            return CommitUnit(request.unit_id, -1, None, b"", request.min_copies, member)
        changes, queues = unit.changes, [] if unit.replies else list(unit.puts)
        rows = await rows_of(unit)
        columns, body = None, b""
        if rows:
            machine = domain.shared.machine
            only = machine is not None and len(queues) == 1 and machine.has_queue(queues[0])
            name = machine.queue(queues[0]).name if machine is not None and only else ""
            limits = self.members.node.limits
            # Each was looked at as it came, before managers added what they alone may set.
            columns, body = await columns_and_body(
                name, rows, limits, too_large=Reason.REASON_TXN_TOO_LARGE, managers=True
            )
        beside = rows if unit.reactions else ()
        return CommitUnit(request.unit_id, changes, columns, body, request.min_copies, member, beside)

    async def rollback(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.Rollback."""
        parsed = await parse(pb.RollbackRequest, request, context)
        home = await self.domain_of(parsed.unit_id, context)

        async def rolled_back(domain: Domain) -> Answered:
            if (problem := self.owners.problem_of(domain, parsed.unit_id, context)) is not None:
                return problem
            return await self._rollback(domain, parsed)

        return await self._forward("TransactionService/Rollback", request, context, home, rolled_back)

    async def _rollback(self, domain: Domain, request: pb.RollbackRequest) -> Answered:
        result = await self._ask(domain, RollbackUnit(request.unit_id), request.epoch)
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, UnitEnded)
        header = header_of(self.members, domain)
        return pb.RollbackResponse(header=header, returned=result.returned).SerializeToString()

    async def list_units(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.ListUnits."""
        parsed = await parse(pb.ListUnitsRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        async def listed(domain: Domain) -> Answered:
            units = domain.orders.units
            found = units.oldest(min(parsed.max_units or UNITS_LISTED, UNITS_MAX))
            rows = [row_of(domain, unit, domain.orders.time_ms) for unit in found]
            header = header_of(self.members, domain)
            return pb.ListUnitsResponse(header=header, units=rows, total=len(units)).SerializeToString()

        return await forward.unary(self.members, "TransactionService/ListUnits", request, context, lambda: home, listed)

    async def work(self, _requests: object, context: Context) -> None:
        """See TransactionService.Work."""
        await WorkStream(self, context).run()

    # -- calls of QueueService -------------------------------------------------------------------------------------

    async def enqueue(self, request: bytes, parsed: queue_pb2.EnqueueRequest, context: Context) -> bytes:
        """See EnqueueRequest.unit_id."""
        asked = await self._put_of(parsed, context, request)
        if isinstance(asked, Failed):
            await abort(context, asked)
        home = await self.domain_of(parsed.unit_id, context)

        async def put(domain: Domain) -> Answered:
            result = await self._keep(domain, asked, parsed.epoch)
            if isinstance(result, (Failed, Moved)):
                return result
            header = header_of(self.members, domain)
            header.copies, header.level = 0, Level.LEVEL_UNSPECIFIED
            results = [queue_pb2.EnqueueResult(completion=COMPLETION_ACCEPTED)] * asked.call.columns.count
            response = queue_pb2.EnqueueResponse(header=header, results=results, duplicate=result.duplicate)
            response.forwarded = asked.call.queue if asked.onward is not None else ""
            return response.SerializeToString()

        return await self._asked("QueueService/Enqueue", request, parsed.unit_id, context, home, put)

    async def _put_of(
        self, request: queue_pb2.EnqueueRequest, context: Context, stored: bytes = b""
    ) -> UnitPut | Failed:
        """Aborts the call of who may not put here. A full name may be another manager's queue: then the messages
        enter the transmission queue with the unit. `stored`: the same as bytes, where they are at hand.
        """
        member, limits, onward = forward.member_of(self.members, context), self.members.node.limits, None
        try:
            if is_full(request.queue):
                named = queue_pb2.EnqueueRequest()
                named.CopyFrom(request)
                request, stored = named, b""
                where = onward_of(self.members, request.queue)
                onward = where if isinstance(where, Onward) else None
                request.queue = where if isinstance(where, str) else where.through
                if onward is not None:
                    for row in request.messages:
                        check_message(row)  # before it gets names that no client may set
                        check_size(row, limits)
                        stamp(row, onward)
            rows, managers = request.messages, onward is not None
            columns, batch = await columns_and_body(request.queue, rows, limits, managers=managers)
        except Refused as refused:
            return Failed(refused.reason, refused.message, refused.metadata, None)
        await check_origin(self.members, request.queue, context)
        stored = stored or request.SerializeToString(deterministic=True)
        digest = fingerprint(batch)
        call = PutInUnit(request.unit_id, request.queue, request.request_id, digest, columns, stored, member)
        return UnitPut(call, onward)

    async def _keep(self, domain: Domain, put: UnitPut, epoch: int) -> UnitKept | Failed | Moved:
        """At the master: the unit has it."""
        queue = put.call.queue
        if put.onward is not None:
            lack = await ensure(self.members, domain, queue, put.onward.target)
            if lack is not None:
                return lack
        result = await self._ask(domain, put.call, epoch, queue)
        assert isinstance(result, (UnitKept, Failed, Moved))
        return result

    async def settle(self, request: bytes, parsed: queue_pb2.SettleRequest, context: Context) -> bytes:
        """See SettleRequest.unit_id."""
        home = await self.domain_of(parsed.unit_id, context)
        parts = [part.SerializeToString(deterministic=True) for part in parsed.settlements]
        digest = fingerprint(parsed.queue.encode(), *parts)
        call = SettleInUnit(parsed.unit_id, parsed.queue, parsed.request_id, digest, parsed.settlements)

        async def settled(domain: Domain) -> Answered:
            result = await self._ask(domain, call, parsed.epoch, parsed.queue)
            if isinstance(result, (Failed, Moved)):
                return result
            assert isinstance(result, UnitKept)
            results = [
                queue_pb2.SettleResult(settled=sum(part.count for part in each.ranges)) for each in parsed.settlements
            ]
            header = header_of(self.members, domain)
            response = queue_pb2.SettleResponse(header=header, results=results, duplicate=result.duplicate)
            return response.SerializeToString()

        return await self._asked("QueueService/Settle", request, parsed.unit_id, context, home, settled)

    async def reply(self, request: bytes, parsed: queue_pb2.ReplyRequest, asked: SendReply, context: Context) -> bytes:
        """See ReplyRequest.unit_id. `asked`: what it would be outside."""
        home = await self.domain_of(parsed.unit_id, context)
        call = ReplyInUnit(replace(asked.call, unit=parsed.unit_id), asked.body)

        async def kept(domain: Domain) -> Answered:
            result = await self._ask(domain, call, parsed.epoch, parsed.queue)
            if isinstance(result, (Failed, Moved)):
                return result
            assert isinstance(result, UnitKept)
            header = header_of(self.members, domain)
            header.copies, header.level = 0, Level.LEVEL_UNSPECIFIED
            return queue_pb2.ReplyResponse(header=header, duplicate=result.duplicate).SerializeToString()

        return await self._asked("QueueService/Reply", request, parsed.unit_id, context, home, kept)

    async def _asked(
        self,
        method: str,
        request: bytes,
        unit_id: bytes,
        context: Context,
        home: Domain,
        local: Callable[[Domain], Awaitable[Answered]],
    ) -> bytes:
        """For whoever began the unit."""

        async def owned(domain: Domain) -> Answered:
            if (problem := self.owners.problem_of_call(domain, unit_id, context, method, request)) is not None:
                return problem
            return await local(domain)

        return await self._forward(method, request, context, home, owned)

    async def _forward(
        self,
        method: str,
        request: bytes,
        context: Context,
        home: Domain,
        local: Callable[[Domain], Awaitable[Answered]],
    ) -> bytes:
        """Of a unit that is open, if it is: served while a handoff drains, for it ends with the mastership (U10)."""
        return await forward.unary(
            self.members, method, request, context, lambda: home, local, while_draining=True
        )  # fmt: skip

    async def domain_of(self, unit_id: bytes, context: Context) -> Domain:
        """Where the unit is open, if it is; BAD_REQUEST for what no member of this pair has given."""
        domain = next(
            (each for each in self.members.by_name.values() if unit_id.startswith(prefix_of(each.shared))), None
        )
        if domain is None or len(unit_id) != ID_BYTES:
            text = (
                f"unit_id must be the {ID_BYTES} bytes that Begin has given; a unit in a member's own domain is open "
                "at that member alone"
            )
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        return domain

    def problem_of_domain(self, domain: Domain, queue: str) -> Failed | None:
        """U1: all queues of a unit are in its domain. Of transmission queues each domain has its own (X1)."""
        other = self.members.of_queue(queue)
        if other is domain or not knows(other, queue) or target_of(queue) is not None:
            return None
        text = (
            f"queue {queue} is in domain {other.shared.name}, the unit of work in {domain.shared.name}; "
            "a unit of work has one domain"
        )
        return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": queue})

    async def _ask(self, domain: Domain, call: OpenUnitCall, epoch: int, queue: str = "") -> Answer:
        if (stale := stale_epoch(self.members, domain, epoch)) is not None:
            return stale
        if queue and (problem := self.problem_of_domain(domain, queue)) is not None:
            return problem
        node, waiter = self.members.node, FutureWaiter()
        domain.submit(PendingCall(waiter, call), node.clock.now_ms())
        node.dispatch(domain)
        return await waiter.future


class WorkStream:
    """One client's units, as long as it is there."""

    def __init__(self, units: OpenUnitHandlers, context: Context) -> None:
        self.units, self.members, self.context = units, units.members, context
        self.carried: set[bytes] = set()

    async def run(self) -> None:
        """Until its client ends it or goes away."""
        frame = await self.context.read()
        if not isinstance(frame, bytes):
            return
        first = (await parse(pb.WorkRequest, frame, self.context)).begin
        domain = await forward.wait_for_master(
            self.members, lambda: self.members.of_queue(first.queue), self.context
        )  # fmt: skip
        if domain is None:
            await forward.pipe(self.members, "TransactionService/Work", frame, self.context)
            return
        try:
            while isinstance(frame, bytes):
                request = (await parse(pb.WorkRequest, frame, self.context)).begin
                await self.context.write((await self._begin(domain, request)).SerializeToString())
                frame = await self.context.read()
        finally:
            self._leave(domain)

    async def _begin(self, domain: Domain, request: pb.BeginRequest) -> pb.WorkResponse:
        problem = (
            _problem_of_begin(request)
            or self.units.problem_of_domain(domain, request.queue)
            or problem_of_origin(self.members, request.queue, self.context)
        )
        if not domain.shared.serving:
            await abort(self.context, Moved("the mastership moved; open the stream again"))
        result = problem or await self.units.begin_at(domain, request, self.units.owners.who(self.context))
        if isinstance(result, Moved):
            await abort(self.context, result)
        if isinstance(result, Failed):
            return pb.WorkResponse(error=failure(result))
        begun = pb.BeginResponse.FromString(result)
        open_ = domain.orders.units
        if len(self.carried) > 2 * len(open_):
            self.carried = {each for each in self.carried if open_.find(each) is not None}
        self.carried.add(begun.unit_id)
        return pb.WorkResponse(begun=begun)

    def _leave(self, domain: Domain) -> None:
        """What is still open is rolled back. At once, for whoever was here may have been cancelled."""
        node, units = self.members.node, domain.orders.units
        for unit_id in sorted(self.carried):
            if domain.shared.serving and units.find(unit_id) is not None:
                domain.submit(PendingCall(FutureWaiter(), RollbackUnit(unit_id)), node.clock.now_ms())
        node.dispatch(domain)


def _digest_of(puts: Sequence[UnitPut | Failed]) -> int:
    """0: there are none, or one of them cannot be looked at now, as it could when it was first asked for perhaps."""
    parts = list[bytes]()
    for each in puts:
        if not isinstance(each, UnitPut):
            return 0
        parts += [each.call.request_id, each.call.queue.encode(), each.call.request_hash.to_bytes(8, "big")]
    return fingerprint(*parts) or 1 if parts else 0


def knows(domain: Domain, name: str) -> bool:
    """Whether the queue is in that domain, as far as this member knows."""
    machine = domain.shared.machine
    return machine is not None and machine.queue_id(name) is not None


def _problem_of_begin(request: pb.BeginRequest) -> Failed | None:
    if not 0 <= milliseconds(request.timeout) <= TIMEOUT_MS_MAX:
        text = f"timeout must be from 0 (30 s) to {TIMEOUT_MS_MAX // 1000} s"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    if len(request.client_id) > CLIENT_ID_BYTES_MAX:
        text = f"a client id of {len(request.client_id)} bytes; it may have {CLIENT_ID_BYTES_MAX}"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    return None
