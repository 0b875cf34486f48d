"""ProxyService: proxies over the wire. Requests become calls of the domain, ordered by its master; how one is reached
is what its serving master says. Carries no message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from replica.core.state.outcomes import Failed, Moved
from replica.machine import ProxyCall, Refused
from replica.machine.features.proxies import CREATE, DELETE, PAGE_MAX, named_proxy, page_of_proxies
from replica.node.counting import until_committed
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.admin.ordered import identity
from replica.services.answers import Answered, header_of
from replica.services.checks import problem_of_peer
from replica.services.elsewhere import onward_of, problem_of_target
from replica.services.which_domain import taken_elsewhere
from tandemq.ambient import monotonic_ms
from tandemq.errors import TandemqError
from tandemq.finding.names import parse_queue
from tandemq.v1 import proxy_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import QueueDone
    from replica.machine.state.proxies import Proxy
    from replica.rpc.handlers import Method
    from replica.services.admin.queues import AdminHandlers
    from replica.services.proxies.keeper import Keeper

SERVICE = "tandemq.v1.ProxyService"
_MOVED = Moved("the mastership moved while the proxies were looked at; repeat the call")


class ProxyHandlers:
    """The handlers of ProxyService."""

    def __init__(self, admin: AdminHandlers, keeper: Keeper) -> None:
        self.admin, self.keeper = admin, keeper
        self.members = admin.members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, Method] = {
            "CreateProxy": unary(self.create),
            "GetProxy": unary(self.get),
            "ListProxies": unary(self.list),
            "DeleteProxy": unary(self.delete),
        }
        return generic_handler(SERVICE, methods)

    async def create(self, request: bytes, context: Context) -> bytes:
        """See ProxyService.CreateProxy."""
        parsed = await parse(pb.CreateProxyRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)
        if (problem := await self._problem_of_target(parsed.target)) is not None:
            await abort(context, problem)
        request_id, digest = await identity("create proxy", parsed, context)
        call = ProxyCall(
            CREATE,
            parsed.name,
            request_id,
            digest,
            target=parsed.target,
            relationship=parsed.relationship,
            expected=parsed.expected,
        )
        if (problem := taken_elsewhere(self.members, parsed.name, home)) is not None:
            await abort(context, problem)

        async def local(domain: Domain) -> Answered:
            if (problem := problem_of_peer(self.members, domain, f"proxy {parsed.name}", "proxies")) is not None:
                return problem

            def reply(done: QueueDone) -> pb.CreateProxyResponse:
                return pb.CreateProxyResponse(proxy=self._named(domain, parsed.name), duplicate=done.duplicate)

            return await self.admin.run(domain, call, reply)

        return await forward.unary(self.members, "ProxyService/CreateProxy", request, context, lambda: home, local)

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See ProxyService.DeleteProxy."""
        parsed = await parse(pb.DeleteProxyRequest, request, context)
        call = ProxyCall(DELETE, parsed.name, *await identity("delete proxy", parsed, context))

        async def local(domain: Domain) -> Answered:
            return await self.admin.run(domain, call, lambda done: pb.DeleteProxyResponse(duplicate=done.duplicate))

        home = self._home(parsed.name)
        return await forward.unary(self.members, "ProxyService/DeleteProxy", request, context, home, local)

    async def get(self, request: bytes, context: Context) -> bytes:
        """See ProxyService.GetProxy."""
        parsed = await parse(pb.GetProxyRequest, request, context)

        async def local(domain: Domain) -> Answered:
            if not await until_committed(domain):
                return _MOVED
            try:
                shown = self._named(domain, parsed.name)
            except Refused as refused:
                return Failed(refused.reason, refused.message, dict(refused.metadata))
            return pb.GetProxyResponse(header=header_of(self.members, domain), proxy=shown).SerializeToString()

        home = self._home(parsed.name)
        return await forward.unary(self.members, "ProxyService/GetProxy", request, context, home, local)

    async def list(self, request: bytes, context: Context) -> bytes:
        """See ProxyService.ListProxies."""
        parsed = await parse(pb.ListProxiesRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)
        most = min(parsed.page_size or PAGE_MAX, PAGE_MAX)

        async def local(domain: Domain) -> Answered:
            machine = domain.shared.machine
            if not await until_committed(domain) or machine is None:
                return _MOVED
            page, following = page_of_proxies(machine.state, parsed.page_token, most)
            header = header_of(self.members, domain)
            shown = [self._shown(domain, each) for each in page]
            answer = pb.ListProxiesResponse(header=header, proxies=shown, next_page_token=following)
            return answer.SerializeToString()

        return await forward.unary(self.members, "ProxyService/ListProxies", request, context, lambda: home, local)

    def _home(self, name: str) -> Callable[[], Domain]:
        return lambda: self.members.of_queue(name)

    async def _problem_of_target(self, target: str) -> Failed | None:
        """What the machine does not know: how a full name is written, who this manager is, and whether anybody knows
        the other one.
        """
        named = {"name": target}
        try:
            full = parse_queue(target)
            where = onward_of(self.members, target)
        except TandemqError as error:
            return refusal(Reason.REASON_BAD_NAME, error.message, dict(error.metadata))
        except Refused as refused:
            return Failed(refused.reason, refused.message, dict(refused.metadata))
        if full.domain:
            text = f"{target}: the other manager finds the queue in any domain; write {full._replace(domain='')}"
            return refusal(Reason.REASON_BAD_NAME, text, named)
        if isinstance(where, str):
            text = f"{target} is this manager's own queue {where}: use it by its name, or make an alias of it"
            return refusal(Reason.REASON_CONFIG_ERROR, text, {"target": target})
        return await problem_of_target(self.members, where.target)

    def _named(self, domain: Domain, name: str) -> pb.Proxy:
        """Raises Refused."""
        machine = domain.shared.machine
        assert machine is not None, "who serves has the queues' state"
        return self._shown(domain, named_proxy(machine.state, name))

    def _shown(self, domain: Domain, proxy: Proxy) -> pb.Proxy:
        shown = pb.Proxy(
            name=proxy.name,
            target=proxy.target,
            relationship=proxy.relationship,
            expected=proxy.expected,
            handle=proxy.queue_id,
            state=pb.PROXY_STATE_OPENING,
        )
        shown.created_at.FromMilliseconds(proxy.created_ms)
        kept = self.keeper.of(domain, proxy.name)
        if kept is not None:
            standing = kept.standing
            shown.state, shown.reopened, shown.calls = standing.state, standing.reopened, standing.calls
            shown.why = str(standing.why) if standing.why is not None else ""
            ago_ms = monotonic_ms() - standing.since_ms
            shown.since.FromMilliseconds(max(0, self.members.node.clock.now_ms() - ago_ms))
            shown.reached.CopyFrom(standing.reached)
        return shown
