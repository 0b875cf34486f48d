"""QueueAdminService, ManagerAdminService and PairService: what administrators ask. Requests to change a queue become
calls of its domain.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.calls import PendingCall
from replica.core.state.outcomes import Failed, MacrosDone, Moved, QueueDone, WeightsDone
from replica.machine import QueueCall, Refused
from replica.machine.state.system_names import target_of
from replica.node.attached import AttachedClients
from replica.node.counting import until_committed
from replica.node.members import LOCAL, MAIN
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, fingerprint_of, parse
from replica.services import forward
from replica.services.admin.owners import check_owner_of_new, check_owner_stays, owner_of_new
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.checks import problem_of_sides
from replica.services.peer_clients import asks_for_own, peer_counts
from replica.services.which_domain import check_domain, domain_for, home_of_new, taken_elsewhere
from tandemq.peer.v1.record_pb2 import QueueAction
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from replica.core.domain import Domain
    from replica.core.state.calls import ReadCall, SideCall
    from replica.node.members import Members
    from replica.rpc.handlers import Method

SERVICE = "tandemq.v1.QueueAdminService"
LIST_PAGE_MAX = 1_000


class AdminHandlers:
    """The handlers of QueueAdminService."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def handler(self, *others: dict[str, Method]) -> grpc.GenericRpcHandler:
        """For the server, with the methods that other handlers have of the service; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods = {
            "CreateQueue": self.create,
            "CreateReplicatedQueue": self.create_replicated,
            "OpenReplicatedQueue": self.open_replicated,
            "CloseReplicatedQueue": self.close_replicated,
            "DestroyReplicatedQueue": self.destroy_replicated,
            "GetQueue": self.get,
            "ListQueues": self.list,
            "UpdateQueue": self.update,
            "DeleteQueue": self.delete,
            "PurgeQueue": self.purge,
            "RestartSide": self.restart_side,
        }
        handlers: dict[str, Method] = {name: unary(call) for name, call in methods.items()}
        for each in others:
            handlers |= each
        return generic_handler(SERVICE, handlers)

    # -- changing --------------------------------------------------------------------------------------------------

    async def create(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.CreateQueue."""
        parsed = await parse(pb.CreateQueueRequest, request, context)
        opened, kind = not parsed.configuring, pb.CreateQueueResponse
        return await self._create(parsed, kind, "CreateQueue", request, context, opened=opened)

    async def create_replicated(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.CreateReplicatedQueue."""
        parsed = await parse(pb.CreateReplicatedQueueRequest, request, context)
        if not parsed.config.replication:
            parsed.config.replication = pb.REPLICATION_FULL
        if parsed.config.replication == pb.REPLICATION_NONE:
            text = "replication must be PRODUCER or FULL; use CreateQueue for a queue of one member"
            await abort(context, refusal(Reason.REASON_CONFIG_ERROR, text))
        kind = pb.CreateReplicatedQueueResponse
        return await self._create(parsed, kind, "CreateReplicatedQueue", request, context, opened=False)

    async def _create(
        self, parsed: Any, reply: type[Message], method: str, request: bytes, context: Context, *, opened: bool
    ) -> bytes:
        await check_request_id(parsed.request_id, context)
        await check_owner_of_new(self.members.access, parsed.config, context)
        existing = self.members.of_queue(parsed.name)
        configuring = getattr(parsed, "configuring", False)  # CreateReplicatedQueue has no such phase
        found = home_of_new(self.members, parsed.config)
        if isinstance(found, Failed):
            await abort(context, found)
        domain = found if isinstance(found, type(existing)) else existing
        members = [self.members.member] if domain.shared.name == LOCAL else self._both()
        taken = taken_elsewhere(self.members, parsed.name, domain)
        if taken is not None and not target_of(parsed.name):  # each domain has transmission queues (X1)
            await abort(context, taken)

        async def local(at: Domain) -> Answered:
            config = pb.QueueConfig()
            config.CopyFrom(parsed.config)
            config.domain = at.shared.name
            config.owner = owner_of_new(self.members.access, parsed.config, context)
            if (problem := problem_of_sides(self.members, at, parsed.name, config)) is not None:
                return problem
            if not config.replication:
                config.replication = pb.REPLICATION_NONE if at.shared.name == LOCAL else pb.REPLICATION_FULL
            call = QueueCall(
                QueueAction.QUEUE_ACTION_CREATE,
                parsed.name,
                config=config,
                members=members,
                open_members=members if opened else (),
                configuring=configuring,
                request_id=parsed.request_id,
                request_hash=fingerprint(
                    b"create" if not configuring else b"configuring",
                    parsed.name.encode(),
                    parsed.config.SerializeToString(deterministic=True),
                ),
            )
            return await self.run(
                at, call, lambda done: reply(queue=self.info(at, parsed.name), duplicate=done.duplicate)
            )

        return await forward.unary(self.members, f"QueueAdminService/{method}", request, context, lambda: domain, local)

    def _both(self) -> list[str]:
        return sorted({self.members.member, self.members.peer} - {""})

    def info(self, domain: Domain, name: str) -> pb.QueueInfo:
        machine = domain.shared.machine
        assert machine is not None
        info = machine.queue_info(name, self.members.member)
        info.waiters = domain.orders.room.waiters(machine.queue_id(name) or 0)
        counts = self.members.attached.counts(info.name, *info.aliases)
        info.consumers, info.producers, info.remote_clients = counts
        info.local_clients = counts.local
        info.role = domain.shared.role.value  # type: ignore[assignment]  # the enums share their numbers
        info.data_state = domain.shared.state.data.value  # type: ignore[assignment]  # the enums share their numbers
        if info.state == pb.QUEUE_STATE_OPEN and domain.orders.is_full:
            info.state = pb.QUEUE_STATE_FAILED  # R094: its store takes no more; it opens by itself when there is room
        elif info.state == pb.QUEUE_STATE_OPEN and not domain.shared.serving and not domain.target.opened:
            info.state = pb.QUEUE_STATE_OPENING
        elif info.state == pb.QUEUE_STATE_CLOSED and counts.producers:
            info.state = pb.QUEUE_STATE_CLOSING
        return info

    def _shown(self, info: pb.QueueInfo, context: Context) -> pb.QueueInfo:
        """As its caller sees it: without the name of a queue that is not there for that one."""
        access, name = self.members.access, info.config.dead_letter_queue
        if name and access is not None and not access.sees(access.caller(context), name):
            info.config.ClearField("dead_letter_queue")
        return info

    async def _committed(self, domain: Domain, context: Any) -> bool:
        """Until what is ordered now counts, so that a message that is counted as ready can be received; where nothing
        can be committed, as long as the call may be parked. False: another member's log counts now, perhaps without it.
        """
        if domain.shared.serving:
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(until_committed(domain), forward.park_s(context, self.members.park_ms))
        return True

    async def run(self, domain: Domain, call: QueueCall | SideCall | ReadCall, reply: Callable[[Any], Any]) -> Answered:
        """Have it ordered, and make the reply of what was done."""
        node, waiter = self.members.node, FutureWaiter()
        domain.submit(PendingCall(waiter, call), node.clock.now_ms())
        node.dispatch(domain)
        result = await waiter.future
        if isinstance(result, (Failed, Moved)):
            return result
        assert isinstance(result, (QueueDone, WeightsDone, MacrosDone))
        try:
            response = reply(result)
        except Refused as refused:  # a repetition of what created a queue that has been deleted since
            return Failed(refused.reason, refused.message, dict(refused.metadata))
        response.header.CopyFrom(header_of(self.members, domain))
        data: bytes = response.SerializeToString()
        return data

    async def change(
        self,
        method: str,
        request: bytes,
        context: Context,
        parsed: Any,
        call_of: Callable[[], QueueCall],
        reply: Callable[[Domain, QueueDone], Any],
    ) -> bytes:
        """Every change of an existing queue goes this way."""
        await check_request_id(parsed.request_id, context)
        wanted = getattr(parsed, "domain", "")
        await check_domain(self.members, parsed.name, wanted, context)

        async def local(domain: Domain) -> Answered:
            return await self.run(domain, call_of(), lambda done: reply(domain, done))

        return await forward.unary(
            self.members,
            f"QueueAdminService/{method}",
            request,
            context,
            lambda: domain_for(self.members, parsed.name, wanted),
            local,
        )

    async def update(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.UpdateQueue."""
        parsed = await parse(pb.UpdateQueueRequest, request, context)
        mask = list(parsed.update_mask.paths)
        await check_owner_stays(self.members.access, parsed.config, context, mask)
        return await self.change(
            "UpdateQueue",
            request,
            context,
            parsed,
            lambda: QueueCall(
                QueueAction.QUEUE_ACTION_UPDATE,
                parsed.name,
                config=parsed.config,
                mask=mask,
                expected_version=parsed.expected_version,
                request_id=parsed.request_id,
                request_hash=fingerprint_of("update", parsed),
            ),
            lambda domain, done: pb.UpdateQueueResponse(
                queue=self._shown(self.info(domain, parsed.name), context), duplicate=done.duplicate
            ),
        )

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.DeleteQueue."""
        parsed = await parse(pb.DeleteQueueRequest, request, context)
        if parsed.if_unused:
            return await self._delete_unused(parsed, request, context)
        return await self.change(
            "DeleteQueue",
            request,
            context,
            parsed,
            lambda: QueueCall(
                QueueAction.QUEUE_ACTION_DELETE,
                parsed.name,
                if_empty=parsed.if_empty,
                request_id=parsed.request_id,
                request_hash=fingerprint(b"delete", parsed.name.encode(), bytes([parsed.if_empty])),
            ),
            lambda _domain, done: pb.DeleteQueueResponse(removed=done.removed, duplicate=done.duplicate),
        )

    async def _delete_unused(self, parsed: pb.DeleteQueueRequest, request: bytes, context: Context) -> bytes:
        """The master knows the consumers of both members and its own producers; the peer is asked for its."""
        await check_request_id(parsed.request_id, context)
        members = self.members
        await check_domain(members, parsed.name, parsed.domain, context)

        async def local(domain: Domain) -> Answered:
            machine = domain.shared.machine
            assert machine is not None
            queue_id = machine.queue_id(parsed.name)
            digest = fingerprint(b"delete unused", parsed.name.encode(), bytes([parsed.if_empty]))
            call = QueueCall(
                QueueAction.QUEUE_ACTION_DELETE,
                parsed.name,
                if_empty=parsed.if_empty,
                request_id=parsed.request_id,
                request_hash=digest,
            )
            if queue_id is not None:
                names = (machine.queue(queue_id).name, *machine.queue(queue_id).aliases)
                theirs = await peer_counts(members, parsed.name) if domain.shared.name != LOCAL else AttachedClients()
                if isinstance(theirs, Failed):
                    return theirs
                mine = members.attached.counts(*names)
                waiting = len(domain.consumers.turns.get(queue_id, ()))
                consumers = max(mine.consumers + theirs.consumers, waiting)
                producers = mine.producers + theirs.producers
                if consumers or producers:
                    text = f"queue {parsed.name} has {consumers} consumers and {producers} producers attached"
                    return refusal(Reason.REASON_INVALID_STATE, text)
            return await self.run(
                domain, call, lambda done: pb.DeleteQueueResponse(removed=done.removed, duplicate=done.duplicate)
            )

        def home() -> Domain:
            return domain_for(members, parsed.name, parsed.domain)

        return await forward.unary(members, "QueueAdminService/DeleteQueue", request, context, home, local)

    async def purge(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.PurgeQueue."""
        parsed = await parse(pb.PurgeQueueRequest, request, context)
        return await self.change(
            "PurgeQueue",
            request,
            context,
            parsed,
            lambda: QueueCall(
                QueueAction.QUEUE_ACTION_PURGE,
                parsed.name,
                request_id=parsed.request_id,
                request_hash=fingerprint(b"purge", parsed.name.encode()),
            ),
            lambda _domain, done: pb.PurgeQueueResponse(removed=done.removed, duplicate=done.duplicate),
        )

    # -- instances of a replicated queue (R099-R101, R109, R124, R125) -----------------------------------------------

    async def open_replicated(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.OpenReplicatedQueue. Answers once this member's copy is synchronised (R115)."""
        parsed = await parse(pb.OpenReplicatedQueueRequest, request, context)
        await check_owner_stays(self.members.access, parsed.options, context)
        await check_request_id(parsed.request_id, context)
        if not forward.came_over_a_hop(context):
            if parsed.master_required:
                await self._require_mastership(parsed.name, context)
            await self._wait_until_synchronised(parsed.name, context)
        return await self._instance(
            "OpenReplicatedQueue",
            QueueAction.QUEUE_ACTION_OPEN,
            request,
            context,
            parsed,
            lambda domain, _done: pb.OpenReplicatedQueueResponse(queue=self.info(domain, parsed.name)),
            options=parsed.options if parsed.HasField("options") else None,
        )

    async def _require_mastership(self, name: str, context: Context) -> None:
        domain = await forward.wait_for_master(self.members, lambda: self.members.of_queue(name), context)
        if domain is None:
            other = self.members.of_queue(name).shared
            since = other.last_change
            metadata = {
                "holder": other.master,
                "epoch": str(other.state.epoch),
                "endpoint": self.members.peer_endpoint,
                "since": since,
            }
            text = f"{other.master} is master of {other.name}, epoch {other.state.epoch}; open without MASTER_REQUIRED"
            await abort(context, refusal(Reason.REASON_E_MASTER_EXISTS, text, metadata))

    async def _wait_until_synchronised(self, name: str, context: Context) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + forward.time_left_s(context, self.members.park_ms) - 0.05
        while True:
            domain = self.members.of_queue(name)
            if domain.shared.serving or domain.target.opened:
                return
            if loop.time() >= until:
                text = f"this copy of {domain.shared.name} is not synchronised yet: {domain.shared.last_change}"
                await abort(context, Failed(Reason.REASON_SYNCING, text, {}, 500))
            await asyncio.sleep(0.05)

    async def close_replicated(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.CloseReplicatedQueue."""
        parsed = await parse(pb.CloseReplicatedQueueRequest, request, context)
        return await self._instance(
            "CloseReplicatedQueue",
            QueueAction.QUEUE_ACTION_CLOSE,
            request,
            context,
            parsed,
            lambda domain, _done: pb.CloseReplicatedQueueResponse(queue=self.info(domain, parsed.name)),
        )

    async def destroy_replicated(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.DestroyReplicatedQueue."""
        parsed = await parse(pb.DestroyReplicatedQueueRequest, request, context)
        action = QueueAction.QUEUE_ACTION_DELETE if parsed.both_members else QueueAction.QUEUE_ACTION_DESTROY

        def reply(domain: Domain, _done: QueueDone) -> pb.DestroyReplicatedQueueResponse:
            machine = domain.shared.machine
            deleted = machine is not None and machine.queue_id(parsed.name) is None
            return pb.DestroyReplicatedQueueResponse(deleted=deleted)

        return await self._instance("DestroyReplicatedQueue", action, request, context, parsed, reply)

    async def _instance(
        self,
        method: str,
        action: QueueAction,
        request: bytes,
        context: Context,
        parsed: Any,
        reply: Callable[[Domain, QueueDone], Any],
        *,
        options: pb.QueueConfig | None = None,
    ) -> bytes:
        member = forward.member_of(self.members, context)
        said = () if options is None else (options.SerializeToString(deterministic=True),)
        return await self.change(
            method,
            request,
            context,
            parsed,
            lambda: QueueCall(
                action,
                parsed.name,
                member=member,
                config=options,
                request_id=parsed.request_id,
                request_hash=fingerprint(method.encode(), member.encode(), parsed.name.encode(), *said),
            ),
            reply,
        )

    async def restart_side(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.RestartSide."""
        parsed = await parse(pb.RestartSideRequest, request, context)
        return await self.change(
            "RestartSide",
            request,
            context,
            parsed,
            lambda: QueueCall(
                QueueAction.QUEUE_ACTION_RESTART_SIDE,
                parsed.name,
                member=parsed.member,
                after=parsed.after if parsed.HasField("after") else None,
                request_id=parsed.request_id,
                request_hash=fingerprint_of("restart side", parsed),
            ),
            lambda domain, done: pb.RestartSideResponse(queue=self.info(domain, parsed.name), duplicate=done.duplicate),
        )

    # -- asking ----------------------------------------------------------------------------------------------------

    async def get(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.GetQueue."""
        parsed = await parse(pb.GetQueueRequest, request, context)
        if asks_for_own(context):
            counts = self.members.attached.counts(parsed.name)
            own = pb.QueueInfo(name=parsed.name, consumers=counts.consumers, producers=counts.producers)
            return pb.GetQueueResponse(queue=own).SerializeToString()
        await check_domain(self.members, parsed.name, parsed.domain, context)

        async def local(domain: Domain) -> Answered:
            machine = domain.shared.machine
            if machine is None or machine.queue_id(parsed.name) is None:
                text = f"there is no queue {parsed.name!r}; create it first"
                if machine is not None and parsed.name in machine.state.macros.by_name:
                    text = f"{parsed.name} is a macro queue and no queue; name a member, or look at it with GetMacro"
                return refusal(Reason.REASON_QUEUE_NOT_FOUND, text)
            info = self._shown(self.info(domain, parsed.name), context)
            if not await self._committed(domain, context):
                return Moved("the mastership moved; repeat the call")
            return pb.GetQueueResponse(header=header_of(self.members, domain), queue=info).SerializeToString()

        return await forward.unary(
            self.members,
            "QueueAdminService/GetQueue",
            request,
            context,
            lambda: domain_for(self.members, parsed.name, parsed.domain),
            local,
        )

    async def list(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.ListQueues: the pair's queues, and this member's own ones."""
        parsed = await parse(pb.ListQueuesRequest, request, context)
        main, access = self.members.by_name[MAIN], self.members.access
        who = access.caller(context) if access is not None else ""

        async def local(_domain: Domain) -> Answered:
            found: list[tuple[str, Domain]] = []
            for domain in self.members.by_name.values():
                machine = domain.shared.machine
                if machine is not None:
                    named = (n for n in machine.names() if n.startswith(parsed.prefix) and n > parsed.page_token)
                    found.extend((name, domain) for name in named if access is None or access.sees(who, name))
            found.sort(key=lambda pair: pair[0])
            size = min(parsed.page_size or LIST_PAGE_MAX, LIST_PAGE_MAX)
            page = found[:size]
            return pb.ListQueuesResponse(
                header=header_of(self.members, main),
                queues=[self._shown(self.info(domain, name), context) for name, domain in page],
                next_page_token=page[-1][0] if len(found) > size else "",
            ).SerializeToString()

        return await forward.unary(self.members, "QueueAdminService/ListQueues", request, context, lambda: main, local)
