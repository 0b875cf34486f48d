"""Makes lines of the audit log of calls and of how they ended: by names alone. Decides nothing about any call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from replica.machine.features.rights import right_name
from replica.operations.audit import Audited
from replica.rpc.handlers import tags_of
from replica.services.needs import ADMINISTRATIVE, NEEDS
from tandemq.errors import of_trailers
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.rights_service_pb2 import GrantRightRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from replica.core.state.outcomes import Failed
    from replica.operations.audit import AuditLog

PACKAGE = "tandemq.v1."
READ_BYTES_MAX = 64 << 10
"""Of a larger request its id is not looked for."""
OK = "OK"
ORDERS = frozenset(path for path, needs in NEEDS.items() if any(each.right in ADMINISTRATIVE for each in needs))
"""Calls that are written down however they end."""
CHANGES_OF_RIGHTS = ("RightsService/GrantRight", "RightsService/RevokeRight")


def line_of(path: str, request: object, who: str, context: Any, outcome: str, objects: Iterable[str] = ()) -> Audited:
    """`objects`: queues that the call was asked about, where they are known."""
    small = isinstance(request, bytes) and len(request) <= READ_BYTES_MAX
    tags = tags_of(f"{PACKAGE}{path}", request) if small else {}
    named = ", ".join(filter(None, objects)) or str(tags.get("queue", "")) or "pair"
    if path in CHANGES_OF_RIGHTS and small and isinstance(request, bytes):
        named = _right_of(request)
    return Audited(who, str(context.peer()), path, named, outcome, str(tags.get("request", "")))


def outcome_of(failed: Failed) -> str:
    """As clients have it."""
    return Reason.Name(failed.reason).removeprefix("REASON_")


async def ordered(
    audit: AuditLog, path: str, who: str, request: bytes, context: Any, handle: Callable[[Any, Any], Awaitable[Any]]
) -> Any:
    """Answers an order, and writes it down when it has ended."""
    watched = Watched(context)
    outcome = "CANCELLED"  # its client has gone: nobody knows what became of it
    try:
        answer = await handle(request, watched)
        outcome = OK
    except grpc.aio.AbortError:
        outcome = watched.outcome
        raise
    finally:
        audit.ordered(line_of(path, request, who, context, outcome))
    return answer


class Watched:
    """The context of a call, of which one wants to know how it was refused."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.outcome = OK

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        """As grpc.aio has it."""
        error = of_trailers(trailing_metadata)
        self.outcome = error.reason if error is not None else code.name
        await self._context.abort(code, details, trailing_metadata)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _right_of(request: bytes) -> str:
    """Both calls have the same fields there. It may be anything: whoever asks is no administrator perhaps."""
    try:
        asked = GrantRightRequest.FromString(request)
        right = right_name(asked.right)
    except ValueError:  # DecodeError is one
        return "pair"
    return f"{asked.principal} {right} {asked.pattern}".rstrip()
