"""What every call of the services begins with: its bytes as a message, its identity, and a fingerprint of both."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError, Message

from replica.rpc.refusals import abort, refusal
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.outcomes import Failed

REQUEST_ID_BYTES = 16
REQUEST_BYTES_MAX = 1 << 20
"""Of a request that carries no messages: five times what 10,000 message ids take. The time that a map takes to parse
grows with its square: one of 16 MiB holds the loop for seconds."""

Context = Any
M = TypeVar("M", bound=Message)


def fingerprint(*parts: bytes) -> int:
    """Distinguishes a repetition of a unary call from another call under the same id."""
    chain = hashlib.blake2b(digest_size=8)
    for part in parts:
        chain.update(len(part).to_bytes(8, "big"))
        chain.update(part)
    return int.from_bytes(chain.digest(), "big")


def fingerprint_of(what: str, request: Message) -> int:
    """Of a whole request. `what` keeps two calls apart whose fields are the same."""
    return fingerprint(what.encode(), request.SerializeToString(deterministic=True))


async def parse(kind: type[M], request: bytes, context: Context, bytes_max: int = REQUEST_BYTES_MAX) -> M:
    """The request, or BAD_REQUEST."""
    if len(request) > bytes_max:
        text = f"a request of {len(request)} bytes; {kind.DESCRIPTOR.name} may have {bytes_max}"
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
    try:
        return kind.FromString(request)
    except DecodeError:
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, f"the request is not a {kind.DESCRIPTOR.full_name}"))


def problem_of_request_id(request_id: bytes) -> Failed | None:
    """Every mutating call carries an identity."""
    if len(request_id) == REQUEST_ID_BYTES:
        return None
    text = f"request_id must have {REQUEST_ID_BYTES} bytes, new for each call and the same when it is repeated"
    return refusal(Reason.REASON_BAD_REQUEST, text)


async def check_request_id(request_id: bytes, context: Context) -> None:
    """Refuses the call, or lets it through."""
    if (problem := problem_of_request_id(request_id)) is not None:
        await abort(context, problem)
