"""TransactMany: several units of work by one call, each decided by itself; they share what a call costs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed, Moved
from replica.node.members import LOCAL
from replica.rpc.refusals import abort, failure, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.messages.enqueue import problem_of_unit_bytes
from replica.services.messages.transact import Unit, WholeUnits
from replica.services.weighing import UNITS_MAX, problem_of_units, too_many_of_a_call
from tandemq.errors import OUTCOME, UNKNOWN, rule_for
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from replica.core.domain import Domain
    from replica.machine import Limits

WEIGHT_AT_ONCE = 64
"""Of the units that are looked at, decided or answered before everybody else is served: some 5 ms. One of 100 queues is
more than that.
"""
ROWS_A_QUEUE = 16
"""Messages or settlements that cost what one more queue does."""


async def transact_many(whole: WholeUnits, request: bytes, context: Context) -> bytes:
    """See TransactionService.TransactMany."""
    limits = whole.members.node.limits
    if (problem := problem_of_unit_bytes(request, limits) or problem_of_units(request, limits)) is not None:
        await abort(context, problem)
    asked = (await parse(pb.TransactManyRequest, request, context, len(request))).units
    if (problem := _problem_of_counts(asked, limits)) is not None:
        await abort(context, problem)
    units: list[Unit | Failed] = []
    pauses = pauses_of(asked)
    for place, each in enumerate(asked):
        units.append(await whole.looked_at(each, context))
        if place in pauses:
            await asyncio.sleep(0)
    first = next((each for each in units if not isinstance(each, Failed)), None)
    own = {} if first is None else _in_own_domain(whole, units, whole.home_of(first))
    if own:
        request, units = _without(request, own), [each for place, each in enumerate(units) if place not in own]
    reply = await forward.unary(
        whole.members,
        "TransactionService/TransactMany",
        request,
        context,
        lambda: whole.members.home() if first is None else whole.home_of(first),
        lambda domain: _done(whole, domain, units, pauses),
        doubt=doubted,
    )
    return _with(reply, own) if own else reply


def doubted(reply: bytes) -> bytes:
    """The same, of a call of which an earlier attempt may have been carried out, in part too."""
    response = pb.TransactManyResponse.FromString(reply)
    for each in response.answers:
        if each.HasField("refused") and rule_for(each.refused.reason).retryable:
            each.refused.metadata[OUTCOME] = UNKNOWN
    return response.SerializeToString()


def _in_own_domain(whole: WholeUnits, units: Sequence[Unit | Failed], home: Domain) -> dict[int, Failed]:
    """By place: those for the domain that this member has for itself, by a call that goes to the pair's. The other
    member has one of its own, where a queue of this name is missing, or is another one.
    """
    if home.shared.name == LOCAL:
        return {}
    found = {place: each for place, each in enumerate(units) if not isinstance(each, Failed)}
    own = {place: whole.home_of(each) for place, each in found.items()}
    return {place: _elsewhere(each, home) for place, each in own.items() if each.shared.name == LOCAL}


def _without(request: bytes, places: Container[int]) -> bytes:
    """The same call, as its client sent it, but for the units at these places."""
    units = pb.TransactManyRequest.FromString(request).units
    rest = [each for place, each in enumerate(units) if place not in places]
    return pb.TransactManyRequest(units=rest).SerializeToString()


def _with(reply: bytes, refused: Mapping[int, Failed]) -> bytes:
    """The answers, with those that stand at these places."""
    done = pb.TransactManyResponse.FromString(reply)
    answers = list(done.answers)
    for place, each in sorted(refused.items()):
        answers.insert(place, pb.TransactAnswer(refused=failure(each)))
    return pb.TransactManyResponse(header=done.header, answers=answers).SerializeToString()


async def _done(whole: WholeUnits, domain: Domain, units: Sequence[Unit | Failed], pauses: Container[int]) -> Answered:
    """At the master: decided in order, and answered when all of them are stored, by few commits."""
    node = whole.members.node
    asked: list[FutureWaiter | Failed | Moved] = []
    for place, each in enumerate(units):
        asked.append(each if isinstance(each, Failed) else await _submitted(whole, domain, each))
        if place in pauses:
            node.dispatch(domain)
            await asyncio.sleep(0)
    node.dispatch(domain)
    response = pb.TransactManyResponse()
    for place, (each, waiter) in enumerate(zip(units, asked, strict=True)):
        answer: pb.TransactResponse | Failed | Moved
        if isinstance(waiter, FutureWaiter):
            assert not isinstance(each, Failed), "nobody waits for what was refused before"
            answer = whole.answer_of(domain, each, await waiter.future)
        else:
            answer = waiter
        if isinstance(answer, Moved):
            return answer  # all is asked again: what was done of it is known by its request ids
        if isinstance(answer, Failed):
            response.answers.add(refused=failure(answer))
        else:
            response.answers.add(done=answer)
        if place in pauses:
            await asyncio.sleep(0)
    response.header.CopyFrom(header_of(whole.members, domain))
    return response.SerializeToString()


async def _submitted(whole: WholeUnits, domain: Domain, unit: Unit) -> FutureWaiter | Failed | Moved:
    home = whole.home_of(unit)
    if home is domain:
        return await whole.submitted(domain, unit)
    return _elsewhere(home, domain)


def _elsewhere(home: Domain, domain: Domain) -> Failed:
    text = (
        f"a unit of work in domain {home.shared.name} by a call whose first one is in {domain.shared.name}; "
        "all units of a call are in one domain"
    )
    return refusal(Reason.REASON_CROSS_DOMAIN, text, {"domain": home.shared.name})


def _problem_of_counts(units: Sequence[pb.TransactRequest], limits: Limits) -> Failed | None:
    """Before anything walks over them."""
    if not units:
        return refusal(Reason.REASON_BAD_REQUEST, "a call without units of work; name at least one of them")
    if (problem := too_many_of_a_call("units", len(units), UNITS_MAX)) is not None:
        return problem
    settles, puts = sum(len(each.settles) for each in units), sum(len(each.puts) for each in units)
    problem = too_many_of_a_call("settles", settles, limits.settlement_ranges_max)
    problem = problem or too_many_of_a_call("puts", puts, limits.batch_messages_max)
    if problem is not None:  # to walk over a million takes a second
        return problem
    settlements = sum(len(settle.settlements) for each in units for settle in each.settles)
    messages = sum(len(put.messages) for each in units for put in each.puts)
    return too_many_of_a_call("settlements", settlements, limits.settlement_ranges_max) or too_many_of_a_call(
        "messages", messages, limits.batch_messages_max
    )


def pauses_of(units: Sequence[pb.TransactRequest]) -> frozenset[int]:
    """After which of them everybody else is served."""
    found, weight = set[int](), 0
    for place, unit in enumerate(units):
        queues = len(unit.settles) + len(unit.puts)
        rows = sum(len(each.settlements) for each in unit.settles) + sum(len(each.messages) for each in unit.puts)
        weight += 1 + queues + rows // ROWS_A_QUEUE
        if weight >= WEIGHT_AT_ONCE:
            found.add(place)
            weight = 0
    return frozenset(found)
