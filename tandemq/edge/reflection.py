"""Says which services a port has, by gRPC's reflection; decides nothing. Its library is loaded when asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

SERVICE = "grpc.reflection.v1alpha.ServerReflection"
METHOD = "ServerReflectionInfo"


class Reflection(grpc.GenericRpcHandler):
    """A handler beside those of the services named. To be added to a server of `grpc.aio`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = (*names, SERVICE)
        self._handler: grpc.GenericRpcHandler | None = None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """As of grpc.GenericRpcHandler; gRPC looks here for a method that is nobody else's."""
        if handler_call_details.method != f"/{SERVICE}/{METHOD}":
            return None
        if self._handler is None:
            self._handler = _handler_of(self.names)
        return self._handler.service(handler_call_details)


def _handler_of(names: Iterable[str]) -> grpc.GenericRpcHandler:
    from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]  # ships no types

    method = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(names).ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})
