"""Takes the calls out of a service that name a proxy, and has them answered by the manager that it leads to, through
the serving master here. All other calls go by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.outcomes import Failed, Moved
from replica.machine.features.proxies import target_of
from replica.rpc.handlers import WrappedService
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import REQUEST_BYTES_MAX, Context, parse
from replica.rpc.skim import Skim, names_at
from replica.services import forward
from replica.services.answers import Answered, header_of
from replica.services.browsing import browse_pages
from replica.services.checks import problem_of_wait, stale_epoch
from replica.services.passage import HOPS_MAX, Passage, onward, passage_of
from replica.services.passage import problem_of as problem_of_passage
from replica.services.proxies.asked import AskedBatches, problem_of_replies
from replica.services.proxies.refusing import in_own_words, lost
from replica.services.proxies.standing import FAILED
from replica.services.proxies.ways import (
    BROWSE_PAGE,
    CALL_S,
    CALLS_MAX,
    OPENING,
    PRODUCE,
    STREAMS,
    WAYS,
    Names,
    ProxyWay,
    here,
    problem_of,
    problem_of_relationship,
    there,
    wait_of,
)
from tandemq.errors import TandemqError
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import BrowseRequest, EnqueueRequest

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.services.proxies.keeper import Keeper
    from replica.services.proxies.kept import KeptProxy

PACKAGE = "tandemq.v1."
BROWSE = "QueueService/Browse"


class ProxyDoor:
    """Of one member."""

    def __init__(self, members: Members, keeper: Keeper) -> None:
        self.members, self.keeper = members, keeper

    def before(self, handler: Any) -> WrappedService:
        """The same service, with proxies."""
        return WrappedService(handler, lambda method, plain: _proxied(self, method.removeprefix(f"/{PACKAGE}"), plain))

    async def passage(self, context: Context) -> Passage | None:
        """How the call came here; refuses one that was meant for another manager."""
        passage = passage_of(context)
        if passage is None:
            return None
        problem = passage if isinstance(passage, Failed) else None
        if problem is None and not forward.came_over_a_hop(context):
            problem = problem_of_passage(passage, self.members.pair or self.members.member)  # type: ignore[arg-type]  # no Failed
        if problem is not None:
            await abort(context, problem)
        return passage  # type: ignore[return-value]  # no Failed

    async def carry(self, path: str, way: ProxyWay, request: bytes, context: Context, passage: Passage | None) -> bytes:
        """Through the serving master here to the one there, and back."""
        if way.costly is not None and (problem := way.costly(request, self.members.node.limits)) is not None:
            await abort(context, problem)
        bytes_max = REQUEST_BYTES_MAX if way.costly is None else len(request)
        parsed: Any = await parse(way.request, request, context, bytes_max)
        name = getattr(parsed, way.name)
        proxy = self.keeper.proxy(name)
        if proxy is not None and (problem := problem_of(way, proxy, parsed)) is not None:
            await abort(context, problem)
        if way.request.DESCRIPTOR.fields_by_name.get("wait") and (problem := problem_of_wait("wait", parsed.wait)):
            await abort(context, problem)
        if proxy is not None and isinstance(parsed, EnqueueRequest):
            reply_tos = [each.reply_to for each in parsed.messages]
            if (problem := await problem_of_replies(self.members, proxy, reply_tos, path, context)) is not None:
                await abort(context, problem)
        epoch = getattr(parsed, "epoch", 0)

        def home() -> Domain:
            return self.members.of_queue(name)

        async def through(domain: Domain) -> Answered:
            if (stale := stale_epoch(self.members, domain, epoch)) is not None:
                return stale
            kept = self.keeper.of(domain, name)
            if kept is None:
                machine = domain.shared.machine
                assert machine is not None, "who serves has the queues' state"
                why = machine.state.unnamed(name)
                return Failed(why.reason, why.message, why.metadata, None)
            return await self._ask(domain, kept, path, way, parsed, context, passage)

        return await forward.unary(self.members, path, request, context, home, through, remembers=False)

    async def carry_stream(self, path: str, name: str, first: bytes, context: Context, passage: Passage | None) -> bool:
        """Through the serving master here to the one there; False: it is no proxy's."""
        proxy = self.keeper.proxy(name)
        if path == PRODUCE and proxy is not None:
            context = AskedBatches(self.members, proxy, path, context)
        domain = await forward.wait_for_master(self.members, lambda: self.members.of_queue(name), context)
        if domain is None:
            await forward.pipe(self.members, path, first, context)
            return True
        kept = self.keeper.of(domain, name)
        if kept is None:
            return False
        from replica.services.proxies.streams import ProxiedStream  # and a client, which most members never need

        stream = STREAMS[path]
        problem = problem_of_relationship(kept.standing.proxy, stream.relationship)
        if (problem := problem or _problem_now(kept, passage)) is not None:
            await abort(context, problem)
        frames = stream.frames(kept.standing.proxy, target_of(kept.standing.proxy).queue)
        await ProxiedStream(self.members, domain, kept, path, frames, passage).run(first, context)
        return True

    async def _ask(
        self,
        domain: Domain,
        kept: KeptProxy,
        path: str,
        way: ProxyWay,
        request: Any,
        context: Context,
        passage: Passage | None,
    ) -> Answered:
        from replica.services.proxies.far_manager import MastershipEnded

        manager, standing = kept.manager, kept.standing
        proxy = standing.proxy
        if (problem := _problem_now(kept, passage)) is not None:
            return problem
        wait_s = wait_of(request, context.time_remaining())
        left_s = forward.time_left_s(context, round(1000 * (CALL_S + wait_s))) - forward.ANSWER_S
        queue = target_of(proxy).queue
        standing.calls += 1
        try:
            reply = await manager.ask(
                path,
                there(way, request, queue),
                way.reply,
                queue,
                onward(passage, manager.manager),
                min(left_s, CALL_S + wait_s),
                wait_s,
            )
        except MastershipEnded:
            return Moved("the mastership moved while a proxy's manager was asked; repeat the call")
        except TandemqError as error:
            if not error.definite:
                manager.doubt(standing)
            return in_own_words(kept, error, way.code)
        if self.members.is_late() or not domain.mastership.commit.can_read:
            return Moved("the mastership moved, or may have; repeat the call")
        here(reply, proxy, header_of(self.members, domain))
        data: bytes = reply.SerializeToString()
        return data


