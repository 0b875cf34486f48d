"""Sends a call where its master is: here, or to the peer's client port; waits while there is none. Changes nothing in
the call.

A call goes over at most one hop: the member that receives a forwarded call and is not master itself waits, and refuses
in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import grpc

from failover.marks import Role
from replica.core.state.outcomes import Failed
from replica.node.access import PRINCIPAL
from replica.node.members import HOP, LOCAL, MAIN
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context
from replica.services.answers import Answered
from replica.services.checks import stale_epoch
from replica.services.passage import PROXIED
from storage.errors import CorruptRecord
from tandemq import refusing, seen
from tandemq.errors import DETAILS_KEY, OUTCOME, PREFIX, RULES, UNKNOWN, from_rpc_error, rule_for
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from replica.core.domain import Domain
    from replica.node.members import Members

QUERY = "/tandemq.v1."
BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
"""Without a word of a member: how a call ends whose connection broke. INTERNAL where a frame was just being written."""
ASKED_AGAIN_MAX = 3
"""Openings of a stream that end before anybody has heard why; then INTERNAL stands."""
ANSWER_S = 0.05
"""What an answer needs to reach a caller whose time is nearly over."""
LOOK_S = 0.25
"""Between two looks at whether a call is parked again."""
SUSPENDED_LOOK_S = 0.02
"""Between two looks at whether a suspended master may go on."""
RETRY_S = 0.1
"""Between two attempts at a master that is none, unless a role changes."""
BEGINNING_LOOK_S = 0.002
"""Between two looks at whether a new master's first record is committed."""


def time_left_s(context: Context, otherwise_ms: int) -> float:
    """Seconds that the caller still waits; a caller without deadline is parked for `otherwise_ms`."""
    left = context.time_remaining()
    return left if left is not None else otherwise_ms / 1000


def park_s(context: Context, park_ms: int) -> float:
    """How long a call is parked: the park time, or a little less than its caller waits, so that the answer arrives."""
    return max(0.0, min(time_left_s(context, park_ms) - ANSWER_S, park_ms / 1000))


def came_over_a_hop(context: Context) -> bool:
    """Whether the peer sent this call on."""
    return any(key == HOP for key, _ in context.invocation_metadata() or ())


def hop(members: Members, context: Context) -> tuple[tuple[str, str], ...]:
    """What goes with a call that is carried to the peer: which member carries it, and for which client."""
    carried = ((HOP, members.member), *((key, value) for key, value in _sent_with(context) if key == PROXIED))
    return carried if members.access is None else (*carried, (PRINCIPAL, members.access.caller(context)))


def _sent_with(context: Context) -> Iterable[tuple[str, str]]:
    return context.invocation_metadata() or ()


def member_of(members: Members, context: Context) -> str:
    """The member that the client is attached to: the peer, when it sent the call on."""
    return members.peer if came_over_a_hop(context) else members.member


async def domain_named(members: Members, name: str, context: Context) -> Domain:
    """Without a name the pair's, or the member's own where it has no peer; BAD_REQUEST where there is none."""
    domain = members.by_name.get(name or (MAIN if members.peer else LOCAL))
    if domain is None:
        text = f"there is no domain {name!r} here; there are {', '.join(sorted(members.by_name))}"
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, text, {"domain": name}))
    return domain


async def wait_for_master(
    members: Members,
    domain_of: Callable[[], Domain],
    context: Context,
    until_s: float | None = None,
    *,
    while_draining: bool = False,
    sent_before: bool = False,
) -> Domain | None:
    """The domain once it serves here, or None once its master is the peer; refuses when the caller's time is over.
    `until_s`: of the loop, for a caller that has been parked before; None: it is parked from now on.
    `while_draining`: for what ends with this mastership, so that a handoff lets it end.
    `sent_before`: nobody has said what became of an earlier attempt.

    A master that could not commit now, or has just slept, may have been replaced: it does not even answer a question.
    One that has not committed its first record yet does not know what was acknowledged before it.
    """
    loop = asyncio.get_running_loop()
    hop = came_over_a_hop(context)
    if until_s is None:
        until_s = loop.time() + park_s(context, members.park_ms)
    while True:
        domain = domain_of()
        serving = domain.shared.serving
        rule = domain.mastership.commit
        if serving and (rule.can_finish if while_draining else rule.can_read) and not members.is_late():
            return domain
        if not serving and members.master_endpoint(domain) and not hop:
            return None
        left = until_s - loop.time()
        if hop and not serving and domain.shared.role is Role.REPLICA:
            left = 0  # the member that sent it on is master by now: it repeats the call, and serves it itself
        if left <= 0.01:
            failed = _suspended(members, domain) if serving else Failed(*domain.no_master())
            await abort(context, in_doubt(failed) if sent_before else failed)
        changed = members.changed
        look_s = BEGINNING_LOOK_S if rule.can_commit else SUSPENDED_LOOK_S
        try:
            async with asyncio.timeout(min(left, look_s if serving else LOOK_S)):
                await changed.wait()
        except TimeoutError:
            continue


