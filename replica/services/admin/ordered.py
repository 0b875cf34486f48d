"""What calls of administration share: their identity, and their place in the order of a domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replica.rpc.requests import check_request_id, fingerprint_of
from replica.services import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed, Moved
    from replica.machine import Machine
    from replica.rpc.requests import Context
    from replica.services.admin.queues import AdminHandlers
    from replica.services.answers import Answered

    Beforehand = Callable[[Domain], Awaitable[Failed | Moved | None]]


async def identity(what: str, parsed: Any, context: Context) -> tuple[bytes, int]:
    """The request id and the request's fingerprint. Refuses a call without an id."""
    await check_request_id(parsed.request_id, context)
    return parsed.request_id, fingerprint_of(what, parsed)


async def ordered(
    admin: AdminHandlers,
    path: str,
    request: bytes,
    context: Context,
    home: Callable[[], Domain],
    call: Any,
    reply: Callable[[Machine, Any], Any],
    *,
    beforehand: Beforehand | None = None,
) -> bytes:
    """Have a call ordered, here or at the master. A read is no record: it looks when it is its turn, and is answered
    when all that it saw is committed.

    Args:
        path: `Service/Method`, for the member that it is sent on to.
        reply: makes the response from the master's state and the outcome.
        beforehand: makes what the call needs at the serving master; what that lacks is the answer.
    """

    async def local(domain: Domain) -> Answered:
        lack = await beforehand(domain) if beforehand is not None else None
        if lack is not None:
            return lack

        def answer(done: Any) -> Any:
            machine = domain.shared.machine
            assert machine is not None, "who serves has the queues' state"
            return reply(machine, done)

        return await admin.run(domain, call, answer)

    return await forward.unary(admin.members, path, request, context, home, local)
