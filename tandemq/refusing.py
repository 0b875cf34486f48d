"""The one place that ends a call with another status than OK: status and details say the same, whoever refuses.

Clients compare them. Where codes differ, grpc-go reports INTERNAL without any detail, and Java and Python raise; the
last also where texts differ. A test keeps `context.abort` out of all other files of the server.

A client may have hung up meanwhile. gRPC raises then what it raises for a broken call, which would be reported as a
failure of the service, twice, with stacks; here it is a call that was cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio

from tandemq.errors import DETAILS_KEY, status_details, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tandemq.v1 import common_pb2

    Trailers = Iterable[tuple[str, str | bytes]]

# How gRPC says that the other side took nothing more. "grpc_call_start_batch" would be a call that was used wrongly.
_NOT_TAKEN = 'Failed "execute_batch"'
_OVER = "RPC already finished"


def has_hung_up(error: BaseException) -> bool:
    """Whether this is how a call breaks whose client is gone."""
    match error:
        case grpc.aio.InternalError():
            return str(error).startswith(_NOT_TAKEN)
        case grpc.aio.UsageError() | asyncio.InvalidStateError():
            return _OVER in str(error)
        case _:
            return False


async def abort(context: Any, error: common_pb2.Error) -> NoReturn:
    """Refuse the whole call: status, ErrorInfo, and RetryInfo where there is one. Raises grpc's AbortError."""
    await _end(context, status_of(error), error.message, ((DETAILS_KEY, status_details(error)),))


async def abort_bare(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    """End a call without a reason of ours: to its caller the outcome is unknown (rulings.md 11)."""
    await _end(context, code, text, ())


async def pass_on(context: Any, code: grpc.StatusCode, text: str | None, trailers: Trailers | None) -> NoReturn:
    """End a call as the other member ended it.

    That one may be of an older version, whose details name another code than its status: the status counts, since
    every client reads it. Details that nobody can read are left out, as those that stand there twice.
    """
    text, trailers = text or "", tuple(trailers or ())
    details = [value for key, value in trailers if key == DETAILS_KEY]
    kept = tuple((key, value) for key, value in trailers if key != DETAILS_KEY)
    if len(details) == 1 and isinstance(details[0], bytes) and (agreed := _agreed(details[0], code, text)) is not None:
        kept = (*kept, (DETAILS_KEY, agreed))
    await _end(context, code, text, kept)


def _agreed(details: bytes, code: grpc.StatusCode, text: str) -> bytes | None:
    from google.protobuf.message import DecodeError
    from google.rpc import status_pb2

    try:
        status = status_pb2.Status.FromString(details)
    except DecodeError:
        return None
    number: int = code.value[0]
    if (status.code, status.message) == (number, text):
        return details
    status.code, status.message = number, text
    data: bytes = status.SerializeToString()
    return data


async def _end(
    context: Any, code: grpc.StatusCode, text: str, trailers: tuple[tuple[str, str | bytes], ...]
) -> NoReturn:
    """Raises AbortError, as `context.abort` does, or CancelledError where nobody waits for the answer any more."""
    try:
        await context.abort(code, text, trailers)
    except (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
        if not has_hung_up(error):
            raise
        raise asyncio.CancelledError("the client has hung up") from error
    raise AssertionError("abort raises")
