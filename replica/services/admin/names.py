"""States, aliases and defaults over the wire: requests become calls of the queue's domain. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.outcomes import QueueDone
from replica.machine import AliasCall, DefaultsCall, QueueCall
from replica.machine.plan.names import defaults_of
from replica.node.members import LOCAL, MAIN
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import forward
from replica.services.admin.ordered import identity, ordered
from replica.services.answers import Answered, header_of
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.machine import Machine
    from replica.rpc.handlers import Method
    from replica.services.admin.queues import AdminHandlers


class NamesHandlers:
    """Their handlers."""

    def __init__(self, admin: AdminHandlers, profile: str) -> None:
        self.admin = admin
        self.members = admin.members
        self.profile = profile

    def methods(self) -> dict[str, Method]:
        """For QueueAdminService."""
        unary = grpc.unary_unary_rpc_method_handler
        calls = {
            "ConfigureQueue": self.configure,
            "OpenQueue": self.open,
            "CloseQueue": self.close,
            "CreateAlias": self.create_alias,
            "DeleteAlias": self.delete_alias,
            "GetDefaults": self.get_defaults,
            "UpdateDefaults": self.update_defaults,
        }
        return {name: unary(call) for name, call in calls.items()}

    # -- states (R040-R042) ----------------------------------------------------------------------------------------

    async def configure(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.ConfigureQueue."""
        parsed = await parse(pb.ConfigureQueueRequest, request, context)
        action, reply = QueueAction.QUEUE_ACTION_CONFIGURE, pb.ConfigureQueueResponse
        return await self._move("ConfigureQueue", action, reply, parsed, request, context)

    async def open(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.OpenQueue."""
        parsed = await parse(pb.OpenQueueRequest, request, context)
        action, reply = QueueAction.QUEUE_ACTION_OPEN, pb.OpenQueueResponse
        return await self._move("OpenQueue", action, reply, parsed, request, context)

    async def close(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.CloseQueue."""
        parsed = await parse(pb.CloseQueueRequest, request, context)
        action, reply = QueueAction.QUEUE_ACTION_CLOSE, pb.CloseQueueResponse
        return await self._move("CloseQueue", action, reply, parsed, request, context)

    async def _move(
        self, method: str, action: QueueAction, reply: Any, parsed: Any, request: bytes, context: Context
    ) -> bytes:
        def call() -> QueueCall:
            digest = fingerprint(method.encode(), parsed.name.encode())
            return QueueCall(action, parsed.name, request_id=parsed.request_id, request_hash=digest)

        def answer(domain: Domain, done: QueueDone) -> Any:
            return reply(queue=self.admin.info(domain, parsed.name), duplicate=done.duplicate)

        return await self.admin.change(method, request, context, parsed, call, answer)

    # -- aliases (R143) --------------------------------------------------------------------------------------------

    async def create_alias(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.CreateAlias."""
        parsed = await parse(pb.CreateAliasRequest, request, context)
        if not parsed.name:
            text = "name is empty: say which queue gets the alias"
            await abort(context, refusal(Reason.REASON_BAD_NAME, text))

        def reply(domain: Domain, done: QueueDone) -> pb.CreateAliasResponse:
            return pb.CreateAliasResponse(queue=self.admin.info(domain, parsed.name), duplicate=done.duplicate)

        return await self._alias("CreateAlias", parsed, parsed.name, request, context, reply)

    async def delete_alias(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.DeleteAlias."""
        parsed = await parse(pb.DeleteAliasRequest, request, context)

        def reply(_domain: Domain, done: QueueDone) -> pb.DeleteAliasResponse:
            return pb.DeleteAliasResponse(duplicate=done.duplicate)

        return await self._alias("DeleteAlias", parsed, "", request, context, reply)

    async def _alias(
        self,
        method: str,
        parsed: Any,
        queue: str,
        request: bytes,
        context: Context,
        reply: Callable[[Domain, QueueDone], Any],
    ) -> bytes:
        await check_request_id(parsed.request_id, context)
        alias, members = parsed.alias, self.members
        digest = fingerprint(method.encode(), alias.encode(), queue.encode())

        async def local(domain: Domain) -> Answered:
            other = members.of_queue(alias)
            machine = other.shared.machine
            if queue and other is not domain and machine is not None and machine.queue_id(alias) is not None:
                text = f"{alias} is the name of a queue in domain {other.shared.name} already"
                return refusal(Reason.REASON_QUEUE_EXISTS, text)
            call = AliasCall(alias, queue, parsed.request_id, digest)
            return await self.admin.run(domain, call, lambda done: reply(domain, done))

        path = f"QueueAdminService/{method}"
        return await forward.unary(members, path, request, context, lambda: members.of_queue(queue or alias), local)

    # -- defaults (R046, R047) -------------------------------------------------------------------------------------

    async def get_defaults(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.GetDefaults."""
        parsed = await parse(pb.GetDefaultsRequest, request, context)
        home = await self._home(parsed.domain, context)

        async def local(domain: Domain) -> Answered:
            machine = domain.shared.machine
            assert machine is not None
            config, version = defaults_of(machine.state), machine.state.defaults_version
            header = header_of(self.members, domain)
            return pb.GetDefaultsResponse(
                header=header, config=config, profile=self.profile, version=version
            ).SerializeToString()

        return await forward.unary(self.members, "QueueAdminService/GetDefaults", request, context, lambda: home, local)

    async def update_defaults(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.UpdateDefaults."""
        parsed = await parse(pb.UpdateDefaultsRequest, request, context)
        request_id, digest = await identity("defaults", parsed, context)
        home = await self._home(parsed.domain, context)
        mask = list(parsed.update_mask.paths)
        call = DefaultsCall(parsed.config, mask, parsed.expected_version, request_id, digest)

        def reply(machine: Machine, done: QueueDone) -> pb.UpdateDefaultsResponse:
            config, version = defaults_of(machine.state), machine.state.defaults_version
            return pb.UpdateDefaultsResponse(config=config, version=version, duplicate=done.duplicate)

        path = "QueueAdminService/UpdateDefaults"
        return await ordered(self.admin, path, request, context, lambda: home, call, reply)

    async def _home(self, name: str, context: Context) -> Domain:
        members = self.members
        domain = members.by_name.get(name or (MAIN if members.peer else LOCAL))
        if domain is None:
            known = ", ".join(sorted(members.by_name))
            text = f"there is no domain {name!r} here, only {known}"
            await abort(context, refusal(Reason.REASON_CONFIG_ERROR, text))
        return domain
