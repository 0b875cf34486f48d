"""WatchQueues: says when messages gather in queues. The master counts; other members send the stream on to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from replica.core.delivery.watching import DepthWatch, Threshold
from replica.core.state.outcomes import DepthsMet, Failed, Moved
from replica.rpc.refusals import abort, failure, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.answers import header_of
from replica.services.checks import stale_epoch
from replica.services.locality import check_origin
from tandemq.v1.common_pb2 import Error, Reason
from tandemq.v1.queue_service_pb2 import DepthReached, Goaway, WatchQueuesRequest, WatchQueuesResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Answer, Met
    from replica.node.members import Members
    from replica.services.messages.completion import CompletionHandlers

QUEUES_MAX = 1_000
"""Of one stream."""
STREAMS_MAX = 1_000
"""Of one member."""


class WatchHandlers:
    """The handler of WatchQueues."""

    def __init__(self, members: Members, completions: CompletionHandlers) -> None:
        self.members = members
        self.completions = completions
        """Who sends everybody away that waits at a member which may be master no longer."""
        self.streams = 0

    def methods(self) -> dict[str, Any]:
        """By name."""
        return {"WatchQueues": grpc.unary_stream_rpc_method_handler(self.watch)}

    async def watch(self, request: bytes, context: Context) -> None:
        """See QueueService.WatchQueues."""
        asked = await parse(WatchQueuesRequest, request, context)
        queues = list(dict.fromkeys(each.queue for each in asked.watches))
        if (problem := self._problem(asked, queues)) is not None:
            await abort(context, problem)
        for queue in queues:
            await check_origin(self.members, queue, context)
        self.streams += 1
        try:
            await self._watch(asked, request, context)
        finally:
            self.streams -= 1

    def _problem(self, asked: WatchQueuesRequest, queues: Sequence[str]) -> Failed | None:
        if not 1 <= len(asked.watches) <= QUEUES_MAX:
            text = f"{len(asked.watches)} watches; one stream has 1 to {QUEUES_MAX}"
            return refusal(Reason.REASON_BAD_REQUEST, text)
        if self.streams >= STREAMS_MAX:
            text = f"{STREAMS_MAX} watches of queues are open at this member; close one, or watch several by one"
            return Failed(Reason.REASON_TOO_MANY_WAITERS, text, {}, 1_000)
        domains = {self.members.of_queue(queue).shared.name: queue for queue in queues}
        if len(domains) > 1:
            (first, one), (second, other) = list(domains.items())[:2]
            text = (
                f"queue {one} is of domain {first}, {other} of domain {second}; each has a master of its own: "
                "watch them by a stream each"
            )
            return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": other})
        return None

    async def _watch(self, asked: WatchQueuesRequest, request: bytes, context: Context) -> None:
        queue = asked.watches[0].queue
        domain = await forward.wait_for_master(self.members, lambda: self.members.of_queue(queue), context)
        if domain is None:
            await self._carry(queue, request, context)
            return
        if (stale := stale_epoch(self.members, domain, asked.epoch)) is not None:
            await abort(context, stale)
        await DepthStream(self, context, domain, asked).run()

    async def _carry(self, queue: str, request: bytes, context: Context) -> None:
        """From the master to the client, until either ends it or this member is master itself."""
        members = self.members
        with members.pipe_channel() as channel:
            method: Any = channel.unary_stream(forward.QUERY + "QueueService/WatchQueues")
            call = method(request, metadata=forward.hop(members, context))
            carried = asyncio.create_task(_copy(call, context))
            moved = asyncio.create_task(self._served_here(queue))
            try:
                await asyncio.wait({carried, moved}, return_when=asyncio.FIRST_COMPLETED)
                if carried.done():
                    carried.result()
                else:
                    text = f"{members.member} is the master now; open the watch again"
                    await abort(context, Failed(Reason.REASON_NOT_MASTER, text, {}, 50))
            except grpc.aio.AioRpcError as error:
                await forward.end_like(context, error.code(), error.details(), error.trailing_metadata())
            finally:
                carried.cancel()
                moved.cancel()
                call.cancel()

    async def _served_here(self, queue: str) -> None:
        while not self.members.of_queue(queue).shared.serving:
            await self.members.changed.wait()


async def _copy(call: Any, context: Context) -> None:
    async for frame in call:
        await context.write(frame)


class DepthStream:
    """One client's watch at the master. What it has not been sent yet is one entry a threshold, however often it was
    met: a client that reads slowly costs no more.
    """

    def __init__(self, handlers: WatchHandlers, context: Context, domain: Domain, asked: WatchQueuesRequest) -> None:
        self.handlers = handlers
        self.members = handlers.members
        self.context = context
        self.domain = domain
        self.cancelled = False
        self.watch = DepthWatch(self, [Threshold(each.queue, max(1, each.depth)) for each in asked.watches])
        self.unsent: dict[int, tuple[Met, bool]] = {}
        self.wake = asyncio.Event()
        self.end: Failed | Moved | None = None

    def answer(self, result: Answer) -> None:
        """Of the core: some queues have enough, or the watch is refused or sent away."""
        if isinstance(result, DepthsMet):
            for met in result.met:
                self.unsent[met.place] = met, result.at_opening
        else:
            assert isinstance(result, (Failed, Moved))
            self.end = self.end or result
        self.wake.set()

    async def run(self) -> None:
        """Until the client goes, or is sent away."""
        waiting = self.handlers.completions
        try:
            if self.domain.shared.serving:
                waiting.enter(self, self.domain)
                self.domain.watching.open(self.watch)
                self.members.node.dispatch(self.domain)
            else:
                self.answer(Moved("the master is the other member; watch there"))
            await self._write()
        finally:
            self.cancelled = True
            waiting.waiting.pop(self, None)
            self.domain.watching.leave(self.watch)

    async def _write(self) -> None:
        opened = False
        while True:
            await self.wake.wait()
            self.wake.clear()
            if isinstance(self.end, Failed) and not opened:
                await abort(self.context, self.end)
            if self.end is not None:
                await self.context.write(self._goaway(self.end).SerializeToString())
                return
            unsent, self.unsent = self.unsent, {}
            reached = [
                DepthReached(watch=met.place, depth=met.depth, at_opening=at_opening)
                for met, at_opening in unsent.values()
            ]
            if reached or not opened:
                response = WatchQueuesResponse(header=header_of(self.members, self.domain), reached=reached)
                await self.context.write(response.SerializeToString())
            opened = True

    def _goaway(self, end: Failed | Moved) -> WatchQueuesResponse:
        if isinstance(end, Failed):
            error = failure(end)
        else:
            error = Error(reason=Reason.REASON_NOT_MASTER, message=end.message)
        endpoint = self.members.master_endpoint(self.domain)
        epoch = self.domain.shared.state.epoch
        return WatchQueuesResponse(goaway=Goaway(error=error, master_endpoint=endpoint, epoch=epoch))
