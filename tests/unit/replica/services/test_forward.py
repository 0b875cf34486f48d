"""A refusal says that nothing was done only where that is certain (rulings.md 11): not once an earlier attempt of the
same call had no answer.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from failover.marks import Role
from replica.core.state.outcomes import Failed, Moved
from replica.rpc.refusals import failure
from replica.services import forward
from replica.services.answers import Answered
from replica.services.messages.transact_many import doubted
from tandemq.errors import OUTCOME, UNKNOWN, TandemqError, from_rpc_error, to_error
from tandemq.v1 import transaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

METHOD = "/tests.Forwarding/Call"
NO_MASTER = (Reason.REASON_NO_MASTER, "no master in domain main: it was lost; repeat the call", {"role": "PROBE"}, 200)


class Place:
    """What `unary` sees of a member: a domain that serves here until it does not, and no other master."""

    def __init__(self, *answers: Answered) -> None:
        self.answers = list(answers)
        self.park_ms, self.changed, self.access = 50, asyncio.Event(), None
        rule = SimpleNamespace(can_read=True, can_finish=True, can_commit=True)
        self.domain: Any = SimpleNamespace(
            shared=SimpleNamespace(serving=True, role=Role.MASTER, name="main"),
            mastership=SimpleNamespace(commit=rule),
            no_master=lambda: NO_MASTER,
        )

    def is_late(self) -> bool:
        return False

    def master_endpoint(self, _domain: object) -> str:
        return ""

    async def answer(self, _domain: object) -> Answered:
        answer = self.answers.pop(0)
        self.domain.shared.serving = bool(self.answers)
        return answer


async def test_an_answer_says_of_each_refusal_in_it_whether_it_is_certain() -> None:
    """Of several units one may have been done by the attempt that nobody answered."""
    response = pb.TransactManyResponse()
    for reason in (Reason.REASON_SUSPENDED, Reason.REASON_QUEUE_FULL):
        response.answers.add(refused=failure(Failed(reason, "not now", {}, None)))
    response.answers.add(done=pb.TransactResponse(duplicate=True))
    answer = response.SerializeToString()
    for attempts, outcomes in ([answer], ["", "", ""]), ([Moved("the mastership moved"), answer], [UNKNOWN, "", ""]):
        reply = await answered_by(Place(*attempts))
        found = pb.TransactManyResponse.FromString(reply).answers
        assert [each.refused.metadata.get(OUTCOME, "") for each in found] == outcomes
        assert found[2].done.duplicate
    assert to_error(found[0].refused).definite is False
    assert to_error(found[1].refused).definite


async def refused_by(place: Place, *, remembers: bool = True) -> tuple[grpc.StatusCode, TandemqError]:
    """What a call is refused with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answered_by(place, remembers=remembers)
    return caught.value.code(), from_rpc_error(caught.value)


async def answered_by(place: Place, *, remembers: bool = True) -> bytes:
    """A real call over a socket, which `unary` answers from there."""

    async def call(request: bytes, context: Any) -> bytes:
        members: Any = place
        return await forward.unary(
            members,
            "Forwarding/Call",
            request,
            context,
            lambda: place.domain,
            place.answer,
            doubt=doubted,
            remembers=remembers,
        )

    handler = grpc.method_handlers_generic_handler(
        "tests.Forwarding", {"Call": grpc.unary_unary_rpc_method_handler(call)}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            reply: bytes = await channel.unary_unary(METHOD)(b"", timeout=60)
            return reply
    finally:
        await server.stop(None)


async def test_what_was_sent_nowhere_was_certainly_not_done() -> None:
    place = Place()
    place.domain.shared.serving = False
    code, error = await refused_by(place)
    assert (code, error.reason, error.definite) == (grpc.StatusCode.UNAVAILABLE, "NO_MASTER", True)


async def test_after_an_attempt_without_an_answer_no_master_says_nothing_of_it() -> None:
    code, error = await refused_by(Place(Moved("the mastership moved")))
    assert (code, error.reason) == (grpc.StatusCode.ABORTED, "NO_MASTER")
    assert (error.definite, error.retryable, error.metadata[OUTCOME]) == (False, True, UNKNOWN)
    assert "an earlier attempt was sent" in error.message


@pytest.mark.parametrize(("reason", "definite"), [("SUSPENDED", False), ("DRAINING", False), ("QUEUE_FULL", True)])
async def test_whoever_refuses_for_good_knows_the_call_by_its_identity(reason: str, definite: bool) -> None:
    failed = Failed(Reason.Value(f"REASON_{reason}"), "not now", {}, None)
    _, error = await refused_by(Place(Moved("the mastership moved"), failed))
    assert (error.reason, error.definite) == (reason, definite)
    _, error = await refused_by(Place(failed))
    assert (error.reason, error.definite) == (reason, True)


async def test_where_another_manager_alone_knows_the_call_a_refusal_here_says_nothing_of_an_earlier_attempt() -> None:
    """A proxy that is removed between two attempts: the first one may have been done by the manager it led to."""
    gone = Failed(Reason.REASON_QUEUE_NOT_FOUND, "there is no queue 'p'", {}, None)
    code, error = await refused_by(Place(Moved("the mastership moved"), gone), remembers=False)
    assert (code, error.reason, error.definite) == (grpc.StatusCode.ABORTED, "QUEUE_NOT_FOUND", False)
    _, error = await refused_by(Place(gone), remembers=False)
    assert error.definite
