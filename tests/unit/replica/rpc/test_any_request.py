"""Every method of the contract can be refused, in one form: a status, and what failed, where and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor

from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from tandemq.errors import from_rpc_error
from tandemq.v1 import (
    batch_service_pb2,
    journal_service_pb2,
    manager_admin_service_pb2,
    pair_service_pb2,
    queue_admin_service_pb2,
    queue_service_pb2,
    stage_service_pb2,
    weights_service_pb2,
)
from tandemq.v1.common_pb2 import Reason

FILES = (
    batch_service_pb2,
    journal_service_pb2,
    manager_admin_service_pb2,
    pair_service_pb2,
    queue_admin_service_pb2,
    queue_service_pb2,
    stage_service_pb2,
    weights_service_pb2,
)


class Call(NamedTuple):
    service: str
    method: str
    streams: bool
    asks_often: bool


def methods() -> Iterator[Call]:
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                described: MethodDescriptor = method
                yield Call(service.full_name, described.name, described.server_streaming, described.client_streaming)


ALL = list(methods())


@asynccontextmanager
async def refuser(call: Call) -> AsyncIterator[grpc.aio.Channel]:
    """A real server, of whose services one method refuses as every method does."""

    async def refuses(_request: Any, context: Any) -> Any:
        await abort(context, refusal(Reason.REASON_INVALID_STATE, f"{call.method} not now", {"queue": "q"}))

    if call.asks_often:
        method = grpc.stream_stream_rpc_method_handler(refuses)
    elif call.streams:
        method = grpc.unary_stream_rpc_method_handler(refuses)
    else:
        method = grpc.unary_unary_rpc_method_handler(refuses)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((generic_handler(call.service, {call.method: method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def asked(channel: grpc.aio.Channel, call: Call) -> None:
    path = f"/{call.service}/{call.method}"
    if call.asks_often:
        await channel.stream_stream(path)(iter([b""])).read()
    elif call.streams:
        await channel.unary_stream(path)(b"").read()
    else:
        await channel.unary_unary(path)(b"")


def test_the_contract_is_looked_at_as_a_whole() -> None:
    assert len(ALL) > 50
    assert {call.streams for call in ALL} == {call.asks_often for call in ALL} == {True, False}


@pytest.mark.requirement("R063")
@pytest.mark.parametrize("call", ALL, ids=lambda call: f"{call.service.rpartition('.')[2]}.{call.method}")
async def test_any_request_can_be_answered_by_what_failed(call: Call) -> None:
    async with refuser(call) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asked(channel, call)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    error = from_rpc_error(caught.value)
    assert (error.reason, error.metadata["queue"]) == ("INVALID_STATE", "q")
    assert f"{call.method} not now" in str(error)