def _problem_now(kept: KeptProxy, passage: Passage | None) -> Failed | None:
    """Why nothing goes through it at this moment; nothing has been sent then."""
    manager, proxy = kept.manager, kept.standing.proxy
    if passage is not None and passage.hops >= HOPS_MAX:
        text = f"the call came through {passage.hops} proxies, and {proxy.name} is one more: they lead in a circle"
        return refusal(Reason.REASON_LOOP_LIMIT, text, {"queue": proxy.name, "limit": str(HOPS_MAX)})
    if kept.standing.state == FAILED:
        return lost(kept)
    if manager.under_way >= CALLS_MAX:
        text = f"{CALLS_MAX} calls through proxies of //{manager.manager} are under way; wait until some are answered"
        return refusal(Reason.REASON_TOO_MANY_WAITERS, text, {"queue": proxy.name, "limit": str(CALLS_MAX)})
    return None


class Replayed:
    """The context of a stream whose first frame was read: its handler reads it once more."""

    def __init__(self, context: Any, first: Any) -> None:
        self._context, self._first = context, first
        self.read, self.write = self._read_first, context.write  # what each frame goes by is found without a search

    async def _read_first(self) -> Any:
        self.read = self._context.read  # later frames go by
        return self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _proxied(door: ProxyDoor, path: str, plain: Any) -> Any:
    if path in WAYS:
        return grpc.unary_unary_rpc_method_handler(_unary(door, path, plain.unary_unary))
    if path == BROWSE:
        return grpc.unary_stream_rpc_method_handler(_browse(door, plain.unary_stream))
    if path in STREAMS:
        return grpc.stream_stream_rpc_method_handler(_stream(door, path, plain.stream_stream))
    return plain


def _unary(door: ProxyDoor, path: str, handle: Any) -> Any:
    way = WAYS[path]
    names = Names(way)

    async def unary(request: bytes, context: Any) -> Any:
        passage = await door.passage(context)
        if not door.keeper.any or door.keeper.proxy(names.of(request)) is None:
            return await handle(request, context)
        return await door.carry(path, way, request, context, passage)

    return unary


def _stream(door: ProxyDoor, path: str, handle: Any) -> Any:
    skim = Skim(STREAMS[path].request.DESCRIPTOR, [OPENING])  # type: ignore[arg-type]  # the other kind of the same

    async def both(requests: Any, context: Any) -> Any:
        passage = await door.passage(context)
        first = await context.read()
        found = skim.read(first) if isinstance(first, bytes) else None
        name = next(names_at(found, OPENING), "") if found is not None else ""
        is_proxy = name and door.keeper.any and door.keeper.proxy(name) is not None
        if is_proxy and await door.carry_stream(path, name, first, context, passage):
            return None
        return await handle(requests, Replayed(context, first))

    return both


def _browse(door: ProxyDoor, handle: Any) -> Any:
    names = Names(WAYS[BROWSE_PAGE])  # both have the queue's name in one place

    async def browse(request: bytes, context: Any) -> Any:
        passage = await door.passage(context)
        if not door.keeper.any or door.keeper.proxy(names.of(request)) is None:
            return await handle(request, context)
        asked = await parse(BrowseRequest, request, context)

        async def page_of(page: bytes, context: Context) -> bytes:
            return await door.carry(BROWSE_PAGE, WAYS[BROWSE_PAGE], page, context, passage)

        return await browse_pages(asked, page_of, context)

    return browse
