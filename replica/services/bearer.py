"""Lets in at the port for tokens who shows one that is believed, as the principal that it names and nobody else.

It stands before the guard, which asks what that one may do. A call has one token, in the metadata `authorization`; the
token itself goes no further, and never into a log. A stream ends when its token does.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import grpc

from replica.core.state.outcomes import Failed
from replica.rpc.refusals import abort
from replica.services.audited import line_of, outcome_of
from replica.services.guard import WAITING
from replica.tokens.judging import Believed, NotBelievedError, Rules, judge
from tandemq.ambient import wall_ms
from tandemq.credentials.caller import SHOWN
from tandemq.errors import OUTCOME, UNKNOWN
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from replica.operations.audit import AuditLog
    from replica.tokens.believed_keys import BelievedKeys

HEADER = "authorization"
SCHEME = "bearer "
"""Its letters may be of any size."""
KNOWN_MAX = 1_000
"""Tokens that were believed, so that a call costs no signature; the oldest is forgotten."""
HOW = "send one as metadata `authorization: Bearer TOKEN`; certificates are for the other port (manager.listen_client)"


class Known(NamedTuple):
    """Tokens that were believed by keys of one generation."""

    generation: int
    tokens: dict[str, Believed]


class BearerDoor:
    """Of one manager."""

    def __init__(self, keys: BelievedKeys, rules: Rules, audit: AuditLog | None) -> None:
        self.keys, self.rules, self.audit = keys, rules, audit
        self._known = Known(0, {})

    def behind(self, handler: grpc.GenericRpcHandler) -> grpc.GenericRpcHandler:
        """The same services, for whoever shows a token."""
        return BehindDoor(self, handler)

    async def believed(self, path: str, context: Any) -> Believed:
        """Whose call it is. Refuses it otherwise."""
        shown = [value for key, value in context.invocation_metadata() or () if key == HEADER]
        if len(shown) != 1:
            text = f"the call has {len(shown) or 'no'} token{'s' if shown else ''}, and one is needed: {HOW}"
            await self._refuse(path, context, Failed(Reason.REASON_TOKEN_REQUIRED, text, {}, None))
        scheme, token = str(shown[0][: len(SCHEME)]), str(shown[0][len(SCHEME) :])
        if scheme.lower() != SCHEME:
            text = f"the metadata `authorization` is of another kind: {HOW}"
            await self._refuse(path, context, Failed(Reason.REASON_TOKEN_REQUIRED, text, {}, None))
        now_s = wall_ms() / 1000
        known = self._now()
        found = known.get(token)
        if found is not None and found.ends_s > now_s:
            return found
        try:
            found = await self._judged(token, now_s)
        except NotBelievedError as error:
            await self._refuse(path, context, Failed(error.reason, error.message, {"why": error.why}, None))
        known = self._now()
        while len(known) >= KNOWN_MAX:
            del known[next(iter(known))]
        known[token] = found
        return found

    async def until_it_ends(self, believed: Believed, path: str, context: Any, work: Awaitable[Any]) -> Any:
        """What goes on for a while: ends with its token, and may be begun again with another one. Of a call that waits
        it is in doubt what it has been given by then: whoever repeats it gets the same.
        """
        limit = asyncio.timeout(max(0.0, believed.ends_s - wall_ms() / 1000))
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
        facts = {"why": "time", "principal": believed.who}
        text = "the token of this stream has expired: open it again with a new one, and repeat what is unanswered"
        if path in WAITING:
            text, facts[OUTCOME] = "the token has expired while the call waited: repeat it with a new one", UNKNOWN
        failed = Failed(Reason.REASON_TOKEN_EXPIRED, text, facts, 0)
        return await self._refuse(path, context, failed)

    async def _judged(self, token: str, now_s: float) -> Believed:
        if not self.keys.keys and not await self.keys.newer():
            text = "this member has no keys yet by which it could believe a token (tokens.keys); try the other member"
            raise NotBelievedError("key", text, Reason.REASON_TOKEN_KEYS_MISSING)
        try:
            return judge(token, self.keys.keys, self.rules, now_s)
        except NotBelievedError as error:
            if error.why != "key" or not await self.keys.newer():
                raise
        return judge(token, self.keys.keys, self.rules, now_s)

    def _now(self) -> dict[str, Believed]:
        """What was believed by other keys is judged again."""
        if self._known.generation != self.keys.generation:
            self._known = Known(self.keys.generation, {})
        return self._known.tokens

    async def _refuse(self, path: str, context: Any, failed: Failed) -> NoReturn:
        if self.audit is not None:
            who = failed.metadata.get("principal", "")
            self.audit.refused(line_of(path, b"", who, context, outcome_of(failed)))
        await abort(context, failed)


class BehindDoor(grpc.GenericRpcHandler):
    """Services of which each call shows a token first."""

    def __init__(self, door: BearerDoor, inner: grpc.GenericRpcHandler) -> None:
        self._door, self._inner = door, inner
        self._made: dict[str, Any] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; None: there is no such method."""
        method = str(handler_call_details.method)
        if method not in self._made:
            plain = self._inner.service(handler_call_details)
            if plain is None:
                return None
            self._made[method] = _behind(self._door, method.removeprefix("/tandemq.v1."), plain)
        return self._made[method]


class ShownToken:
    """The context of a call whose token is believed: it has the name that the token gave, and no certificate."""

    def __init__(self, context: Any, believed: Believed) -> None:
        self._context = context
        self._who = {SHOWN: (believed.who.encode(),)}
        self.read, self.write = getattr(context, "read", None), getattr(context, "write", None)

    def auth_context(self) -> dict[str, tuple[bytes]]:
        """As gRPC has it of a connection, with nothing of that connection."""
        return self._who

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _behind(door: BearerDoor, path: str, plain: Any) -> Any:
    def lasting(handle: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
        answers_one_by_one = inspect.isasyncgenfunction(handle)  # as that of reflection

        async def until_its_token_ends(request: Any, context: Any) -> Any:
            believed = await door.believed(path, context)
            work: Any = handle(request, ShownToken(context, believed))
            if answers_one_by_one:
                work = _written(work, context)
            return await door.until_it_ends(believed, path, context, work)

        return until_its_token_ends

    of = {"request_deserializer": plain.request_deserializer, "response_serializer": plain.response_serializer}
    if plain.unary_unary is not None:
        waiting = lasting(plain.unary_unary)

        async def unary(request: Any, context: Any) -> Any:
            if path in WAITING:
                return await waiting(request, context)
            return await plain.unary_unary(request, ShownToken(context, await door.believed(path, context)))

        return grpc.unary_unary_rpc_method_handler(unary, **of)
    if plain.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(lasting(plain.unary_stream), **of)
    return grpc.stream_stream_rpc_method_handler(lasting(plain.stream_stream), **of)


async def _written(answers: AsyncGenerator[Any, None], context: Any) -> None:
    async for answer in answers:
        await context.write(answer)