def _suspended(members: Members, domain: Domain) -> Failed:
    text = (
        f"{members.member} is master of domain {domain.shared.name}, has lost its peer, and nobody has said yet "
        "which of them goes on; repeat the call"
    )
    return Failed(Reason.REASON_SUSPENDED, text, {"role": domain.shared.role.name}, 200)


def in_doubt(failed: Failed, *, remembers: bool = True) -> Failed:
    """The same, of a call of which an earlier attempt may have been carried out: what the master of now does not take
    says nothing of that one. A refusal for good does, where whoever refuses `remembers` the call by its identity.
    """
    if remembers and not rule_for(failed.reason).retryable:
        return failed
    text = f"{failed.message}; an earlier attempt was sent and had no answer: repeat it with the same identity"
    return failed._replace(message=text, metadata={**failed.metadata, OUTCOME: UNKNOWN})


async def unary(
    members: Members,
    method: str,
    request: bytes,
    context: Context,
    domain_of: Callable[[], Domain],
    local: Callable[[Domain], Awaitable[Answered]],
    *,
    otherwise_ms: int = 30_000,
    while_draining: bool = False,
    doubt: Callable[[bytes], bytes] = bytes,
    remembers: bool = True,
) -> bytes:
    """Answer a unary call here or through the master. A call that loses its master under way is tried again: it carries
    its identity. Where no master is found then, the refusal does not say that nothing was done (rulings.md 11). A
    master that knows less than the caller refuses. `doubt` makes of an answer with refusals in it one that says so too.
    `remembers`: what was done is known here, by the call's identity, and not at another manager alone.
    """
    epochs = await _seen_by(context)
    until_s = asyncio.get_running_loop().time() + time_left_s(context, members.park_ms)
    sent_before = False
    while True:
        domain = await wait_for_master(
            members, domain_of, context, while_draining=while_draining, sent_before=sent_before
        )
        if domain is not None:
            if epochs and (stale := stale_epoch(members, domain, epochs.get(domain.shared.name, 0))) is not None:
                await abort(context, in_doubt(stale) if sent_before else stale)
            try:
                result = await local(domain)
            except CorruptRecord as corrupt:  # reported where it was read
                result = refusal(Reason.REASON_CORRUPT_STORE, str(corrupt), {"member": members.member})
            if isinstance(result, bytes):
                return doubt(result) if sent_before else result
            if isinstance(result, Failed):
                await abort(context, in_doubt(result, remembers=remembers) if sent_before else result)
            sent_before = True
            await asyncio.sleep(0.02)  # moved: the new master is about to be known
            continue
        call: Any = members.channel().unary_unary(QUERY + method)
        try:
            pairs = [entry for domain, epoch in epochs.items() for entry in seen.told(domain, epoch)]
            metadata = (*hop(members, context), *pairs)
            reply: bytes = await call(request, timeout=time_left_s(context, otherwise_ms), metadata=metadata)
            return doubt(reply) if sent_before else reply
        except grpc.aio.AioRpcError as error:
            if not await _may_retry(members, context, error, until_s):
                await _pass_on(context, error, sent_before=sent_before, remembers=remembers)
            sent_before = sent_before or not from_rpc_error(error).definite


async def _pass_on(
    context: Context, error: grpc.aio.AioRpcError, *, sent_before: bool, remembers: bool = True
) -> NoReturn:
    """As the master refused it."""
    said = from_rpc_error(error)
    if sent_before and said.definite and said.reason in RULES:
        number: Any = Reason.Value(f"{PREFIX}{said.reason}")
        retry_ms = None if said.retry_after is None else said.retry_after // timedelta(milliseconds=1)
        failed = Failed(number, said.message, said.metadata, retry_ms)
        if (doubtful := in_doubt(failed, remembers=remembers)) is not failed:
            await abort(context, doubtful)
    await refusing.pass_on(context, error.code(), error.details(), error.trailing_metadata())


