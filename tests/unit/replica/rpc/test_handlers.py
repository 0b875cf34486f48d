"""A call that fails leaves a line that says which call it was; its answer stays as it is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio
import pytest

from replica.rpc.handlers import generic_handler, tags_of
from replica.rpc.refusals import abort, refusal
from tandemq.v1 import pair_service_pb2, queue_admin_service_pb2, queue_service_pb2
from tandemq.v1.common_pb2 import Reason
from tests.support.until import OUTER_S

SERVICE = "tandemq.v1.QueueService"
REQUEST = queue_service_pb2.EnqueueRequest(queue="orders", request_id=b"0123456789abcdef").SerializeToString()


class Refusing:
    """As much of a context as a refusal leaves."""

    def details(self) -> str:
        return "queue orders is full"


class Details:
    method = f"/{SERVICE}/Enqueue"
    invocation_metadata: Any = ()


def handle_of(answer: Any) -> Any:
    async def enqueue(_request: bytes, _context: Any) -> bytes:
        if isinstance(answer, BaseException):
            raise answer
        return bytes(answer)

    handler = generic_handler(SERVICE, {"Enqueue": grpc.unary_unary_rpc_method_handler(enqueue)})
    return handler.service(Details()).unary_unary  # type: ignore[arg-type]  # what it looks at


async def test_what_succeeds_is_passed_on_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert await handle_of(b"done")(REQUEST, Refusing()) == b"done"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "level"), [(grpc.aio.AbortError("Locally aborted."), "DEBUG"), (ValueError("broken"), "ERROR")]
)
async def test_what_fails_is_told_with_queue_and_request(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tandemq.calls")
    with pytest.raises(type(error)):
        await handle_of(error)(REQUEST, Refusing())
    [record] = [each for each in caplog.records if each.name == "tandemq.calls"]
    assert record.levelname == level
    facts = {name: record.__dict__.get(name) for name in ("method", "queue", "request")}
    assert facts == {"method": f"{SERVICE}/Enqueue", "queue": "orders", "request": b"0123456789abcdef".hex()}
    assert (record.exc_info is not None) is (level == "ERROR")


async def test_who_goes_away_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tandemq.calls")
    with pytest.raises(asyncio.CancelledError):
        await handle_of(asyncio.CancelledError())(REQUEST, Refusing())
    assert [each for each in caplog.records if each.name == "tandemq.calls"] == []


def test_tags_are_those_that_the_request_has() -> None:
    create = queue_admin_service_pb2.CreateQueueRequest(name="q" * 300).SerializeToString()
    path = "tandemq.v1.QueueAdminService/CreateQueue"
    assert tags_of(path, create) == {"method": path, "queue": "q" * 255}
    path = "tandemq.v1.PairService/Handoff"
    handoff = pair_service_pb2.HandoffRequest(domain="main").SerializeToString()
    assert tags_of(path, handoff) == {"method": path, "domain": "main"}
    assert tags_of(path, b"\xff\xff") == {"method": path}
    assert tags_of("tandemq.v1.QueueService/Consume", None) == {"method": "tandemq.v1.QueueService/Consume"}


async def test_a_refusal_that_meets_a_client_which_hung_up_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """gRPC raises for the broken call; that was told as a failure of the service, and by gRPC once more."""
    caplog.set_level(logging.DEBUG)
    asked, ended = asyncio.Event(), asyncio.Event()

    async def enqueue(_request: bytes, context: Any) -> bytes:
        try:
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:  # the client has gone; the answer is on its way all the same
                await abort(context, refusal(Reason.REASON_QUEUE_FULL, "queue orders is full"))
        finally:
            ended.set()
        return b""

    server = grpc.aio.server()
    handler = generic_handler(SERVICE, {"Enqueue": grpc.unary_unary_rpc_method_handler(enqueue)})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(Details.method)(REQUEST)
            await asyncio.wait_for(asked.wait(), OUTER_S)
            call.cancel()
            await asyncio.wait_for(ended.wait(), OUTER_S)
    finally:
        await server.stop(None)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (grpc.aio.UsageError("RPC already finished."), True),
        (asyncio.InvalidStateError("RPC already finished."), True),
        (asyncio.InvalidStateError("Result is not set."), False),
        (grpc.aio.InternalError('Failed "execute_batch": ()'), True),
        (grpc.aio.InternalError("Failed grpc_call_start_batch: 8 with grpc_call_error value"), False),
        (ValueError("RPC already finished."), False),
    ],
)
async def test_a_call_that_was_used_wrongly_stays_an_error(
    error: Exception, gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tandemq.calls")
    with pytest.raises(asyncio.CancelledError if gone else type(error)):
        await handle_of(error)(REQUEST, Refusing())
    [record] = [each for each in caplog.records if each.name == "tandemq.calls"]
    assert record.levelname == ("DEBUG" if gone else "ERROR")
