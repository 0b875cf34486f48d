"""MacroService: macro queues over the wire. Requests become calls of the domain, ordered by its master; a read is
answered once what it saw is committed. Chooses no member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.delivery.far_heads import AWAY, HEARD
from replica.core.state.calls import ReadMacros
from replica.machine import MacroCall
from replica.machine.features.macros import ADD, CREATE, DELETE, PAGE_MACROS_MAX, REMOVE, shown_macro
from replica.machine.state.weighing import WHOLE
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.admin.members_elsewhere import way_made
from replica.services.admin.ordered import identity, ordered
from replica.services.checks import problem_of_peer
from replica.services.which_domain import taken_elsewhere
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed, MacrosDone, Moved, QueueDone
    from replica.machine import Machine, ShownMacro
    from replica.rpc.handlers import Method
    from replica.services.admin.ordered import Beforehand
    from replica.services.admin.queues import AdminHandlers
    from replica.services.proxies.keeper import Keeper


SERVICE = "tandemq.v1.MacroService"


class MacroHandlers:
    """The handlers of MacroService."""

    def __init__(self, admin: AdminHandlers, keeper: Keeper) -> None:
        """`keeper`: of what leads to other managers."""
        self.admin, self.keeper = admin, keeper
        self.members = admin.members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, Method] = {
            "CreateMacro": unary(self.create),
            "AddMember": unary(self.add),
            "RemoveMember": unary(self.remove),
            "GetMacro": unary(self.get),
            "ListMacros": unary(self.list),
            "DeleteMacro": unary(self.delete),
        }
        return generic_handler(SERVICE, methods)

    async def create(self, request: bytes, context: Context) -> bytes:
        """See MacroService.CreateMacro."""
        parsed = await parse(pb.CreateMacroRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)
        if (problem := taken_elsewhere(self.members, parsed.name, home)) is not None:
            await abort(context, problem)
        request_id, digest = await identity("create macro", parsed, context)
        call = MacroCall(CREATE, parsed.name, request_id, digest, parsed.relationship, parsed.policy)

        async def known(domain: Domain) -> Failed | None:
            return problem_of_peer(self.members, domain, f"macro queue {parsed.name}", "macro queues")

        return await self._change(
            "CreateMacro", parsed, request, context, call, lambda: home, pb.CreateMacroResponse, beforehand=known
        )

    async def add(self, request: bytes, context: Context) -> bytes:
        """See MacroService.AddMember."""
        parsed = await parse(pb.AddMemberRequest, request, context)
        request_id, digest = await identity("add macro", parsed, context)
        await self._check_domain(parsed.name, parsed.queue, context)
        call = MacroCall(
            ADD,
            parsed.name,
            request_id,
            digest,
            queue=parsed.queue,
            priority=parsed.priority,
            expected_version=parsed.expected_version,
        )

        async def made(domain: Domain) -> Failed | Moved | None:
            return await way_made(self.members, domain, call)

        return await self._change(
            "AddMember", parsed, request, context, call, None, pb.AddMemberResponse, beforehand=made
        )

    async def remove(self, request: bytes, context: Context) -> bytes:
        """See MacroService.RemoveMember."""
        parsed = await parse(pb.RemoveMemberRequest, request, context)
        request_id, digest = await identity("remove macro", parsed, context)
        call = MacroCall(
            REMOVE, parsed.name, request_id, digest, queue=parsed.queue, expected_version=parsed.expected_version
        )
        return await self._change("RemoveMember", parsed, request, context, call, None, pb.RemoveMemberResponse)

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See MacroService.DeleteMacro."""
        parsed = await parse(pb.DeleteMacroRequest, request, context)
        request_id, digest = await identity("delete macro", parsed, context)
        call = MacroCall(DELETE, parsed.name, request_id, digest, expected_version=parsed.expected_version)

        def reply(_machine: Machine, done: QueueDone) -> pb.DeleteMacroResponse:
            return pb.DeleteMacroResponse(duplicate=done.duplicate)

        return await self._run("DeleteMacro", request, context, call, lambda: self._home(parsed.name), reply)

    async def get(self, request: bytes, context: Context) -> bytes:
        """See MacroService.GetMacro."""
        parsed = await parse(pb.GetMacroRequest, request, context)

        def reply(machine: Machine, done: MacrosDone) -> pb.GetMacroResponse:
            return pb.GetMacroResponse(macro=self._with_far(machine, _shown(done.macros[0])))

        read = ReadMacros(parsed.name)
        return await self._run("GetMacro", request, context, read, lambda: self._home(parsed.name), reply)

    async def list(self, request: bytes, context: Context) -> bytes:
        """See MacroService.ListMacros."""
        parsed = await parse(pb.ListMacrosRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        def reply(_machine: Machine, done: MacrosDone) -> pb.ListMacrosResponse:
            return pb.ListMacrosResponse(macros=map(_shown, done.macros), next_page_token=done.following)

        most = min(parsed.page_size or PAGE_MACROS_MAX, PAGE_MACROS_MAX)
        read = ReadMacros(None, parsed.page_token, most)
        return await self._run("ListMacros", request, context, read, lambda: home, reply)

    def _with_far(self, machine: Machine, shown: pb.MacroQueue) -> pb.MacroQueue:
        """And how its members at other managers stand."""
        macro = machine.state.macros.by_name.get(shown.name)
        if macro is None or not any(each.target for each in shown.members):
            return shown
        home = self._home(shown.name)
        found, seen = self.keeper.far[home.shared.name].refresh(macro), home.orders.steering.far.seen
        for member in shown.members:
            if macro.is_producer and (depth := seen.get(member.target)) is not None:
                member.far.state, member.far.why = (AWAY if depth.why else HEARD), depth.why
            if (far := found.get(member.handle)) is not None:
                member.far.state, member.far.why = far.state, far.why
                member.far.heads, member.far.delivered, member.far.returned = (
                    len(far.heads),
                    far.delivered,
                    far.returned,
                )
        return shown

    def _home(self, name: str) -> Domain:
        return self.members.of_queue(name)

    async def _check_domain(self, name: str, queue: str, context: Context) -> None:
        """As far as it is known here; the master looks again among the queues of its domain."""
        home, other = self._home(name), self._home(queue)
        machine = other.shared.machine
        if home is not other and machine is not None and machine.knows(queue):
            text = f"queue {queue} is in domain {other.shared.name}, macro queue {name} in domain {home.shared.name}"
            facts = {"queue": name, "member": queue}
            await abort(context, refusal(Reason.REASON_CROSS_DOMAIN, f"{text}: its members are of its own", facts))

    async def _change(
        self,
        method: str,
        parsed: Any,
        request: bytes,
        context: Context,
        call: MacroCall,
        home: Callable[[], Domain] | None,
        response: Callable[..., Any],
        *,
        beforehand: Beforehand | None = None,
    ) -> bytes:
        def reply(machine: Machine, done: QueueDone) -> Any:
            return response(macro=_shown(shown_macro(machine.state, parsed.name)), duplicate=done.duplicate)

        where = home or (lambda: self._home(parsed.name))
        return await self._run(method, request, context, call, where, reply, beforehand)

    async def _run(
        self,
        method: str,
        request: bytes,
        context: Context,
        call: MacroCall | ReadMacros,
        home: Callable[[], Domain],
        reply: Callable[[Machine, Any], Any],
        beforehand: Beforehand | None = None,
    ) -> bytes:
        return await ordered(
            self.admin, f"MacroService/{method}", request, context, home, call, reply, beforehand=beforehand
        )


def _shown(macro: ShownMacro) -> pb.MacroQueue:
    made = pb.MacroQueue(
        name=macro.name,
        relationship=macro.relationship,
        policy=macro.policy,
        version=macro.version,
        choices=[pb.MacroChoice(reason=reason, count=count) for reason, count in macro.choices],
    )
    for each in macro.members:
        member = made.members.add(
            queue=each.queue, priority=each.priority, handle=each.queue_id, target=each.target, state=each.state
        )
        if each.mean_ms is not None:
            member.mean_response.FromMilliseconds(each.mean_ms)
        if each.share is not None:
            member.share = each.share / WHOLE
    if macro.weights is not None:
        made.weights.version, made.weights.in_force = macro.weights.version, macro.weights.in_force
        made.weights.valid_until.FromMilliseconds(macro.weights.until_ms)
    made.created_at.FromMilliseconds(macro.created_ms)
    return made
