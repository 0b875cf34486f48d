"""A server that answers every call with bytes that are no message. Not a test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

NONSENSE = b"\xff\xff"
STREAMS = ("/Produce", "/Consume", "/WatchRegister", "/Watch")


class _Nonsense(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if details.method.endswith(STREAMS):
            return grpc.stream_stream_rpc_method_handler(_frames)
        return grpc.unary_unary_rpc_method_handler(_answer)


async def _answer(_request: bytes, _context: Any) -> bytes:
    return NONSENSE


async def _frames(requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
    async for _ in requests:
        yield NONSENSE


@contextlib.asynccontextmanager
async def answering_nonsense() -> AsyncIterator[str]:
    """Its endpoint."""
    server = grpc.aio.server(handlers=[_Nonsense()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