async def _seen_by(context: Context) -> dict[str, int]:
    try:
        return seen.read(context.invocation_metadata() or ())
    except ValueError as error:
        await abort(context, refusal(Reason.REASON_BAD_REQUEST, str(error)))


def is_away(error: grpc.aio.AioRpcError) -> bool:
    """Whoever was called is not there, or no master any more: the next one may know of the call. A master that has too
    few copies for it has spoken for both.
    """
    if from_rpc_error(error).reason == "NOT_ENOUGH_COPIES":
        return False
    return error.code() is grpc.StatusCode.UNAVAILABLE or from_rpc_error(error).metadata.get(OUTCOME) == UNKNOWN


async def _may_retry(members: Members, context: Context, error: grpc.aio.AioRpcError, until_s: float) -> bool:
    """The connection to the master broke, or it is none any more: wait for the next one while the caller has time.
    `until_s`: of the loop; whoever named no deadline is not held for ever.
    """
    if not is_away(error) or came_over_a_hop(context):
        return False
    if from_rpc_error(error).reason == "MANAGER_UNREACHABLE":
        return False  # the master has answered: of another manager, which it has asked as long as it could
    left_s = until_s - asyncio.get_running_loop().time()
    if left_s < RETRY_S:
        return False
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(members.changed.wait(), RETRY_S)
    return True


class CarriedClient(Protocol):
    """Whose stream is carried, where more than the master speaks to it."""

    async def write(self, frame: bytes) -> None:
        """What the master has said."""

    async def hush(self) -> None:
        """Until nothing else is on its way to it: its stream is about to end."""


async def pipe(
    members: Members, method: str, first: bytes, context: Context, client: CarriedClient | None = None
) -> None:
    """Carry a bidi stream to the master and back until either side ends it. `client`: None, the context alone."""
    with members.pipe_channel() as channel:
        asked: Any = channel.stream_stream(QUERY + method)
        await _carry(lambda: asked(metadata=hop(members, context)), first, context, client)


async def _carry(asked: Callable[[], Any], first: bytes, context: Context, client: CarriedClient | None) -> None:
    call = asked()

    async def upstream() -> None:
        while True:
            frame = await context.read()
            if not isinstance(frame, bytes):
                await call.done_writing()
                return
            await call.write(frame)

    async def end(code: grpc.StatusCode, details: str | None, trailers: Any) -> None:
        if client is not None:
            await client.hush()
        await end_like(context, code, details, trailers)

    write = context.write if client is None else client.write
    task: asyncio.Task[None] | None = None
    try:
        left = ASKED_AGAIN_MAX
        while not await _takes(call, first, may_raise=not left):
            call.cancel()
            call = asked()
            left -= 1
        task = asyncio.create_task(upstream())
        while isinstance(frame := await call.read(), bytes):
            await write(frame)
        code = await call.code()
        if code is not grpc.StatusCode.OK:
            await end(code, await call.details(), await call.trailing_metadata())
    except grpc.aio.AioRpcError as error:
        await end(error.code(), error.details(), error.trailing_metadata())
    except asyncio.InvalidStateError:  # the call ended while a frame was on its way into it
        await end(await call.code(), await call.details(), await call.trailing_metadata())
    finally:
        if task is not None:
            task.cancel()
        call.cancel()


async def _takes(call: Any, first: bytes, *, may_raise: bool) -> bool:
    """False: it ended while its first frame was on its way, and gRPC has nothing but INTERNAL for that. Whoever refused
    it at once does so again, and an opening frame may come twice. `may_raise`: nobody will ask again.
    """
    try:
        await call.write(first)
    except grpc.aio.AioRpcError as error:
        if may_raise or error.code() is not grpc.StatusCode.INTERNAL:
            raise
        return False
    return True


async def end_like(context: Context, code: grpc.StatusCode, details: str | None, trailers: Any) -> None:
    """End the client's stream as the master's ended: with its own words, or, when the connection broke, as one to be
    opened again.
    """
    if code in BROKEN and not any(key == DETAILS_KEY for key, _ in trailers or ()):
        text = f"the stream to the master broke ({details}); open it again and repeat what is unanswered"
        await abort(context, Failed(Reason.REASON_NOT_MASTER, text, {}, 50))
    await refusing.pass_on(context, code, details, trailers)
