"""Carries a stream through a proxy: opens one at the manager that it leads to, and passes frames both ways until either
side ends, or the mastership here does. Decides nothing about a message.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from replica.core.state.outcomes import Failed
from replica.machine.features.proxies import target_of
from replica.node.members import MAIN
from replica.rpc.refusals import abort, refusal
from replica.services.answers import header_of
from replica.services.forward import QUERY, park_s
from replica.services.passage import onward
from replica.services.proxies.refusing import in_own_words
from replica.services.proxies.standing import unreadable
from replica.services.proxies.ways import ATTEMPT_S, CALL_S, PRODUCE
from replica.services.weighing import problem_of_frame
from tandemq import retry
from tandemq.client.calls import Attempts
from tandemq.errors import TandemqError, error_of, from_rpc_error, to_error
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.rpc.requests import Context
    from replica.services.passage import Passage
    from replica.services.proxies.frames import Frames
    from replica.services.proxies.kept import KeptProxy

OVER = "the stream through proxy {} is over ({}); open it again and repeat what is unanswered"


class OpenStream(NamedTuple):
    """A stream at the other manager. Whoever has it closes it."""

    call: Any
    frame: bytes
    """The first one that came."""


class ProxiedStream:
    """One client's stream, at the serving master."""

    def __init__(
        self, members: Members, domain: Domain, kept: KeptProxy, path: str, frames: Frames, passage: Passage | None
    ) -> None:
        self.members, self.domain, self.kept = members, domain, kept
        self.path, self.frames = path, frames
        self.passage = onward(passage, kept.manager.manager)

    async def run(self, first: bytes, context: Context) -> None:
        """Until it is over."""
        manager = self.kept.manager
        manager.under_way += 1
        self.kept.standing.calls += 1
        call: Any = None
        try:
            opening = await self._there(first, context)
            call, frame = await self._open_while_master(opening, context)
            await context.write(self._here(frame))
            await self._carry(call, context)
        finally:
            manager.under_way -= 1
            if call is not None:
                call.cancel()

    async def _there(self, frame: bytes, context: Context) -> bytes:
        if self.path == PRODUCE and (problem := problem_of_frame(frame, self.members.node.limits)) is not None:
            await abort(context, problem)
        try:
            return self.frames.there(frame)
        except DecodeError:
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, f"the frame is none of {self.path}"))
        except ValueError as error:
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, str(error)))

    def _here(self, frame: bytes) -> bytes:
        return self.frames.here(frame, header_of(self.members, self.domain))

    # -- opening -----------------------------------------------------------------------------------------------------

    async def _open_while_master(self, opening: bytes, context: Context) -> OpenStream:
        """A stream that a demoted master opens late would take the place of the next one's, which has its client."""
        over, removed = self.kept.manager.over, self.kept.removed
        work = asyncio.create_task(self._open(opening, context))
        is_taken = False
        try:
            await asyncio.wait((work, over, removed), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._end(context)
            is_taken = True
        finally:
            if not is_taken:
                await _give_up(work)
        return work.result()

    async def _end(self, context: Context) -> None:
        """Its proxy is kept by somebody else, or by nobody."""
        why = "it was removed" if self.kept.removed.done() else "the mastership has moved"
        text = OVER.format(self.kept.standing.proxy.name, why)
        await abort(context, Failed(Reason.REASON_NOT_MASTER, text, {}, 50))

    async def _open(self, opening: bytes, context: Context) -> OpenStream:
        """The stream there, and its first frame; follows a takeover of that pair as far as there is time."""
        link = self.kept.manager.client.links.own
        queue = target_of(self.kept.standing.proxy).queue
        left_s = min(CALL_S, park_s(context, round(CALL_S * 1000)))
        policy = retry.Policy(total_s=max(0.001, left_s), attempt_s=ATTEMPT_S)
        attempts = Attempts(link.members, policy, link.members.masters.domain_of(queue) or MAIN)
        made: OpenStream | None = None
        try:
            async for attempt in attempts.retrying():
                with attempt:
                    made = await self._attempt(attempts, opening, queue)
        except TandemqError as error:
            said = self.kept.manager.strange(error) if error.reason == "WRONG_PAIR" else error
            if not said.definite:
                self.kept.manager.doubt(self.kept.standing)
            # An opening is no operation: who is refused may open again, and nothing is in doubt by it.
            await abort(context, in_own_words(self.kept, said, opening=True))
        assert made is not None
        return made

    async def _attempt(self, attempts: Attempts, opening: bytes, queue: str) -> OpenStream:
        endpoint = await attempts.located()
        manager = self.kept.manager
        channel: Any = manager.client.links.own.members.channel(endpoint)
        call = channel.stream_stream(QUERY + self.path)(metadata=self.passage.metadata())
        try:
            async with asyncio.timeout(min(attempts.policy.attempt_s, attempts.remaining_s)):
                await call.write(opening)
                frame = await call.read()
            if not isinstance(frame, bytes):
                raise _ended(await call.code(), await call.details(), await call.trailing_metadata())
        except TimeoutError as error:
            call.cancel()
            text = f"{endpoint} did not answer the opening frame"
            raise error_of("MANAGER_UNREACHABLE", text) from error
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.InvalidStateError as error:
            raise _ended(await call.code(), await call.details(), await call.trailing_metadata()) from error
        try:
            if (header := self.frames.header(frame)) is None:
                raise to_error(self.frames.refusal(frame).error)
        except DecodeError as error:
            call.cancel()
            raise unreadable(endpoint) from error
        except TandemqError:
            call.cancel()
            raise
        if header.pair != manager.manager:
            call.cancel()
            text = f"{endpoint} is {header.pair}, and not {manager.manager}; correct where {manager.manager} is"
            raise error_of("WRONG_PAIR", text, {"expected": manager.manager, "pair": header.pair})
        manager.client.links.own.members.learn(header, queue)
        return OpenStream(call, frame)

    # -- carrying ----------------------------------------------------------------------------------------------------

    async def _carry(self, call: Any, context: Context) -> None:
        up = asyncio.create_task(self._up(call, context))
        down = asyncio.create_task(self._down(call, context))
        over, removed = self.kept.manager.over, self.kept.removed
        try:
            # The client has closed its side: what is still to be said to it comes down.
            waited = {up, down, over, removed}
            while not (down.done() or over.done() or removed.done()):
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                waited -= done
                if up in done:
                    up.result()
            if not down.done():
                await self._end(context)
            down.result()
        finally:
            up.cancel()
            down.cancel()

    async def _up(self, call: Any, context: Context) -> None:
        while True:
            frame = await context.read()
            try:
                if not isinstance(frame, bytes):
                    await call.done_writing()
                    return
                await call.write(await self._there(frame, context))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # it has ended there, which is for who reads it to say

    async def _down(self, call: Any, context: Context) -> None:
        try:
            while isinstance(frame := await call.read(), bytes):
                await context.write(self._here(frame))
            code, details, trailers = await call.code(), await call.details(), await call.trailing_metadata()
        except grpc.aio.AioRpcError as error:
            code, details, trailers = error.code(), error.details(), error.trailing_metadata()
        except DecodeError:
            self.kept.manager.doubt(self.kept.standing)
            text = OVER.format(self.kept.standing.proxy.name, unreadable(self.kept.manager.manager).message)
            await abort(context, Failed(Reason.REASON_NOT_MASTER, text, {}, 50))
        if code is grpc.StatusCode.OK:
            return
        said = _ended(code, details, trailers)
        if not said.definite:
            self.kept.manager.doubt(self.kept.standing)
        if said.retryable or not said.definite:
            text = OVER.format(self.kept.standing.proxy.name, said.message or said.reason)
            await abort(context, Failed(Reason.REASON_NOT_MASTER, text, {}, 50))
        await abort(context, in_own_words(self.kept, said))


async def _give_up(work: asyncio.Task[OpenStream]) -> None:
    """Nobody takes what it opens, or has opened meanwhile: the client has gone, or the mastership."""
    work.cancel()
    await asyncio.wait((work,))
    if not work.cancelled() and work.exception() is None:
        work.result().call.cancel()


def _ended(code: grpc.StatusCode, details: str | None, trailers: Any) -> TandemqError:
    none = grpc.aio.Metadata()
    return from_rpc_error(grpc.aio.AioRpcError(code, none, trailers or none, details))
