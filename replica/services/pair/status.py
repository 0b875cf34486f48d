"""PairService and ManagerAdminService: what this member itself sees. Never forwarded: split views are visible."""

from __future__ import annotations

import asyncio
import os
import resource
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import grpc

from failover.classifier import SafetyClass
from replica.node.members import MAIN
from replica.node.protocols import spoken
from replica.operations.forecast import advice, if_peer_dies
from replica.operations.manager_stats import state_of, stats_of
from replica.rpc.handlers import generic_handler
from replica.rpc.requests import Context, parse
from replica.services.answers import header_of, product_version
from replica.services.pair.state_digests import StateDigests
from storage.records import FORMAT_VERSION
from tandemq.ambient import monotonic_ms, wall_ms
from tandemq.exposed import plain_ports
from tandemq.v1 import manager_admin_service_pb2 as manager_pb
from tandemq.v1 import pair_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.operations.operator import Operator
    from replica.rpc.handlers import Method

MANAGER_SERVICE = "tandemq.v1.ManagerAdminService"

_CLASSES = MappingProxyType(
    {
        SafetyClass.A: pb.SAFETY_CLASS_A,
        SafetyClass.B: pb.SAFETY_CLASS_B,
        SafetyClass.C: pb.SAFETY_CLASS_C,
    }
)


class StatusHandlers:
    """The handlers of both services."""

    def __init__(
        self,
        members: Members,
        operator: Operator,
        *,
        instance_id: str,
        incarnation: int,
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        self.members = members
        self.operator = operator
        self.instance_id = instance_id
        self.incarnation = incarnation
        self.facts = facts
        self.started_ms = monotonic_ms()
        self._digests = StateDigests()

    def methods(self) -> dict[str, Method]:
        """Its part of PairService; requests and replies are bytes."""
        return {
            "GetPairStatus": grpc.unary_unary_rpc_method_handler(self.get_status),
            "WatchPairStatus": grpc.unary_stream_rpc_method_handler(self.watch),
        }

    def manager_handler(self, *others: dict[str, Method]) -> grpc.GenericRpcHandler:
        """ManagerAdminService, with the methods that other handlers have of it."""
        methods: dict[str, Method] = {"GetManager": grpc.unary_unary_rpc_method_handler(self.get_manager)}
        for each in others:
            methods |= each
        return generic_handler(MANAGER_SERVICE, methods)

    def status(self) -> pb.GetPairStatusResponse:
        """This member's view now."""
        members = self.members
        facts = self.facts()
        member = pb.MemberStatus(
            name=members.member,
            endpoint=members.endpoint,
            pid=os.getpid(),
            instance_id=self.instance_id,
            incarnation=self.incarnation,
            domains=[self._domain(domain) for domain in members.by_name.values()],
            peer_connected=facts["peer_connected"],
            witness_connected=facts["witness_connected"],
            doubts=[str(doubt) for doubt in members.doubting.open(tuple(members.by_name.values()))],
            plain_ports=plain_ports(self.operator.config).values(),
        )
        self._say_who_decides(member)
        member.peer_heard_ago.FromMilliseconds(facts["peer_heard_ago_ms"])
        member.uptime.FromMilliseconds(monotonic_ms() - self.started_ms)
        member.now.FromMilliseconds(wall_ms())
        return pb.GetPairStatusResponse(
            header=header_of(members, members.by_name[MAIN]),
            member=member,
            peer=members.peer,
            peer_endpoint=members.peer_endpoint,
        )

    def _domain(self, domain: Domain) -> pb.DomainStatus:
        shared = domain.shared
        machine = shared.machine
        behind = self.operator.behind(domain)
        view = self.operator.view(domain)
        digested = self._digests.look(shared.name, shared.progress.generation, machine) if machine is not None else ""
        status = pb.DomainStatus(
            name=shared.name,
            role=shared.role.value,  # type: ignore[arg-type]  # the enums share their numbers
            data_state=shared.state.data.value,  # type: ignore[arg-type]  # the enums share their numbers
            link_state=shared.link.value,  # type: ignore[arg-type]  # the enums share their numbers
            epoch=shared.state.epoch,
            log_index=shared.log.last_index,
            durable_index=shared.progress.durable_index,
            commit_index=shared.progress.commit_index,
            applied_index=machine.applied_index if machine is not None else 0,
            digest=shared.log.digest.hex(),
            state_digest=digested or "",
            state_digest_later=digested is None,
            in_sync_set=sorted(domain.mastership.view.in_sync_set),
            master=shared.master,
            peer_backlog=behind.operations,
            parked=len(domain.holding),
            last_change=shared.last_change,
            peer_backlog_bytes=behind.log_bytes,
            if_peer_dies=if_peer_dies(view),
            advice=advice(view),
            unrecorded=domain.mastership.role.unrecorded,
            handoff="" if domain.handoff.state.is_steady else domain.handoff.state.name,
            solo_since=shared.state.solo_since,
            peer_durable_index=self.operator.peer_index(domain),
        )
        if domain.shared.serving and shared.peer:
            status.peer_lag.FromMilliseconds(behind.ms)
        return status

    def _say_who_decides(self, member: pb.MemberStatus) -> None:
        config, judge = self.operator.config, self.operator.judge
        if not config.pair:
            return
        member.authority = config.authority
        member.classifier_mode = config.failover.mode
        member.maintenance = self.operator.maintenance
        if judge is not None:
            member.classifier = judge.name
            member.safety_class = _CLASSES[judge.safety]
            member.automation_paused = judge.paused
            member.waiting_event_id = "" if self.operator.maintenance else judge.waiting_event_id()

    async def get_status(self, _request: bytes, _context: Context) -> bytes:
        """See PairService.GetPairStatus."""
        return self.status().SerializeToString()

    async def watch(self, request: bytes, context: Context) -> None:
        """See PairService.WatchPairStatus."""
        parsed = await parse(pb.WatchPairStatusRequest, request, context)
        interval_s = parsed.interval.ToMilliseconds() / 1000 if parsed.HasField("interval") else 1.0
        while True:
            changed = self.members.changed
            await context.write(pb.WatchPairStatusResponse(status=self.status()).SerializeToString())
            try:
                await asyncio.wait_for(changed.wait(), max(0.05, interval_s))
            except TimeoutError:
                continue

    async def get_manager(self, _request: bytes, _context: Context) -> bytes:
        """See ManagerAdminService.GetManager."""
        members = self.members
        limits = members.node.limits
        usage = members.node.store.usage()
        stats, protocols = stats_of(members), spoken(members.node)
        response = manager_pb.GetManagerResponse(
            header=header_of(members, members.by_name[MAIN]),
            version=product_version(),
            format_version=FORMAT_VERSION,
            protocol_min=protocols.oldest,
            protocol_max=protocols.newest,
            max_message_bytes=limits.message_bytes_max,
            max_batch_bytes=limits.batch_bytes_max,
            max_batch_messages=limits.batch_messages_max,
            dedup_sequences=limits.dedup_sequences,
            queues=stats.queue_counts.replicated + stats.queue_counts.unreplicated,
            clients=stats.client_counts.consumers + stats.client_counts.producers,
            pid=os.getpid(),
            resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            store_used_bytes=usage.used_bytes,
            store_map_bytes=usage.map_bytes,
            state=state_of(members),
            stats=stats,
        )
        response.dedup_window.FromMilliseconds(limits.dedup_window_ms)
        return response.SerializeToString()
