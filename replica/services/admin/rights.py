"""RightsService: grants over the wire. Requests become calls of the domain, ordered by its master; answers are of what
is committed. Who may call is asked by the guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.outcomes import Failed
from replica.machine import Refused, RightCall
from replica.machine.features.rights import principal_named
from replica.node.access import HERE
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.admin.ordered import identity, ordered
from replica.services.answers import Answered, header_of
from replica.services.checks import problem_of_peer
from replica.services.guard import names_of
from replica.services.right_answers import decision, grant_of
from tandemq.v1 import rights_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.state.outcomes import QueueDone
    from replica.machine import Machine
    from replica.node.access import Access
    from replica.rpc.handlers import Method
    from replica.services.admin.queues import AdminHandlers

SERVICE = "tandemq.v1.RightsService"


class RightHandlers:
    """The handlers of RightsService. `access`: of this manager, also where nobody is asked about."""

    def __init__(self, admin: AdminHandlers, access: Access) -> None:
        self.admin = admin
        self.members = admin.members
        self.access = access

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, Method] = {
            "GrantRight": unary(self.grant),
            "RevokeRight": unary(self.revoke),
            "ListRights": unary(self.list),
            "TestRight": unary(self.test),
        }
        return generic_handler(SERVICE, methods)

    async def grant(self, request: bytes, context: Context) -> bytes:
        """See RightsService.GrantRight."""
        parsed = await parse(pb.GrantRightRequest, request, context)
        return await self._change("GrantRight", parsed, pb.GrantRightResponse, request, context)

    async def revoke(self, request: bytes, context: Context) -> bytes:
        """See RightsService.RevokeRight."""
        parsed = await parse(pb.RevokeRightRequest, request, context)
        return await self._change("RevokeRight", parsed, pb.RevokeRightResponse, request, context)

    async def _change(self, method: str, parsed: Any, reply_of: Any, request: bytes, context: Context) -> bytes:
        request_id, digest = await identity(method, parsed, context)
        call = RightCall(
            parsed.principal,
            parsed.right,
            parsed.pattern,
            revoked=method == "RevokeRight",
            expected_version=parsed.expected_version if parsed.HasField("expected_version") else None,
            by=self._caller(context),
            request_id=request_id,
            request_hash=digest,
        )

        def reply(machine: Machine, done: QueueDone) -> Any:
            found = machine.find_request(request_id, digest)
            version = found.version if found is not None else machine.state.rights.version
            return reply_of(version=version, duplicate=done.duplicate)

        async def known(domain: Domain) -> Failed | None:
            return problem_of_peer(self.members, domain, "a right cannot be granted or revoked", "rights")

        home, path = self.access.home, f"RightsService/{method}"
        return await ordered(self.admin, path, request, context, lambda: home, call, reply, beforehand=known)

    async def list(self, request: bytes, context: Context) -> bytes:
        """See RightsService.ListRights."""
        parsed = await parse(pb.ListRightsRequest, request, context)
        who = await self._about(parsed.principal, context)

        async def local(domain: Domain) -> Answered:
            in_force, above = self.access.in_force, self.access.stands_above(self._caller(context))
            made = pb.ListRightsResponse(
                header=header_of(self.members, domain),
                version=in_force.version,
                grants=map(grant_of, in_force.listed(who)),
                administrators=sorted(self.access.administrators) if above else (),
            )
            return made.SerializeToString()

        return await self._at_master("ListRights", request, context, local)

    async def test(self, request: bytes, context: Context) -> bytes:
        """See RightsService.TestRight."""
        parsed = await parse(pb.TestRightRequest, request, context)
        who = await self._about(parsed.principal, context) or self._caller(context)

        async def local(domain: Domain) -> Answered:
            made = decision(self.access, who, parsed.right, self._names(parsed.queue))
            made.header.CopyFrom(header_of(self.members, domain))
            return made.SerializeToString()

        return await self._at_master("TestRight", request, context, local)

    def _names(self, queue: str) -> Sequence[str]:
        return names_of(self.members, queue) if queue else ("",)

    async def _about(self, named: str, context: Context) -> str:
        """The principal that is asked about; empty: all of them, which an administrator alone may."""
        try:
            who = principal_named(named) if named and named != HERE else named
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        caller = self._caller(context)
        if self.access.stands_above(caller):
            return who
        if who not in ("", caller):
            text = f"{caller} may ask about its own rights only; let an administrator ask about {who}"
            facts = {"principal": caller, "right": "rights", "object": who}
            await abort(context, refusal(Reason.REASON_PERMISSION_DENIED, text, facts))
        return caller

    def _caller(self, context: Context) -> str:
        return self.access.caller(context) if self.members.access is not None else HERE

    async def _at_master(self, method: str, request: bytes, context: Context, local: Any) -> bytes:
        home = self.access.home
        return await forward.unary(self.members, f"RightsService/{method}", request, context, lambda: home, local)
