"""Puts services together from the functions that answer their calls, and leaves a line in the log for each call that
fails, with its method, queue and request id: an error for what broke, a refusal at level debug. It changes no answer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from tandemq.refusing import has_hung_up
from tandemq.v1 import manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    Method = grpc.RpcMethodHandler[bytes, bytes]
    Handle = Callable[[Any, Any], Coroutine[Any, Any, Any]]

log = logging.getLogger("tandemq.calls")

FILES = (manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2)
"""Imported, so that the types of their requests are in the pool."""
PAIR_SERVICE = "tandemq.v1.PairService"
NAME_CHARS_MAX = 255
_QUEUE_FIELDS = ("queue", "name", "from_queue")


def generic_handler(service: str, methods: Mapping[str, Method]) -> grpc.GenericRpcHandler:
    """As grpc.method_handlers_generic_handler, with failures logged."""
    logged = {name: _logged_method(f"{service}/{name}", method) for name, method in methods.items()}
    return grpc.method_handlers_generic_handler(service, logged)


def pair_handler(*parts: Mapping[str, Method]) -> grpc.GenericRpcHandler:
    """One handler over the methods of all parts. What no part has is UNIMPLEMENTED; two parts never share a method."""
    methods: dict[str, Method] = {}
    for part in parts:
        assert not methods.keys() & part.keys(), f"answered twice: {sorted(methods.keys() & part.keys())}"
        methods.update(part)
    return generic_handler(PAIR_SERVICE, methods)


class WrappedService(grpc.ServiceRpcHandler):
    """A service each of whose handlers is made of another one's, when it is first called."""

    def __init__(self, inner: grpc.ServiceRpcHandler, wrap: Callable[[str, Any], Any]) -> None:
        """`wrap`: of a method, as `/package.Service/Method`, and its handler."""
        self._inner, self._wrap = inner, wrap
        self._made: dict[str, Any] = {}

    def service_name(self) -> str:
        """As gRPC asks for it."""
        return self._inner.service_name()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; None: there is no such method."""
        method = str(details.method)
        if method not in self._made:
            plain = self._inner.service(details)
            if plain is None:
                return None
            self._made[method] = self._wrap(method, plain)
        return self._made[method]


def _logged_method(path: str, method: Any) -> Method:
    if method.unary_unary is not None:
        return grpc.unary_unary_rpc_method_handler(_logged(path, method.unary_unary))
    if method.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(_logged(path, method.unary_stream))
    return grpc.stream_stream_rpc_method_handler(_logged(path, method.stream_stream))


def _logged(path: str, handle: Handle) -> Handle:
    assert handle.__code__.co_flags & inspect.CO_COROUTINE, f"{path} is answered by no coroutine"

    async def handled(request: Any, context: Any) -> Any:
        try:
            return await handle(request, context)
        except asyncio.CancelledError:
            raise
        except grpc.aio.AbortError:
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s is refused: %s", path, context.details(), extra=tags_of(path, request))
            raise
        except Exception as error:
            if has_hung_up(error):
                log.debug("%s: the client has hung up", path, extra=tags_of(path, request))
                raise asyncio.CancelledError from error
            log.error("%s failed: %r", path, error, exc_info=error, extra=tags_of(path, request))
            raise

    return handled


def tags_of(path: str, request: object) -> dict[str, object]:
    """What a line about a call carries: its method, and of a unary request its queue, domain and id."""
    tags: dict[str, object] = {"method": path}
    if not isinstance(request, bytes):
        return tags
    try:
        parsed = _request_type(path).FromString(request)
    except DecodeError:
        return tags
    fields = parsed.DESCRIPTOR.fields_by_name
    for field in _QUEUE_FIELDS:
        if field in fields and (name := getattr(parsed, field)):
            tags["queue"] = str(name)[:NAME_CHARS_MAX]
            break
    if "domain" in fields and (domain := getattr(parsed, "domain", "")):
        tags["domain"] = str(domain)[:NAME_CHARS_MAX]
    if "request_id" in fields and (number := getattr(parsed, "request_id", b"")):
        tags["request"] = bytes(number)[:NAME_CHARS_MAX].hex()
    return tags


@cache
def _request_type(path: str) -> type[Message]:
    service, _, method = path.partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
    return message_factory.GetMessageClass(found.input_type)
