"""Transact: a whole unit of work by one call, which becomes one call of its domain's core. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica.core.state.calls import PendingCall, Transact
from replica.core.state.outcomes import Failed, Moved, UnitDone
from replica.machine import QueuePut, QueueSettling, Refused, UnitCall, UnitIdentity
from replica.machine.plan.unit import QUEUES_MAX
from replica.machine.state.system_names import DEAD, is_system
from replica.node.members import LOCAL, MAIN
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, fingerprint, parse, problem_of_request_id
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_as_of, results_of
from replica.services.checks import problem_of_identity, problem_of_ttl, stale_epoch
from replica.services.elsewhere import ensure, in_other_domain, letters_of, no_domain
from replica.services.locality import problem_of_origin
from replica.services.messages.enqueue import columns_and_body, problem_of_unit_bytes
from replica.services.messages.entering import Entering, entering_of, here
from replica.services.messages.open_units import knows
from replica.services.passage import problem_of_meant
from replica.services.weighing import problem_of_unit, too_many
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Answer, EnqueueDone
    from replica.machine import Limits
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message


@dataclass(slots=True)
class Unit:
    """One unit of work as it was asked for, as far as it can be looked at without its master."""

    request: pb.TransactRequest
    asked: Transact
    names: list[str]
    """Of its queues: those that it settles in, then those that its messages enter, each once."""
    entering: list[Entering]


class WholeUnits:
    """Transact at one member, and what of it TransactMany and a message for another manager need."""

    def __init__(self, members: Members) -> None:
        self.members = members

    async def transact(self, request: bytes, context: Context) -> bytes:
        """See TransactionService.Transact."""
        limits = self.members.node.limits
        if (problem := problem_of_unit_bytes(request, limits) or problem_of_unit(request, limits)) is not None:
            await abort(context, problem)
        parsed = await parse(pb.TransactRequest, request, context, len(request))
        if parsed.forwarder and (problem := problem_of_meant(context, self.members.pair or self.members.member)):
            await abort(context, problem)
        unit = await self.looked_at(parsed, context)
        if isinstance(unit, Failed):
            await abort(context, unit)

        async def done(domain: Domain) -> Answered:
            asked = await self.submitted(domain, unit)
            if not isinstance(asked, FutureWaiter):
                return asked
            self.members.node.dispatch(domain)
            answer = self.answer_of(domain, unit, await asked.future)
            return answer.SerializeToString() if isinstance(answer, pb.TransactResponse) else answer

        path = "TransactionService/Transact"
        return await forward.unary(self.members, path, request, context, lambda: self.home_of(unit), done)

    async def looked_at(self, request: pb.TransactRequest, context: Context) -> Unit | Failed:
        """What of it can be decided at any member. Changes the messages that go on to another manager."""
        limits, members = self.members.node.limits, self.members
        identity = problem_of_identity(request.writer, request.query_id, request.number, request.after)
        problem = problem_of_request_id(request.request_id) or _problem_of_counts(request, limits) or identity
        if problem is not None:
            return problem
        try:
            settles = [QueueSettling(here(members, each.queue), each.settlements) for each in request.settles]
            entering = entering_of(members, request)
        except Refused as refused:
            return Failed(refused.reason, refused.message, refused.metadata, None)
        if request.domain and request.domain not in members.by_name:
            unknown = no_domain(members, request.domain)
            return Failed(unknown.reason, unknown.message, unknown.metadata, None)
        names = _names_of(settles, entering)
        if (problem := self._problem_of_names(names, request.domain)) is not None:
            return problem
        letters = letters_of(members, self._home_of(names, request.domain))
        for each in entering:
            each.queue = letters if each.queue == DEAD else each.queue
        names = _names_of(settles, entering)
        rows = [row for each in entering for row in each.rows]
        if (problem := problem_of_ttl(rows)) is not None:
            return problem
        for name in names:
            if (problem := problem_of_origin(members, name, context)) is not None:
                return problem
        try:
            asked = await self._call(request, settles, entering, rows, forward.member_of(members, context))
        except Refused as refused:
            return Failed(refused.reason, refused.message, refused.metadata, None)
        return Unit(request, asked, names, entering)

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

    async def submitted(self, domain: Domain, unit: Unit) -> FutureWaiter | Failed | Moved:
        """At the master: who is answered once it is decided and stored; the caller dispatches the domain."""
        request = unit.request
        if (stale := stale_epoch(self.members, domain, request.epoch)) is not None:
            return stale
        # Again: a queue that was made meanwhile may be of another domain.
        if (problem := self._problem_of_names(unit.names, request.domain)) is not None:
            return problem
        for each in unit.entering:
            lack = await ensure(self.members, domain, each.queue, each.target) if is_system(each.queue) else None
            if lack is not None:
                return lack
        waiter = FutureWaiter()
        domain.submit(PendingCall(waiter, unit.asked), self.members.node.clock.now_ms())
        return waiter

    def answer_of(self, domain: Domain, unit: Unit, result: Answer) -> pb.TransactResponse | Failed | Moved:
        """What the core says of it, for its caller."""
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, UnitDone)
        header = header_as_of(self.members, domain, result.epoch, result.copies, volatile=result.volatile)
        response = pb.TransactResponse(header=header, duplicate=result.duplicate, last_number=unit.request.number)
        if (repeated := result.repeated) is not None:
            response.last_number, response.digest, response.differs = repeated.last, repeated.digest, repeated.differs
            if repeated.known is not None:
                response.known_digest = repeated.known
        if result.puts:
            _fill_in(response, unit.request, domain.shared.domain, unit.entering, result.puts)
        return response

    def _problem_of_names(self, names: list[str], wanted: str) -> Failed | None:
        """U1: one domain. A queue of the manager's own is made in that one. `wanted`: its name, where the caller says
        it: then the refusal names a queue that is not in that one.
        """
        if not names:
            text = "a unit of work without settlements and messages; name at least one of them"
            return refusal(Reason.REASON_BAD_REQUEST, text)
        known = self._first_known(names)
        first = self._home_of(names, wanted)
        for name in names:
            other = self.members.of_queue(name)
            if is_system(name) or not knows(other, name):
                continue
            if wanted and other.shared.name != wanted:
                text = in_other_domain(self.members, name, wanted)
                return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": name})
            if other is not first:
                text = (
                    f"queue {known} is in domain {first.shared.name}, queue {name} in {other.shared.name}; "
                    "a unit of work has one domain"
                )
                return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": name})
        return None

    def home_of(self, unit: Unit) -> Domain:
        """Where it is ordered."""
        return self._home_of(unit.names, unit.request.domain)

    def _home_of(self, names: list[str], wanted: str) -> Domain:
        if wanted:
            return self.members.by_name[wanted]  # a queue that is nowhere is missing there, and dead letters are its
        if all(map(is_system, names)):
            return self.members.by_name[MAIN if self.members.peer else LOCAL]
        return self.members.of_queue(self._first_known(names))

    def _first_known(self, names: list[str]) -> str:
        """One that is nowhere says nothing of the domain; it is refused there, unless the call is a repetition."""
        asked = [name for name in names if not is_system(name)]
        return next((name for name in asked if knows(self.members.of_queue(name), name)), (asked or names)[0])


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


def _names_of(settles: list[QueueSettling], entering: list[Entering]) -> list[str]:
    return list(dict.fromkeys([each.queue for each in settles] + [each.queue for each in entering]))
